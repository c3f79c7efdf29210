"""Every state of the page on one picture: `python -m tests.contact_sheet FILE.png`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from osrl.page.render import frozen_page
from tests.pages import STATES, browser, make_states, moment_of

WIDTHS = {"light": 1280, "dark": 390}
TILE = 900  # pixels of height that are shown of each


def main(out: str) -> None:
    """Take the pictures, and put them side by side."""
    with tempfile.TemporaryDirectory() as name, browser() as chromium:
        folder = Path(name)
        place = str(folder / "studies.db")
        make_states(place)
        tiles = []
        for state in STATES:
            file = folder / f"{state}.html"
            file.write_text(frozen_page(state, moment_of(place, state)), encoding="utf-8")
            for scheme, width in WIDTHS.items():
                page = chromium.new_page(viewport={"width": width, "height": TILE}, color_scheme=scheme)  # type: ignore[arg-type]
                page.goto(file.as_uri())
                picture = folder / f"{state}-{scheme}.png"
                page.screenshot(path=picture)
                page.close()
                image = f"<img src='{picture.as_uri()}' height=300>"
                tiles.append(f"<figure>{image}<figcaption>{state}</figcaption></figure>")
        sheet = folder / "sheet.html"
        style = "body{font:14px sans-serif;display:flex;flex-wrap:wrap;gap:8px}figure{margin:0}"
        sheet.write_text(f"<style>{style}</style>{''.join(tiles)}")
        page = chromium.new_page(viewport={"width": 1800, "height": 900})
        page.goto(sheet.as_uri())
        page.screenshot(path=out, full_page=True)


if __name__ == "__main__":
    main(sys.argv[1])
