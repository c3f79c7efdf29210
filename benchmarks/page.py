"""How fast the page of a study is: beside optuna-dashboard on the same history, and with 100,000 trials.

    python benchmarks/page.py            # everything, five minutes; writes benchmarks/results/page.md
    python benchmarks/page.py --quick    # a tenth of the trials, one turn; prints only

Needs a Chromium (Debian's package, or the one that OSRL_CHROMIUM names). Both pages are looked at by the same
browser, in turns, each time as a new visitor with an empty cache. A script that runs with every frame of the
browser notes when which number of results is on the screen:

- *ready*: from the navigation until the results are drawn. Ours: verdict, rivals, rates, samples, waiting;
  paths and the forecast may follow, and *complete* is when they have. Theirs: the chart of the history.
- *update*: from the moment when a tell is acknowledged until it is drawn; *work* is the part of it from the
  page's own request on, so without what a page waits before it asks.

Optuna is given its fastest storage, the memory of the process that serves its dashboard. Ours is SQLite.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import numpy as np
from playwright.sync_api import Browser, Page, sync_playwright
from service import Server
from study import fill, new_study, say

from osrl.jit.mode import compile_now
from osrl.service.middleware import COOKIE
from osrl.study.study import Study

ROOT = Path(__file__).resolve().parents[1]
BESIDE, LARGE = 50_000, 100_000  # trials
TURNS = 2
UPDATES, THEIR_UPDATES = 10, 1  # of each turn; one of theirs takes half a minute
PAUSE = 0.7  # seconds between a trial and its result
PATIENCE = 120.0  # seconds
CHROMIUM = os.environ.get("OSRL_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")

# Notes the number of results that are drawn whenever it changes, and when the page is complete. Frames are
# not drawn before the style sheet has come.
WATCH = """(() => {
  window.drawn = [];
  window.complete = null;
  performance.setResourceTimingBufferSize(100000);
  const look = () => {
    if (document.readyState !== "loading") {
      const count = (() => { COUNT })();
      const last = window.drawn.at(-1);
      if (count && (!last || last[0] !== count)) window.drawn.push([count, performance.now()]);
      if (window.complete === null && (() => { COMPLETE })()) window.complete = performance.now();
    }
    requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
})()"""
OURS = WATCH.replace(
    "COUNT", "return Number(document.querySelector('data[data-key=\"trials.told\"]')?.value ?? 0)"
).replace(
    "COMPLETE",
    "return !document.documentElement.hasAttribute('data-due') && document.querySelector('polyline')",
)
THEIRS = WATCH.replace(
    "COUNT",
    "return Math.max(0, ...[...document.querySelectorAll('.js-plotly-plot')].flatMap("
    "(plot) => (plot.calcdata ?? []).map((trace) => trace.length)))",
).replace("COMPLETE", "return window.drawn.length")
REQUESTS = """() => ["resource", "navigation"].flatMap((kind) => performance.getEntriesByType(kind))
  .map((each) => [each.name, each.startTime, each.responseEnd, each.transferSize])"""


class Update(NamedTuple):
    """A result that came while the page was open: seconds until it was drawn, of these by work, and bytes."""

    drawn: float
    worked: float
    bytes: int


class Visit(NamedTuple):
    """A page that was opened: seconds until it was ready and complete, and the bytes until then."""

    ready: float
    complete: float
    bytes: int


class Site(NamedTuple):
    """A page, how it is watched, and how a result comes to it."""

    url: str
    watch: str
    news: str  # what stands in the addresses of its own requests
    cookie: str | None
    ask: Callable[[], None]
    tell: Callable[[], None]  # the reward of the trial that was asked for last


# The two sides ------------------------------------------------------------------------------------------


@contextmanager
def our_site(place: str) -> Iterator[Site]:
    """`osrl serve`, newly started."""
    server = Server(place)
    base = f"http://localhost:{server.port}"
    with httpx.Client(base_url=base, headers={"Authorization": f"Bearer {server.token}"}, timeout=60) as http:
        asked: list[dict[str, Any]] = []

        def ask() -> None:
            asked.append(http.post("/api/v1/studies/study/ask").raise_for_status().json())

        def tell() -> None:
            trial = asked.pop()
            body = {"trial": trial["token"], "reward": trial["trial"] % 2}
            http.post("/api/v1/studies/study/tell", json=body).raise_for_status()

        try:
            yield Site(f"{base}/studies/study", OURS, "/studies/study", server.token, ask, tell)
        finally:
            server.end()


@contextmanager
def their_site(history: Path, port: int) -> Iterator[Site]:
    """optuna-dashboard, newly started, with the same history."""
    command = [sys.executable, __file__, "--dashboard", str(history), str(port)]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )

    def wait() -> None:
        assert process.stdout is not None
        assert process.stdout.readline() == "done\n"

    def go_on() -> None:
        assert process.stdin is not None
        process.stdin.write("go on\n")
        process.stdin.flush()
        wait()

    try:
        wait()
        base = f"http://localhost:{port}"
        until(lambda: reachable(base))
        yield Site(f"{base}/dashboard/studies/0", THEIRS, "?after=", None, go_on, go_on)
    finally:
        process.kill()
        process.wait()


def run_dashboard(history: str, port: int) -> None:
    """Run the process behind `their_site`: with each line that it reads it asks, and tells, in turns."""
    import threading

    import optuna
    from optuna_dashboard import run_server

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    arms, rewards = json.loads(Path(history).read_text())
    study = optuna.create_study(
        storage=optuna.storages.InMemoryStorage(),
        direction="maximize",
        sampler=optuna.samplers.RandomSampler(seed=0),
    )
    names = sorted(set(arms))
    choice = optuna.distributions.CategoricalDistribution(names)
    study.add_trials(
        optuna.trial.create_trial(params={"arm": arm}, distributions={"arm": choice}, value=reward)
        for arm, reward in zip(arms, rewards, strict=True)
    )
    serving = threading.Thread(target=run_server, args=(study._storage, "localhost", port), daemon=True)
    serving.start()
    print("done", flush=True)
    asked: list[optuna.Trial] = []
    for _ in sys.stdin:
        if asked:
            study.tell(trial := asked.pop(), trial.number % 2)
        else:
            asked.append(study.ask())
            asked[-1].suggest_categorical("arm", names)
        print("done", flush=True)


def reachable(url: str) -> bool:
    """Whether something answers there."""
    try:
        return httpx.get(url, follow_redirects=True).status_code == 200
    except httpx.TransportError:
        return False


# Looking ------------------------------------------------------------------------------------------------


def until(true: Callable[[], Any]) -> None:
    """Wait for something."""
    began = time.monotonic()
    while not true():
        if time.monotonic() - began > PATIENCE:
            raise SystemExit("nothing has happened for two minutes")
        time.sleep(0.02)


def visit(chromium: Browser, site: Site, count: int) -> tuple[Page, Visit]:
    """Open a page as a new visitor, who sees ``count`` results."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    if site.cookie is not None:
        home = site.url.partition("/studies")[0]
        context.add_cookies([{"name": COOKIE, "value": site.cookie, "url": home}])
    page = context.new_page()
    page.add_init_script(site.watch)
    page.goto(site.url, wait_until="commit", timeout=1e3 * PATIENCE)
    until(lambda: page.evaluate("window.complete !== null && drawn.length > 0"))
    shown, ready = page.evaluate("drawn[0]")
    assert shown == count, (shown, count)
    complete = page.evaluate("complete")
    loaded = sum(size for _, _, end, size in page.evaluate(REQUESTS) if end <= complete)
    return page, Visit(ready / 1e3, complete / 1e3, loaded)


def update(page: Page, site: Site) -> Update:
    """Let a result come, and see when it is drawn."""
    last, _ = page.evaluate("drawn.at(-1)")
    site.ask()
    time.sleep(PAUSE)
    site.tell()
    told = page.evaluate("performance.now()")  # a moment after the answer: what that takes is not counted
    until(lambda: page.evaluate("drawn.at(-1)[0]") > last)
    drawn = page.evaluate(f"drawn.find((each) => each[0] > {last})[1]")
    news = [each for each in page.evaluate(REQUESTS) if site.news in each[0] and each[2] <= drawn]
    _, began, _, size = max(news, key=lambda each: each[2])
    return Update(max(drawn - told, 0.0) / 1e3, max(drawn - max(began, told), 0.0) / 1e3, size)


class Look(NamedTuple):
    """Everything that was seen of one side in one turn."""

    first: Visit  # just after the server was started
    last: Visit
    updates: list[Update]


def look(chromium: Browser, site: Site, count: int, visits: int, updates: int) -> Look:
    """Measure some visits, and then some updates."""
    seen, found = [], []
    for i in range(visits):
        page, each = visit(chromium, site, count)
        seen.append(each)
        if i < visits - 1:
            page.context.close()
    for _ in range(updates):
        time.sleep(PAUSE)
        found.append(update(page, site))
    page.context.close()
    return Look(seen[0], seen[-1], found)


def elsewhere(task: Callable[..., None], *given: object) -> None:
    """Do something in a process of its own, so that nothing of it goes on while pages are looked at."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        pool.apply(task, given)


def grow(place: str, trials: int) -> None:
    """Make a study of so many trials, none of them pending."""
    if not Path(place).exists():
        new_study(place, "study").close()
    with Study.open(place) as study:
        fill(study, trials)
        assert study.status.verdict == "running"  # compiles what the server needs, which is not counted


def write_history(place: str, out: Path) -> None:
    """Return the arms and rewards of a study, for Optuna."""
    with Study.open(place) as study:
        rows = study.history.select("task", "representation", "predictor", "reward").rows()
    out.write_text(json.dumps([["/".join(row[:3]) for row in rows], [row[3] for row in rows]]))


# Report -------------------------------------------------------------------------------------------------


def median(values: list[float]) -> float:
    """Return the median."""
    return float(np.median(values))


class Side(NamedTuple):
    """Medians over all turns: milliseconds and kilobytes; ``largest``, ``smallest``: messages of updates."""

    first: float
    again: float
    complete: float
    loaded: float
    drawn: float
    worst: float
    worked: float
    largest: float
    smallest: float


def side(looks: list[Look]) -> Side:
    """Return what was seen of one side."""
    updates = [each for found in looks for each in found.updates]
    return Side(
        1e3 * median([each.first.ready for each in looks]),
        1e3 * median([each.last.ready for each in looks]),
        1e3 * median([each.first.complete for each in looks]),
        median([each.last.bytes for each in looks]) / 1e3,
        1e3 * median([each.drawn for each in updates]),
        1e3 * max(each.drawn for each in updates),
        1e3 * median([each.worked for each in updates]),
        max(each.bytes for each in updates) / 1e3,
        min(each.bytes for each in updates) / 1e3,
    )


def report(trials: int, ours: Side, theirs: Side, many: int, large: Side, turns: int) -> str:
    """Return the results as Markdown."""
    kinds = (
        ("ready, first visit after a start", "ms", 0),
        ("loaded by a visit", "kB", 3),
        ("update: acknowledged until drawn, median", "ms", 4),
        ("update: work", "ms", 6),
    )
    lines = [
        "# The page of a study, measured",
        "",
        f"`python benchmarks/page.py`: {os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} at the",
        f"end, Chromium without a graphics card, medians of {turns} turns. How it is measured stands in the",
        "file itself.",
        "",
        f"## Beside optuna-dashboard {version('optuna-dashboard')}, {trials:,} trials",
        "",
        "| | osrl | optuna-dashboard | times as much (goal: 5) |",
        "|---|---|---|---|",
        *(
            f"| {what} | {ours[i]:,.0f} {unit} | {theirs[i]:,.0f} {unit} | {theirs[i] / ours[i]:,.1f} |"
            for what, unit, i in kinds
        ),
        "",
        "Both show the same arms and rewards. The dashboard asks every 10 s by itself and keeps what it has",
        f"read for 10 s; *work* does not count that. Its message for a new trial has {theirs.smallest:.1f}",
        f"kB; ours, with everything that the page shows, {ours.largest:.1f} kB.",
        "",
        f"## {many:,} trials",
        "",
        "| | osrl | goal |",
        "|---|---|---|",
        f"| ready, first visit after a start | {large.first:,.0f} ms | 2,000 ms |",
        f"| ready, next visit | {large.again:,.0f} ms | 2,000 ms |",
        f"| complete, with paths and forecast, first visit after a start | {large.complete:,.0f} ms | |",
        f"| loaded by a visit | {large.loaded:,.0f} kB | |",
        f"| update: acknowledged until drawn, median | {large.drawn:,.0f} ms | 1,000 ms |",
        f"| update: acknowledged until drawn, slowest | {large.worst:,.0f} ms | |",
        f"| update: work | {large.worked:,.0f} ms | 100 ms |",
        f"| update: largest message | {large.largest:.1f} kB | 20 kB |",
    ]
    return "\n".join(lines) + "\n"


def run(quick: bool) -> str:
    """All measurements, as a page."""
    trials, many, turns = (BESIDE // 10, LARGE // 10, 1) if quick else (BESIDE, LARGE, TURNS)
    ours, theirs, large = [], [], []
    with tempfile.TemporaryDirectory(prefix="osrl-bench-") as folder, sync_playwright() as playwright:
        place, history = f"{folder}/studies.db", Path(folder) / "history.json"
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        say(f"{trials:,} trials ...")
        elsewhere(grow, place, trials)
        elsewhere(write_history, place, history)
        count = trials
        for turn in range(turns):
            with our_site(place) as site:
                ours.append(look(chromium, site, count, 2, UPDATES))
            count += UPDATES
            with their_site(history, 18_080 + turn) as site:
                theirs.append(look(chromium, site, trials, 1, THEIR_UPDATES))
            say(f"turn {turn + 1}: {ours[-1].first} {theirs[-1].first}")
        say(f"{many:,} trials ...")
        elsewhere(grow, place, many)
        count = many
        for turn in range(turns):
            with our_site(place) as site:
                large.append(look(chromium, site, count, 2, UPDATES))
            count += UPDATES
            say(f"turn {turn + 1}: {large[-1].first}")
        chromium.close()
    return report(trials, side(ours), side(theirs), many, side(large), turns)


def main() -> None:
    """Parse the command line, measure, and print."""
    os.environ["OSRL_COMPILE"] = "now"  # the server begins with machine code
    compile_now()
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--dashboard", nargs=2, metavar=("FILE", "PORT"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.dashboard:
        run_dashboard(given.dashboard[0], int(given.dashboard[1]))
        return
    page = run(given.quick)
    print(page)
    if not given.quick:
        (ROOT / "benchmarks" / "results" / "page.md").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
