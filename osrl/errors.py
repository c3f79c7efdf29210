"""The errors of the package: each is one line that says what is wrong, and what to do.

Every error has the exit code with which the command line ends.
"""

from osrl.text import printable_line


class OsrlError(ValueError):
    """Input that cannot be used: one line that says what is wrong and what to do.

    The command line prints it without a traceback and ends with its exit code. Names in it cannot steer
    the terminal, and passwords are hidden.
    """

    exit_code = 2

    def __init__(self, message: str, *details: str) -> None:
        super().__init__(*map(printable_line, (message, *details)))

    def __str__(self) -> str:
        return "\n  ".join(self.args)  # each detail is a line of its own


class UnknownTrial(OsrlError):  # noqa: N818 - the names of these errors are a contract
    """A trial that the study has not handed out: of another study, of another branch, or of nobody."""


class UnknownStudy(OsrlError):  # noqa: N818
    """A study that is not there: never created, or deleted."""


class AccessRefused(OsrlError):  # noqa: N818
    """A token that is unknown to the server, or that does not allow this."""


class RewardRefused(OsrlError):  # noqa: N818
    """A reward that is refused: outside the family, or another one than was told before."""


class StudyEnded(OsrlError):  # noqa: N818
    """The study has a verdict; no more trials are handed out."""

    exit_code = 3


class StudyPaused(StudyEnded):
    """The study is paused: no trials are handed out until it is resumed."""


class BudgetSpent(OsrlError):  # noqa: N818
    """More trials are asked for than the budget has left."""

    exit_code = 3


class StorageError(OsrlError):
    """The storage has failed: a full disk, a database that cannot be reached. Call again later."""

    exit_code = 4


class StorageBusy(StorageError):  # noqa: N818
    """Others have been writing for too long."""


class StorageDamaged(OsrlError):  # noqa: N818
    """What is stored is not what was written: damaged, cut, changed, or another log in its place."""

    exit_code = 5
