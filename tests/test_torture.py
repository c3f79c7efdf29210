"""The attacks of `make torture`, a few of each: see `tests.torture`."""

from __future__ import annotations

import pytest

from tests.torture import ATTACKS, Attack

FEW = {"kills": 16, "system_calls": 8, "damage": 10, "tampering": 6, "fuzz": 20, "late_results": 600}
# A matter of time: `tests/test_study_waiting.py` and `tests/test_study_damage.py` have these.
LONG = ("starvation", "frozen")


@pytest.mark.parametrize(
    "attack", [each for each in ATTACKS if each.run.__name__ not in LONG], ids=lambda each: each.run.__name__
)
def test_an_attack_is_survived(attack: Attack) -> None:
    found = attack.run(FEW.get(attack.run.__name__, 4))
    assert found.tried > 0 and found.survived == found.tried, found
