"""One tensor copy in a kernel: loads into shared memory that is shown, and stores of shared memory that is given."""

from __future__ import annotations

from typing import Any

import numpy as np

import simulator
from isa.descriptors.tensor_map import TensorMap

PTX = """.version 8.8
.target {target}
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


def run(tensor: TensorMap, data: Any, copy: str, wait: str, shared: Any, target: str) -> np.ndarray:
    """uint8 [byte]: what shared memory holds after a copy, of what it held before."""
    given = np.pad(shared, (0, -len(shared) % 1024))  # 256 threads, 4 bytes each
    out = np.zeros(len(given) // 4, np.uint32)
    kernel = simulator.Module(PTX.format(copy=copy, wait=wait, target=target)).get_function("copy")
    kernel(1, 256, ((tensor, data), given.view(np.uint32), out, np.uint32(len(out))))
    return out.view(np.uint8)[: len(shared)]


def load(
    tensor: TensorMap,
    data: Any,
    at: str,
    counted: int,
    *,
    room: int,
    mode: str = "",
    info: str = "",
    target: str = "sm_100a",
) -> Any:
    """uint8 [room]: shared memory, filled with `UNTOUCHED`, after a load that counts so many bytes.

    Args:
        tensor, data: the map, and its array.
        at: coordinates.
        counted: bytes on the mbarrier.
        room: bytes that are shown.
        mode: qualifier of the mode, with its dot.
        info: halo and offset, or offsets of im2col, two numbers.
        target: of the kernel.
    """
    numbers = info.split(",") if info else []
    moves = "".join(f"mov.u16 %h{place}, {number};\n" for place, number in enumerate(numbers))
    copy = LOAD.format(
        bytes=counted, dims=tensor.rank, mode=mode, at=at, set=moves, info=", {%h0, %h1}" if info else ""
    )  # fmt: skip
    return run(tensor, data, copy, WAIT, np.full(room, UNTOUCHED, np.uint8), target)


def store(tensor: TensorMap, data: Any, at: str, shared: Any, mode: str = "", target: str = "sm_100a") -> None:
    """Stores a box of shared memory into `data`."""
    run(tensor, data, STORE.format(dims=tensor.rank, mode=mode, at=at), "bar.sync 0;", shared, target)
