"""Where the study of a command is: in a database, or with a server (an http:// or https:// address).

The token for a server is that of the environment variable OSRL_TOKEN: an argument would be seen by others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from osrl.errors import OsrlError

if TYPE_CHECKING:
    from osrl.client import RemoteStudy
    from osrl.study.storage.base import Tombstone
    from osrl.study.study import Study

    AnyStudy = Study | RemoteStudy


def is_remote(place: str) -> bool:
    """Whether a place is a server."""
    return place.lower().startswith(("http://", "https://"))


def check_local(place: str) -> None:
    """Refuse what is done with a whole database where there is only a server."""
    if is_remote(place):
        raise OsrlError(f"{place} is a server; do this where its database is")


def open_study(place: str, name: str | None) -> AnyStudy:
    """A study that is there."""
    if is_remote(place):
        from osrl.client import connect

        return connect(place, study=name)
    from osrl.study.study import Study

    return Study.open(place, name)


def create_study(place: str, **settings: Any) -> AnyStudy:
    """A new study."""
    if is_remote(place):
        from osrl.client import RemoteStudy

        return RemoteStudy.create(place, **settings)
    from osrl.study.study import Study

    return Study.create(place, **settings)


def list_studies(place: str) -> tuple[str, ...]:
    """The names of the studies that there are."""
    if is_remote(place):
        from osrl.client import RemoteStudy

        return RemoteStudy.list(place)
    from osrl.study.study import Study

    return Study.list(place)


def deleted_studies(place: str) -> tuple[Tombstone, ...]:
    """What is left of studies that were deleted; a server does not say."""
    if is_remote(place):
        return ()
    from osrl.study.study import Study

    return Study.deleted(place)


def delete_study(place: str, name: str, by: str | None, reason: str | None) -> None:
    """Remove a study, for good."""
    if is_remote(place):
        from osrl.client import RemoteStudy

        RemoteStudy.delete(place, name, by=by, reason=reason)
        return
    from osrl.study.study import Study

    Study.delete(place, name, by=by, reason=reason)
