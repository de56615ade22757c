"""Tensor copies that only Blackwell has, in launches: each against values worked out from the words and tables of PTX
ISA 9.0, 5.5, without the mapping that the simulator uses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import simulator
from isa.descriptors.tensor_map import TensorMap

PTX = """.version 8.8
.target sm_100a
.address_size 64
.visible .entry copy(.param .align 64 .b8 map[128], .param .u64 given, .param .u64 out, .param .u32 words) {{
.reg .pred %p<4>;
.reg .b16 %h<4>;
.reg .b32 %r<16>;
.reg .b64 %rd<8>;
.shared .align 1024 .b8 tile[16384];
.shared .align 8 .b64 bar;
ld.param.u64 %rd2, [out];
ld.param.u64 %rd4, [given];
ld.param.u32 %r9, [words];
mov.b64 %rd0, map;
cvta.param.u64 %rd1, %rd0;
mov.u32 %r3, tile;
mov.u32 %r4, bar;
mov.u32 %r5, %tid.x;
setp.eq.u32 %p1, %r5, 0;
@%p1 mbarrier.init.shared::cta.b64 [%r4], 1;
mov.u32 %r8, %r5;
FILL:
mad.lo.u32 %r6, %r8, 4, %r3;
mul.wide.u32 %rd3, %r8, 4;
add.s64 %rd3, %rd3, %rd4;
ld.global.u32 %r7, [%rd3];
st.shared.u32 [%r6], %r7;
add.u32 %r8, %r8, 256;
setp.lt.u32 %p2, %r8, %r9;
@%p2 bra FILL;
fence.proxy.async.shared::cta;
bar.sync 0;
@!%p1 bra COPIED;
{copy}
COPIED:
{wait}
mov.u32 %r8, %r5;
SHOW:
mad.lo.u32 %r6, %r8, 4, %r3;
ld.shared.u32 %r7, [%r6];
mul.wide.u32 %rd3, %r8, 4;
add.s64 %rd3, %rd3, %rd2;
st.global.u32 [%rd3], %r7;
add.u32 %r8, %r8, 256;
setp.lt.u32 %p2, %r8, %r9;
@%p2 bra SHOW;
ret;
}}
"""
WAIT = "WAIT:\nmbarrier.try_wait.parity.shared::cta.b64 %p2, [%r4], 0;\n@!%p2 bra WAIT;"
LOAD = (
    "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4], {bytes};\n{set}"
    "cp.async.bulk.tensor.{dims}d.shared::cta.global{mode}.mbarrier::complete_tx::bytes "
    "[%r3], [%rd1, {{{at}}}], [%r4]{info};"
)
STORE = (
    "cp.async.bulk.tensor.{dims}d.global.shared::cta{mode}.bulk_group [%rd1, {{{at}}}], [%r3];\n"
    "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;"
)
UNTOUCHED = 0xA5


def run(tensor: TensorMap, data: Any, copy: str, wait: str, shared: Any) -> np.ndarray:
    """uint8 [byte]: what shared memory holds after a copy, of what it held before."""
    given = np.pad(shared, (0, -len(shared) % 1024))  # 256 threads, 4 bytes each
    out = np.zeros(len(given) // 4, np.uint32)
    kernel = simulator.Module(PTX.format(copy=copy, wait=wait)).get_function("copy")
    kernel(1, 256, ((tensor, data), given.view(np.uint32), out, np.uint32(len(out))))
    return out.view(np.uint8)[: len(shared)]


def load(tensor: TensorMap, data: Any, at: str, counted: int, *, room: int, mode: str = "", info: str = "") -> Any:
    """uint8 [room]: shared memory, filled with `UNTOUCHED`, after a load that counts so many bytes."""
    numbers = info.split(",") if info else []
    moves = "".join(f"mov.u16 %h{place}, {number};\n" for place, number in enumerate(numbers))
    copy = LOAD.format(
        bytes=counted, dims=tensor.rank, mode=mode, at=at, set=moves, info=", {%h0, %h1}" if info else ""
    )  # fmt: skip
    return run(tensor, data, copy, WAIT, np.full(room, UNTOUCHED, np.uint8))


def store(tensor: TensorMap, data: Any, at: str, shared: Any, mode: str = "") -> None:
    """Stores a box of shared memory into `data`."""
    run(tensor, data, STORE.format(dims=tensor.rank, mode=mode, at=at), "bar.sync 0;", shared)


ROWS = np.arange(32 * 64, dtype=np.uint16).reshape(32, 64)
ROW_MAP = TensorMap("u16", size=(64, 32), stride_bytes=(128,), box=(16, 1))


def test_gather4_puts_four_rows_one_below_the_other() -> None:
    got = load(ROW_MAP, ROWS.copy(), "8, 5, 31, 40, 0", 128, room=256, mode=".tile::gather4")
    rows = got.view(np.uint16).reshape(8, 16)
    assert (rows[0] == ROWS[5, 8:24]).all()
    assert (rows[1] == ROWS[31, 8:24]).all()
    assert (rows[2] == 0).all()
    assert (rows[3] == ROWS[0, 8:24]).all()
    assert (got[128:] == UNTOUCHED).all()


def test_scatter4_writes_four_rows_where_each_belongs() -> None:
    data = ROWS.copy()
    rows = np.arange(1000, 1064, dtype=np.uint16).reshape(4, 16)
    store(ROW_MAP, data, "48, 9, 2, 33, 11", rows.view(np.uint8).ravel(), ".tile::scatter4")
    expected = ROWS.copy()
    expected[9, 48:], expected[2, 48:], expected[11, 48:] = rows[0], rows[1], rows[3]
    assert (data == expected).all()


# The tables of 5.5.7: in each line of 128 bytes, which 16 bytes of a row of 128 lie there
TABLES = {
    32: ("01234567", "23016745", "45670123", "67452301"),
    64: ("01234567", "45670123"),
}


@pytest.mark.parametrize(("atom", "flip"), [(32, 0), (32, 8), (64, 0)])
def test_swizzles_with_larger_atoms_are_those_of_the_tables(atom: int, flip: int) -> None:
    data = np.arange(8 * 16, dtype=np.uint64).reshape(8, 16)
    tensor = TensorMap("u64", size=(16, 8), stride_bytes=(128,), box=(16, 8), swizzle=128, atom=atom, flip=flip)
    lines = load(tensor, data.copy(), "0, 0", 1024, room=1024).view(np.uint64).reshape(8, 8, 2)
    for line in range(8):
        table = TABLES[atom][line % len(TABLES[atom])]
        chunks = data[line].reshape(8, 2)[[int(number) for number in table]]
        assert (lines[line] == (chunks[:, ::-1] if flip and line % 2 else chunks)).all()


def test_16_4_bit_elements_get_8_bytes_of_padding_that_stay_as_they_were() -> None:
    data = np.random.default_rng(1).integers(0, 256, (4, 128), dtype=np.uint8)
    tensor = TensorMap("b4x16_p64", size=(256, 4), stride_bytes=(128,), box=(128, 2))
    got = load(tensor, data.copy(), "128, 1", 128, room=256).reshape(2, 8, 16)
    assert (got[..., :8] == data[1:3, 64:].reshape(2, 8, 8)).all()
    assert (got[..., 8:] == UNTOUCHED).all()


def test_16_6_bit_elements_get_4_bytes_of_padding_that_stay_as_they_were() -> None:
    data = np.random.default_rng(2).integers(0, 256, (4, 192), dtype=np.uint8)
    tensor = TensorMap("b6x16_p32", size=(256, 4), stride_bytes=(192,), box=(128, 2), swizzle=128)
    got = load(tensor, data.copy(), "128, 3", 192, room=256).reshape(2, 8, 16)
    assert (got[0, :, :12] == data[3, 96:].reshape(8, 12)).all()
    assert (got[1, :, :12] == 0).all()  # the row behind the tensor
    assert (got[..., 12:] == UNTOUCHED).all()


def test_a_store_of_6_bit_elements_drops_two_bits_of_each_byte() -> None:
    data = np.zeros((2, 96), np.uint8)
    shared = np.random.default_rng(3).integers(0, 256, 128, dtype=np.uint8)
    tensor = TensorMap("b6x16_p32", size=(128, 2), stride_bytes=(96,), box=(128, 1))
    store(tensor, data, "0, 1", shared)
    packed = sum((int(byte) & 63) << 6 * place for place, byte in enumerate(shared))
    assert data[1].tobytes() == packed.to_bytes(96, "little")
    assert not data[0].any()


def test_4_bit_elements_without_padding_are_copied_as_they_are() -> None:
    data = np.random.default_rng(4).integers(0, 256, (4, 64), dtype=np.uint8)
    tensor = TensorMap("b4x16", size=(128, 4), stride_bytes=(64,), box=(64, 2))
    got = load(tensor, data.copy(), "96, 2", 64, room=64).reshape(2, 32)
    assert (got[:, :16] == data[2:, 48:]).all()
    assert (got[:, 16:] == 0).all()


PIXELS = np.arange(3 * 2 * 5, dtype=np.uint16).reshape(3, 2, 5)  # N, H, W: the number of each pixel
IMAGES = np.repeat(PIXELS[..., None] + np.uint16(1), 32, axis=-1)  # 32 channels, each with its pixel's number + 1


def wide(at: str, info: str, mode: str, counted: int, pixels: int = 6, **changes: Any) -> list[int]:
    """The numbers of the pixels that a wide copy brings, 0 for those outside of the tensor, -1 for untouched ones."""
    fields: dict[str, Any] = {
        "size": (32, 5, 2, 3), "stride_bytes": (64, 320, 640), "lower": (-1, 0), "upper": (-1, 0), "channels": 32,
        "pixels": pixels, "swizzle": 64, **changes,
    }  # fmt: skip
    tensor = TensorMap("u16", **fields)
    room = 64 * (counted + 2)
    got = load(tensor, IMAGES.copy(), at, 64 * counted, room=room, mode=mode, info=info).view(np.uint16)
    rows = got.reshape(-1, 32)
    assert (rows == rows[:, :1]).all()
    return [-1 if number == 0xA5A5 else number for number in rows[:, 0].tolist()]


def test_wide_im2col_goes_along_w_and_to_the_next_image() -> None:
    # Row H = 1: images have pixels 6 to 10, 16 to 20, 26 to 30. W goes from -1 to 3, then on at -1 of the next image
    assert wide("0, 1, 1, 0", "0, 0", ".im2col::w", 6) == [7, 8, 9, 0, 16, 17, -1, -1]
    # wHalo: two more pixels behind them; wOffset: corners and start one further
    assert wide("0, 1, 1, 0", "2, 0", ".im2col::w", 8) == [7, 8, 9, 0, 16, 17, 18, 19, -1, -1]
    assert wide("0, 1, 1, 0", "0, 1", ".im2col::w", 6) == [8, 9, 10, 16, 17, 18, -1, -1]
    # The traversal stride is that of W; the first pixel may lie left of the corner
    assert wide("0, -2, 1, 1", "0, 0", ".im2col::w", 6, element_stride=(1, 2, 1, 1)) == [0, 16, 18, 0, 27, 29, -1, -1]


def test_wide_im2col_of_128_pixels_has_a_halo_behind_each_32() -> None:
    # Lower 0, upper 0: rows of 5 pixels of H = 0, of three images, and nothing behind the last
    walk = [1, 2, 3, 4, 5, 11, 12, 13, 14, 15, 21, 22, 23, 24, 25] + [0] * 200
    got = wide("0, 0, 0, 0", "3, 0", ".im2col::w::128", 140, pixels=1, lower=(0, 0), upper=(0, 0))
    expected = [pixel for quarter in range(4) for pixel in walk[32 * quarter : 32 * quarter + 35]]
    assert got == [*expected, -1, -1]


REFUSED = [
    (ROW_MAP, "4, 0, 1, 2, 3", ".tile::gather4", "", "the innermost coordinate 4 is not a multiple of 16 bytes"),
    (TensorMap("u16", (64, 32), (128,), (16, 2)), "0, 0, 1, 2, 3", ".tile::gather4", "", "a box of 2 rows, not 1"),
    (
        TensorMap("b6x16_p32", (256, 4), (192,), (128, 1)), "64, 0", "", "",
        "the innermost coordinate 64 is not a multiple of 128 elements",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("tensor", "at", "mode", "info", "reason"), REFUSED)
def test_what_is_refused_says_why(tensor: TensorMap, at: str, mode: str, info: str, reason: str) -> None:
    with pytest.raises(simulator.Error, match=reason):
        load(tensor, np.zeros((32, 192), np.uint8), at, 128, room=256, mode=mode, info=info)


@pytest.mark.parametrize(
    ("info", "changes", "reason"),
    [
        ("512, 0", {}, "wHalo 512 of .im2col::w; legal: 0 to 511"),
        ("0, 32", {}, "wOffset 32 of .im2col::w; legal: 0 to 31"),
        ("0, 0", {"swizzle": 0}, "a copy with .im2col::w of a map with swizzle none"),
    ],
)
def test_a_wide_copy_that_is_refused_says_why(info: str, changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(simulator.Error, match=reason):
        wide("0, 0, 0, 0", info, ".im2col::w", 6, **changes)


@pytest.mark.parametrize(
    ("tensor", "reason"),
    [
        (TensorMap("b4x16_p64", (128, 4), (64,), (128, 1)), "a store of a tensor of b4x16_p64"),
        (
            TensorMap("u64", (16, 4), (128,), (16, 1), swizzle=128, atom=32, flip=8),
            "a store of a map whose swizzle flips 8 bytes",
        ),
    ],
)
def test_stores_that_there_are_not_are_refused(tensor: TensorMap, reason: str) -> None:
    with pytest.raises(simulator.Error, match=reason):
        store(tensor, np.zeros((4, 128), np.uint8), "0, 0", np.zeros(256, np.uint8))


PAIR = """.version 8.8
.target sm_100a
.address_size 64
.visible .entry pair(.param .align 64 .b8 map[128], .param .u64 out) .reqnctapercluster 4, 1, 1 {{
.reg .pred %p<4>;
.reg .b16 %h<4>;
.reg .b32 %r<16>;
.reg .b64 %rd<8>;
.shared .align 1024 .b8 tile[1024];
.shared .align 8 .b64 bar;
ld.param.u64 %rd2, [out];
mov.b64 %rd0, map;
cvta.param.u64 %rd1, %rd0;
mov.u32 %r3, tile;
mov.u32 %r4, bar;
mov.u32 %r5, %tid.x;
mov.u32 %r10, %cluster_ctarank;
mov.u32 %r12, %ctaid.x;
and.b32 %r11, %r10, 1;
mul.lo.u32 %r13, %r10, 8;
setp.eq.u32 %p1, %r5, 0;
setp.eq.u32 %p3, %r11, 0;
shr.u32 %r14, %r10, 1;
add.u32 %r14, %r14, 1;
shl.b32 %r14, %r14, 10;
@%p1 mbarrier.init.shared::cta.b64 [%r4], 1;
barrier.cluster.arrive.aligned;
barrier.cluster.wait.aligned;
and.b32 %r6, %r4, 0xFEFFFFFF;
@!%p1 bra COPIED;
@%p3 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4], {bytes};
{copy}
COPIED:
@!%p3 bra DONE;
WAIT:
mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r4], 0;
@!%p2 bra WAIT;
DONE:
barrier.cluster.arrive.aligned;
barrier.cluster.wait.aligned;
mad.lo.u32 %r7, %r5, 4, %r3;
ld.shared.u32 %r8, [%r7];
mad.lo.u32 %r9, %r12, 256, %r5;
mul.wide.u32 %rd3, %r9, 4;
add.s64 %rd3, %rd3, %rd2;
st.global.u32 [%rd3], %r8;
ret;
}}
"""
OWN = (
    "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.cta_group::{group} "
    "[%r3], [%rd1, {{0, %r13}}], [%r6];"
)
TO_ALL = (  # CTA 1 brings rows 8 to 15 to CTAs 0, 2 and 3
    "mov.u16 %h1, 13;\nsetp.eq.u32 %p2, %r10, 1;\n@%p2 cp.async.bulk.tensor.2d.shared::cluster.global.tile"
    ".mbarrier::complete_tx::bytes.multicast::cluster.cta_group::2 [%r3], [%rd1, {0, %r13}], [%r6], %h1;"
)


def paired(copy: str, counted: str) -> np.ndarray:
    """int32 [4, 8, 32]: what each CTA of a cluster of two pairs has in shared memory; the even CTA of each waits for so
    many bytes ("%r14": 1024 in the first pair, 2048 in the second)."""
    data, out = np.arange(32 * 32, dtype=np.int32).reshape(32, 32), np.zeros((4, 8, 32), np.int32)
    tensor = TensorMap("s32", size=(32, 32), stride_bytes=(128,), box=(32, 8))
    simulator.Module(PAIR.format(copy=copy, bytes=counted)).get_function("pair")(4, 256, ((tensor, data), out))
    return out


def test_the_leader_of_a_pair_counts_the_bytes_of_both() -> None:
    assert (paired(OWN.format(group=2), "2048").ravel() == np.arange(32 * 32)).all()


def test_a_multicast_counts_on_the_even_cta_of_each_pair() -> None:
    rows = np.arange(8 * 32, 16 * 32).reshape(8, 32)
    got = paired(TO_ALL, "%r14")  # of the first pair one CTA has a box, of the second both
    assert (got[[0, 2, 3]] == rows).all()
    with pytest.raises(simulator.Error, match="deadlock"):
        paired(TO_ALL, "2048")


def test_an_mbarrier_of_the_peer_needs_cta_group_2() -> None:
    with pytest.raises(simulator.Error, match="an mbarrier in CTA 0 of the cluster for a box in CTA 1"):
        paired(OWN.format(group=1), "2048")
