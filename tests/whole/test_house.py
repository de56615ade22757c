"""The plan of the house holds: no import circle, layers one way, small modules, and forms that are not asked for their
class or name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.house import (
    Counts,
    Import,
    Module,
    circles,
    comparisons_of_forms,
    count,
    imports,
    isinstance_of_forms,
    layer,
    modules,
    table,
    violations,
    walk,
)
from tests.support.paths import ROOT

pytestmark = pytest.mark.exhaustive  # for those who change the house: CI runs them


@pytest.fixture(scope="module")
def house() -> Counts:
    return count(ROOT, walks=False)


def test_no_import_circle(house: Counts) -> None:
    """Imports inside functions and for the type checker count, too."""
    assert house.circles == []


def test_imports_go_one_way(house: Counts) -> None:
    assert house.violations == []


def test_every_module_has_a_layer(house: Counts) -> None:
    assert house.unknown_layers == []


def test_modules_are_small(house: Counts) -> None:
    assert house.long_modules == {}


def test_forms_are_asked_for_facts_and_not_for_their_class_or_name(house: Counts) -> None:
    asked = [*house.isinstance_of_forms, *house.comparisons_of_forms]
    assert len(asked) <= 43, "\n".join(asked)  # 29 of them in simulator.check.blame, which changes instructions


def test_the_table_names_what_is_wrong(house: Counts) -> None:
    text = table(house)
    assert f"import circles                                {len(house.circles)}\n" in text
    for edge in house.violations:
        assert f"against the layers: {edge}" in text


def test_circles_are_found_wherever_the_import_stands(tmp_path: Path) -> None:
    package = tmp_path / "isa"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "one.py").write_text("from isa import two\n")
    (package / "two.py").write_text("def f():\n    import isa.three\n")
    (package / "three.py").write_text("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .one import x\n")
    (package / "four.py").write_text("import isa.one\n")
    edges = imports(modules(tmp_path))
    assert edges == [
        Import("isa.four", "isa.one", 1),
        Import("isa.one", "isa.two", 1),
        Import("isa.three", "isa.one", 3),
        Import("isa.two", "isa.three", 2),
    ]
    assert circles(edges) == [["isa.one", "isa.three", "isa.two"]]


def test_layers() -> None:
    up = Import("simulator.execute.call", "simulator.cli.main", 1)
    down = Import("simulator.cli.main", "simulator.execute.call", 1)
    beside = Import("simulator.views.plots", "simulator.studies.roofline", 1)
    assert violations([up, down, beside]) == [up]
    assert violations([Import("isa.mapping", "simulator.errors", 1), Import("isa.x", "simulator", 2)]) != []
    assert layer("elsewhere") is None


def test_facts_in_the_wrong_place_are_found() -> None:
    text = """
isinstance(x, MmaForm)
isinstance(x, (int, forms.PlainForm))
isinstance(x, int)
match x:
    case MmaForm():
        pass
form.name == "ld"
instruction.form.unit in ("alu", "shared")
role.name == "a"
form.name.startswith("tcgen05")
"""
    module = Module("isa.x", Path("x.py"), text)
    assert isinstance_of_forms(module) == [2, 3, 6]
    assert comparisons_of_forms(module) == [8, 9, 11]


@pytest.mark.parametrize("name", ["metadata", "trace"])
def test_walks(name: str, tmp_path: Path) -> None:
    """A walk goes from the text of an instruction to what an instruction does."""
    opened = walk(ROOT, name, tmp_path)
    assert opened == sorted(set(opened))
    assert any(path.startswith("isa/") for path in opened)
    assert any(path.startswith("simulator/execute/") for path in opened)
    assert all((ROOT / path).is_file() for path in opened)
