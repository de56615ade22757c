"""Faults of the tensor core unit that other operands emulate: on the simulator's healthy unit, and as a GPU ran them
(tests/golden/unit_faults.npz)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from measurements.unit_emulation import CASES, TARGET, Emulated, Subject, as_rows, emulations, subjects
from simulator.arithmetic import Operands, add
from simulator.faults.targets.mma import MmaTarget
from simulator.layout import Choice
from tests.golden import compare_unit_faults


def healthy(subject: Subject, one: Emulated) -> np.ndarray:
    """D [m, n] of a healthy unit from the operands that emulate a fault."""
    case, codes = one.fault["case"], one.operands.get("codes")
    if one.selector != subject.selector:
        codes = subject.form.metadata.gather(subject.registers["e"][case, 0], one.selector)
    b, c = (subject.matrices[name][case][None] for name in "bc")
    d = add(subject.how, Operands(one.operands["a"][None], b, c, None if codes is None else codes[None]))[0]
    return np.asarray((d & np.uint32(one.after[0])) ^ np.uint32(one.after[1]))


def same_as_emulated(chosen: Iterable[Subject]) -> Counter[str]:
    """Compares all faults of some subjects; returns how many of each site there were that changed D."""
    sites: Counter[str] = Counter()
    for subject in chosen:
        drawn = list(emulations(subject))
        given = tuple(subject.registers.items())
        target = MmaTarget(subject.form.opcode, TARGET, Choice(subject.selector), len(CASES), given=given)
        rows = as_rows([one.fault for one in drawn])
        target.check(rows)
        found = target.form.d.gather(target.execute(target.faulty(rows)[0], rows))
        for one, d in zip(drawn, found, strict=True):
            place = divmod(one.fault["lane"], subject.form.n) if "lane" in one.fault else slice(None)
            right, golden = healthy(subject, one), target.golden_matrix[one.fault["case"]]
            assert (d[place] == right[place]).all(), (subject.form.opcode, one.fault)
            sites[one.fault["site"]] += bool((d[place] != golden[place]).any())
    return sites


def test_other_operands_give_what_faults_do() -> None:
    sites = same_as_emulated(list(subjects())[::9])
    assert {name for name, changed in sites.items() if changed > 3} == {
        "multiplier", "term", "adder", "mux", "selector_input", "output",
    }  # fmt: skip


@pytest.mark.exhaustive
def test_other_operands_give_what_faults_do_for_every_form() -> None:
    assert sum(same_as_emulated(subjects()).values()) > 2000


# On a GPU


def recorded() -> Sequence[compare_unit_faults.Recording]:
    if not compare_unit_faults.FILE.is_file():
        pytest.skip("not recorded: measurements/README.md, section Faults of the unit")
    return compare_unit_faults.load()[0]


def test_a_gpu_gave_every_bit() -> None:
    recordings = recorded()
    found = compare_unit_faults.rows(recordings)
    total = np.sum(list(found.values()), axis=0)
    assert total[1] >= 2000
    assert total[2] > total[1] // 2
    assert total[3] == 0
    assert set(found) == {"multiplier", "term", "adder", "mux", "selector_input", "output"}


def test_one_flipped_bit_of_the_recording_is_found() -> None:
    recording = recorded()[0]
    struck, clean = recording.struck.copy(), recording.clean.copy()
    struck[-1] ^= np.uint32(4)
    clean[0] ^= np.uint32(1)
    assert recording.differing().sum() == 0
    assert replace(recording, struck=struck).differing().tolist()[-1] == 1
    assert replace(recording, clean=clean).differing().tolist()[0] == 1
