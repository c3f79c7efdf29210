"""`fingerprint`: a digest of the code that a policy runs, as it is in memory. It is kept with results.

A file may have been edited since it was imported, and the cell of a notebook has no file. So the digest is
taken of what Python holds: the byte code of a function, its constants and defaults, and every global that
it uses, functions in turn. It ends at code that has a version: this package, the standard library,
and the libraries that kernels are made with. What cannot be digested, such as an open file, has no fingerprint.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

import numpy as np

_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis), type(NotImplemented))
_DESCRIPTORS = (GetSetDescriptorType, MemberDescriptorType, MethodDescriptorType, WrapperDescriptorType)
_RELEASED = {"osrl", "numpy", "numba", "llvmlite", "scipy", *sys.stdlib_module_names}
_MADE_IN_PYTHON = 1 << 9  # the flag of a class that a class statement has made
_NOISE = {
    "__dict__",
    "__weakref__",
    "__doc__",
    "__module__",
    "__firstlineno__",
    "__static_attributes__",
    "_abc_impl",
    "__slotnames__",  # which copy adds when it first copies an instance
}


class FingerprintError(ValueError):
    """Something that the code depends on cannot be digested; the message says what."""


def fingerprint(value: object) -> str:
    """Return the digest of a function, a policy, or any value, with all the code that it depends on."""
    walk = _Walk()
    try:
        walk.feed(value)
    except RecursionError:
        raise FingerprintError("a structure that is too deep") from None
    return walk.digest.hexdigest()[:16]


class _Walk:
    """Goes through everything that a value refers to, in an order that is the same in every process."""

    def __init__(self) -> None:
        self.digest = hashlib.sha256()
        self._met: dict[int, tuple[int, object]] = {}  # the objects too: an id is free when its object is gone
        self._looked_up: set[tuple[str, str]] = set()

    def feed(self, value: Any) -> None:
        """Digest a value: by what it is, or, where it was met before, by when."""
        if isinstance(value, _PLAIN):
            self._write(type(value).__name__, repr(value))
        elif isinstance(value, tuple) and type(value) is tuple:  # equal ones may be the same one, or not
            self._feed_all("tuple", *value)
        elif isinstance(value, frozenset):
            self._feed_all("set", *sorted(value, key=repr))
        elif id(value) in self._met:
            self._write("met", self._met[id(value)][0])
        else:
            self._met[id(value)] = (len(self._met), value)
            self._feed_new(value)

    def _write(self, *words: object) -> None:
        self.digest.update("\0".join(map(str, words)).encode("utf-8", "surrogatepass") + b"\1")

    def _feed_all(self, kind: str, *values: Any) -> None:
        self._write(kind, len(values))
        for value in values:
            self.feed(value)

    def _feed_new(self, value: Any) -> None:
        if isinstance(value, np.ndarray | np.generic) and not value.dtype.hasobject:
            self._write("array", value.dtype.str, value.shape, hashlib.sha256(value.tobytes()).hexdigest())
        elif isinstance(value, list):
            self._feed_all("list", *value)
        elif isinstance(value, dict):
            self._feed_all("dict", *value.keys(), *value.values())
        elif isinstance(value, set):
            self._feed_all("set", *sorted(value, key=repr))
        elif isinstance(value, CodeType):
            counts = (value.co_argcount, value.co_posonlyargcount, value.co_kwonlyargcount, value.co_flags)
            names = (value.co_names, value.co_varnames, value.co_freevars, value.co_cellvars)
            tables = (value.co_code, value.co_exceptiontable, value.co_consts)
            self._feed_all("code", *counts, *names, *tables)
        elif isinstance(value, classmethod | staticmethod):
            self.feed(value.__func__)
        elif isinstance(value, property):
            self._feed_all("property", value.fget, value.fset)
        elif isinstance(value, _DESCRIPTORS):
            self._write("descriptor", value.__qualname__)
        elif isinstance(value, BuiltinFunctionType):
            home = value.__module__ or "builtins"
            self._write("builtin", home, value.__qualname__, _version(home))
        elif isinstance(value, FunctionType | type | ModuleType | np.ufunc) and _is_released(value):
            home = getattr(value, "__module__", None) or ""
            self._write("released", home, getattr(value, "__qualname__", value.__name__))
        elif isinstance(value, FunctionType):
            self._feed_function(value)
        elif isinstance(value, type):
            kept = {name: each for name, each in vars(value).items() if name not in _NOISE}
            self._feed_all("class", value.__qualname__, value.__bases__, kept)
        elif isinstance(value, ModuleType):
            self._write("module", value.__name__)  # what is used of it, its user digests
        elif hasattr(value, "py_func"):  # what Numba makes of a function
            self._feed_all("kernel", value.py_func, sorted(getattr(value, "targetoptions", {}).items()))
        else:
            self._feed_object(value)

    def _feed_object(self, value: Any) -> None:
        """Digest any other object by what would make a copy of it."""
        try:
            recipe = value.__reduce_ex__(4)
        except Exception as error:  # a class may raise anything here
            raise FingerprintError(f"{value!r} ({error})") from None
        if isinstance(recipe, str):
            self._feed_all("object", type(value), recipe)
        else:
            parts = (list(part) if isinstance(part, Iterator) else part for part in recipe)
            self._feed_all("object", type(value), *parts)

    def _feed_function(self, function: FunctionType) -> None:
        self._feed_all("function", function.__code__, function.__defaults__, function.__kwdefaults__)
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            try:
                held = cell.cell_contents
            except ValueError:
                held = f"{name} is not known yet"
            self.feed(held)
        for known, kind in _known_to_the_compiler():
            if known is function:  # the compiler takes another function in its place
                self._feed_all("overload", *(getattr(each, "_overload_func", None) for each in kind.templates))
        self._feed_globals(sorted(set(_names(function.__code__))), function.__globals__)

    def _feed_globals(self, names: list[str], scope: dict[str, Any]) -> None:
        """Digest what ``names`` stand for in ``scope``; where that is a module, also in it."""
        for name in names:
            if name in scope:
                self._write("global", name)
                value = scope[name]
                self.feed(value)
                if isinstance(value, ModuleType) and not _is_released(value):
                    within = [each for each in names if (value.__name__, each) not in self._looked_up]
                    self._looked_up.update((value.__name__, each) for each in within)
                    self._feed_globals(within, vars(value))


def _known_to_the_compiler() -> list[tuple[Any, Any]]:
    """Return the functions that Numba has its own versions of; none where it is not imported."""
    templates: Any = sys.modules.get("numba.core.typing.templates")
    return [] if templates is None else list(templates.builtin_registry.globals)


def _names(code: CodeType) -> Iterator[str]:
    """Yield every name that code and the functions inside it look up: globals and attributes."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _is_released(value: Any) -> bool:
    """Tell whether the code of ``value`` belongs to a library with a version; a name alone does not count."""
    if isinstance(value, ModuleType):
        return _root(value.__name__) in _RELEASED
    if isinstance(value, FunctionType):
        home = value.__globals__.get("__name__", "")
        return _root(home) in _RELEASED and vars(sys.modules[home]) is value.__globals__
    if isinstance(value, np.ufunc):
        libraries = (np, sys.modules.get("scipy.special"))
        return any(getattr(library, value.__name__, None) is value for library in libraries)
    if isinstance(value, type):
        if _root(value.__module__) not in _RELEASED:
            return False
        reached: Any = sys.modules.get(value.__module__)
        for part in value.__qualname__.split("."):
            reached = getattr(reached, part, None)
        return reached is value or not value.__flags__ & _MADE_IN_PYTHON
    return False


def _root(module: str) -> str:
    return module.partition(".")[0]


def _version(module: str) -> str:
    """Return the version of the library of a function that is not written in Python."""
    root = _root(module)
    if root in _RELEASED:
        return ""
    try:
        return version(root)
    except PackageNotFoundError:
        raise FingerprintError(f"a function of {module}, which is not Python and has no version") from None
