"""Launches that stop: the mistake that they stop for is named, with its line and its fix."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from simulator.check.blame.control import labels, loops
from simulator.check.blame.strict import StrictMemory
from simulator.check.launches import check_launch
from simulator.program.kernel import link
from simulator.simulation.launch.module import Module
from simulator.state.shared import AddressError
from tests.simulator.check.test_blame import LAUNCHES, mutated
from tests.support.cases import over
from tests.support.paths import GOLDEN

PIPELINE = LAUNCHES / "pipeline_sum_sm90.json"
PAIR = GOLDEN / "tcgen05" / "c2_f16_sp_m128_l0.json"
# capture, line, what stands there, the mistake in its place, where it stops, the fix
STOPS: dict[str, tuple[Path, int, str, str, int, str]] = {
    "loop": (PIPELINE, 240, "setp.lt", "setp.le", 222, "at line 240: the comparison is 'at most' where 'less than' is"),
    "offset": (PIPELINE, 86, "[%rd12]", "[%rd12+16]", 86, "the address is 16 bytes too high"),
    "constant": (PIPELINE, 110, "24;", "25;", 112, "at line 110: the constant 25 where 24 is meant"),
    "branch": (PAIR, 48, "@%p3 bra 	$L__BB0_3;", "", 50, "write '@%p3 bra $L__BB0_3;' as a guard behind line 46"),
}


@over("name", sorted(STOPS))
def test_what_stops_a_launch_is_found_by_running_it_without(tmp_path: Path, name: str) -> None:
    capture, line, right, mistake, stops, words = STOPS[name]
    first = check_launch(mutated(tmp_path, capture, {line: (right, mistake)})).findings[0]
    assert first.line == stops, first
    assert words in first.fix, first.fix
    assert "the launch ends and every element is right" in first.what


def test_parts_of_a_buffer_are_no_neighbours() -> None:
    """What a copy accesses behind its own part is refused, though it lies in the buffer of all copies."""
    memory = StrictMemory()
    whole = memory.place("D", 256)
    memory.parts.append((whole, 128, 64))
    inside, between = np.array([whole.address + 128]), np.array([whole.address + 64])
    assert memory.read(inside, 4).shape == (1, 4)
    with pytest.raises(AddressError):
        memory.read(between, 4)
    with pytest.raises(AddressError):
        memory.write(between, np.zeros((1, 4), np.uint8))
    with pytest.raises(AddressError):
        memory.check(between, 4, 4)


def test_loops_and_labels_of_a_kernel() -> None:
    module = Module((LAUNCHES / "mbarriers_sm90.ptx").read_text())
    kernel = link(module.parsed, module.find("pipeline_sum"), allocate=False)
    found = {loop.comparison.line: loop.steps for loop in loops(kernel)}
    assert found[240] == (1,)
    assert "$L__BB0_22" in {label.rpartition(":")[2] for label in labels(kernel).values()}
