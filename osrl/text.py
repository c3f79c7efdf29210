"""Text that is safe to print: every control character spelled out, every password hidden.

Names come from files, databases and other people. On a terminal an escape sequence in a name could move the
cursor, or hide what stands beside it.
"""

from __future__ import annotations

import re
import unicodedata

HIDDEN = "***"
MAX_MESSAGE, MESSAGE_TAIL = 1500, 500  # characters of a message, and of its end where it is shortened
_DIRECTIONS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_SECRET = re.compile(r"(?i)(\b[\w-]*pass(?:word|wd|phrase)?[\w-]*\s*=\s*)[^&\s'\"]+")
_USER = re.compile(r"(://[^:/?#@\s]*):[^\s'\"]*@")


def is_control(character: str) -> bool:
    """Tell whether a character is a control, a line break, or a surrogate, which no file can hold."""
    return unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")


def printable(text: str) -> str:
    r"""Return the text on one line, with control characters and changes of direction spelled out.

    >>> printable("drug [a]"), printable("red \x1b[31m\n")
    ('drug [a]', 'red \\x1b[31m\\n')
    """
    if text.isprintable():
        return text
    return "".join(ascii(each)[1:-1] if is_control(each) or each in _DIRECTIONS else each for each in text)


def without_passwords(text: str) -> str:
    """Return the text with stars for the passwords of database URLs.

    >>> without_passwords("postgresql://me:secret@host/db?sslmode=require&password=secret")
    'postgresql://me:***@host/db?sslmode=require&password=***'
    """
    if "=" in text:
        text = _SECRET.sub(rf"\1{HIDDEN}", text)
    return _USER.sub(rf"\1:{HIDDEN}@", text) if "://" in text else text


def printable_line(text: str) -> str:
    """Return a line for people: printable, without passwords, and not longer than a page."""
    text = without_passwords(text)
    if len(text) > MAX_MESSAGE:
        text = f"{text[: MAX_MESSAGE - MESSAGE_TAIL]} ... {text[-MESSAGE_TAIL:]}"
    return printable(text)
