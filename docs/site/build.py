"""Build the site, offline; any warning is an error.

python docs/site/build.py build/site        # the pages are then in build/site/html
"""

from __future__ import annotations

import sys
from pathlib import Path

from assemble import assemble
from sphinx.cmd.build import main as sphinx

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    assemble(folder / "source")
    arguments = ["-q", "-W", "--keep-going", "-d", str(folder / "doctrees")]
    sys.exit(sphinx([*arguments, str(folder / "source"), str(folder / "html")]))
