"""Other processes and threads in tests: interpreters with a time limit, forked children, conditions waited for."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

TIMEOUT = 240.0  # seconds that another process may take; less than the time limit of a test (pyproject.toml)


def run_python(
    *arguments: str,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    check: bool = True,
    timeout: float = TIMEOUT,
) -> subprocess.CompletedProcess[str]:
    """Run the interpreter of the tests to its end; with ``check``, fail with its errors if it fails."""
    command = [sys.executable, *arguments]
    done = subprocess.run(command, env=env, cwd=cwd, capture_output=True, text=True, timeout=timeout, check=False)
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


def forked(work: Callable[[], None]) -> int:
    """Run ``work`` in a child that is forked from this process, with its kernels loaded; return its process id."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        work()
        code = 0
    finally:
        os._exit(code)


def wait_until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    """Return once ``condition`` holds; fail if it does not hold within so many seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not true within {seconds} seconds"
        time.sleep(0.01)
