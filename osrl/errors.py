"""The one exception of the package for input that cannot be used."""


class OsrlError(ValueError):
    """Input that cannot be used: one line that says what is wrong and what to do.

    The command line prints it without a traceback and ends with exit code 2.
    """
