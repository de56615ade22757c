"""tcgen05.ld, st, cp and shift on state: cells against hand-written loops, what stays untouched, and what is
refused."""

from __future__ import annotations

import numpy as np
import pytest

import simulator
from isa import IsaError, UndefinedBehavior
from isa.shared_memory.tile import Tile
from isa.tensor_memory.copies import copy
from isa.tensor_memory.moves import move
from simulator.execute.tcgen05.fetch import Cta
from simulator.execute.tcgen05.moves import copy_in, load, shift, store
from simulator.state.tensor_memory import TensorMemory
from tests.support.cases import over


def cta(seed: int = 0, columns: int = 512, shared: int = 65536) -> Cta:
    """Cells and bytes of random numbers."""
    rng = np.random.default_rng(seed)
    tmem = TensorMemory()
    tmem.allocate(columns)
    tmem.words[:] = rng.integers(0, 1 << 32, tmem.words.shape, dtype=np.uint32)
    return Cta(tmem, rng.integers(0, 256, shared, dtype=np.uint8))


def place(shape: str, thread: int, register: int) -> tuple[int, int]:
    """Lane and column of a register, typed from CUTLASS's copy traits."""
    return {
        "32x32b": (thread, register),
        "16x64b": (thread // 4 + 8 * (thread % 2), 2 * register + thread // 2 % 2),
        "16x128b": (thread // 4 + 8 * (register % 2), 4 * (register // 2) + thread % 4),
        "16x256b": (thread // 4 + 8 * (register // 2 % 2), 8 * (register // 4) + 2 * (thread % 4) + register % 2),
    }[shape]


@over("warp", [0, 1, 6])
@over(("shape", "repeats"), [("32x32b", 1), ("32x32b", 32), ("16x64b", 4), ("16x128b", 2), ("16x256b", 8)])
def test_load_and_store(shape: str, repeats: int, warp: int) -> None:
    state, how = cta(), move(shape, repeats)
    for lane in how.base_lanes(warp):
        before = state.tmem.words.copy()
        found = load(state, warp, lane << 16 | 40, how)
        expected = np.array(
            [
                [before[lane + i, 40 + j] for i, j in (place(shape, t, r) for t in range(32))]
                for r in range(how.registers)
            ]
        )
        assert np.array_equal(found, expected)
        assert np.array_equal(state.tmem.words, before)
        new = np.arange(found.size, dtype=np.uint32).reshape(found.shape)
        store(state, warp, lane << 16 | 40, how, new)
        for register in range(how.registers):
            for thread in range(32):
                i, j = place(shape, thread, register)
                before[lane + i, 40 + j] = new[register, thread]
        assert np.array_equal(state.tmem.words, before)


def test_pack_and_unpack() -> None:
    state, how = cta(), move("32x32b", 4, packed=True)
    found = load(state, 2, 64 << 16 | 8, how)
    cells = state.tmem.words[64:96, 8:16] & 0xFFFF
    assert np.array_equal(found, (cells[:, 0::2] | cells[:, 1::2] << np.uint32(16)).T)
    store(state, 2, 64 << 16 | 8, how, found)
    assert np.array_equal(state.tmem.words[64:96, 8:16], cells)


def test_halves_of_16x32bx2() -> None:
    state = cta()
    before = state.tmem.words.copy()
    how = move("16x32bx2", 2, half_split=100)
    store(state, 0, 16 << 16 | 4, how, np.arange(64, dtype=np.uint32).reshape(2, 32))
    for register in range(2):
        for thread in range(32):
            before[16 + thread % 16, 4 + register + 100 * (thread // 16)] = 32 * register + thread
    assert np.array_equal(state.tmem.words, before)  # what lies between the halves stays
    assert np.array_equal(load(state, 0, 16 << 16 | 4, how), np.arange(64, dtype=np.uint32).reshape(2, 32))


@pytest.mark.parametrize(
    ("warp", "address", "words"),
    [
        (0, 32 << 16, "lane"),
        (3, 0, "lane"),
        (1, 48 << 16, "lane"),
        (0, 510, "column"),
        (0, 200 << 16, "lane"),
        (0, 600, "column"),
    ],
)
def test_refused_places(warp: int, address: int, words: str) -> None:
    state = cta()
    before = state.tmem.words.copy()
    with pytest.raises(IsaError, match=words):
        load(state, warp, address, move("32x32b", 4))
    with pytest.raises(IsaError, match=words):
        store(state, warp, address, move("32x32b", 4), np.zeros((4, 32), np.uint32))
    assert np.array_equal(state.tmem.words, before)


def test_columns_must_be_allocated() -> None:
    state = cta(columns=64)
    with pytest.raises(UndefinedBehavior) as caught:
        load(state, 0, 62, move("32x32b", 4))
    assert caught.value.rule == "tmem-not-allocated"
    with pytest.raises(UndefinedBehavior):
        store(state, 0, 62, move("32x32b", 4), np.ones((4, 32), np.uint32))
    with pytest.raises(UndefinedBehavior):
        copy_in([state], 62, Tile(128, 16, "u8", swizzle="none").descriptor.encode(), copy("128x128b"))
    with pytest.raises(UndefinedBehavior):
        shift([state], 60)


COPIES = {
    # shape, multicast: lanes of row r
    ("128x256b", ""): lambda r: [r],
    ("128x128b", ""): lambda r: [r],
    ("64x128b", "warpx2::02_13"): lambda r: [r, r + 64],
    ("64x128b", "warpx2::01_23"): lambda r: [r % 32 + 64 * (r // 32), r % 32 + 64 * (r // 32) + 32],
    ("32x128b", "warpx4"): lambda r: [r, r + 32, r + 64, r + 96],
    ("4x256b", ""): lambda r: [32 * r],
}


@pytest.mark.parametrize(("shape", "multicast"), COPIES)
def test_copies(shape: str, multicast: str) -> None:
    """Rows of a tile without swizzle: 8 rows of 16 bytes in a row, the next 8 rows and the next 16 bytes where the
    tile's strides say."""
    pair = [cta(1), cta(2)]
    rows, width = int(shape.split("x", maxsplit=1)[0]), int(shape.split("x")[1][:-1]) // 8
    tile = Tile(max(rows, 8), width, "u8", swizzle="none", start=1024)
    matrices = [
        np.random.default_rng(seed).integers(0, 256, (max(rows, 8), width)).astype(np.uint32) for seed in (3, 4)
    ]
    expected = []
    for one, matrix in zip(pair, matrices, strict=True):
        tile.write(one.shared, matrix)
        words = one.tmem.words.copy()
        for r in range(rows):
            for lane in COPIES[shape, multicast](r):
                for column in range(width // 4):
                    words[lane, 12 + column] = int.from_bytes(
                        bytes(matrix[r, 4 * column : 4 * column + 4].astype(np.uint8)), "little"
                    )
        expected.append(words)
    copy_in(pair, 12, tile.descriptor.encode(), copy(shape, multicast))
    for one, words in zip(pair, expected, strict=True):
        assert np.array_equal(one.tmem.words, words)


def test_decompression_makes_bytes() -> None:
    """16 elements of 4 bits and 8 bytes of padding become 16 bytes with the element in bits 5 to 2 (inferred)."""
    state = cta()
    state.shared[:] = 0
    rng = np.random.default_rng(0)
    elements = rng.integers(0, 16, (128, 16))
    for r in range(128):
        at = 16 * r
        state.shared[at : at + 8] = elements[r, 0::2] | elements[r, 1::2] << 4
        state.shared[at + 8 : at + 16] = 0xA5
    descriptor = Tile(128, 16, "u8", swizzle="none").descriptor
    copy_in([state], 0, descriptor.encode(), copy("128x128b"), source="b4x16_p64")
    found = np.ascontiguousarray(state.tmem.words[:, :4]).view(np.uint8)
    assert np.array_equal(found, elements << 2)


def test_shift_moves_all_but_the_last_row_of_a_quarter() -> None:
    state = cta()
    before = state.tmem.words.copy()
    shift([state], 32 << 16 | 16)
    for lane in range(32, 63):
        before[lane, 16:24] = before[lane + 1, 16:24]
    assert np.array_equal(state.tmem.words, before)
    with pytest.raises(IsaError, match="lane 16"):
        shift([state], 16 << 16)


def test_only_the_4x256b_copy_starts_within_a_quarter() -> None:
    state = cta()
    descriptor = Tile(8, 32, "u8", swizzle="none").descriptor.encode()
    copy_in([state], 31 << 16, descriptor, copy("4x256b"))
    assert state.tmem.written[[31, 63, 95, 127], :8].all()
    assert state.tmem.written.sum() == 32
    with pytest.raises(IsaError, match="lane"):
        copy_in([state], 16 << 16, descriptor, copy("128x128b"))


PAIR = """.version 8.8
.target sm_100a
.address_size 64
.visible .entry pair(.param .u64 out, .param .u32 lane) .reqnctapercluster 2, 1, 1 {
.reg .b32 %r<9>;
.reg .b64 %rd<3>;
.shared .align 4 .b32 taddr;
mov.u32 %r0, taddr;
tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%r0], 32;
ld.shared.u32 %r1, [%r0];
mov.u32 %r2, %ctaid.x;
mov.u32 %r3, %tid.x;
mad.lo.u32 %r4, %r2, 32, %r3;
ld.param.u32 %r5, [lane];
mul.lo.u32 %r5, %r5, %r2;
mad.lo.u32 %r6, %r5, 65536, %r1;
tcgen05.st.sync.aligned.32x32b.x1.b32 [%r1], {%r4};
tcgen05.st.sync.aligned.32x32b.x1.b32 [%r6+1], {%r4};
tcgen05.wait::st.sync.aligned;
tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r7}, [%r6];
tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r8}, [%r1+1];
tcgen05.wait::ld.sync.aligned;
add.u32 %r7, %r7, %r8;
ld.param.u64 %rd1, [out];
mul.wide.u32 %rd2, %r4, 4;
add.s64 %rd1, %rd1, %rd2;
st.global.u32 [%rd1], %r7;
barrier.cluster.arrive.aligned;
barrier.cluster.wait.aligned;
tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r1, 32;
ret;
}
"""


def test_lanes_that_the_second_cta_of_a_pair_counts_on_are_its_own() -> None:
    """Public kernels address row r of D in lane r of 256 (github.com/gau-nernst/learn-cuda, 02e_matmul_sm100); other
    lanes that do not exist stay errors."""
    pair = simulator.Module(PAIR).get_function("pair")
    for lane, noted in ((0, 0), (128, 2)):
        out = np.zeros(64, np.uint32)
        report = pair(2, 32, (out, np.uint32(lane)))
        assert (out == 2 * np.arange(64)).all()
        assert report.undefined.get("tmem-pair-lane", 0) == noted
    with pytest.raises(simulator.Error, match="lane 256 is outside Tensor Memory"):
        pair(2, 32, (np.zeros(64, np.uint32), np.uint32(256)))
    alone = simulator.Module(PAIR.replace(".reqnctapercluster 2, 1, 1", "").replace("cta_group::2", "cta_group::1"))
    with pytest.raises(simulator.Error, match="lane 128 is outside Tensor Memory"):
        alone.get_function("pair")(2, 32, (np.zeros(64, np.uint32), np.uint32(128)))


def test_of_addresses_that_differ_in_a_warp_the_first_counts() -> None:
    """A public attention kernel adds the thread to the lane (github.com/mirage-project/mirage, mla_decode_sm100)."""
    own = "shl.b32 %r6, %r3, 16;\nadd.u32 %r6, %r6, %r1;"
    differing = simulator.Module(PAIR.replace("mad.lo.u32 %r6, %r5, 65536, %r1;", own)).get_function("pair")
    out = np.zeros(64, np.uint32)
    report = differing(2, 32, (out, np.uint32(0)))
    assert (out == 2 * np.arange(64)).all()
    assert report.undefined["uneven-operand"] == 4
    with pytest.raises(simulator.Error, match="the same in the whole warp"):
        differing(2, 32, (out, np.uint32(0)), undefined="raise")
