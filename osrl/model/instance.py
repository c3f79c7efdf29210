"""Instances: the mean reward of every (task, representation, predictor), with names and a family.

>>> instance = Instance.load("paper")
>>> instance
Instance(bernoulli, 2 tasks, 3 representations, 2 predictors)
>>> instance.best
BestArms(representation=0, predictors=(0, 0))

An instance holds any finite means of its family. Only `Instance.best` asks for more: the paper's
class M, where each task has one best arm and all tasks share its representation.
"""

from __future__ import annotations

import json
import os
import reprlib
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tomli_w
from numpy.typing import NDArray

from osrl.errors import OsrlError
from osrl.files import read_file, replace_file
from osrl.model.families import FAMILIES, Family, read_limits
from osrl.text import is_control

MAX_NAME_LETTERS = 1000  # of a name
MAX_FILE_BYTES = 2**28  # of an instance file
Means = Sequence[Sequence[Sequence[float]]] | NDArray[Any]


class BestArms(NamedTuple):
    """The right answer, as indices: the representation that all tasks share, and each task's predictor."""

    representation: int
    predictors: tuple[int, ...]


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Instance:
    """A problem: mean rewards mu[x][g][h] of shape (X, G, H), their family, and names for the axes.

    ``means`` is read-only. Two instances are equal when means, family and names are.
    """

    means: NDArray[np.float64]
    family: Family
    tasks: tuple[str, ...]
    representations: tuple[str, ...]
    predictors: tuple[str, ...]

    def __init__(
        self,
        means: Means,
        family: Family,
        tasks: Sequence[str] | None = None,
        representations: Sequence[str] | None = None,
        predictors: Sequence[str] | None = None,
    ) -> None:
        given = (tasks, representations, predictors)
        names = [_read_names(axis, value) for axis, value in zip(_AXES, given, strict=True)]
        array = _read_means(means, names)
        object.__setattr__(self, "means", array)
        object.__setattr__(self, "family", family)
        for axis, wanted, count in zip(_AXES, names, array.shape, strict=True):
            object.__setattr__(self, axis.key, _complete_names(axis, wanted, count))
        outside = np.argwhere(~family.accepts_means(array))
        if len(outside):
            place, value = _place(outside[0], names), array[*outside[0]]
            raise OsrlError(f"{place} is {value}; give {family.mean_range} for the {family.name} family")

    @classmethod
    def bernoulli(
        cls,
        means: Means,
        *,
        tasks: Sequence[str] | None = None,
        representations: Sequence[str] | None = None,
        predictors: Sequence[str] | None = None,
    ) -> Instance:
        """Return an instance whose rewards are 0 or 1."""
        return cls(means, Family("bernoulli"), tasks, representations, predictors)

    @classmethod
    def gaussian(
        cls,
        means: Means,
        noise_sd: float,
        *,
        tasks: Sequence[str] | None = None,
        representations: Sequence[str] | None = None,
        predictors: Sequence[str] | None = None,
    ) -> Instance:
        """Return an instance with normal rewards of known standard deviation ``noise_sd``."""
        family = Family("gaussian", _read_number(noise_sd, "noise_sd"))
        return cls(means, family, tasks, representations, predictors)

    @classmethod
    def bounded(
        cls,
        means: Means,
        *,
        tasks: Sequence[str] | None = None,
        representations: Sequence[str] | None = None,
        predictors: Sequence[str] | None = None,
    ) -> Instance:
        """Return an instance with any rewards in [0, 1]."""
        return cls(means, Family("bounded"), tasks, representations, predictors)

    @classmethod
    def load(cls, source: str | os.PathLike[str]) -> Instance:
        """Read an instance: ``paper`` for the paper's own, or a path to a .toml or .json file."""
        if os.fspath(source) == "paper":
            text = resources.files("osrl").joinpath("data", "paper.toml").read_text(encoding="utf-8")
            return cls.from_dict(tomllib.loads(text))
        path = Path(source)
        try:
            return cls.from_dict(_read_file(path))
        except OsrlError as error:
            raise OsrlError(f"{path}: {error}") from None

    def plot(self) -> Any:
        """Draw the means as an Altair chart."""
        from osrl.report.notebook import chart

        return chart(self)

    def _repr_html_(self) -> str:
        from osrl.report.notebook import html

        return html(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the instance as .toml or .json; a file at ``path`` is replaced whole or not at all."""
        path = Path(path)
        try:
            replace_file(path, _render(self.to_dict(), _file_format(path)).encode())
        except OsrlError as error:
            raise OsrlError(f"{path}: {error}") from None
        except OSError as error:
            what = f"cannot be written: {error.strerror}"
            raise OsrlError(f"{path}: {what}; give a folder that exists and that you may write to") from None

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Instance:
        """Build an instance from the keys of an instance file."""
        keys = f"the keys are {', '.join(_KEYS)}"
        if not isinstance(data, Mapping):
            raise OsrlError(f"an instance is one table of keys and values, not {_show(data)}; {keys}")
        for key in data:
            if key not in _KEYS:
                raise OsrlError(f"unknown key {_show(key)}; {keys}")
        if data.get("family") is None:
            raise OsrlError(f"the key 'family' is missing; set it to one of {', '.join(FAMILIES)}")
        if data.get("means") is None:
            raise OsrlError(f"the key 'means' is missing; {_AXES[0].rule}")
        noise_sd = data.get("noise_sd")
        family = Family(data["family"], None if noise_sd is None else _read_number(noise_sd, "noise_sd"))
        return cls(data["means"], family, *(data.get(axis.key) for axis in _AXES))

    def to_dict(self) -> dict[str, Any]:
        """Return the keys of an instance file, as plain Python values: the inverse of `from_dict`."""
        noise = {} if self.family.noise_sd is None else {"noise_sd": float(self.family.noise_sd)}
        names = {axis.key: list(getattr(self, axis.key)) for axis in _AXES}
        return {"family": self.family.name, **noise, **names, "means": self.means.tolist()}

    @property
    def shape(self) -> tuple[int, int, int]:
        """The numbers of tasks, representations and predictors: (X, G, H)."""
        return len(self.tasks), len(self.representations), len(self.predictors)

    @property
    def best(self) -> BestArms:
        """The best arm of each task, with its shared representation; an error outside the class M."""
        arms = [self._best_arm(x) for x in range(len(self.tasks))]
        shared = arms[0][0]
        for x, (g, h) in enumerate(arms):
            if g != shared:
                raise OsrlError(
                    f"task {self.tasks[0]} is best with {self._arm_name(*arms[0])} but task {self.tasks[x]} "
                    f"with {self._arm_name(g, h)}; one representation must be best in every task"
                )
        return BestArms(shared, tuple(h for _, h in arms))

    @property
    def in_model_class(self) -> bool:
        """Whether the instance lies in the paper's class M, so that `best` exists."""
        top = self.means == self.means.max(axis=(1, 2), keepdims=True)
        return bool(top.sum() == len(self.tasks) and top.any(axis=(0, 2)).sum() == 1)

    def _best_arm(self, x: int) -> tuple[int, int]:
        """Return the one best (g, h) of task ``x``."""
        top = self.means[x].max()
        arms = [(int(g), int(h)) for g, h in np.argwhere(self.means[x] == top)]
        if len(arms) > 1:
            tied = ", ".join(self._arm_name(*arm) for arm in arms[:3]) + (", ..." if len(arms) > 3 else "")
            raise OsrlError(
                f"task {self.tasks[x]} has {len(arms)} best arms, {tied}, with mean {top}; "
                "each task needs a single best arm"
            )
        return arms[0]

    def _arm_name(self, g: int, h: int) -> str:
        return f"({self.representations[g]},{self.predictors[h]})"

    def _content(self) -> tuple[Any, ...]:
        return (self.family, self.tasks, self.representations, self.predictors, self.means.tobytes())

    def __eq__(self, other: object) -> bool:
        return self._content() == other._content() if isinstance(other, Instance) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._content())

    def __reduce__(self) -> tuple[Any, ...]:
        # A pickled array comes back writable; the constructor makes it read-only again.
        return type(self), (self.means, self.family, self.tasks, self.representations, self.predictors)

    def __repr__(self) -> str:
        noise = "" if self.family.noise_sd is None else f", noise_sd={self.family.noise_sd}"
        sizes = ", ".join(_count(n, axis.one) for n, axis in zip(self.shape, _AXES, strict=True))
        return f"Instance({self.family.name}{noise}, {sizes})"


class _Axis(NamedTuple):
    """One axis of the means: its key in files, its word, the letter of its default names, its nesting."""

    key: str
    one: str
    letter: str
    entry: str
    rule: str


_AXES = (
    _Axis("tasks", "task", "x", "block", "means needs one block for each task"),
    _Axis("representations", "representation", "g", "row", "every block needs one row for each representation"),
    _Axis("predictors", "predictor", "h", "number", "every row needs one number for each predictor"),
)
_KEYS = ("family", "noise_sd", *(axis.key for axis in _AXES), "means")


def _read_names(axis: _Axis, names: object) -> tuple[str, ...] | None:
    """Return the names given for ``axis``, each a distinct line of text, or None where none are given."""
    if names is None:
        return None
    items = _items(names)
    if items is None:
        raise OsrlError(f"{axis.key} is {_show(names)}; give a list of names, one for each {axis.one}")
    seen: dict[str, int] = {}
    for position, name in enumerate(items, start=1):
        if not isinstance(name, str) or not name.strip() or any(map(is_control, name[: MAX_NAME_LETTERS + 1])):
            raise OsrlError(f"name {position} of {axis.key} is {_show(name)}; a name is one line of text")
        if len(name) > MAX_NAME_LETTERS:
            raise OsrlError(
                f"name {position} of {axis.key} has {len(name):,} letters; use at most {MAX_NAME_LETTERS:,}"
            )
        if name in seen:
            raise OsrlError(
                f"{axis.key} repeats {_show(name)} (names {seen[name]} and {position}); "
                f"give each {axis.one} its own name"
            )
        seen[name] = position
    return tuple(seen)


def _complete_names(axis: _Axis, names: tuple[str, ...] | None, count: int) -> tuple[str, ...]:
    """Return one name for each of ``count`` entries of ``axis``: those given, or x1, x2, ..."""
    if names is None:
        return tuple(f"{axis.letter}{i + 1}" for i in range(count))
    if len(names) != count:
        raise OsrlError(
            f"{axis.key} has {_count(len(names), 'name')} but means has {_count(count, axis.one)}; "
            f"give one name for each {axis.one}, or leave {axis.key} out"
        )
    return names


def _read_means(means: object, names: Sequence[tuple[str, ...] | None]) -> NDArray[np.float64]:
    """Return the nested lists as a read-only array (X, G, H); errors name the place by ``names``."""
    shape: list[int] = []

    def read(value: object, index: tuple[int, ...]) -> Any:
        depth = len(index)
        place = _place(index, names)
        if depth == len(_AXES):
            return _read_number(value, place)
        axis = _AXES[depth]
        items = _items(value)
        if items is None:
            raise OsrlError(f"{place} is {_show(value)}, not a list of {axis.entry}s; {axis.rule}")
        if not items:
            raise OsrlError(f"{place} is empty; {axis.rule}")
        if depth == len(shape):
            shape.append(len(items))
        elif len(items) != shape[depth]:
            first, size = _place((0,) * depth, names), _count(len(items), axis.entry)
            raise OsrlError(f"{place} has {size} but {first} has {shape[depth]}; {axis.rule}")
        return [read(item, (*index, i)) for i, item in enumerate(items)]

    # Adding zero turns -0.0 into 0.0, so that equal means have equal bytes.
    array = np.array(read(means, ()), dtype=np.float64) + 0.0
    array.setflags(write=False)
    return array


def _read_number(value: object, place: str) -> float:
    """Return ``value`` as a float; text and truth values are not numbers."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise OsrlError(f"{place} is {_show(value)}; give a number")
    try:
        return float(value)
    except OverflowError:
        raise OsrlError(f"{place} is too large for a floating-point number; give a smaller one") from None


def _items(value: object) -> Sequence[object] | None:
    """Return the entries of a list, tuple or array; None for anything else."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    return value if isinstance(value, Sequence) and not isinstance(value, str | bytes) else None


def _place(index: Iterable[int], names: Sequence[tuple[str, ...] | None]) -> str:
    """Return where in the means an entry stands, by name: means[x2][g3]."""
    place = "means"
    for axis, given, i in zip(_AXES, names, index, strict=False):
        place += f"[{given[i] if given is not None and i < len(given) else f'{axis.letter}{i + 1}'}]"
    return place


def _count(n: int, word: str) -> str:
    return f"{n} {word}" if n == 1 else f"{n} {word}s"


def _show(value: object) -> str:
    """Return a value as it appears in an error: short, on one line."""
    return " ".join(reprlib.repr(value).split())


def _file_format(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix not in (".toml", ".json"):
        raise OsrlError(f"unknown suffix {suffix!r}; an instance file ends in .toml or .json (only 'paper' has none)")
    return suffix


def _read_file(path: Path) -> Any:
    """Read an instance file, without checking its content."""
    suffix = _file_format(path)
    try:
        text = read_file(path, MAX_FILE_BYTES).decode("utf-8-sig")
        return tomllib.loads(text) if suffix == ".toml" else json.loads(text, object_pairs_hook=_distinct)
    except FileNotFoundError:
        raise OsrlError("no such file; give 'paper' or the path of an instance file") from None
    except OSError as error:
        raise OsrlError(f"cannot be read: {error.strerror}; give a file that you may read") from None
    except (ValueError, RecursionError) as error:
        kind = suffix[1:].upper()
        raise OsrlError(f"not valid {kind}: {error}; correct the file there, or write it again") from None


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object as a dictionary; a repeated key is an error, as it is in TOML."""
    table = dict(pairs)
    if len(table) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {next(key for key in keys if keys.count(key) > 1)!r} is repeated")
    return table


def _render(data: dict[str, Any], suffix: str) -> str:
    """Return the text of an instance file, with each task's block of means on a line of its own."""
    head = {key: value for key, value in data.items() if key != "means"}
    blocks = ",\n".join(f"  {json.dumps(block)}" for block in data["means"])
    if suffix == ".toml":
        return f"{tomli_w.dumps(head)}means = [\n{blocks},\n]\n"
    lines = [f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in head.items()]
    return "{\n" + ",\n".join([*lines, f'"means": [\n{blocks}\n]']) + "\n}\n"


Given = Instance | str | os.PathLike[str] | Means


def read_guess(given: Given, low: float | None, high: float | None) -> tuple[Instance, tuple[float, float]]:
    """Return an instance whose means lie between ``low`` and ``high``, scaled to [0, 1], and these limits.

    Without limits it is that of `read_instance`. The means of an `Instance` are scaled already.
    """
    if isinstance(given, Instance) or (low is None and high is None):
        instance = read_instance(given)
        return instance, read_limits(instance.family.name, low, high)
    data: Any = {"family": "bounded", "means": given}
    if isinstance(given, (str, os.PathLike)):
        data = read_instance(given).to_dict() if os.fspath(given) == "paper" else _read_file(Path(given))
    limits = read_limits(str(data.get("family")) if isinstance(data, Mapping) else "", low, high)
    wide = Instance.from_dict({**data, "family": "gaussian", "noise_sd": 1.0})  # any finite means
    means = (wide.means - limits[0]) / (limits[1] - limits[0])
    outside = np.argwhere((means < 0) | (means > 1))
    if len(outside):
        place, value = (
            _place(outside[0], (wide.tasks, wide.representations, wide.predictors)),
            wide.means[*outside[0]],
        )
        raise OsrlError(f"{place} is {value:g}; give means from {limits[0]:g} to {limits[1]:g}")
    return Instance.bounded(
        means, tasks=wide.tasks, representations=wide.representations, predictors=wide.predictors
    ), limits


def read_instance(given: Given) -> Instance:
    """Return an instance as it is, a file or ``paper`` by its name, or coins with an array of means (X, G, H)."""
    if isinstance(given, Instance):
        return given
    if isinstance(given, (str, os.PathLike)):
        return Instance.load(given)
    return Instance.bernoulli(given)
