"""Sparse products of tcgen05 with matrices and metadata where github.com/sf-tensor/tcgen05 (@8fce64d,
hardware_validation/src) has them, whose harness compares these elements of D with its rule on a B200: published.

Every row of A is the same vector, every row has the same metadata, and every column of B is the same; so this says
which lanes, columns and bits hold the codes of which chunk, and not in which order the rows are. Rows of A are closer
together in shared memory than they are long, and those that others overwrite are left out, as there.
"""

from __future__ import annotations

import random
from typing import NamedTuple

import numpy as np

import isa
from isa.forms.tcgen05 import is_tcgen05_mma
from simulator.execute.tcgen05.fetch import Cta
from simulator.execute.tcgen05.multiply import multiply
from simulator.execute.tcgen05.plan import Call
from simulator.state.tensor_memory import TensorMemory
from tests.simulator.arithmetic.test_b200 import SELECTORS, finite, finite_f32, published
from tests.support.cases import over

AT_B, D, METADATA, SCALE_A, SCALE_B = 8192, 0, 384, 128, 256  # bytes of shared memory; columns


class Probe(NamedTuple):
    """One of the harnesses.

    Attributes:
        kind: of the instruction.
        element: of A and B.
        code: of the element in the instruction descriptor.
        m, k: the shape; N is 8.
        chunk: columns of A that share a code.
        bits: of an element in shared memory.
        lead, stride: leading and stride byte offset of both descriptors, in bytes.
        compared: which elements of D the harness compares: rows, columns.
        vector: the type of scale factors, all of which differ; without: none.
    """

    kind: str
    element: str
    code: int
    m: int
    k: int
    chunk: int
    bits: int
    lead: int
    stride: int
    compared: tuple[int, int]
    vector: str = ""


PROBES = (
    Probe("tf32", "tf32", 2, 64, 16, 2, 32, 256, 128, (16, 8)),
    Probe("f16", "f16", 0, 64, 32, 4, 16, 128, 64, (12, 8)),
    Probe("f16", "bf16", 1, 64, 32, 4, 16, 128, 64, (12, 8)),
    Probe("f8f6f4", "e5m2", 1, 64, 64, 4, 8, 64, 32, (4, 4)),
    Probe("mxf4nvf4.block_scale.scale_vec::4X", "e2m1", 1, 128, 128, 8, 4, 32, 16, (1, 1), "ue4m3"),
)


def descriptor(start: int, probe: Probe) -> int:
    """A matrix without swizzle, K-major."""
    return start >> 4 | probe.lead >> 4 << 16 | probe.stride >> 4 << 32 | 1 << 46


def put(shared: np.ndarray, start: int, probe: Probe, rows: int, words: list[int]) -> None:
    """The same row in all rows: 16 bytes of each of 8 rows together, further 8 rows a stride on, further 16 bytes of a
    row a leading offset on. Later columns overwrite what is in their place."""
    width = 128 // probe.bits
    for k, word in enumerate(words):
        for row in range(rows):
            at = start + 16 * (row % 8) + probe.stride * (row // 8) + probe.lead * (k // width)
            if probe.bits == 4:
                place, low = at + k % width // 2, 4 * (k % 2)
                shared[place] = shared[place] & ~np.uint8(15 << low) | np.uint8(word << low)
            else:
                size = probe.bits // 8
                shared[at + k % width * size : at + (k % width + 1) * size] = list(word.to_bytes(size, "little"))


@over("probe", PROBES, ids=lambda probe: probe.element)
def test_products_of_the_harness(probe: Probe) -> None:
    """Of 16-bit kinds and tf32 lanes 0 to 7 hold the codes of the first four chunks, lanes 8 to 15 those of the others,
    in both halves of a word; of the other kinds the even column those of the first eight, the odd column the others."""
    rng = random.Random(probe.code + probe.k)
    form = isa.decode(f"tcgen05.mma.sp.cta_group::1.kind::{probe.kind} [%r0], %rd0, %rd1, [%r1], %r2, "
                      + "[%r3], [%r4], " * bool(probe.vector) + "%p0;", target="sm_100a").form  # fmt: skip
    assert is_tcgen05_mma(form)
    wide = probe.k // probe.chunk == 8
    for _ in range(20):
        codes = [rng.choice((4, 14) if probe.element == "tf32" else SELECTORS) for _ in range(probe.k // probe.chunk)]
        step = 2 if probe.chunk == 8 else 1
        stored = [probe.chunk * i + step * at + j for i, code in enumerate(codes) for at in (code & 3, code >> 2)
                  for j in range(step)]  # fmt: skip
        if probe.element == "tf32":
            stored = [2 * i + (code == 14) for i, code in enumerate(codes)]
        a, b = [finite(probe.element, rng) for _ in stored], [finite(probe.element, rng) for _ in range(probe.k)]
        c, scales = finite_f32(rng), [[rng.randrange(0x7F) for _ in range(4)] for _ in "ab"]
        cta = Cta(TensorMemory(), np.zeros(65536, np.uint8))
        cta.tmem.allocate(512)
        words = cta.tmem.words
        words[:, D : D + 8] = c
        texts = [sum(code << 4 * i for i, code in enumerate(codes[first : first + 8])) for first in (0, 8)]
        if wide:
            for first, half in ((0, texts[0] & 0xFFFF), (8, texts[0] >> 16)):
                words[first : first + 8, METADATA : METADATA + 8] = half | half << 16
        else:
            words[:16, METADATA : METADATA + 8] = [*texts] * 4
        for first, factors in ((SCALE_A, scales[0]), (SCALE_B, scales[1])):
            words[:, first : first + 8] = int.from_bytes(bytes(factors), "little")
        put(cta.shared, 0, probe, probe.m if not probe.vector else 1, a)
        put(cta.shared, AT_B, probe, 8 if not probe.vector else 1, b)
        shape = probe.m >> 7 << 27 if probe.vector else 1 << 4 | probe.m >> 4 << 24
        idesc = 1 << 2 | probe.code << 7 | probe.code << 10 | 1 << 17 | shape
        call = Call(form, D, descriptor(0, probe), descriptor(AT_B, probe), idesc, METADATA, SCALE_A, SCALE_B)
        multiply(call, [cta], target="sm_100a", meet=lambda *_: None)
        expected = published(probe.element, a, [b[i] for i in stored], c, scales if probe.vector else [], probe.vector)
        rows, columns = probe.compared
        assert (words[:rows, D : D + columns] == expected).all(), (probe, hex(expected))
