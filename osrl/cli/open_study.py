"""Opens the study of a command: in a database, or on a server (an http:// or https:// address).

The token for a server is that of the environment variable OSRL_TOKEN: others could see an argument.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Unpack

from osrl.errors import OsrlError
from osrl.text import printable

if TYPE_CHECKING:
    from osrl.client import RemoteStudy
    from osrl.study.settings import CreateOptions
    from osrl.study.storage.base import Tombstone
    from osrl.study.study import Study

    AnyStudy = Study | RemoteStudy


def is_remote(place: str) -> bool:
    """Tell whether a place is a server."""
    return place.lower().startswith(("http://", "https://"))


def check_local(place: str) -> None:
    """Refuse a server where a command needs the database itself."""
    if is_remote(place):
        raise OsrlError(f"{place} is a server; do this where its database is")


def without_password(place: str) -> str:
    """Return a place as it was given, but without a password."""
    from osrl.study.storage.url import read_place, show_place

    if is_remote(place) or "://" not in place:
        return printable(place)
    return show_place(read_place(place))


def _study_class(place: str) -> type[Study] | type[RemoteStudy]:
    if is_remote(place):
        from osrl.client import RemoteStudy

        return RemoteStudy
    from osrl.study.study import Study

    return Study


@contextmanager
def opened(place: str, name: str | None) -> Iterator[AnyStudy]:
    """Open a study as long as the command needs it."""
    # Loading makes many objects that stay. To look for garbage among them is a sixth of a cold start.
    gc.disable()
    try:
        with _open(place, name) as study:
            yield study
    finally:
        gc.enable()


def _open(place: str, name: str | None) -> AnyStudy:
    if is_remote(place):
        from osrl.client import connect

        return connect(place, study=name)
    from osrl.study.study import Study

    return Study.open(place, name)


def create_study(place: str, name: str, **options: Unpack[CreateOptions]) -> AnyStudy:
    """Create a study."""
    return _study_class(place).create(place, name=name, **options)


def list_studies(place: str) -> tuple[str, ...]:
    """Return the names of the studies that there are."""
    return _study_class(place).list(place)


def deleted_studies(place: str) -> tuple[Tombstone, ...]:
    """Return the records of deleted studies; a server does not say."""
    if is_remote(place):
        return ()
    from osrl.study.study import Study

    return Study.deleted(place)


def delete_study(place: str, name: str, by: str | None, reason: str | None) -> None:
    """Remove a study, for good."""
    _study_class(place).delete(place, name, by=by, reason=reason)
