"""On Windows the package can at least be imported: what it lacks there is not asked for at import."""

from __future__ import annotations

from tests.support.processes import run_python

LIKE_WINDOWS = """
import os, sys
for name in ("register_at_fork", "geteuid", "fork", "sched_getaffinity"):
    if hasattr(os, name):
        delattr(os, name)
import osrl.simulation.store  # asks for the platform before it imports fcntl
for name in ("fcntl", "termios", "pwd", "grp", "resource", "uvloop"):
    sys.modules[name] = None
import importlib, pkgutil
for module in pkgutil.walk_packages(osrl.__path__, "osrl."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
print("imported")
"""


def test_every_module_is_imported_without_what_windows_lacks() -> None:
    assert run_python("-c", LIKE_WINDOWS).stdout.endswith("imported\n")
