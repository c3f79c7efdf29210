"""The path of a request: what a proxy has put before it, and names of studies that have a ``/``.

In an address that is written ``%2F``. It belongs to the name, so a path is split before it is decoded. A
proxy may take its own path away or leave it, but must pass on the rest as it came.
"""

from __future__ import annotations

from urllib.parse import quote, unquote

from starlette.convertors import Convertor, register_url_convertor
from starlette.types import Scope

from osrl.errors import OsrlError

OWN = ("api", "ofrep", "studies", "assets", "session", "healthz")  # with which our own paths begin
SLASH = "\x1f"  # stands for a slash of a name until it is read; no name has it


class NameConvertor(Convertor[str]):
    """The name of a study in an address."""

    regex = "[^/]+"

    def convert(self, value: str) -> str:
        """The name that was meant."""
        return value.replace(SLASH, "/")

    def to_string(self, value: str) -> str:
        """The name as an address has it."""
        return quote(value, safe="")


NAME = NameConvertor()
register_url_convertor("study", NAME)


def read_root(path: str) -> str:
    """The path under which a proxy shows the server, such as ``/osrl``; none is empty."""
    root = path.rstrip("/")
    if root and (not root.startswith("/") or root.split("/")[1] in OWN):
        raise OsrlError(f"the root path is {path!r:.60}; give one such as /osrl, not one of /{', /'.join(OWN)}")
    return root


def place(scope: Scope, root: str) -> str:
    """Set root and path of a request as its route knows them; the path without the root."""
    raw: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
    path = raw.partition(b"?")[0].decode("latin-1")
    if root and (path == root or path.startswith(f"{root}/")):
        path = path[len(root) :]
    path = "/".join(unquote(part).replace("/", SLASH) for part in path.split("/"))
    scope["root_path"], scope["path"] = root, root + path
    return path
