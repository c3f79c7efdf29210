"""`osrl.simulate`: chunks, progress, interruption, flat memory, and arguments that are refused."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

import osrl
from osrl.policies.registry import find
from osrl.simulation.chunk import Chunk, ChunkHeader, Job, run_chunk, versions
from osrl.simulation.executors import Executor, Schedule, run_all
from tests.support.instances import refused
from tests.support.processes import run_python
from tests.support.simulations import EASY, campaign_of

# Progress and memory


def test_progress_is_told() -> None:
    told: list[tuple[int, int]] = []
    osrl.simulate(EASY, ["tas", "osrl-sc"], runs=20, progress=lambda *now: told.append(now))
    assert told[0] == (0, 40)
    assert told[-1] == (40, 40)
    assert told == sorted(told)
    assert len(told) > 4


def test_chunks_take_about_as_long_as_asked_for_and_cover_every_run_once() -> None:
    job = campaign_of().jobs[0]
    schedule = Schedule([(job, range(3)), (job, range(5, 1000))])
    taken: list[int] = []
    sizes = []
    while piece := schedule.take(slots=4, seconds=1.0):
        assert piece[0] is job
        taken += range(piece[1], piece[1] + piece[2])
        sizes.append(piece[2])
        schedule.learn(ChunkHeader(job.campaign, job.number, piece[1], piece[2], piece[2] * 0.01))
    assert taken == [*range(3), *range(5, 1000)]
    assert sizes[0] == 1, "the pace is not known yet"
    assert max(sizes) == 100
    assert min(sizes[2:-1]) == 10, "short at the end, but not tiny"


class Halting(Executor):
    """An executor that is interrupted while a chunk is under way, of which some runs are finished."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
        self.under_way: list[tuple[Job, int, int]] = []

    def prepare(self, jobs: Sequence[Job]) -> None:
        pass

    def slots(self) -> int:
        return 2

    def start(self, job: Job, first: int, runs: int) -> None:
        self.under_way.append((job, first, runs))

    def finished(self) -> list[Chunk]:
        if len(self.under_way) < 2:
            raise self.error
        return self.stop()

    def stop(self) -> list[Chunk]:
        found = run_chunk(*self.under_way.pop(0))
        return [] if found is None else [found]

    def close(self) -> None:
        pass


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("broken")])
def test_what_was_under_way_is_kept_when_interrupted(error: BaseException) -> None:
    kept: list[Chunk] = []
    with pytest.raises(type(error)):
        run_all(Halting(error), Schedule([(campaign_of().jobs[0], range(2))]), kept.append)
    assert {chunk.header.first for chunk in kept} == {0, 1}


MEMORY = """
import resource, sys
import osrl

# Wide tables and little work: with one representation and one predictor a run is over before it begins.
instance = osrl.Instance.bernoulli([[[0.5]]] * 100)
risks = [i / 100 for i in range(1, 41)]
found = osrl.simulate(instance, "osrl-sc", risks, runs=int(sys.argv[1]), workers=2)
assert found.summary()["runs"].to_list() == [int(sys.argv[1])] * 40
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


@pytest.mark.slow
def test_memory_stays_flat_in_the_number_of_runs() -> None:
    few, many = (int(run_python("-c", MEMORY, runs).stdout) for runs in ("200", "1400"))
    size = 1200 * 40 * 100 * 8 // 2**20  # megabytes, for the pulls of the others alone
    assert many - few < size / 4


# Refusals


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"policy": "best"}, "unknown policy 'best'"),
        ({"policy": []}, "no policy is given"),
        ({"policy": ["tas", "tas"]}, "policy 'tas' is given twice"),
        ({"threshold": "sharpest"}, "unknown threshold 'sharpest'; use one of"),
        ({"policy": "tas", "threshold": "theorem"}, "unknown threshold 'theorem'; use one of own"),
        ({"threshold": ["theorem", "theorem"]}, "threshold 'theorem' is given twice"),
        ({"runs": 0}, "runs is 0"),
        ({"runs": -3}, "runs is -3"),
        ({"runs": 2.5}, "runs is 2.5"),
        ({"runs": True}, "runs is True"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": 2**63}, "seed is 9223372036854775808"),
        ({"budget": 0}, "budget is 0"),
        ({"workers": 0}, "workers is 0"),
        ({"workers": "all"}, "workers is 'all'"),
        ({"delta": 0}, "delta_g is 0"),
        ({"delta": 1.0}, "delta_g is 1.0"),
        ({"delta": math.nan}, "delta_g is nan"),
        ({"delta": [0.1, "x"]}, "delta_g is 'x'"),
        ({"delta": []}, "0 risks for the representation"),
        ({"delta": [0.1, 0.1]}, "a risk is given twice"),
        ({"delta_h": 2}, "delta_h is 2"),
        ({"delta": 0.1, "delta_h": 0.1}, "delta sets both risks"),
        ({"delta_g": [0.1, 0.2], "delta_h": [0.1, 0.2, 0.3]}, "2 risks for the representation and 3"),
        ({"options": {"sgima": 1}}, "unknown option 'sgima' of osrl-sc; use one of period, reuse, sigma"),
        ({"options": {"reuse": 1}}, "option reuse is 1; give true or false"),
        ({"options": {"period": 2.5}}, "option period is 2.5; give a whole number"),
        ({"options": {"sigma": "big"}}, "option sigma is 'big'; give a number"),
        ({"options": {"sigma": True}}, "option sigma is True; give a number"),
        ({"dask": "tcp://127.0.0.1:1", "workers": 2}, "workers are threads of this machine"),
    ],
)
def test_bad_arguments_are_refused(arguments: dict[str, Any], message: str) -> None:
    with refused(message):
        osrl.simulate(EASY, **{"policy": "osrl-sc", "runs": 2, **arguments})


def test_options_and_thresholds_go_to_the_policies_that_know_them() -> None:
    found = campaign_of(policy=["osrl-sc", "tas"], options={"reuse": True}, threshold="released")
    assert [job.options.get("reuse") for job in found.jobs] == [True, None]
    assert [job.criteria[0].threshold for job in found.jobs] == ["released", "own"]
    assert found.jobs[0].options["period"] is None, "defaults are written down"


def test_a_worker_with_other_versions_is_refused() -> None:
    job = campaign_of().jobs[0]
    with refused("a worker has the versions"):
        run_chunk(replace(job, versions={**job.versions, "numba": "0.1"}), 0, 1)


def test_the_versions_of_a_policy_of_the_package() -> None:
    assert set(versions(find("tas"))) == {"osrl", "numpy", "numba", "kernels"}


def test_an_error_in_a_thread_ends_the_campaign(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr("osrl.simulation.executors.run_chunk", broken)
    with pytest.raises(RuntimeError, match="broken"):
        osrl.simulate(EASY, "tas", runs=50, workers=2)
