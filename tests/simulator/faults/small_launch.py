"""A small launch whose results a few lines of numpy give, and the same with a fault.

Each of 64 threads in two CTAs loads x, and stores (x mod 2^16) + 1000 if x < 40000, unless x is odd: then D stays. The
result takes a way through shared memory, where each thread has a word.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.program.capture import write_capture

BEFORE = 7
LIMIT, MORE = 40000, 1000
PTX = f"""\
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 A, .param .u64 D) {{
.reg .pred %p<3>; .reg .b16 %rs<2>; .reg .b32 %r<9>; .reg .f32 %f<5>; .reg .b64 %rd<5>;
.shared .align 4 .b8 s[128];
ld.param.u64 %rd1, [A];
ld.param.u64 %rd2, [D];
mov.u32 %r1, %ctaid.x;
mov.u32 %r2, %tid.x;
mad.lo.u32 %r1, %r1, 32, %r2;
mad.wide.u32 %rd3, %r1, 4, %rd1;
mad.wide.u32 %rd4, %r1, 4, %rd2;
mov.f32 %f0, 0f00000000;
mov.u32 %r7, 0;
mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {{%f1, %f2, %f3, %f4}}, {{%r7, %r7}}, {{%r7}}, {{%f0, %f0, %f0, %f0}};
ld.global.u32 %r3, [%rd3];
cvt.u16.u32 %rs1, %r3;
setp.lt.u32 %p1, %r3, {LIMIT};
and.b32 %r4, %r3, 1;
setp.eq.u32 %p2, %r4, 1;
cvt.u32.u16 %r5, %rs1;
@%p1 add.u32 %r5, %r5, {MORE};
shl.b32 %r6, %r2, 2;
st.shared.u32 [%r6], %r5;
bar.sync 0;
ld.shared.u32 %r8, [%r6];
@%p2 bra DONE;
st.global.u32 [%rd4], %r8;
DONE:
ret;
}}
"""


Values = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]


def written(folder: Path, ptx: str = PTX) -> Path:
    """The launch, written into a folder; with other PTX, what D holds at the end is no longer right."""
    x: NDArray[np.uint32] = np.random.default_rng(3).integers(0, 1 << 17, 64).astype(np.uint32)
    buffers = {"A": x, "D": np.full(64, BEFORE, np.int32)}
    path, after = folder / "small.json", {"D": result(values(x))}
    write_capture(path, ptx, "k", (2,), (32,), [{"buffer": name} for name in buffers], buffers, after, target="sm_80")
    return path


def values(x: NDArray[np.uint32]) -> Values:
    """What %rs1 (uint32), %p1 and %p2 (bool) hold, by thread."""
    return (x & 0xFFFF).astype(np.uint32), x < LIMIT, x % 2 == 1


def result(held: Values) -> NDArray[np.int32]:
    """What D holds at the end if the registers hold these values."""
    half, is_low, is_odd = held
    return np.where(is_odd, BEFORE, half + MORE * is_low).astype(np.int32)
