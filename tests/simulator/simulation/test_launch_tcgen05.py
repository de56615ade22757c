"""tcgen05 in launches: kernels of a second reading of PTX's text, and the allocation of Tensor Memory.

The kernels of tests/golden/tcgen05 were written from PTX ISA 9.0 without sight of `isa`; their expected D is numpy's
product of the operands.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import simulator
from simulator.check.launches import check_launch
from simulator.simulation.launch.errors import LaunchError
from tests.support.cases import over

GOLDEN = Path(__file__).parents[2] / "golden" / "tcgen05"
WARPS = 4
ALLOCATE = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slots+{place}], {columns};"
FREE = "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r{register}, {columns};"
MODULE = """.version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 D)
{{
.reg .pred %p<8>; .reg .b32 %r<32>; .reg .b64 %rd<4>;
.shared .align 8 .b8 slots[64];
ld.param.u64 %rd1, [D];
mov.u32 %r1, %tid.x;
shr.u32 %r2, %r1, 5;
mov.u32 %r3, %ctaid.x;
mad.lo.u32 %r4, %r3, 128, %r1;
mul.wide.u32 %rd2, %r4, 4;
add.s64 %rd1, %rd1, %rd2;
setp.eq.u32 %p1, %r2, 0;
setp.eq.u32 %p2, %r2, 1;
{body}
ret;
}}
"""


def allocate(place: int, columns: int) -> str:
    return ALLOCATE.format(place=place, columns=columns)


def free(register: int, columns: int) -> str:
    return FREE.format(register=register, columns=columns)


def run(body: str, ctas: int = 1, block: int = 128) -> tuple[np.ndarray, simulator.LaunchReport]:
    out = np.zeros((ctas, 128), np.uint32)
    kernel = simulator.Module(MODULE.format(body=body)).get_function("k")
    return out, kernel(ctas, block, (out,))


@over("path", sorted(GOLDEN.glob("*.json")), ids=lambda path: path.stem)
def test_kernels_written_from_the_text_give_exact_products(path: Path) -> None:
    report = simulator.launch(path, workers=1)
    assert report.differences is not None
    assert not report.differences
    assert len(np.unique(report.arrays["D"])) > 8  # not a constant
    assert not report.undefined


def test_addresses_of_scale_factors_may_carry_their_id(tmp_path: Path) -> None:
    """CUTLASS passes the id of the factors, which the descriptor has, too, in bits 31-30 of their address."""
    name = "mxf8_sp_m128_cp"
    for ending in ("json", "npz"):
        shutil.copy(GOLDEN / f"{name}.{ending}", tmp_path)
    text, count = re.subn(
        r"(block_scale\S* (?:[^,]+, ){5})\[(%r\d+)\], \[(%r\d+)\]",
        r"\1[\2+1073741824], [\3+3221225472]",
        (GOLDEN / f"{name}.ptx").read_text(),
    )
    assert count
    (tmp_path / f"{name}.ptx").write_text(text)
    assert not simulator.launch(tmp_path / f"{name}.json", workers=1).differences


def test_each_cta_has_its_own_tensor_memory() -> None:
    body = f"""
@%p1 {allocate(0, 32)}
bar.sync 0;
ld.shared.b32 %r5, [slots];
shl.b32 %r6, %r2, 21;
add.u32 %r5, %r5, %r6;
mad.lo.u32 %r7, %r3, 1000, %r1;
tcgen05.st.sync.aligned.32x32b.x1.b32 [%r5], {{%r7}};
tcgen05.wait::st.sync.aligned;
bar.sync 0;
tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r8}}, [%r5];
tcgen05.wait::ld.sync.aligned;
st.global.b32 [%rd1], %r8;
bar.sync 0;
sub.u32 %r5, %r5, %r6;
@%p1 {free(5, 32)}"""
    out, report = run(body, ctas=5)
    assert (out == np.arange(5)[:, None] * 1000 + np.arange(128)).all()
    assert not report.undefined


WAITS = f"""
@!%p1 bra OTHERS;
{allocate(0, 512)}
ld.shared.b32 %r5, [slots];
bar.sync 0;
mov.b32 %r10, 0x11;
st.shared.b32 [slots+8], %r10;
FREE
bra END;
OTHERS:
bar.sync 0;
@!%p2 bra END;
{allocate(4, 256)}
ld.shared.b32 %r6, [slots+8];
st.global.b32 [%rd1], %r6;
ld.shared.b32 %r5, [slots+4];
{free(5, 256)}
END:
"""


def test_an_allocation_waits_until_columns_are_free() -> None:
    out, report = run(WAITS.replace("FREE", free(5, 512)))
    assert (out[0, 32:64] == 0x11).all()  # warp 1 came on after warp 0 had given its columns back
    assert not report.undefined


def test_an_allocation_that_nobody_frees_is_a_deadlock() -> None:
    with pytest.raises(LaunchError, match=r"deadlock: waits for 256 columns of Tensor Memory.*tcgen05.dealloc"):
        run(WAITS.replace("FREE", ""))


def test_columns_that_outlive_their_cta_are_undefined() -> None:
    _, report = run(f"@%p1 {allocate(0, 64)}", ctas=3)
    assert report.undefined == {"tmem-leak": 3}


def test_a_pair_needs_a_cluster() -> None:
    body = "@%p1 tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;\nsetp.eq.u32 %p3, %r1, 0;\n"
    body += "@%p3 tcgen05.shift.cta_group::2.down [%r4];"
    with pytest.raises(LaunchError, match="cta_group::2 in a CTA without a peer"):
        run(body)


REDUCE = """
@%p1 {allocate}
bar.sync 0;
ld.shared.b32 %r5, [slots];
shl.b32 %r6, %r2, 21;
add.u32 %r5, %r5, %r6;
{store}
tcgen05.wait::st.sync.aligned;
tcgen05.ld.red.sync.aligned.32x32b.x4.{operation} {{%r8, %r9, %r10, %r11}}, %r12, [%r5];
tcgen05.wait::ld.sync.aligned;
st.global.b32 [%rd1], %r12;
bar.sync 0;
sub.u32 %r5, %r5, %r6;
@%p1 {free}"""
VALUES = np.array([0x7F800001, 0xC0400000, 0x80000000, 0x3F800000], np.uint32)  # NaN, -3, -0, 1


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ("min.f32", 0xC0400000), ("max.f32", 0x3F800000), ("max.abs.f32", 0x40400000), ("min.abs.f32", 0),
        ("max.abs.NaN.f32", 0x7FFFFFFF), ("min.s32", 0x80000000), ("min.u32", 0x3F800000), ("u32.max", 0xC0400000),
    ],
)  # fmt: skip
def test_a_load_reduces_the_columns_of_each_lane(operation: str, expected: int) -> None:
    registers = ", ".join(f"%r{20 + place}" for place in range(4))
    store = "".join(f"mov.b32 %r{20 + place}, {word};\n" for place, word in enumerate(VALUES))
    store += f"tcgen05.st.sync.aligned.32x32b.x4.b32 [%r5], {{{registers}}};"
    body = REDUCE.format(allocate=allocate(0, 32), free=free(5, 32), store=store, operation=operation)
    out = np.zeros((1, 128), np.uint32)
    text = MODULE.format(body=body).replace("sm_100a", "sm_103a")
    simulator.Module(text).get_function("k")(1, 128, (out,))
    assert (out == expected).all()


def test_a_correct_pair_has_no_findings() -> None:
    """A barrier of the cluster orders what its CTAs do, also for the threads that come to it last and do not wait."""
    found = check_launch(GOLDEN / "c2_i8_sp_m256.json").findings
    assert {finding.rule for finding in found} == {"bank-conflict"}
