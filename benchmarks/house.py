"""How large the house is, and what its changes cost: this checkout beside an older one, measured in one run.

    python benchmarks/house.py --before PATH_OF_CHECKOUT      # twenty minutes; writes results/house.md
    python benchmarks/house.py --before PATH --quick          # two minutes: few rounds, JIT off; prints only
    python benchmarks/house.py --before PATH --test-minutes-before 61 --test-minutes-after 40

Every number comes from a process of its own, which imports ``osrl`` from one checkout and uses only what both
have: `osrl.simulate`, `osrl.Study`, `osrl serve`, and the study in memory of the tests. Times are processor time; the
checkouts take turns, and the least of several turns counts, because other work on the machine can only add to it.

*Files touched*: distinct files of ``osrl/`` in which a Python function is called, after a warm-up, with the JIT off, so
that kernels count too. *Private names of Numba*: what is imported from its private modules, and names with an
underscore that the compiler room reads from objects of Numba or passes to it.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
NAMES: dict[str, Any] = {"tasks": 2, "representations": 3, "predictors": 2, "delta": 1e-12, "seed": 0}
SMALL = [[[0.9, 0.2], [0.3, 0.1]], [[0.2, 0.9], [0.3, 0.1]]]  # means of a small instance
OLD_COMPILER_ROOM = ("compiled", "way", "machine", "linked", "brisk", "compiling", "caches", "stamp", "elements")
CONTRACT = ("SamplingRule", "StoppingRule", "Policy")
PUBLIC_MODULES = ("numba", "numba.types", "numba.typed", "numba.extending", "numba.errors", "numba.core.errors")
WARM_UP, TRACED = 30, 20  # trials
MIN_ROUNDS_RATIO, MIN_STUDY_RATIO = 0.9, 0.95


# What is there, without running it ------------------------------------------------------------------------


def sources(tree: Path) -> dict[str, str]:
    """Return the text of every Python file of the package, by its path within ``osrl``."""
    folder = tree / "osrl"
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*.py"))}


def sizes(files: dict[str, str]) -> dict[str, tuple[int, int]]:
    """Return lines and files of each package, those beside the packages as ``modules``, and of all."""
    found: dict[str, tuple[int, int]] = {}
    for path, text in files.items():
        package = path.split("/")[0] if "/" in path else "modules"
        for name in (package, "all"):
            lines, number = found.get(name, (0, 0))
            found[name] = lines + text.count("\n"), number + 1
    return found


def compiler_room(files: dict[str, str]) -> list[str]:
    """Return the files of the compiler room: those of ``jit``, or the modules that it was before."""
    inside = [path for path in files if path.startswith("jit/") or path == "policies/fingerprint.py"]
    return inside or [f"{name}.py" for name in OLD_COMPILER_ROOM if f"{name}.py" in files]


def contract_files(files: dict[str, str]) -> list[str]:
    """Return the files that define the rules, the policy and how they are registered."""
    wanted = re.compile(rf"^class ({'|'.join(CONTRACT)})\b|^def register\b", re.MULTILINE)
    return [path for path, text in files.items() if wanted.search(text)]


def private_names(files: dict[str, str]) -> set[str]:
    """Return the private names of Numba and llvmlite that the package uses."""
    room = compiler_room(files)
    own = {name for path in room for name in _own_names(files[path])}
    found: set[str] = set()
    for path, text in files.items():
        if "numba" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and _is_numba(node.module):
                private = node.module not in PUBLIC_MODULES
                found |= {f"{node.module}.{name.name}" for name in node.names if private or name.name[0] == "_"}
            elif isinstance(node, ast.Import):
                names = [name.name for name in node.names if _is_numba(name.name)]
                found |= {name for name in names if name not in (*PUBLIC_MODULES, "llvmlite")}
            elif isinstance(node, ast.Attribute) and (chain := _chain(node)).startswith("numba.core."):
                found.add(".".join(chain.split(".")[:4]))
            elif isinstance(node, ast.Attribute) and path in room and node.attr not in own:
                if re.fullmatch(r"_[a-z]\w*", node.attr):
                    found.add(f".{node.attr}")
            elif isinstance(node, ast.keyword) and (node.arg or "").startswith("_"):
                found.add(f"{node.arg}=")
            elif isinstance(node, ast.Constant) and re.fullmatch(r"numba(\.\w+)+|_nrt", str(node.value)):
                found.add(f"{node.value}")
    whole = {name for name in found if any(other.startswith(f"{name}.") for other in found)}
    return found - whole


def _own_names(text: str) -> set[str]:
    """Return the names of functions, fields and attributes that a module defines itself."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.attr)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return found


def _is_numba(module: str | None) -> bool:
    return (module or "").split(".")[0] in ("numba", "llvmlite")


def _chain(node: ast.expr) -> str:
    """Return ``a.b.c`` for an attribute of a name, "" for that of anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (before := _chain(node.value)):
        return f"{before}.{node.attr}"
    return ""


# What a process of a checkout measures --------------------------------------------------------------------


class Touched:
    """The files of the package in which functions are called, in all threads, while it is recording."""

    def __init__(self) -> None:
        self._folder = f"{Path(sys.modules['osrl'].__file__ or '').parent}{os.sep}"
        self._codes: set[Any] = set()
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def _note(self, frame: Any, event: str, argument: Any) -> None:
        if event == "call":
            self._codes.add(frame.f_code)

    def take(self) -> list[str]:
        """Return the files since the last call, and begin anew."""
        codes, self._codes = self._codes, set()
        names = {code.co_filename for code in codes}
        return sorted(name.removeprefix(self._folder) for name in names if name.startswith(self._folder))


def trace_files() -> dict[str, list[str]]:
    """Return the files that an ask, a tell and a simulation touch."""
    import osrl

    touched, found = Touched(), dict[str, set[str]](ask=set(), tell=set())
    with tempfile.TemporaryDirectory() as folder, osrl.Study.create(f"{folder}/study.db", **NAMES) as study:
        for i in range(WARM_UP + TRACED):
            touched.take()
            trial = study.ask()
            asked = touched.take()
            study.tell(trial, i % 2)
            if i >= WARM_UP:
                found["ask"].update(asked)
                found["tell"].update(touched.take())
    for _ in range(2):
        touched.take()
        osrl.simulate(SMALL, "osrl", runs=2, budget=60, workers=1)
        found["simulate"] = set(touched.take())
    return {name: sorted(files) for name, files in found.items()}


def serve_traced(place: str, token: str, out: str) -> None:
    """Serve a study; SIGUSR1 writes the files touched since the last one to ``out``."""
    import osrl  # noqa: F401  (its folder is what is traced)
    from osrl.cli import main

    touched = Touched()

    def write(number: int, frame: Any) -> None:
        Path(f"{out}.part").write_text(json.dumps(touched.take()))
        os.replace(f"{out}.part", out)

    signal.signal(signal.SIGUSR1, write)
    sys.argv = ["osrl", "serve", place, "--port", "0", "--token-file", token]
    main()


def trace_page(tree: Path, environment: dict[str, str]) -> list[str]:
    """Return the files of the server that the page of a study touches."""
    import httpx

    create = f"import osrl\nosrl.Study.create('study.db', **{NAMES!r}).close()"
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-c", create], cwd=folder, env=environment, check=True)
        token, out = f"{folder}/token", Path(folder) / "touched.json"
        command = [sys.executable, __file__, "--child", "serve", f"{folder}/study.db", token, str(out)]
        server = subprocess.Popen(command, cwd=tree, env=environment, stderr=subprocess.PIPE, text=True)
        try:
            assert server.stderr is not None
            address = next(found[0] for line in server.stderr if (found := re.findall(r"http://\S+", line)))
            threading.Thread(target=server.stderr.read, daemon=True).start()
            headers = {"Authorization": f"Bearer {Path(token).read_text().strip()}", "Accept": "text/html"}
            with httpx.Client(base_url=address, headers=headers, timeout=60, follow_redirects=True) as client:
                name = client.get("/api/v1/studies").json()["studies"][0]["study"]
                for _ in range(3):  # the last one counts
                    time.sleep(1)  # what follows the page a moment later is done
                    _ask_for_files(server, out)
                    client.get(f"/studies/{name}").raise_for_status()
                return _ask_for_files(server, out)
        finally:
            server.terminate()
            server.wait(30)


def _ask_for_files(server: subprocess.Popen[str], out: Path) -> list[str]:
    """Return the files that a traced server has touched since the last time."""
    out.unlink(missing_ok=True)
    server.send_signal(signal.SIGUSR1)
    for _ in range(600):
        if out.exists():
            found: list[str] = json.loads(out.read_text())
            return found
        time.sleep(0.05)
    raise TimeoutError("the traced server does not answer")


def contract_names(modules: list[str]) -> dict[str, int]:
    """Return how many public fields and functions the rules and the policy have."""
    import importlib

    homes = [importlib.import_module(module) for module in modules]
    found = {}
    for name in CONTRACT:
        kind = next(getattr(home, name) for home in homes if hasattr(home, name))
        fields = set(getattr(kind, "__dataclass_fields__", ())) | set(getattr(kind, "_fields", ())) | set(dir(kind))
        found[name] = len({field for field in fields if not field.startswith("_")})
    return found


def compile_seconds() -> float:
    """Return the processor seconds of the first, short use of policy ``osrl``, children included."""
    import osrl

    began = _processor()
    osrl.simulate("paper", "osrl", runs=1, budget=20, workers=1)
    return _processor() - began


def _processor() -> float:
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def rounds_a_second(runs: int) -> float:
    """Return the rounds of policy ``osrl`` a second of one thread."""
    import osrl

    found = osrl.simulate("paper", "osrl", runs=runs, seed=1, workers=1).summary().row(0, named=True)
    return float(found["rounds"] / found["seconds"])


def ask_and_tell(trials: int) -> dict[str, float]:
    """Return the microseconds of one ask and one tell, in memory and in SQLite: the least of some blocks."""
    import osrl

    live = _live_study()

    def in_memory(reward: int) -> None:
        live.tell(live.ask().trial, float(reward))

    found = {"in memory": _least(in_memory, trials)}
    with tempfile.TemporaryDirectory() as folder, osrl.Study.create(f"{folder}/study.db", **NAMES) as study:
        found["SQLite"] = _least(lambda reward: study.tell(study.ask(), reward), trials)
    return found


def _live_study() -> Any:
    """Return a study in memory: a class of the tests, wherever they keep it."""
    import importlib

    tree = Path.cwd()
    sys.path.insert(0, str(tree))
    known = re.compile(r"^class (Live|MemoryStudy|StudyInMemory)\b", re.MULTILINE)
    for path in sorted(tree.glob("tests/**/*.py")):
        if found := known.search(path.read_text()):
            module = ".".join(path.relative_to(tree).with_suffix("").parts)
            return getattr(importlib.import_module(module), found[1])(**NAMES)
    raise LookupError(f"no study in memory in {tree / 'tests'}")


def _least(step: Callable[[int], object], trials: int, blocks: int = 8) -> float:
    rng, found = random.Random(0), []
    for _ in range(blocks + 1):
        began = time.process_time()
        for _ in range(trials):
            step(rng.randrange(2))
        found.append(1e6 * (time.process_time() - began) / trials)
    return min(found[1:])


# Both checkouts -------------------------------------------------------------------------------------------


class Checkout:
    """A checkout of the project, and a folder for its machine code."""

    def __init__(self, tree: Path, cache: Path) -> None:
        self.tree, self.files = tree, sources(tree)
        self._cache = cache
        cache.mkdir()

    def run(self, *arguments: str, jit: bool = True) -> Any:
        """Run a measurement of this file in a new process of the checkout."""
        done = subprocess.run(
            [sys.executable, __file__, "--child", *arguments],
            cwd=self.tree,
            env=self.environment(jit),
            stdout=subprocess.PIPE,
            check=True,
        )
        return json.loads(done.stdout.splitlines()[-1])

    def environment(self, jit: bool) -> dict[str, str]:
        """Return the environment of its processes; ``CI``: nothing is compiled in the background."""
        mine = {"PYTHONPATH": str(self.tree), "NUMBA_CACHE_DIR": str(self._cache), "CI": "true", "OSRL_COMPILE": "now"}
        return {**os.environ, **mine, "NUMBA_DISABLE_JIT": "0" if jit else "1"}

    def structure(self) -> dict[str, Any]:
        """Return what does not depend on the machine."""
        contract = contract_files(self.files)
        modules = [f"osrl.{path.removesuffix('.py').replace('/', '.')}" for path in contract]
        return {
            "room": sum(self.files[path].count("\n") for path in {*compiler_room(self.files), *contract}),
            "private": sorted(private_names(self.files)),
            "names": self.run("contract", *modules, jit=False),
            "touched": {
                **self.run("trace", jit=False),
                "page": trace_page(self.tree, self.environment(jit=False)),
            },
        }


def measure(checkouts: list[Checkout], quick: bool) -> list[dict[str, float]]:
    """Return the times of each checkout, measured in turns."""
    jit, turns, runs, trials = (False, 1, 1, 20) if quick else (True, 5, 300, 1000)
    found: list[dict[str, float]] = [{"compile": one.run("compile", jit=jit)} for one in checkouts]
    for _ in range(turns):
        for one, known in zip(checkouts, found, strict=True):
            known["rounds"] = max(known.get("rounds", 0.0), one.run("rounds", str(runs), jit=jit))
            for name, value in one.run("study", str(trials), jit=jit).items():
                known[name] = min(known.get(name, value), value)
    return found


def report(checkouts: list[Checkout], minutes: list[float | None], quick: bool) -> str:
    """Return the report, one column for each checkout."""
    structures, times = [one.structure() for one in checkouts], measure(checkouts, quick)
    packages = [sizes(one.files) for one in checkouts]
    order = sorted({name for found in packages for name in found} - {"all"})
    heads = ["before", "now"][-len(checkouts) :]
    rows: list[list[str]] = []

    def add(what: str, values: list[str]) -> None:
        rows.append([what, *values])

    for name in [*order, "all"]:
        shown = [found.get(name) for found in packages]
        add(f"lines, files of `{name}`", ["" if each is None else f"{each[0]:,}, {each[1]}" for each in shown])
    add("lines of the compiler room with the contract", [f"{found['room']:,}" for found in structures])
    add("private names of Numba", [str(len(found["private"])) for found in structures])
    for kind in CONTRACT:
        add(f"public names of `{kind}`", [str(found["names"][kind]) for found in structures])
    for what in ("ask", "tell", "simulate", "page"):
        add(f"files that {_article(what)} touches", [str(len(found["touched"][what])) for found in structures])
    add("`make check test`, processor minutes", ["" if each is None else f"{each:.0f}" for each in minutes])
    add("compile seconds of `osrl`, empty cache", [f"{found['compile']:.1f}" for found in times])
    add("rounds a second of `osrl`", [_with_ratio(times, "rounds", i, True) for i in range(len(times))])
    for what in ("in memory", "SQLite"):
        values = [_with_ratio(times, what, i, False) for i in range(len(times))]
        add(f"ask + tell {what}, microseconds", values)
    lines = [
        "# The house, measured",
        "",
        "Lines and files of the package, and what its code costs; processor time, both checkouts in turns in one run.",
        f"In brackets the speed relative to before (goals: rounds at least {MIN_ROUNDS_RATIO}, ask + tell at least "
        f"{MIN_STUDY_RATIO}). *Files touched* are traced after a warm-up with the JIT off. Made by",
        "`python benchmarks/house.py`.",
        "",
        f"| what | {' | '.join(heads)} |",
        f"|---|{'---|' * len(heads)}",
        *(f"| {' | '.join(row)} |" for row in rows),
        "",
    ]
    for head, found in zip(heads, structures, strict=True):
        names = ", ".join(f"`{name}`" for name in found["private"]) or "none"
        lines += [f"Private names of Numba, {head}: {names}.", ""]
    return "\n".join(lines)


def _article(what: str) -> str:
    return f"an {what}" if what[0] in "aeiou" else f"a {what}"


def _with_ratio(times: list[dict[str, float]], name: str, i: int, larger_is_better: bool) -> str:
    """Return a number, for the second checkout with its speed relative to the first."""
    value = f"{times[i][name]:,.0f}"
    if i == 0:
        return value
    ratio = times[1][name] / times[0][name]
    return f"{value} ({ratio if larger_is_better else 1 / ratio:.2f})"


@contextmanager
def opened(trees: list[Path]) -> Iterator[list[Checkout]]:
    """Yield the checkouts, with folders for their machine code until the end of the block."""
    with tempfile.TemporaryDirectory() as folder:
        yield [Checkout(tree.resolve(), Path(folder) / f"cache{i}") for i, tree in enumerate(trees)]


def child(kind: str, arguments: list[str]) -> None:
    """Print what a process of a checkout measures, as JSON; the server prints nothing."""
    if kind == "serve":
        serve_traced(*arguments)
        return
    work: dict[str, Callable[[], Any]] = {
        "trace": trace_files,
        "contract": lambda: contract_names(arguments),
        "compile": compile_seconds,
        "rounds": lambda: rounds_a_second(int(arguments[0])),
        "study": lambda: ask_and_tell(int(arguments[0])),
    }
    print(json.dumps(work[kind]()))


def main() -> None:
    """Measure, print, and write the report."""
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], sys.argv[3:])
        return
    parser = argparse.ArgumentParser(description="how large the house is, beside an older checkout")
    parser.add_argument("--before", type=Path, metavar="PATH", help="an older checkout to measure too")
    parser.add_argument("--test-minutes-before", type=float, help="processor minutes of its `make check test`")
    parser.add_argument("--test-minutes-after", type=float, help="the same of this checkout")
    parser.add_argument("--quick", action="store_true", help="few rounds, with the JIT off; print only")
    options = parser.parse_args()
    trees = [ROOT] if options.before is None else [options.before, ROOT]
    minutes = [options.test_minutes_before, options.test_minutes_after][-len(trees) :]
    with opened(trees) as checkouts:
        text = report(checkouts, minutes, options.quick)
    print(text)
    if not options.quick:
        (ROOT / "benchmarks" / "results" / "house.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
