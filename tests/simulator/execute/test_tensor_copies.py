"""Tensor copies against an H200: random boxes of random maps, loads, im2col loads, stores and reductions."""

from __future__ import annotations

import numpy as np
import pytest

import simulator
from isa.descriptors.tensor_map import TensorMap
from isa.shared_memory.tensor_box import box
from simulator.execute.tensor_pieces import move
from tests.golden.compare_tensor_maps import COPIES, stored, wrong_copies
from tests.support.cases import exhaustive
from tests.support.tensor_copies import UNTOUCHED, load, store

PTX = """.version 8.3
.target sm_90a
.address_size 64
.visible .entry copy(.param .align 64 .b8 map[128], .param .u64 out, .param .u32 c0, .param .u32 c1, .param .u32 op) {{
.reg .pred %p<4>;
.reg .b32 %r<16>;
.reg .b64 %rd<8>;
.shared .align 1024 .b8 tile[4096];
.shared .align 8 .b64 bar;
ld.param.u32 %r1, [c0];
ld.param.u32 %r2, [c1];
ld.param.u64 %rd2, [out];
mov.b64 %rd0, map;
cvta.param.u64 %rd1, %rd0;
mov.u32 %r3, tile;
mov.u32 %r4, bar;
mov.u32 %r5, %tid.x;
setp.eq.u32 %p1, %r5, 0;
@%p1 mbarrier.init.shared::cta.b64 [%r4], 1;
bar.sync 0;
@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4], {bytes};
@%p1 {copy}
WAIT:
mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r4], 0;
@!%p2 bra WAIT;
mad.lo.u32 %r6, %r5, 4, %r3;
ld.shared.u32 %r7, [%r6];
mul.wide.u32 %rd3, %r5, 4;
add.s64 %rd3, %rd3, %rd2;
st.global.u32 [%rd3], %r7;
ret;
}}
"""
LOAD = (
    "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r3], [%rd1, {%r1, %r2}], [%r4];"
)


@pytest.mark.parametrize("name", COPIES)
def test_copies_are_those_of_the_chip(name: str) -> None:
    cases = stored(name)
    some = np.linspace(0, len(cases["records"]) - 1, 100).astype(int).tolist()
    assert list(wrong_copies(cases, some)) == []


@exhaustive
@pytest.mark.parametrize("name", COPIES)
def test_all_copies_are_those_of_the_chip(name: str) -> None:
    assert list(wrong_copies(stored(name))) == []


def test_boxes_within_the_tensor_take_a_short_way_to_the_same_places() -> None:
    cases, compared = stored("tiles"), 0
    for record in cases["records"][:400]:
        tensor = TensorMap.decode(record["map"].tobytes())
        start = tuple(record["start"][: tensor.rank].tolist())
        whole = box(tensor, start)
        if whole.inside.all():
            pieces = move(tensor, start, (), 0).inside
            spread = [places[:, None] + np.arange(pieces.bytes) for places in pieces[:2]]
            each = [places[:, None] + np.arange(whole.bytes) for places in (whole.shared, whole.memory)]
            assert all((mine.ravel() == theirs.ravel()).all() for mine, theirs in zip(spread, each, strict=True))
            compared += pieces.bytes == 16
    assert compared > 20


DATA = np.arange(16 * 64, dtype=np.uint16).reshape(16, 64)
FIELDS = {"type": "u16", "size": (64, 16), "stride_bytes": (128,), "box": (64, 8), "swizzle": 128}


def launched(start: tuple[int, int], copy: str = LOAD, **changes: object) -> np.ndarray:
    """uint16 [8, 64]: what is in shared memory after a copy of a 16 x 64 tensor."""
    fields: dict[str, object] = {**FIELDS, **changes}
    tensor, out = TensorMap(**fields), np.zeros(256, np.uint32)  # type: ignore[arg-type] # fields of one map
    kernel = simulator.Module(PTX.format(copy=copy, bytes=tensor.box_bytes)).get_function("copy")
    kernel(1, 256, ((tensor, DATA.copy()), out, *(np.int32(each) for each in start), np.int32(0)))
    return out.view(np.uint16).reshape(8, 64)


def test_a_launch_loads_a_swizzled_box_and_waits_for_its_bytes() -> None:
    rows = launched((0, 3)).reshape(8, 8, 8)  # row, 16 bytes, element
    for row in range(8):
        assert (rows[row, np.arange(8) ^ row].ravel() == DATA[3 + row]).all()
    assert (launched((0, 12))[4:] == 0).all()


def test_a_launch_loads_slices_of_pixels() -> None:
    images = np.arange(2 * 3 * 4 * 5 * 8, dtype=np.uint16).reshape(
        2, 3, 4, 5, 8
    )  # N, slices, H, W, channels of a slice
    tensor = TensorMap(
        "u16", size=(5, 4, 3, 2), stride_bytes=(80, 320, 960), box=(8, 2, 1, 2), element_stride=(2, 1, 1, 1),
        interleave=16,
    )  # fmt: skip
    got = load(tensor, images.copy(), "1, 3, 2, 0", 256, room=320, target="sm_90a")
    rows = got.view(np.uint16)[:128].reshape(2, 2, 4, 8)  # N, H, W
    assert (rows[:, 0, :2] == images[:, 2, 3, 1::2]).all()
    assert (rows[:, 0, 2:] == 0).all()
    assert (rows[:, 1] == 0).all()
    assert (got[256:] == UNTOUCHED).all()


def test_a_launch_stores_pixels_by_im2col() -> None:
    data = np.zeros((2, 5, 8), np.uint16)  # N, W, C
    fields = {"lower": (1,), "upper": (-1,), "channels": 8, "pixels": 4}
    tensor = TensorMap("u16", size=(8, 5, 2), stride_bytes=(16, 80), **fields)  # type: ignore[arg-type] # of one map
    pixels = np.arange(1, 33, dtype=np.uint16).reshape(4, 8)
    store(tensor, data, "0, 2, 0", pixels.view(np.uint8).ravel(), ".im2col_no_offs", "sm_90a")
    expected = np.zeros_like(data)
    expected[0, 2:4], expected[1, 1:3] = pixels[:2], pixels[2:]  # W goes from 1 to 3, then the next image
    assert (data == expected).all()


@pytest.mark.parametrize(
    ("start", "changes", "reason"),
    [
        ((4, 0), {}, "the innermost coordinate 4 is not a multiple of 16 bytes (u16): the chip stops"),
        (
            (0, 0),
            {"size": (64, 1, 16), "stride_bytes": (128, 128), "box": (64, 1, 8)},
            "a 2d copy of a tensor map of 3",
        ),
    ],
)
def test_what_the_chip_refuses_names_the_thread(
    start: tuple[int, int], changes: dict[str, object], reason: str
) -> None:
    with pytest.raises(simulator.Error, match=reason.replace("(", r"\(").replace(")", r"\)")) as raised:
        launched(start, LOAD, **changes)
    assert "CTA (0, 0, 0), warp 0, lane 0" in str(raised.value)


def test_a_map_reaches_no_further_than_its_array() -> None:
    with pytest.raises(simulator.Error, match="reaches over 4096 bytes, its array has 2048"):
        launched((0, 0), size=(64, 32))


def test_every_thread_would_copy() -> None:
    with pytest.raises(simulator.Error, match=r"by 32 threads of warp 0: each would copy"):
        launched((0, 0), copy="mov.u32 %r9, 0;\n" + LOAD)


STORE = """add.u32 %r8, %r2, 8;
setp.lt.u32 %p3, %r5, 32;
@%p3 cp{reduce}.async.bulk.tensor.2d.global.shared::cta{operation}.bulk_group [%rd1, {{%r1, {row}}}], [%r3];
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;
mad.lo.u32 %r6"""


@pytest.mark.parametrize(("row", "reduce", "operation"), [("%r8", "", ""), ("%r5", "", ""), ("%r8", ".reduce", ".add")])
def test_a_store_by_a_whole_warp_counts_once(row: str, reduce: str, operation: str) -> None:
    """CUTLASS's epilogues for Blackwell let all threads of a warp store the same box; a reduction would be done 32
    times, and boxes that differ are 32 stores."""
    store = STORE.format(row=row, reduce=reduce, operation=operation)
    text = PTX.replace("mad.lo.u32 %r6", store.replace("{", "{{").replace("}", "}}"))
    data, out = DATA.copy(), np.zeros(256, np.uint32)
    tensor = TensorMap(type="u32", size=(32, 16), stride_bytes=(128,), box=(32, 8), swizzle=128)
    kernel = simulator.Module(text.format(copy=LOAD, bytes=tensor.box_bytes)).get_function("copy")
    arguments = ((tensor, data.view(np.uint32)), out, np.int32(0), np.int32(0), np.int32(0))
    if (row, operation) == ("%r8", ""):
        kernel(1, 256, arguments)
        assert (data[8:] == DATA[:8]).all()
    else:
        with pytest.raises(simulator.Error, match="each would copy"):
            kernel(1, 256, arguments)
