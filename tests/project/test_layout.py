"""How the tests are laid out: a test module stands alone; what several need is a module of its own."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
MODULES = sorted(TESTS.rglob("*.py"))


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(TESTS)))
def test_nobody_imports_a_test_module(module: Path) -> None:
    imported = [
        name
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (getattr(node, "module", None) or "", *(alias.name for alias in node.names))
    ]
    assert [name for name in imported if name.rpartition(".")[2].startswith("test_")] == []
