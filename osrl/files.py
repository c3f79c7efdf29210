"""Files that are replaced whole or not at all."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def replace_file(path: Path, content: bytes) -> None:
    """Write beside ``path``, then rename: a reader sees the old file or the new one, never a part.

    What is written is on the disk when this returns. The name beside it starts with a dot and the
    name of the file; it is left behind only when the process is killed.
    """
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with partial.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
