"""The attacks of `make torture`, a few of each: see `tests.torture.run`."""

from __future__ import annotations

import pytest

from tests.torture.run import ATTACKS, SERVICE, Attack

pytestmark = pytest.mark.slow

FEW = {
    "kills": 16,
    "system_calls": 8,
    "damage": 10,
    "tampering": 6,
    "fuzz": 20,
    "late_results": 600,
    "strangers": 40,
    "fuzzed_calls": 100,
}
# A matter of time: `tests/study/test_waiting.py` and `tests/study/test_damage.py` have these.
# What a server is given time for has short tests in `tests/service/test_hostile.py`.
LONG = ("starvation", "frozen", "half_open", "stalled_streams", "killed_servers", "bombs")


@pytest.mark.parametrize(
    "attack",
    [each for each in (*ATTACKS, *SERVICE) if each.run.__name__ not in LONG],
    ids=lambda each: each.run.__name__,
)
def test_an_attack_is_survived(attack: Attack) -> None:
    found = attack.run(FEW.get(attack.run.__name__, 4))
    assert found.tried > 0 and found.survived == found.tried, found
