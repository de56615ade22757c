"""Bulk copies and reductions, and single values that complete on an mbarrier, in launches, against numpy."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

import simulator

SIZE = 4096
KERNEL = """.version 9.0
.target {target}
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out) {{
.reg .pred %p<4>; .reg .b16 %rs<4>; .reg .b32 %r<16>; .reg .f32 %f<4>; .reg .b64 %rd<12>; .reg .f64 %fd<4>;
.shared .align 128 .b8 tile[4096];
.shared .align 128 .b8 other[4096];
.shared .align 8 .b64 bar;
ld.param.u64 %rd1, [in];
ld.param.u64 %rd2, [out];
mov.u32 %r1, tile;
mov.u32 %r2, other;
mov.u32 %r3, bar;
mov.u32 %r4, %tid.x;
setp.eq.u32 %p1, %r4, 0;
@%p1 mbarrier.init.shared::cta.b64 [%r3], 1;
bar.sync 0;
@!%p1 bra WORK;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 4096;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%rd1], 4096, [bar];
WORK:
mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0;
@!%p2 bra WORK;
{body}
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;
ret;
}}
"""
# The second phase of the mbarrier, for copies to shared memory
SECOND = """@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], {bytes};
{work}
AGAIN:
mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 1;
@!%p2 bra AGAIN;
@%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd2], [other], 4096;"""
OUT = "@%p1 cp.async.bulk.global.shared::cta.bulk_group{rest} [%rd2], [tile], {operands};"
FAR = (
    "@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
    " [tile], [%rd1], 16, [bar], 3;"
)
GENERATOR = np.random.default_rng(0)


def after(body: str, data: np.ndarray, out: np.ndarray, target: str = "sm_90a", threads: int = 64) -> np.ndarray:
    """`out` after a launch of one CTA, whose body finds the 4096 bytes of `data` in `tile`; as uint8."""
    found = out.copy().view(np.uint8)
    function = simulator.Module(KERNEL.format(target=target, body=body)).get_function("k")
    function(1, threads, (data.view(np.uint8), found), config=None)
    return found


def some_bytes() -> np.ndarray:
    return GENERATOR.integers(0, 256, SIZE, np.uint8)


@pytest.mark.parametrize(
    ("rest", "operands", "target"),
    [("", "4096", "sm_90a"), (".L2::cache_hint", "4096, %rd5", "sm_90a"), ("", "1040", "sm_100a")],
)
def test_a_copy_to_shared_memory_and_back_moves_as_many_bytes(rest: str, operands: str, target: str) -> None:
    data, before = some_bytes(), some_bytes()
    size = int(operands.split(",", maxsplit=1)[0])
    found = after(OUT.format(rest=rest, operands=operands), data, before, target)
    assert (found == np.concatenate([data[:size], before[size:]])).all()


def test_a_mask_chooses_bytes_of_each_16() -> None:
    data, before = some_bytes(), some_bytes()
    found = after(OUT.format(rest=".cp_mask", operands="4096, 0x8421"), data, before, "sm_100a")
    chosen = np.isin(np.arange(SIZE) % 16, [0, 5, 10, 15])
    assert (found == np.where(chosen, data, before)).all()


def test_a_copy_between_shared_memories_completes_on_the_mbarrier() -> None:
    data = some_bytes()
    copy = "@%p1 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r2+64], [%r1], 2048, [%r3];"
    found = after(SECOND.format(bytes=2048, work=copy), data, np.zeros(SIZE, np.uint8))
    assert (found == np.concatenate([np.zeros(64, np.uint8), data[:2048], np.zeros(1984, np.uint8)])).all()


INTEGERS: dict[str, Callable[..., np.ndarray]] = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "inc": lambda old, b: np.where(old >= b, 0, old + 1),
    "dec": lambda old, b: np.where((old == 0) | (old > b), b, old - 1),
}  # fmt: skip
REDUCTIONS = [
    *((op, kind) for op in ("add", "min", "max") for kind in ("u32", "s32", "u64")),
    *((op, "s64") for op in ("min", "max")), *((op, "u32") for op in ("inc", "dec")),
    *((op, kind) for op in ("and", "or", "xor") for kind in ("b32", "b64")),
]  # fmt: skip


@pytest.mark.parametrize(("operation", "kind"), REDUCTIONS)
def test_a_reduction_of_global_memory_is_that_of_its_type(operation: str, kind: str) -> None:
    element = np.dtype(f"{'i' if kind[0] == 's' else 'u'}{int(kind[1:]) // 8}")
    data, before = some_bytes(), some_bytes()
    data[1024:2048] = before[1024:2048]  # equal values, where inc and dec wrap
    body = f"@%p1 cp.reduce.async.bulk.global.shared::cta.bulk_group.{operation}.{kind} [%rd2], [tile], 4096;"
    expected = INTEGERS[operation](before.view(element), data.view(element)).astype(element)
    assert (after(body, data, before) == expected.view(np.uint8)).all()


@pytest.mark.parametrize(("operation", "kind"), [("add", "u64"), ("min", "s32"), ("inc", "u32"), ("xor", "b32")])
def test_a_reduction_of_shared_memory_completes_on_the_mbarrier(operation: str, kind: str) -> None:
    element = np.dtype(f"{'i' if kind[0] == 's' else 'u'}{int(kind[1:]) // 8}")
    data = some_bytes()
    done = "shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
    copy = f"@%p1 cp.async.bulk.{done} [%r2], [%r1+2048], 2048, [%r3];"
    reduction = f"@%p1 cp.reduce.async.bulk.{done}.{operation}.{kind} [%r2], [%r1], 2048, [%r3];"
    found = after(SECOND.format(bytes=4096, work=f"{copy}\n{reduction}"), data, np.zeros(SIZE, np.uint8))
    halves = data.view(element).reshape(2, -1)
    expected = INTEGERS[operation](halves[1], halves[0]).astype(element)
    assert (found[:2048] == expected.view(np.uint8)).all()


FLOATS = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}


@pytest.mark.parametrize("kind", FLOATS)
def test_sums_keep_subnormal_numbers(kind: str) -> None:
    element = np.dtype(FLOATS[kind])
    tiny = ml_dtypes.finfo(element).smallest_subnormal
    count = SIZE // element.itemsize
    data = (np.arange(count) % 7 * np.float64(tiny)).astype(element)
    before = (np.arange(count) % 5 * np.float64(tiny)).astype(element)
    data[::3], before[::2] = 1.5, -0.25
    suffix = f"noftz.{kind}" if kind in ("f16", "bf16") else kind
    body = f"@%p1 cp.reduce.async.bulk.global.shared::cta.bulk_group.add.{suffix} [%rd2], [tile], 4096;"
    assert (after(body, data, before) == (before + data).view(np.uint8)).all()


STORES = [("b32", "%r5", 4), ("v2.u32", "{%r5, 7}", 8), ("v4.f32", "{%f1, %f1, %f1, 1.0}", 16), ("s64", "%rd6", 8)]


@pytest.mark.parametrize(("kind", "value", "size"), STORES)
def test_a_store_of_each_thread_completes_on_the_mbarrier(kind: str, value: str, size: int) -> None:
    store = f"st.async.shared::cluster.mbarrier::complete_tx::bytes.{kind} [%r6], {value}, [%r3];"
    work = (
        f"mul.lo.u32 %r5, %r4, 0x01010101; mov.b32 %f1, %r5; cvt.u64.u32 %rd6, %r5; mad.lo.u32 %r6, %r4, {size}, %r2;"
    )
    found = after(SECOND.format(bytes=64 * size, work=f"{work}\n{store}"), some_bytes(), np.zeros(SIZE, np.uint8))
    words = np.zeros((64, size // 4), np.uint32)
    words[:, 0] = np.arange(64, dtype=np.uint32) * 0x01010101
    if kind == "v2.u32":
        words[:, 1] = 7
    if kind == "v4.f32":
        words[:, 1:3] = words[:, :1]
        words[:, 3] = 0x3F800000
    assert (found[: 64 * size] == words.view(np.uint8).ravel()).all()
    assert not found[64 * size :].any()


def test_reductions_of_all_threads_add_up() -> None:
    work = "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u64 [%r2+8], 3, [%r3];"
    found = after(SECOND.format(bytes=8 * 64, work=work), some_bytes(), np.zeros(SIZE, np.uint8))
    assert found.view(np.uint64)[:3].tolist() == [0, 3 * 64, 0]


def test_st_bulk_writes_zeros() -> None:
    data = some_bytes() | 1
    body = f"@%p1 st.bulk.weak.shared::cta [%r1+64], 1000, 0;\n{OUT.format(rest='', operands='4096')}"
    found = after(body, data, np.zeros(SIZE, np.uint8), "sm_100a")
    assert (found == np.concatenate([data[:64], np.zeros(1000, np.uint8), data[1064:]])).all()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (OUT.format(rest="", operands="%r4"), "bytes"),
        ("cp.async.bulk.global.shared::cta.bulk_group [%rd2], [tile], 16;", "by 32 threads of warp 0"),
        ("@%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd2+8], [tile], 16;", "misaligned"),
        (
            FAR,
            "multicast to the CTAs 0x3 of a cluster of 1",
        ),
    ],
)
def test_what_is_wrong_is_named(body: str, message: str) -> None:
    work = f"@%p1 add.u32 %r4, %r4, 8;\n{body}"
    with pytest.raises(simulator.LaunchError, match=message):
        after(work, some_bytes(), some_bytes())
