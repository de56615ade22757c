"""Batches shared by threads: every case once, the same bits however many there are, and errors that come through."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import isa
from isa.types import Bits
from simulator.arithmetic import Operands, Sum, add, add_f64, find_row
from simulator.arithmetic.sums import add_in_numpy
from simulator.arithmetic.threads import spread, thread_count
from simulator.execute.mma import Scales, execute_mma
from tests.simulator.arithmetic.test_compiled import draw_f64
from tests.support.cases import examples

COUNTS = ("1", "2", "3")


def words(rng: np.random.Generator, *shape: int) -> Bits:
    return rng.integers(0, 1 << 32, shape, np.uint64).astype(np.uint32)


def test_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TCSIM_THREADS", raising=False)
    assert thread_count() == (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count())
    monkeypatch.setenv("TCSIM_THREADS", "")
    assert thread_count() >= 1
    for number in (1, 7, 64):
        monkeypatch.setenv("TCSIM_THREADS", str(number))
        assert thread_count() == number
    for wrong in ("0", "-1", "two", "1.5", " 2", "²"):
        monkeypatch.setenv("TCSIM_THREADS", wrong)
        with pytest.raises(isa.IsaError, match=r"TCSIM_THREADS=.* is no number of threads; legal: a positive number"):
            thread_count()


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, 5000), st.integers(1, 1 << 22), st.integers(1, 9))
def test_every_case_once(cases: int, products: int, threads: int) -> None:
    seen = np.zeros(cases, np.int64)
    calls = []

    def function(part: slice) -> None:
        calls.append(part)
        seen[part] += 1

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TCSIM_THREADS", str(threads))
        spread(cases, products, function)
    assert (seen == 1).all()
    assert 1 <= len(calls) <= threads
    if len(calls) > 1:
        sizes = [part.stop - part.start for part in calls]
        assert max(sizes) - min(sizes) <= 1
        assert min(sizes) > 0


def test_threads_are_used_where_it_is_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCSIM_THREADS", "3")
    together = threading.Barrier(3, timeout=30)
    spread(3, 1 << 22, lambda _: together.wait() and None)  # breaks if the three do not run at the same time
    here = []
    spread(1000, 8, lambda part: here.append((part, threading.current_thread())))
    assert here == [(slice(0, 1000), threading.main_thread())]


def test_errors_come_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCSIM_THREADS", "3")

    def function(part: slice) -> None:
        if part.start:
            raise isa.IsaError("here", -1, "something is wrong")

    with pytest.raises(isa.IsaError, match="something is wrong"):
        spread(300, 1 << 20, function)


OPCODES = [
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
    "mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.tf32.tf32.f32",
    "mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32",
    "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32",
    "mma.sp::ordered_metadata.sync.aligned.m16n8k128.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3",
]


@pytest.mark.parametrize("opcode", OPCODES)
def test_registers(opcode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that is shared by up to three threads gives the same bits with 1, 2 and 3, and as its cases one part at a
    time."""
    rng = np.random.default_rng(7)
    form = isa.mma_form(opcode)
    cases = 3 * (1 << 20) // (form.m * form.n * form.k_stored) + 101
    a, b, c = (words(rng, cases, fragment.registers, 32) for fragment in (form.a, form.b, form.c))
    e = words(rng, cases, 32) if form.sparse else None
    scales = Scales(words(rng, cases, 32), words(rng, cases, 32)) if form.row.scale else None
    target = "sm_120a" if form.row.scale else "sm_90a"
    found = []
    for count in COUNTS:
        monkeypatch.setenv("TCSIM_THREADS", count)
        found.append(execute_mma(form, a, b, c, e, target=target, scales=scales))
    assert all(np.array_equal(found[0], other) for other in found)
    for part in (slice(cases // 3 - 2, cases // 3 + 2), slice(cases - 2, cases)):
        few = Scales(scales.a[part], scales.b[part]) if scales else None
        alone = execute_mma(
            form, a[part], b[part], c[part], e[part] if e is not None else None, target=target, scales=few
        )
        assert np.array_equal(alone, found[0][part])


def test_matrices_in_numpy_and_f64(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same where numpy computes (5 columns), and for f64."""
    rng = np.random.default_rng(8)
    half, single = isa.element_type("f16"), isa.element_type("f32")
    how = Sum(16, 5, 32, half, half, single, single, find_row("mma", isa.parse_target("sm_90"), half).rule)
    cases = 3 * (1 << 20) // (16 * 5 * 32) + 3
    a, b = (words(rng, cases, *shape) & np.uint32(0xFFFF) for shape in ((16, 32), (32, 5)))
    operands = Operands(a, b, words(rng, cases, 16, 5))
    wide = [draw_f64(rng, "near one", (1600, *shape)) for shape in ((16, 16), (16, 8), (16, 8))]
    narrow, double = [], []
    for count in COUNTS:
        monkeypatch.setenv("TCSIM_THREADS", count)
        narrow.append(add(how, operands))
        double.append(add_f64(*wide, "rm"))
    assert all(np.array_equal(narrow[0], other) for other in narrow)
    assert all(np.array_equal(double[0], other) for other in double)
    assert np.array_equal(narrow[0][-9:], add_in_numpy(how, operands[slice(-9, None)]))
