"""What a process has set of its floating-point environment changes no bit of a result, at any way in."""

from __future__ import annotations

import ctypes
import functools
import inspect
import mmap
import platform
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import simulator
from simulator.execute.call import mma_sp
from simulator.floating_point import guarded
from simulator.simulation.launch.module import Function
from simulator.studies import sparselt
from tests.support.paths import ROOT

UPWARD = 0x800  # FE_UPWARD of x86
_FLUSH = bytes.fromhex("0fae5c24fc 814c24fc40800000 0fae5424fc c3")
"""stmxcsr [rsp-4]; or dword [rsp-4], 0x8040; ldmxcsr [rsp-4]; ret: sets FTZ and DAZ."""
only_here = pytest.mark.skipif(
    platform.machine() != "x86_64" or sys.platform != "linux", reason="sets registers of x86-64 as Linux lets it"
)


@contextmanager
def upward() -> Iterator[None]:
    libm = ctypes.CDLL("libm.so.6")
    libm.fesetround(UPWARD)
    try:
        yield
        assert libm.fegetround() == UPWARD  # what the caller had set is there again
    finally:
        libm.fesetround(0)


@contextmanager
def flushing() -> Iterator[None]:
    libm, before = ctypes.CDLL("libm.so.6"), ctypes.create_string_buffer(64)
    libm.fegetenv(before)
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(_FLUSH)
    tiny = np.array([1e-310])
    ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
    try:
        assert (tiny * 1.5 == 0).all()  # subnormal numbers are zeros
        yield
        assert (tiny * 1.5 == 0).all()
    finally:
        libm.fesetenv(before)


@contextmanager
def raising() -> Iterator[None]:
    with np.errstate(all="raise"):
        yield


@functools.cache
def _operands() -> tuple[Any, Any]:
    generator = np.random.default_rng(1)
    scale = np.float16(2.0**-13)  # results that f16 has as subnormal numbers
    return generator.standard_normal((32, 64)).astype(np.float16) * scale, generator.standard_normal((64, 32)).astype(
        np.float16
    )


def _launch(name: str) -> bytes:
    report = simulator.launch(ROOT / f"tests/golden/launches/{name}.json", workers=1)
    assert report.differences == ()
    return b"".join(array.tobytes() for array in report.arrays.values())


def _mma_sp() -> bytes:
    generator = np.random.default_rng(2)
    a, b, c = (generator.integers(0, 1 << 32, (2, registers, 32), np.uint32) for registers in (2, 2, 4))
    opcode = "mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
    return bytes(mma_sp(opcode, a, b, c, np.full((2, 32), 0x44444444, np.uint32), target="sm_90a").tobytes())


def _matmul() -> bytes:
    a, b = (np.ascontiguousarray(one).view(np.uint16) for one in _operands())
    return bytes(np.asarray(sparselt.matmul(sparselt.prune(a, "f16"), b.T, type="f16").d).tobytes())


TILE = simulator.gemm.parse_tile("128x128", "f16")
WAYS_IN: dict[str, Callable[[], object]] = {
    "launch": lambda: [_launch(name) for name in ("ops_f32", "ops_cvt")],
    "exact_gemm": lambda: np.asarray(simulator.exact_gemm(*_operands())).tobytes(),
    "mma_sp": _mma_sp,
    "run": lambda: simulator.run("digits/f16", config="h100_sxm").as_dict(),
    "matmul": _matmul,
    "accuracy": lambda: simulator.accuracy.accuracy("f16", 64, count=64).csv(),
    "estimate": lambda: simulator.gemm.estimate(TILE, 256, 256, 256).to_frame().to_csv(),
}


@functools.cache
def _as_it_starts(way: str) -> object:
    return WAYS_IN[way]()


@only_here
@pytest.mark.parametrize("way", WAYS_IN)
@pytest.mark.parametrize("environment", [upward, flushing, raising], ids=lambda one: one.__name__)
def test_no_bit_depends_on_the_environment_of_the_process(way: str, environment: Any) -> None:
    expected = _as_it_starts(way)
    with environment():
        found = WAYS_IN[way]()
    assert found == expected


def test_errors_restore_the_environment() -> None:
    @guarded
    def fails() -> None:
        assert np.geterr()["over"] == "warn"
        raise ValueError

    with np.errstate(over="raise"):
        with pytest.raises(ValueError):
            fails()
        assert np.geterr()["over"] == "raise"


NO_ARITHMETIC = {
    "Module", "Program", "Report", "Timeline", "Picture", "Accuracy", "Errors", "Roofline", "Point", "Estimate", "Tile",
    "Tcgen05Tile", "WgmmaTile", "FormLayout", "Operand", "Selection", "Product", "Scales", "AlgorithmSelection",
    "Search", "Sweep", "MatrixDescriptor", "Capture", "Verification",
}  # fmt: skip
"""Classes whose methods read, name or print."""
NO_COMPUTATION = {
    "Forecast.on", "config_names", "forms", "datapath_figure", "draw", "draw_shared", "every_fault", "population",
    "read_capture", "read_results", "write_capture",
    "sample_size", "single_bits", "wilson", "kernel_trace", "parse_tcgen05_tile", "parse_tile", "tcgen05_trace",
    "tile_for", "tiles_of", "form_layout", "read_metadata", "select", "compressed_size", "heatmap", "pareto", "read",
    "chosen_path", "parse_wgmma_tile", "wgmma_kernel", "read_spec", "sweep_of", "tornado",
    "write_heatmap", "write_pareto", "write_tornado",
    "groups", "validate",  # whose groups are computed in a guarded function, also in other processes
}  # fmt: skip
SESSION = {"fresh", "copies", "code_of", "operation", "without_results", "instruction_at"}
MMA_TARGET = {"words", "describe", "right", "apart", "former"}


def _public() -> Iterator[tuple[str, Any]]:
    for name in simulator.__all__:
        value = getattr(simulator, name)
        names = getattr(value, "__all__", ()) if inspect.ismodule(value) else ()
        yield from ((inner, getattr(value, inner)) for inner in names)
        if not inspect.ismodule(value):
            yield name, value
    yield "Function", Function
    yield from ((name, getattr(simulator.roofline, name)) for name in ("roofline",))
    yield from ((name, getattr(simulator.validation, name)) for name in ("groups", "validate"))


def test_every_public_function_that_computes_is_guarded() -> None:
    """A new public function is guarded, or is said to compute nothing."""
    bare = set()
    for name, value in _public():
        if inspect.isfunction(value) and not hasattr(value, "computes_in_default_environment"):
            bare.add(name)
        elif inspect.isclass(value) and not issubclass(value, BaseException) and name not in NO_ARITHMETIC:
            bare |= {
                f"{name}.{method}"
                for method, function in vars(value).items()
                if inspect.isfunction(function)
                and (not method.startswith("_") or method == "__call__")
                and not hasattr(function, "computes_in_default_environment")
            }
    methods = {f"Session.{name}" for name in SESSION} | {f"MmaTarget.{name}" for name in MMA_TARGET}
    assert bare - methods - NO_COMPUTATION == set()
    assert (methods | NO_COMPUTATION) - bare == set()
