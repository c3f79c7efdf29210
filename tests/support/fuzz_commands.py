"""Fuzzing of the command line with fixed seeds: odd files and options, for every command."""

from __future__ import annotations

import os
import random
from functools import partial
from pathlib import Path

from tests.support.fuzz import WORDS, Found, attempt, exported, run, warm_up

FEW = ["1", "2", "0", "-1", "x", "1.5", "", "nan", "9223372036854775808"]  # where many would be much work
RISKS = ["0.1", "0", "1", "nan", "-1", "1e-300", "0.1,0.2", "", "x", "0.9999999999999999"]
COMMANDS: dict[str, tuple[int, dict[str, list[str] | None]]] = {
    "bound": (1, {"--delta": RISKS, "--delta-g": RISKS, "--sigma": WORDS, "--json": None}),
    "simulate": (
        1,
        {"--policy": ["osrl", "tas", "", "osrl,osrl", "x"], "--delta": RISKS, "--seed": WORDS,
         "--workers": FEW, "--threshold": WORDS, "--json": None,
         "--option": [*WORDS, "period=1", "=", "a=b=c", "idle=x"],
         "--dask": ["", "x", "tcp://", "tcp://127.0.0.1:1", "\x1b"]},
    ),
    "plan": (1, {"--policy": ["osrl", "", "x"], "--delta": RISKS, "--seed": WORDS, "--json": None}),
    "paper": (0, {"--workers": FEW, "--seed": ["-1", "x", "9223372036854775808"], "--json": None}),
    "analyse": (1, {"--delta": RISKS, "--family": WORDS, "--noise-sd": WORDS, "--representations": WORDS}),
    "study create": (
        1,
        {"--tasks": WORDS, "--representations": ["a,b", *WORDS], "--predictors": ["p,q", *WORDS],
         "--seed": WORDS, "--budget": WORDS, "--family": WORDS, "--noise-sd": WORDS, "--delta": RISKS,
         "--policy": ["tas", "x", ""], "--threshold": WORDS, "--name": WORDS,
         "--option": ["points=1", "points=x", "x", "plugged=2"]},
    ),
    "study ask": (1, {"--task": ["x1", *WORDS], "-n": [*FEW, "100000000000"], "--name": WORDS}),
    "study tell": (3, {"--by": WORDS, "--name": WORDS, "--json": None}),
    "study abandon": (2, {"--ignorable": None, "--reason": WORDS, "--by": WORDS}),
    "study status": (1, {"--name": WORDS, "--json": None}),
    "study list": (1, {"--json": None}),
    "study verify": (1, {"--head": WORDS, "--json": None}),
    "study export": (2, {"--trials": None, "--json": None}),
    "study import": (2, {"--name": WORDS, "--json": None}),
    "study delete": (2, {"--yes": None, "--json": None, "--by": WORDS}),
}  # fmt: skip


def odd_paths(folder: Path) -> list[str]:
    """Make files of every kind: valid ones, others, devices, pipes; return their paths, and some that do not exist."""
    exported(folder)
    (folder / "good.csv").write_text("task,representation,predictor,reward\nx,a,p,1\n", encoding="utf-8")
    (folder / "empty.csv").touch()
    (folder / "empty.db").touch()
    (folder / "text.db").write_text("not a database " * 100, encoding="utf-8")
    damaged = bytearray((folder / "fuzz.db").read_bytes())
    damaged[4000:6000] = bytes(2000)
    (folder / "damaged.db").write_bytes(damaged)
    for name in ("pipe.csv", "pipe.toml", "pipe.db", "pipe.jsonl"):
        os.mkfifo(folder / name)
    (folder / "instance.toml").write_text(
        'family = "bernoulli"\nmeans = [[[0.9, 0.1], [0.2, 0.1]]]\n', encoding="utf-8"
    )
    (folder / "deep.json").write_text("[" * 100_000, encoding="utf-8")
    (folder / "huge.toml").write_text(f"family = 'bernoulli'\nmeans = [[[{10**400}]]]\n", encoding="utf-8")
    inside = [str(path) for path in sorted(folder.iterdir()) if path.name[0] not in ".w"]
    return [
        *inside,
        str(folder),
        "/dev/null",
        "/dev/zero",
        "",
        ".",
        "\0",
        "a" * 5000,
        "no.db",
        "no.csv",
        "no.toml",
    ]


def fuzz_command_line(cases: int, folder: Path, seed: int = 0) -> Found:
    """Run commands with odd files and options."""
    rng = random.Random(seed)
    warm_up(folder)
    paths = odd_paths(folder)
    wrong = []
    for _ in range(cases):
        name = rng.choice(list(COMMANDS))
        positions, options = COMMANDS[name]
        fits = {"bound": ".toml", "simulate": ".toml", "plan": ".toml", "analyse": ".csv"}.get(name, "fuzz.db")
        likely = [path for path in paths if path.endswith(fits)]
        places = [rng.choice(likely if rng.random() < 0.6 else paths)] if positions else []
        if name in ("study export", "study import"):
            places.append(rng.choice([str(folder / "out.csv"), *paths]))
        while len(places) < positions:
            places.append(rng.choice(WORDS))
        chosen = rng.sample(sorted(options), rng.randrange(min(len(options), 4) + 1))
        given = [word for each in chosen for word in _option(each, options[each], rng)]
        if name in ("simulate", "plan"):
            given += ["--runs", "20" if name == "plan" else "2", "--budget", "30"]
        if name == "paper":
            given += ["table1", "--runs", rng.choice(FEW[2:]), "--out", rng.choice(paths)]
        command = [*name.split(), *places, *given]
        if said := attempt(partial(run, command)):
            wrong.append(f"{' '.join(repr(word[:60]) for word in command)}: {said}")
    return Found(cases, wrong)


def _option(name: str, values: list[str] | None, rng: random.Random) -> list[str]:
    return [name] if values is None else [name, rng.choice(values)]
