"""The versions that the numbers of a study depend on: kernels, libraries, platform, arithmetic.

Whether kernels are compiled is no part of it: interpreted, they give the same bits.
"""

from __future__ import annotations

import hashlib
import math
import platform
import re
import struct
from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path

from osrl.jit.cache import kernel_version

# With and without these, mathematical functions of the C library and of numpy differ in their last bit.
_UNITS = {"avx2", "avx512f", "fma", "fma4"}
_POINTS = 4_096  # of each function: libraries that round differently do so at one point in a thousand or more


@cache
def versions() -> Mapping[str, str]:
    """Return the versions of this program. Where they are equal, replay gives the same bits."""
    packages = {name: version(name) for name in ("osrl", "numpy", "numba")}
    where = " ".join([platform.system(), platform.machine(), *_units()])
    return {**packages, "kernels": kernel_version(), "platform": where, "arithmetic": _arithmetic()}


def _units(processors: Path = Path("/proc/cpuinfo")) -> list[str]:
    """Return the arithmetic units of this processor, as far as the system lists them."""
    try:
        with processors.open(encoding="utf-8", errors="replace") as lines:
            flags = next((line for line in lines if line.startswith("flags")), "")
    except OSError:
        flags = ""
    return sorted(_UNITS & set(re.findall(r"\w+", flags)))


def _arithmetic() -> str:
    """Return a digest of functions of the C library at many points: libraries round them differently."""
    parts = [i * 0.6180339887498949 % 1.0 for i in range(1, _POINTS + 1)]  # spread over (0, 1)
    functions: list[Callable[[float], float]] = [
        lambda part: math.exp(40.0 * part - 20.0),
        lambda part: math.log(part),
        lambda part: math.log1p(2.0 * part - 1.0),
        lambda part: math.expm1(4.0 * part - 2.0),
        lambda part: math.pow(1.0 + part, 10.0 * part - 5.0),
        lambda part: math.lgamma(1.0 + 50.0 * part),
        lambda part: math.cos(6.0 * part),
    ]
    values = [function(part) for function in functions for part in parts]
    return hashlib.sha256(struct.pack(f"<{len(values)}d", *values)).hexdigest()[:16]
