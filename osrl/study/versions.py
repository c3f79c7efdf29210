"""What the numbers of a study depend on, besides its events: kernels, libraries, platform."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version

from llvmlite.binding import get_host_cpu_name
from numba.core import config

from osrl.compiled import source_digest


@cache
def versions() -> Mapping[str, str]:
    """The versions of this program. Where they are equal, replay gives the same bits."""
    packages = {name: version(name) for name in ("osrl", "numpy", "numba")}
    interpreted = getattr(config, "DISABLE_JIT")  # noqa: B009 - set by numba at run time, unknown to checkers
    kernels = f"{source_digest()}, interpreted" if interpreted else source_digest()
    # Mathematical functions of the C library differ in their last bit between processors.
    where = f"{platform.system()} {platform.machine()} {get_host_cpu_name()}"
    return {**packages, "kernels": kernels, "platform": where}
