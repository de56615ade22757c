"""The approximate functions on arguments of all sizes, against an H200 and an H100."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from isa.ptx.opcodes import find_form
from measurements.functions import SWEEPS, arguments
from simulator.arithmetic import functions
from simulator.arithmetic.interpolation import squares
from simulator.execute import approximate
from tests.support.cases import exhaustive, over
from tests.support.paths import GOLDEN

H200, H100 = GOLDEN / "functions_h200.npz", GOLDEN / "functions_h100.npz"
ONE = {
    "rcp": functions.reciprocal,
    "rsqrt": functions.reciprocal_root,
    "sqrt": functions.root,
    "ex2": functions.power_of_two,
    "lg2": functions.logarithm,
    "sin": functions.sine,
    "cos": functions.cosine,
    "tanh": functions.hyperbolic_tangent,
}
# CRC-32 of the 2^23 results of each sweep of measurements/functions.py (H100, 2026-11-24)
CHECKSUMS = {
    "lg2": 0x15F1D460, "lg2_below_1": 0x1852A07C, "sin": 0x35927E57, "ex2": 0x676486CD, "rcp": 0xA9F2ECFC,
    "rsqrt": 0xEFE1FAF5, "rsqrt_odd": 0x510DC204, "sqrt": 0x851C4F4C, "sqrt_odd": 0x279BC15F, "tanh-8": 0xC742A556,
    "tanh-7": 0x58833800, "tanh-6": 0x6FFB9B37, "tanh-5": 0xA0CC1295, "tanh-4": 0xC0E3159D, "tanh-3": 0x46910649,
    "tanh-2": 0x82A9DA32, "tanh-1": 0x03669E9F, "tanh0": 0x1AC436A3, "tanh1": 0xE8641D47, "tanh2": 0x294D3119,
}  # fmt: skip


def _numbers(words: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        return words.view(np.float32).astype(np.float64)


@pytest.mark.parametrize("name", ["rcp", "rsqrt", "sqrt", "ex2", "div.full", "div.approx"])
def test_the_bits_of_an_h200(name: str) -> None:
    """8,192 random patterns and numbers of ordinary size; the same for the divisor. Each result is the chip's."""
    with np.load(H200) as cases:
        x, y, wanted = cases["x"], cases["y"], cases[name]
    given = ONE[name](_numbers(x)) if name in ONE else functions.quotient(_numbers(x), _numbers(y), name == "div.full")
    assert len(x) == 8192
    assert np.array_equal(given, wanted)


@pytest.mark.parametrize(
    "opcode",
    ["lg2.approx.f32", "lg2.approx.ftz.f32", "sin.approx.f32", "cos.approx.f32", "tanh.approx.f32", "tanh.approx.f16",
     "tanh.approx.bf16", "ex2.approx.f16", "ex2.approx.ftz.bf16", "rcp.approx.ftz.f64", "rsqrt.approx.f64",
     "rsqrt.approx.ftz.f64"],
)  # fmt: skip
def test_the_bits_of_an_h100(opcode: str) -> None:
    """Edges and random numbers of all sizes, every one of 16 bits. Each result is the chip's."""
    with np.load(H100) as cases:
        words = cases["x64" if opcode.endswith("f64") else "x"]
        wanted = cases[opcode.replace(".approx", "").removesuffix(".f32")]
    if opcode.endswith("f16"):
        words = np.arange(1 << 16, dtype=np.uint16)
    form = find_form(opcode)
    doubles = {"rcp": approximate.double_reciprocal, "rsqrt": approximate.double_reciprocal_root}
    make = {"f32": approximate.of_single, "f64": doubles.get(form.name)}.get(form.type_name, approximate.of_half)
    assert make is not None
    assert np.array_equal(make(form)(words), wanted)


@exhaustive
@over("sweep", list(SWEEPS), ids=str)
def test_whole_binades(sweep: str) -> None:
    """2^23 results of a chip, by their checksum."""
    found = ONE[SWEEPS[sweep][0]](_numbers(arguments(sweep)))
    assert zlib.crc32(found.tobytes()) == CHECKSUMS[sweep]


@pytest.mark.parametrize("bits", [16, 17])
def test_squares_lack_less_than_the_columns_that_are_not_formed(bits: int) -> None:
    """Of the products of two bits, those below the column are missing: of weight w, at most so many as there are pairs
    of that weight."""
    column = 2 * bits - 15
    x = np.arange(1 << bits)
    pairs = [(low, high) for low in range(bits) for high in range(low, bits)]
    most = sum(w for w in (1 << low + high + (low != high) for low, high in pairs) if w < 1 << column)
    missing = x * x - (squares(bits) << column)
    assert missing.min() == 0
    assert missing.max() == missing[-1] == most


def test_special_values() -> None:
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -1.0])
    nan = 0x7FFFFFFF
    assert functions.reciprocal(x).tolist() == [0x7F800000, 0xFF800000, 0, 0x80000000, nan, 0xBF800000]
    assert functions.root(x).tolist() == [0, 0x80000000, 0x7F800000, nan, nan, nan]
    assert functions.reciprocal_root(x).tolist() == [0x7F800000, 0xFF800000, 0, nan, nan, nan]
    assert functions.power_of_two(x).tolist() == [0x3F800000, 0x3F800000, 0x7F800000, 0, nan, 0x3F000000]
