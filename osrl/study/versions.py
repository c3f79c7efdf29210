"""What the numbers of a study depend on, besides its events: kernels, libraries, platform."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version

from llvmlite.binding import get_host_cpu_name

from osrl.compiled import kernel_version


@cache
def versions() -> Mapping[str, str]:
    """The versions of this program. Where they are equal, replay gives the same bits."""
    packages = {name: version(name) for name in ("osrl", "numpy", "numba")}
    # Mathematical functions of the C library differ in their last bit between processors.
    where = f"{platform.system()} {platform.machine()} {get_host_cpu_name()}"
    return {**packages, "kernels": kernel_version(), "platform": where}
