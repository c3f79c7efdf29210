"""Rows and places of packed arrays: a name stands for one row, wherever it is imported from."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

import osrl

pytestmark = pytest.mark.nojit

PACKAGE = Path(osrl.__file__).parent
ROOMS = ("model", "glr", "bounds", "allocation", "evidence", "hypotheses", "policies")
OF_EVERY_RULE = {"RULE", "RULES"}  # the rule that a module defines


def constants(module: Path) -> Iterator[str]:
    """Yield the public constants that a module defines."""
    for node in ast.parse(module.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                for each in ast.walk(target):
                    if isinstance(each, ast.Name) and each.id.isupper() and len(each.id) > 1 and each.id[0] != "_":
                        yield each.id


def test_a_constant_has_one_home() -> None:
    homes = defaultdict(set)
    for room in ROOMS:
        for module in (PACKAGE / room).rglob("*.py"):
            for name in constants(module):
                homes[name].add(str(module.relative_to(PACKAGE)))
    assert {name: found for name, found in homes.items() if len(found) > 1 and name not in OF_EVERY_RULE} == {}
    assert "ARM_MEANS" in homes and "HYP_MEANS" in homes  # something was found
