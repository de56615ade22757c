"""The kernel of a trace of one CTA as PTX: warps branch to their programs, repetitions become loops, and a wait for an
mbarrier becomes a loop that tries again. Shared memory lies where the trace has it; global memory is an argument."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

HEAD = """.version 9.0
.target sm_100a
.address_size 64
.extern .shared .align 1024 .b8 smem[];
.visible .entry k(.param .u64 memory{maps})
.maxntid {threads}
{{
.reg .pred %p<16>; .reg .b16 %rs<16>; .reg .b32 %r<512>; .reg .b64 %rd<64>;
ld.param.u64 %rd63, [memory];
cvta.to.global.u64 %rd63, %rd63;
mov.u32 %r511, %tid.x;
shr.u32 %r511, %r511, 5;
mov.u32 %r510, 0;
"""
TENSOR = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
_REPEAT = re.compile(r"\.repeat (\d+) \{")
_BLOCK = re.compile(r"\.warp (\d+)(?:-(\d+))? \{")
_BULK = re.compile(r"cp\.async\.bulk\.shared::cluster\.global\.mbarrier\S+ (\[\S+\]), \[\S+\], \d+, (\[\S+\]);")


def ptx_of_trace(text: str, boxes: Mapping[int, int] | None = None) -> str:
    """The module of a trace that uses no other statements than `simulator.studies.gemm` writes.

    Args:
        boxes: for each warp whose bulk copies become copies by a tensor map, `map` with its number, which is a further
            argument, by how many columns its box goes on from one copy to the next.
    """
    boxes = boxes or {}
    warps = int(re.findall(r"^\.warps (\d+)", text, re.M)[0])
    maps = "".join(f", .param .align 64 .b8 map{warp}[128]" for warp in boxes)
    return (
        HEAD.format(threads=32 * warps, maps=maps) + "\n".join(_kernel(text.splitlines(), boxes)) + "\nEND: ret;\n}\n"
    )


def _kernel(lines: list[str], boxes: Mapping[int, int]) -> Iterator[str]:
    yield from (f"setp.eq.u32 %p15, %r511, {warp};\n@%p15 bra W{first};" for warp, first in _roles(lines))
    yield "bra END;"
    loops: list[int] = []
    labels, warp = 0, -1
    for line in lines:
        words = line.split("//")[0].strip()
        if block := _BLOCK.match(words):
            warp = int(block[1])
            yield f"W{warp}:"
        elif warp < 0:
            continue
        elif repeat := _REPEAT.match(words):
            labels += 1
            loops.append(labels)
            yield f"mov.u32 %r{500 - len(loops)}, {repeat[1]};\nL{labels}:"
        elif words == "}" and loops:
            counter, label = 500 - len(loops), loops.pop()
            yield f"sub.u32 %r{counter}, %r{counter}, 1;\nsetp.ne.u32 %p14, %r{counter}, 0;\n@%p14 bra L{label};"
        elif words == "}":
            warp = -1
            yield "bra END;"
        elif words.startswith("mbarrier.try_wait"):
            labels += 1
            yield f"L{labels}: {words}\n@!{words.split()[1].strip(',')} bra L{labels};"
        elif warp in boxes:
            yield _by_tensor_map(words, warp, boxes[warp])
        else:
            yield re.sub(r"mov\.u64 (%rd3), (\d+);", r"add.u64 \1, %rd63, \2;", words)
            if words.startswith("mul.wide"):
                yield "add.u64 %rd3, %rd3, %rd63;"


def _by_tensor_map(words: str, warp: int, columns: int) -> str:
    """A statement of a warp that copies: its address counts columns of K."""
    if words.startswith("mov.u64 %rd3"):
        return f"mov.b64 %rd3, map{warp};\ncvta.param.u64 %rd3, %rd3;\nmov.u32 %r509, 0;"
    if words.startswith("add.u64 %rd3"):
        return f"add.u32 %r509, %r509, {columns};"
    return _BULK.sub(rf"{TENSOR} \1, [%rd3, {{%r509, %r510}}], \2;", words)


def _roles(lines: list[str]) -> Iterator[tuple[int, int]]:
    """Each warp, and the first of those that run its program."""
    for line in lines:
        if block := _BLOCK.match(line.strip()):
            first = int(block[1])
            yield from ((warp, first) for warp in range(first, int(block[2] or first) + 1))
