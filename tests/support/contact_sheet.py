"""Every state of the page on one picture: `python -m tests.support.contact_sheet docs/images/page.jpg [FOLDER]`.

Each state is seen in light and dark, 1280 and 390 pixels wide; the folder keeps the single pictures, whole.
"""

from __future__ import annotations

import html
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from osrl.page.render import frozen_page
from osrl.service.middleware import COOKIE
from osrl.service.tokens import revoke_token
from tests.support.pages import STATES, browser, make_states, snapshot_of
from tests.support.servers import Serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

VIEWS = [("light", 1280), ("dark", 1280), ("light", 390), ("dark", 390)]
HEIGHT = 360  # pixels of a tile
SHOWN = {1280: 1400, 390: 940}  # pixels of a page from its top that its tile shows


class Tile(NamedTuple):
    """A picture of a state."""

    state: str
    scheme: str
    width: int
    file: Path


def frozen_states(chromium: Browser, place: str, folder: Path) -> Iterator[Tile]:
    """Take pictures of the states that a file can show."""
    for state in STATES:
        file = folder / f"{state}.html"
        file.write_text(frozen_page(state, snapshot_of(place, state)), encoding="utf-8")
        for scheme, width in VIEWS:
            page = chromium.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
            page.goto(file.as_uri())
            yield _take(page, folder, state, scheme, width)
            page.close()


def live_states(chromium: Browser, place: str, folder: Path) -> Iterator[Tile]:
    """Take pictures of the states that need a server: signing in, the list, acting, and failures."""
    for scheme, width in VIEWS:
        server = Serving(place)
        context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
        page = context.new_page()

        def shown(state: str, path: str, token: str | None) -> None:
            if token is not None:
                context.add_cookies([{"name": COOKIE, "value": token, "url": server.url}])  # noqa: B023
            page.goto(f"{server.url}{path}")  # noqa: B023
            if "/studies/" in path and state != "no such study":
                _wait(page, "document.getElementById('live').textContent === 'Live'")  # noqa: B023
                _wait(page, "!document.documentElement.hasAttribute('data-due')")  # noqa: B023

        for state, path, role in (
            ("sign in", "/", None),
            ("list", "/", "read"),
            ("no such study", "/studies/nobody", "read"),
            ("acting", "/studies/running", "own"),
        ):
            shown(state, path, None if role is None else server.token(role))
            yield _take(page, folder, state, scheme, width)
        token = server.token("read")
        shown("access ended", "/studies/decided", token)
        revoke_token(server.application.context.storage, token.split("_")[1])
        _wait(page, "!document.getElementById('banner').hidden")
        yield _take(page, folder, "access ended", scheme, width)
        shown("disconnected", "/studies/running", server.token("read"))
        server.stop()
        _wait(page, "!document.getElementById('banner').hidden")
        yield _take(page, folder, "disconnected", scheme, width)
        context.close()


def _wait(page: Page, true: str) -> None:
    """Wait for something that the page knows; its policy forbids what Playwright waits with."""
    for _ in range(600):
        if page.evaluate(true):
            return
        page.wait_for_timeout(50)
    raise AssertionError(true)


def _take(page: Page, folder: Path, state: str, scheme: str, width: int) -> Tile:
    file = folder / f"{state.replace(' ', '-')}-{scheme}-{width}.png"
    page.screenshot(path=file, full_page=True)
    return Tile(state, scheme, width, file)


def sheet(tiles: list[Tile]) -> str:
    """Return a page with all pictures, in rows of one state each."""
    rows: dict[str, list[str]] = {}
    for each in tiles:
        width = each.width * HEIGHT // SHOWN[each.width]
        style = f"width:{width}px;background-image:url({each.file.as_uri()});background-size:{width}px"
        about = html.escape(f"{each.state}, {each.scheme}, {each.width} pixels wide")
        rows.setdefault(each.state, []).append(f"<div role=img aria-label='{about}' style='{style}'></div>")
    body = "".join(f"<section><h2>{name}</h2>{''.join(row)}</section>" for name, row in rows.items())
    style = (
        "body{font:13px sans-serif;margin:10px;width:2000px;"
        "display:grid;grid-template-columns:1fr 1fr;gap:12px}"
        "section{display:flex;flex-wrap:wrap;gap:6px}h2{width:100%;margin:0;font-size:14px}"
        f"div{{height:{HEIGHT}px;background-repeat:no-repeat;border:1px solid #999}}"
    )
    return f"<!doctype html><meta charset=utf-8><style>{style}</style>{body}"


def main(out: str, kept: str | None = None) -> None:
    """Take the pictures, and put them side by side."""
    with tempfile.TemporaryDirectory() as name, browser() as chromium:
        folder = Path(kept or name)
        folder.mkdir(parents=True, exist_ok=True)
        place = str(Path(name) / "studies.db")
        make_states(place)
        tiles = [*frozen_states(chromium, place, folder), *live_states(chromium, place, folder)]
        file = folder / "sheet.html"
        file.write_text(sheet(tiles), encoding="utf-8")
        page = chromium.new_page(viewport={"width": 2020, "height": 900})
        page.goto(file.as_uri())
        page.screenshot(path=out, full_page=True, type="jpeg", quality=72)


if __name__ == "__main__":
    main(*sys.argv[1:])
