"""Faults of the tensor core unit in a captured launch, against one whose registers are changed after each `mma`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import isa
from isa.ptx.instruction import register_names
from simulator.execute.cta_state import Outcome
from simulator.execute.launch_state import LaunchState
from simulator.faults.campaign import read_campaign
from simulator.faults.outcomes import SDC
from simulator.faults.table import MODELS, SITES, empty
from simulator.faults.targets.launch import LaunchTarget
from simulator.faults.unit.forms import has_unit
from simulator.faults.unit.instruction import UnitFault
from simulator.faults.unit.kernel import on_struck_unit, rows_on_sub_core
from simulator.layout import form_layout
from simulator.program.kernel import Operation
from simulator.simulation.launch.batches import batches
from simulator.simulation.launch.run import Code, Note, Run
from simulator.state.registers import Lanes, Warps
from tests.support.paths import GOLDEN

TARGET = LaunchTarget(GOLDEN / "planted" / "bug0.json")
POSITION, MASK = (3, 6), 0xF << 20


def launched(code: Callable[[LaunchState, Any], Code], note: Callable[[LaunchState, Any], Note | None]) -> np.ndarray:
    """The output of a launch, batch by batch; both functions are given the state and the CTAs of a batch."""
    setup = TARGET.setup()
    for ctas in batches(setup):
        state = setup.state(ctas)
        Run(code(state, ctas), state, note=note(state, ctas)).run()
    ((name, spec),) = TARGET.capture.outputs.items()
    return np.asarray(spec.array(setup.memory[name].data)).view(np.uint32).copy()


@pytest.mark.parametrize("lasting", [True, False])
def test_a_stuck_bit_of_d_is_one_in_the_registers(lasting: bool) -> None:
    """Bits of one element of D, of every `mma` of the warps of a sub-core, or none once the fault is over."""
    cta, local, items = 0, 1, TARGET.kernel.items
    fault = empty(1)
    fault["site"], fault["model"], fault["mask"] = SITES.index("output"), MODELS.index("stuck1"), MASK
    fault["lane"] = 8 * POSITION[0] + POSITION[1]
    made: list[UnitFault] = []

    def struck(state: LaunchState, ctas: Any) -> Code:
        made.append(UnitFault(fault[0], rows_on_sub_core(ctas, state.warps, cta, local, lambda: lasting)))
        return on_struck_unit(TARGET._code, made[-1])

    def changing(state: LaunchState, ctas: Any) -> Note:
        def note(place: int, rows: Warps, lanes: Lanes | None, outcome: Outcome) -> None:
            item = items[place]
            if not isinstance(item, Operation) or not item.instruction.form.is_matrix:
                return
            form = isa.mma_form(item.instruction.form.opcode)
            assert has_unit(form)
            lane, register, _ = (int(grid[POSITION]) for grid in form.d.mapping.grid)
            number = TARGET.kernel.numbering.numbers(item.instruction.writes)[register]
            mine = rows[(ctas[rows // state.warps] == cta) & (rows % state.warps % 4 == local)]
            if len(mine):
                registers: Any = state.registers
                values = registers.read(mine, [number]).copy()
                values[:, 0, lane] |= np.uint32(MASK)
                registers.write(mine, [number], values)

        return note

    right = launched(lambda state, ctas: TARGET._code, lambda state, ctas: None)
    found = launched(struck, lambda state, ctas: None)
    expected = launched(lambda state, ctas: TARGET._code, changing) if lasting else right
    assert (found == expected).all()
    assert (found != right).any() == lasting
    assert any(one.changed for one in made) == lasting


@pytest.mark.parametrize("capture", ["launches/direct_one_warp.json", "planted/bug0.json"])
def test_an_output_that_flips_once_is_a_flip_of_d_behind_the_instruction(capture: str) -> None:
    """The fault of the unit against the same bit of the register that holds the element, struck right behind it."""
    campaign = read_campaign(
        GOLDEN / capture, {"site": "output", "kind": "flip", "at": "any", "where": "words=0", "count": 12}
    )
    target, rows = campaign.subject, np.concatenate(list(campaign.faults()))
    assert isinstance(target, LaunchTarget)
    behind = rows.copy()
    for fault, other in zip(rows, behind, strict=True):
        warp, at = int(fault["case"]), int(fault["at"])
        static = target.statics(warp)[int(target.executed(warp)[at])]
        assert static.instruction is not None
        layout = form_layout(static.instruction.form.opcode)
        row, column = divmod(int(fault["lane"]), layout.operands["d"].shape[1])
        (place,) = layout.operands["d"].places(row, column)
        register = register_names(static.instruction["d"])[place.word]
        other["site"], other["lane"], other["at"] = SITES.index("registers"), place.lane, at + 1
        (other["word"],) = target.register_words([register])
        other["mask"] = int(fault["mask"]) << place.low
    struck, flipped = target.run(rows), target.run(behind)
    assert (struck["outcome"] == SDC).any()
    for name in ("outcome", "elements", "bits", "max_ulp", "first_row", "first_column"):
        assert struck[name].tolist() == flipped[name].tolist()
