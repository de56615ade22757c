"""docs/cutlass.md shows what was read from instructions; here it is compared with what each program asked for."""

from __future__ import annotations

import pytest

from tests.host.collective import PROGRAMS, Program
from tests.support.paths import ROOT

PAGE = (ROOT / "docs" / "cutlass.md").read_text()
ROWS = {cells[1]: cells[2:-1] for line in PAGE.splitlines() if len(cells := [c.strip() for c in line.split("|")]) == 16}


@pytest.mark.parametrize("program", [each for each in PROGRAMS if each.name in ROWS], ids=lambda program: program.name)
def test_instructions_were_those_that_the_program_asked_for(program: Program) -> None:
    kind, types, shape, group, layout, major, _, tile_k, selectors, metadata, factors, *_ = ROWS[program.name]
    assert kind == program.kind + ", sparse" * program.sparse
    assert types.split() == [program.a, program.b, program.d]
    assert shape.split(" x ")[:2] == [str(program.m), str(program.n)]
    assert (group, tile_k) == (str(program.ctas), str(program.tile_k))
    assert major == "".join("k" if each == "k" else "m" for each in program.major)
    assert layout == {(256, 2): "A", (128, 2): "B", (128, 1): "D", (64, 1): "F"}[program.m, program.ctas]
    assert selectors == (("0, 1" if program.kind in ("f16", "tf32") else "0") if program.sparse else "")
    assert metadata == ("128x128b" if program.sparse else "")
    assert factors == ("32x128b.warpx4" if program.kind.startswith("mx") else "")
