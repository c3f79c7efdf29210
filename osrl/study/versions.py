"""What the numbers of a study depend on, besides its events: kernels, libraries, platform."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version

from osrl.compiled import source_digest


@cache
def versions() -> Mapping[str, str]:
    """The versions of this program. Where they are equal, replay gives the same bits."""
    packages = {name: version(name) for name in ("osrl", "numpy", "numba")}
    return {**packages, "kernels": source_digest(), "platform": f"{platform.system()} {platform.machine()}"}
