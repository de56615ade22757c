"""The matrix instructions whose energy is measured, and what their registers hold."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).parents[2]
WARPS, SETS, LANES = 4, 4, 32
"""Warps of a CTA, sets of operands that the instructions of a warp take in turn, lanes."""
Words = NDArray[np.uint32]
BITS = {"f16": 16, "bf16": 16, "tf32": 32, "s8": 8, "e4m3": 8, "s4": 4, "b1": 1}


@dataclass(frozen=True)
class Form:
    """One instruction of the shape m16n8k`k`: type of A and B, of C and D, K, sparse A or not."""

    type: str
    accumulator: str
    k: int
    sparse: bool

    @property
    def name(self) -> str:
        """A C identifier."""
        return f"{'sp' if self.sparse else 'mma'}_k{self.k}_{self.type}_{self.accumulator}"

    @property
    def opcode(self) -> str:
        """The PTX instruction."""
        own = "mma.sp::ordered_metadata" if self.sparse else "mma"
        types = f"{self.accumulator}.{self.type}.{self.type}.{self.accumulator}"
        tail = ".and.popc" if self.type == "b1" else ""
        return f"{own}.sync.aligned.m16n8k{self.k}.row.col.{types}{tail}"

    @property
    def words_a(self) -> int:
        """Registers of A."""
        return 16 * self.k * BITS[self.type] // (2 if self.sparse else 1) // 1024

    @property
    def words_b(self) -> int:
        """Registers of B."""
        return 8 * self.k * BITS[self.type] // 1024

    @property
    def words_c(self) -> int:
        """Registers of C and of D."""
        return 2 if self.accumulator == "f16" else 4

    @property
    def fma(self) -> int:
        """Multiply-adds as named."""
        return 16 * 8 * self.k


FORMS = (
    *(Form("f16", "f32", k, s) for k, s in ((8, False), (16, False), (16, True), (32, True))),
    *(Form("f16", "f16", k, s) for k, s in ((8, False), (16, False), (16, True), (32, True))),
    *(Form("bf16", "f32", k, s) for k, s in ((8, False), (16, False), (16, True), (32, True))),
    *(Form("tf32", "f32", k, s) for k, s in ((4, False), (8, False), (8, True), (16, True))),
    *(Form("s8", "s32", k, s) for k, s in ((16, False), (32, False), (32, True), (64, True))),
    *(Form("e4m3", "f32", k, s) for k, s in ((32, False), (64, True))),
    *(Form("s4", "s32", k, s) for k, s in ((64, False), (128, True))),
    Form("b1", "s32", 256, False),
)

STUDY = [
    "ones",
    "held",
    "fresh_a",
    "fresh_b",
    "zero_a",
    "zero_b",
    "half",
    "tenth",
    "integers",
    "sorted",
    "weights",
    "powers",
    "mantissas",
    "positive",
    "bits",
    "wide",
    "narrow",
]
"""Contents beside "zeros" and "random", for the dependence on values; `CONTENTS` says what they are."""

CONTENTS = {
    "zeros": "all zero",
    "random": "normal numbers, other ones for every instruction",
    "ones": "1 or -1, every second pair of instructions",
    "held": "normal numbers, the same for all instructions but for the sign of A (integers: the same)",
    "fresh_a": "as random, B the same for all instructions",
    "fresh_b": "as random, A the same but for its sign",
    "zero_a": "A zero, B random",
    "zero_b": "B zero, A random",
    "half": "random, half of the elements of A zero",
    "tenth": "random, nine tenths of the elements of A zero",
    "integers": "whole numbers from -3 to 3",
    "sorted": "normal numbers, sorted over each fragment",
    "weights": "A: weights of the trained network in traces/digits; B: its images",
    "powers": "plus and minus powers of two, 1/8 to 8",
    "mantissas": "between 1 and 2: one exponent, random significands",
    "positive": "magnitudes of normal numbers",
    "bits": "random bits, without infinities and NaN",
    "wide": "normal numbers times random powers of two, 2^-10 to 2^4",
    "narrow": "normal numbers of three significant bits",
    "quarter": "random, three quarters of the elements of A zero",
    "half_b": "random, half of the elements of B zero",
    "uniform": "uniform between -1 and 1",
    "repeated": "all elements of an operand the same normal number",
    "constant_metadata": "as random, all metadata 0x44444444",
    "held_metadata": "as random, metadata random, the same for all instructions",
}


def encode(values: NDArray[Any], kind: str) -> NDArray[Any]:
    """The bits of numbers in a type."""
    if kind == "f16":
        return values.astype(np.float16).view(np.uint16).astype(np.uint32)
    if kind in ("bf16", "tf32"):
        bits = values.astype(np.float32).view(np.uint32)
        return (bits + 0x8000) >> 16 if kind == "bf16" else (bits + 0x1000) & np.uint32(0xFFFFE000)
    if kind == "e4m3":
        codes = np.arange(127)
        table = np.where(codes < 8, codes / 512, (1 + codes % 8 / 8) * 2.0 ** (codes // 8 - 7))
        nearest = np.abs(np.abs(values)[..., None] - table).argmin(-1)
        return (nearest | (values < 0) << 7).astype(np.uint32)
    if kind == "b1":
        return (values > 0).astype(np.uint32)
    most = 127 if kind == "s8" else 7
    return np.clip(np.rint(values * most / 4), -most, most).astype(np.int64).astype(np.uint32) & (2 * most + 1)


def pack(elements: NDArray[Any], kind: str) -> NDArray[Any]:
    """Elements of the last axis into words, the lowest first."""
    each = 32 // BITS[kind]
    grouped = elements.reshape(*elements.shape[:-1], -1, each)
    return np.bitwise_or.reduce(grouped << (np.arange(each, dtype=np.uint32) * np.uint32(BITS[kind])), -1)


def _draw(rng: np.random.Generator, shape: tuple[int, ...], content: str, operand: str) -> NDArray[Any]:
    x = rng.standard_normal(shape)
    if content in ("zeros", f"zero_{operand}"):
        return x * 0
    if content == "ones":
        return np.ones(shape)
    if content in ("half", "tenth") and operand == "a":
        return x * (rng.random(shape) < (0.5 if content == "half" else 0.1))
    if content == "quarter" and operand == "a":
        return np.where(rng.random(shape) < 0.25, x, 0)
    if content == "half_b" and operand == "b":
        return np.where(rng.random(shape) < 0.5, x, 0)
    if content == "uniform":
        return rng.uniform(-1, 1, shape)
    if content == "integers":
        return rng.integers(-3, 4, shape).astype(float)
    if content == "sorted":
        return np.sort(x.reshape(*shape[:2], -1), -1).reshape(shape)
    if content == "weights":
        return _real(rng, shape, operand)
    if content == "powers":
        return np.copysign(2.0 ** rng.integers(-3, 4, shape), x)
    if content == "mantissas":
        return np.copysign(1 + rng.random(shape), x if operand == "b" else 1)
    if content == "positive":
        return np.abs(x)
    if content == "wide":
        return x * 2.0 ** rng.integers(-10, 5, shape)
    if content == "narrow":
        mantissa, exponent = np.frexp(x)
        return np.ldexp(np.rint(mantissa * 8) / 8, exponent)
    return x


def _real(rng: np.random.Generator, shape: tuple[int, ...], operand: str) -> NDArray[Any]:
    """Pieces of the digits network's first weights, or of the images that it sees."""
    file, name = ("weights.npz", "w2_2of4") if operand == "a" else ("images.npz", "images")
    with np.load(ROOT / "traces" / "digits" / file) as stored:
        largest = stored[name][stored[name] != 0] if operand == "a" else stored[name]
    flat = largest.astype(float).reshape(-1)
    count = int(np.prod(shape))
    begin = int(rng.integers(0, max(flat.size - count, 1)))
    return np.resize(np.roll(flat, -begin), count).reshape(shape)


def contents(form: Form, content: str, seed: int = 0) -> Words:
    """What the registers hold: words [warp][set][A, B, metadata][lane]."""
    rng = np.random.default_rng(seed)
    each, kind = 32 // BITS[form.type], form.type
    a = _draw(rng, (WARPS, SETS, form.words_a, LANES, each), content, "a")
    b = _draw(rng, (WARPS, SETS, form.words_b, LANES, each), content, "b")
    if content == "bits":
        a, b = (np.where(np.isfinite(x), x, 1.0) for x in (_bits(rng, a.shape), _bits(rng, b.shape)))
    a[:, 1] = a[:, 0] if content in ("held", "fresh_b") else a[:, 1]
    b[:, 1] = b[:, 0] if content in ("held", "fresh_a") else b[:, 1]
    if content == "repeated":  # one number of A and one of B in each set
        a, b = (np.broadcast_to(x[..., :1, :1, :1], x.shape).copy() for x in (a, b))
    whole = kind in ("s8", "s4", "b1") and content == "held"
    a[:, 2:] = a[:, :2] if whole else -a[:, :2]  # so sums stay small
    b[:, 2:] = b[:, :2]
    parts = [pack(encode(x + 0.0, kind), kind)[..., 0] for x in (a, b)]  # no minus zeros
    words = [*parts, _metadata(rng, form, content)[:, :, None]]
    return np.concatenate(words, 2).astype(np.uint32)


def _bits(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[Any]:
    return rng.integers(0, 1 << 16, shape).astype(np.uint16).view(np.float16).astype(float)


def _metadata(rng: np.random.Generator, form: Form, content: str) -> Words:
    legal = np.array([4, 14] if form.type == "tf32" else [4, 8, 12, 9, 13, 14], np.uint32)
    nibbles = legal[rng.integers(0, len(legal), (WARPS, SETS, LANES, 8))]
    words = np.bitwise_or.reduce(nibbles << (np.arange(8, dtype=np.uint32) * np.uint32(4)), -1)
    if content in ("zeros", "ones", "held", "constant_metadata"):
        words[:] = 0x44444444
    elif content == "held_metadata":
        words[:, 1:] = words[:, :1]
    words[:, 2:] = words[:, :2]
    return words
