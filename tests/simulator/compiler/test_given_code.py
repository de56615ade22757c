"""Launches timed from machine code: what nvdisasm printed of the cubins that an H200 executed, beside its counters."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import simulator
from simulator.compiler.kernel.walk import GivenCode
from simulator.program.capture import read_capture
from simulator.program.kernel import link
from simulator.program.sass import MachineCodeError, read_machine_code
from simulator.program.sass.listing import Instruction, parse
from simulator.program.sass.operands import PREDICATE, UNIFORM, registers
from simulator.simulation.launch.arguments import parameter_bytes
from simulator.simulation.launch.batches import record
from simulator.simulation.launch.captured import launch, place
from simulator.simulation.launch.launching import Options, prepare
from simulator.simulation.launch.module import Module
from simulator.simulation.launch.timing import lost_share, machine_instructions
from tests.support.cases import exhaustive
from tests.support.paths import GOLDEN

Tcsim = Callable[..., tuple[int, str, str]]
LAUNCHES = GOLDEN / "launches"
CODES = {
    "direct_one_warp": "direct_one_warp",
    "direct_ragged": "direct_one_warp",
    "divergence": "divergence",
    "f16_one_cta": "f16_one_cta",
    "f16_ragged": "f16_one_cta",
}  # which machine code a launch executed
NAMES = [pytest.param(name, marks=[pytest.mark.exhaustive] if name.endswith("_ragged") else []) for name in CODES]
BOUND = 0.17  # of cycles; the largest error measured is 16.4 %


def code_of(name: str) -> Path:
    return LAUNCHES / f"{CODES[name]}.sass.gz"


@pytest.mark.parametrize("name", NAMES)
def test_counts_of_machine_instructions_are_those_of_the_chip(name: str) -> None:
    """The warps of all CTAs take the ways that they took on the chip: the counts are equal."""
    capture = read_capture(LAUNCHES / f"{name}.json")
    kernel = Module(capture.ptx).get_function(capture.entry).kernel
    placed = place(capture)
    options = Options(dynamic_shared=capture.dynamic_shared, target=capture.target)
    setup = prepare(kernel, capture.grid, capture.block, placed.memory, parameter_bytes(kernel, placed.values), options)
    recordings = record(setup, np.arange(setup.geometry.ctas))
    numbered = link(kernel.module, kernel.name, allocate=False)
    code = GivenCode(numbered, read_machine_code(code_of(name), kernel.name))
    assert machine_instructions(code, recordings) == capture.counters["warp_instructions"]
    assert lost_share(code, recordings) == 0


@exhaustive
@pytest.mark.parametrize("name", NAMES)
def test_cycles_of_machine_code_are_near_those_of_the_chip(name: str) -> None:
    capture = read_capture(LAUNCHES / f"{name}.json")
    timing = launch(capture, "h100_sxm", workers=1, machine_code=code_of(name)).timing
    assert timing is not None
    assert abs(timing.cycles / capture.counters["sm_cycles_active_max"] - 1) < BOUND
    assert abs(timing.placement.registers - capture.counters["registers_per_thread"]) <= 2
    assert timing.order == f"machine code of {code_of(name)}"


def test_registers_of_machine_instructions() -> None:
    def of(text: str) -> tuple[set[int], set[int]]:
        (each,) = parse(f".text.k:\n        /*0000*/                   {text} ;", "k")["k"].instructions
        reads, writes = registers(each)
        return set(reads), set(writes)

    assert of("LDG.E.128.CONSTANT R8, desc[UR4][R2.64+0x10]") == ({2, 3, UNIFORM + 4, UNIFORM + 5}, {8, 9, 10, 11})
    assert of("@!P2 STG.E.64 desc[UR8][R2.64], R8") == ({2, 3, 8, 9, UNIFORM + 8, UNIFORM + 9, PREDICATE + 2}, set())
    product = of("HMMA.SP.16832.F32 R8, R12, R16, R8, R23, 0x0")
    assert product == ({*range(8, 12), *range(12, 16), *range(16, 20), 23}, {8, 9, 10, 11})
    assert of("IMAD.WIDE R2, R9, 0x4, R6") == ({9, 6, 7}, {2, 3})
    assert of("ISETP.GE.AND P0, PT, R0, UR5, PT") == ({0, UNIFORM + 5}, {PREDICATE})
    assert of("IADD3 R4, P0, R5, R6, RZ") == ({5, 6}, {4, PREDICATE})
    assert of("SEL R0, R1, R2, P3") == ({1, 2, PREDICATE + 3}, {0})
    assert of("LDSM.16.M88.4 R4, [R40+UR4+0x800]") == ({40, UNIFORM + 4}, {4, 5, 6, 7})
    assert Instruction("@!PT", "LDS", ("RZ", "[RZ]"), 1).never


def test_machine_code_that_does_not_fit_is_one_clear_line(tmp_path: Path, tcsim: Tcsim) -> None:
    text = gzip.decompress((LAUNCHES / "divergence.sass.gz").read_bytes()).decode()
    capture = str(LAUNCHES / "divergence.json")
    wrong = {
        "no lines": ("\n".join(row for row in text.splitlines() if "//##" not in row), "which line of the PTX"),
        "chip": (text.replace("sm_90a", "sm_80"), "machine code of sm_80, and h100_sxm"),
        "kernel": (text.replace("collatz_steps", "another"), "of the kernel 'collatz_steps'; legal: another"),
        "shifted": (text.replace("line 33", "line 34").replace("line 60", "line 61"), "not those of this PTX"),
        "empty": ("", "no machine code of the kernel"),
    }  # fmt: skip
    for name, (content, said) in wrong.items():
        path = tmp_path / f"{name}.sass"
        path.write_text(content)
        code, out, error = tcsim("launch", capture, "--config", "h100_sxm", "--machine-code", str(path))
        assert (code, out) == (2, "")
        assert said in error
        assert error.count("\n") == 1
    assert tcsim("launch", capture, "--machine-code", "x")[0] == 2
    with pytest.raises(MachineCodeError, match=r"missing\.sass is not there"):
        simulator.launch(capture, "h100_sxm", machine_code=tmp_path / "missing.sass")


def test_reports_name_the_source_of_the_order(tcsim: Tcsim) -> None:
    text = ".version 8.6\n.target sm_90a\n.address_size 64\n.entry k() { .reg .b32 %r<2>; mov.u32 %r1, %tid.x; ret; }"
    report = Module(text).get_function("k")(1, 32, (), config="h100_sxm")
    assert report.timing is not None
    assert report.timing.order == "schedule of the PTX"
    capture, path = str(LAUNCHES / "divergence.json"), str(LAUNCHES / "divergence.sass.gz")
    code, out, _ = tcsim("launch", capture, "--config", "h100_sxm", "--machine-code", path)
    assert code == 0
    assert f"order               machine code of {path}\n" in out
    code, out, _ = tcsim("stalls", capture, "--config", "h100_sxm", "--machine-code", path, "--worst", "3")
    assert code == 0
    assert "mad.lo.s32" in out or "bra" in out
