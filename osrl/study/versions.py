"""What the numbers of a study depend on, besides its events: kernels, libraries, platform.

Whether kernels are compiled is no part of it: interpreted, they give the same bits.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path

from osrl.way import kernel_version

# With and without these, mathematical functions of the C library and of numpy differ in their last bit.
_UNITS = {"avx2", "avx512f", "fma", "fma4"}


@cache
def versions() -> Mapping[str, str]:
    """The versions of this program. Where they are equal, replay gives the same bits."""
    packages = {name: version(name) for name in ("osrl", "numpy", "numba")}
    where = " ".join([platform.system(), platform.machine(), *_units()])
    return {**packages, "kernels": kernel_version(), "platform": where}


def _units(processors: Path = Path("/proc/cpuinfo")) -> list[str]:
    """The arithmetic units that this processor has, as far as the system says so."""
    try:
        with processors.open(encoding="utf-8", errors="replace") as lines:
            said = next((line for line in lines if line.startswith("flags")), "")
    except OSError:
        said = ""
    return sorted(_UNITS & set(re.findall(r"\w+", said)))
