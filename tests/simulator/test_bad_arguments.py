"""What callers from Python get wrong: one error of ours that says what was given and what would be right, never a
traceback from inside, and nothing cut to fit."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isa
import simulator
from simulator.faults import MmaTarget, read_results, single_bits
from simulator.files import write_arrays
from simulator.inputs import ArrayFile, InputError
from simulator.layout import form_layout
from simulator.layout.queries import where
from simulator.studies.gemm import parse_tile
from tests.support.kernels import NOTHING

OPCODE = "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32"
FORM = isa.mma_form(OPCODE)
LAYOUT = form_layout(OPCODE)
WIDE = np.full((16, 16), 0x12345, np.uint32)
Z = np.zeros


def sparse(**more: Any) -> Any:
    registers = Z((1, 4, 32), np.uint32)
    return simulator.mma_sp(OPCODE, registers, registers, registers, Z((1, 32), np.uint32), **more)


MASKED = np.ma.array(Z((1, 4, 32), np.uint32), mask=True)


def launched(**how: Any) -> Any:
    """Launches a kernel that does nothing, with options as a caller passes them."""
    given: dict[str, Any] = {"grid": 1, "block": 32, "args": [Z(32, np.uint32)]} | how
    return simulator.Module(NOTHING).get_function("k")(**given)


LAUNCHES: tuple[tuple[dict[str, Any], str], ...] = (
    ({"budget": float("nan")}, "budget nan, a value of type float"),
    ({"budget": 0}, "budget 0; legal: 1 to"),
    ({"workers": -1}, "workers -1; legal: 0 to 4,096"),
    ({"workers": True}, "workers True, a value of type bool"),
    ({"registers": 0}, "registers 0; legal: 1 to 255"),
    ({"registers": 10**9}, "registers 1,000,000,000; legal: 1 to 255"),
    ({"cold": "yes"}, "cold 'yes', a value of type str; legal: True or False"),
    ({"timeline": 3, "config": "h100_sxm"}, "a value of type int in place of a timeline"),
    ({"grid": float("nan")}, "grid nan; legal: one to three numbers above 0"),
    ({"grid": [1.5]}, "grid [1.5]"),
    ({"grid": True}, "grid True"),
    ({"block": "32"}, "block '32'"),
    ({"args": 5}, "a value of type int in place of the arguments"),
    ({"args": [MASKED]}, "an array of the launch: 128 elements are masked"),
    ({"grid": (1 << 16, 1 << 15)}, "has 2,147,483,648 CTAs"),
)
RUNS: tuple[tuple[dict[str, Any], str], ...] = (
    ({"skip": 3}, "skip 3, a value of type int; legal: True or False"),
    ({"exact": "x"}, "exact 'x', a value of type str"),
    ({"compare": "x"}, "compare 'x', a value of type str"),
    ({"timeline": 3}, "a value of type int in place of a timeline"),
)
CALLS: tuple[tuple[Callable[[], object], str], ...] = (
    (lambda: isa.mma_form(5), "a value of type int in place of an opcode"),  # type: ignore[arg-type]
    (lambda: isa.decode(b"bar.sync 0;"), "a value of type bytes in place of an instruction"),  # type: ignore[arg-type]
    (lambda: isa.decode(None), "None in place of an instruction"),  # type: ignore[arg-type]
    (lambda: isa.parse_target("sm_" + "9" * 5000), "unknown target 'sm_99999"),
    (lambda: sparse(target=90), "a value of type int in place of a target"),
    (lambda: isa.element_type(["f16"]), "in place of an element type"),  # type: ignore[arg-type]
    (lambda: isa.prune(Z((2, 4)), "2:5:x"), "no sparsity pattern '2:5:x'"),
    (lambda: isa.prune(Z((2, 4)), "u0.5"), "pattern u0.5 has no codes"),
    (lambda: isa.compress(np.array([[1.0, 0, 2, 0]]), "2:4", "f16"), "float64, where bit patterns are wanted"),  # type: ignore[arg-type]
    (lambda: isa.compress(np.array([[-1, 0, 2, 0]]), "2:4", "f16"), "-0x1 at (0, 0) is no pattern of 16 bits"),  # type: ignore[arg-type]
    (lambda: FORM.a.scatter(WIDE), "operand a: 0x12345 at (0, 0) is no pattern of 16 bits"),
    (lambda: FORM.metadata.scatter(np.full((16, 8), 99, np.uint32), 0), "0x63 at (0, 0) is no pattern of 4 bits"),
    (lambda: FORM.metadata.scatter(np.full((16, 8), -1), 0), "-0x1 at (0, 0)"),  # type: ignore[arg-type]
    (lambda: isa.decode("bar.sync 0;").selector, "bar has no selector"),
    (lambda: where(LAYOUT, "a", "5", 3), "no row '5', a value of type str; legal: 0 to 15"),  # type: ignore[arg-type]
    (lambda: where(LAYOUT, "b", 99, 3), "no row 99; legal: 0 to 31"),
    (lambda: single_bits(MmaTarget(OPCODE, cases=1), "q"), "site='q' is not known; legal: 'a'"),
    (lambda: simulator.run(None), "None in place of a trace"),  # type: ignore[arg-type]
    (lambda: simulator.run("digits/f16", config=5), "a value of type int in place of a config"),  # type: ignore[arg-type]
    (lambda: simulator.launch(None), "None in place of a file"),  # type: ignore[arg-type]
    (lambda: simulator.Module(7), "a value of type int in place of a file"),  # type: ignore[arg-type]
    (lambda: simulator.load_config(None), "None in place of a config"),  # type: ignore[arg-type]
    (lambda: simulator.sweep.run(None), "None in place of a sweep"),  # type: ignore[arg-type]
    (lambda: simulator.gemm.estimate("64x64x64", 64, 64, 64), "a value of type str in place of a tile"),  # type: ignore[arg-type]
    (lambda: form_layout(b"x"), "a value of type bytes in place of an opcode"),  # type: ignore[arg-type]
    (lambda: parse_tile(None, "f16"), "None in place of a tile"),  # type: ignore[arg-type]
    (lambda: parse_tile("64x64x64", 16), "a value of type int in place of a type"),  # type: ignore[arg-type]
    (lambda: read_results(None), "None in place of a file"),  # type: ignore[arg-type]
    (lambda: ArrayFile("/dev/null", "an array"), "is a device"),
    (lambda: ArrayFile("/", "an array"), "is a directory"),
    *((lambda how=how: launched(**how), said) for how, said in LAUNCHES),  # type: ignore[misc]
    *((lambda how=how: simulator.run("digits/s8", **how), said) for how, said in RUNS),  # type: ignore[misc]
    (lambda: sparse(selector=True), "sparsity selector True is out of range"),
    (lambda: simulator.mma_sp(OPCODE, MASKED, MASKED, MASKED, MASKED[:, 0]), "operand a: 128 elements are masked"),
    (lambda: simulator.exact_gemm(MASKED[0], MASKED[0].T), "a: 128 elements are masked"),
    (lambda: simulator.sparselt.prune(MASKED[0].astype(np.uint16), "f16"), "the matrix: 128 elements are masked"),
    (lambda: simulator.accuracy.accuracy("f16", 4, a=MASKED[0], b=MASKED[0].T), "a: 128 elements are masked"),
    (lambda: simulator.accuracy.accuracy("f16", 4.5), "k = 4.5, a value of type float"),  # type: ignore[arg-type]
    (lambda: simulator.accuracy.accuracy("f16", 4, count=True), "count = True, a value of type bool"),
    (lambda: simulator.accuracy.accuracy("f16", 4, seed="x"), "seed = 'x', a value of type str"),  # type: ignore[arg-type]
    (lambda: simulator.accuracy.accuracy("f16", 4, scale=float("nan")), "scale = nan; legal: a positive number"),
    (lambda: simulator.gemm.estimate(parse_tile("64x64x64", "f16"), 1, 1, 1, activity=float("nan")), "activity = nan"),
    (lambda: simulator.gemm.estimate(parse_tile("64x64x64", "f16"), 64, True, 64), "n = True, a value of type bool"),
    (lambda: list(simulator.validation.validate("h100_sxm", workers=2.5)), "workers 2.5, a value of type float"),  # type: ignore[arg-type]
)  # fmt: skip


@pytest.mark.parametrize(("call", "said"), CALLS)
def test_one_error_of_ours(call: Callable[[], object], said: str) -> None:
    with pytest.raises(simulator.Error) as caught:
        call()
    assert said in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    assert not str(caught.value).startswith(":")


def test_names_in_place_of_patterns_and_types() -> None:
    stored, codes = isa.compress(np.array([[1, 0, 2, 0]], np.uint16), "2:4", "f16")  # type: ignore[arg-type]
    assert stored.tolist() == [[1, 2]]
    assert codes.tolist() == [[0b1000]]
    assert isa.expand(stored, codes, "2:4").tolist() == [[1, 0, 2, 0]]
    assert not hasattr(FORM, "scale_a")


def test_arrays_are_looked_at_before_they_are_read(tmp_path: Path) -> None:
    """Heads that promise too much, hold objects or say nonsense, and what is no file at all."""
    good = tmp_path / "good.npz"
    write_arrays(good, {"a": Z(1000, np.uint8), "file": np.ones(2)})
    archive = ArrayFile(good, "an archive")
    assert archive.names == ("a", "file")
    assert archive.head("a").bytes == 1000
    assert archive.read("file").tolist() == [1, 1]
    with pytest.raises(InputError, match="array 'a' has 1,000 bytes; legal: at most 999"):
        archive.read("a", 999)
    huge = tmp_path / "huge.npy"
    head = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }"
    huge.write_bytes(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head)
    with pytest.raises(InputError, match="has 8,000,000,000,000 bytes"):
        ArrayFile(huge, "an array").read()
    for shape in (b"(True, 2)", b"(-1,)", b"('x',)", b"[" * 5000):
        huge.write_bytes(b"\x93NUMPY\x01\x00" + (len(shape) + 53).to_bytes(2, "little")
                         + b"{'descr': '<f8', 'fortran_order': False, 'shape': " + shape + b", }")  # fmt: skip
        with pytest.raises(InputError):
            ArrayFile(huge, "an array").head("")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(InputError, match="is a pipe"):
        ArrayFile(pipe, "an array")
