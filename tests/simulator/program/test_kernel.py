"""Kernels as they are linked: calls, addresses, the order of ranks, registers that share numbers."""

from __future__ import annotations

import random
from collections import deque

import numpy as np
import pytest

import simulator
from isa.errors import IsaError
from isa.ptx.module import parse_module
from simulator.program.kernel import Branch, Exit, Kernel, Operation, link
from simulator.program.kernel.flow import blocks_of, order_of
from simulator.simulation.launch.launching import Options, run_launch
from simulator.state.device_memory import DeviceMemory
from tests.support.cases import PROGRAMS, exhaustive

HEAD = ".version 9.0\n.target sm_90a\n.address_size 64\n"


def linked(text: str, entry: str = "k", *, allocate: bool = True) -> Kernel:
    return link(parse_module(HEAD + text), entry, allocate=allocate)


FUNCTIONS = """
.func (.param .b32 out) twice(.param .b32 in) {
  .reg .b32 %r<3>; ld.param.b32 %r1, [in]; add.s32 %r2, %r1, %r1; st.param.b32 [out], %r2; ret;
}
.func (.reg .b32 out) thrice(.reg .b32 in) { .reg .b32 %r<2>; mul.lo.s32 out, in, 3; ret; }
.entry k(.param .u64 D) {
  .reg .b32 %r<6>; .reg .b64 %rd<4>; .reg .pred %p<2>;
  mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 5;
  { .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call.uni (b), twice, (a); ld.param.b32 %r2, [b]; }
  @%p1 call (%r2), thrice, (%r2);
  ld.param.u64 %rd1, [D]; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r2; ret;
}
"""


def test_calls_become_copies_of_what_they_call() -> None:
    results = np.zeros(32, np.uint32)
    simulator.Module(HEAD + FUNCTIONS).get_function()(1, 32, (results,))
    thread = np.arange(32)
    assert (results == np.where(thread < 5, 6, 2) * thread).all()


def test_recursion_is_refused_with_its_line() -> None:
    with pytest.raises(IsaError, match=r"line 5: recursion: 'f' calls itself"):
        linked(".func f() {\ncall f;\nret; }\n.entry k() { call f; ret; }")


def test_labels_and_names_that_nothing_declares() -> None:
    with pytest.raises(IsaError, match="line 4: no label 'nowhere'"):
        linked(".entry k() { bra nowhere; }")
    with pytest.raises(IsaError, match="the module has no kernel 'other'"):
        linked(".entry k() { ret; }", "other")


def test_what_cannot_be_executed_stops_only_who_comes_there() -> None:
    text = """.entry k(.param .u32 n) { .reg .pred p, q; .reg .b32 r; .reg .b64 a;
    ld.param.u32 r, [n]; setp.eq.u32 p, r, 1; setp.eq.u32 q, r, 2;
    @p multimem.st.weak.global.u32 [a], r;
    @q nanosleep.no.such.u32 r; ret; }"""
    kernel = simulator.Module(HEAD + text).get_function()
    assert kernel(1, 32, (0,)).warp_instructions == 6
    with pytest.raises(simulator.LaunchError, match=r"line 6: .*multimem.*several GPUs"):
        kernel(1, 32, (1,))
    with pytest.raises(simulator.LaunchError, match=r"line 7: .*nanosleep"):
        kernel(1, 32, (2,))
    assert [item.line for item in kernel.kernel.unsupported] == [7]


def test_memory_is_laid_out_by_alignment() -> None:
    kernel = linked(
        ".shared .b8 a[3]; .shared .align 64 .b8 b[8]; .extern .shared .align 128 .b8 dyn[];\n"
        ".entry k() { .local .align 8 .b8 l[12]; .reg .b32 %r<4>; .reg .b64 %rd<2>; mov.u32 %r1, b; mov.u32 %r2, dyn;\n"
        "ld.shared.u32 %r3, [b+4]; mov.u64 %rd1, l; ret; }"
    )
    assert (kernel.shared_bytes, kernel.dynamic_offset, kernel.local_bytes) == (72, 128, 12)
    shown = [str(item.instruction) for item in kernel.items if isinstance(item, Operation)]
    assert shown[0].endswith(", 64;")
    assert shown[1].endswith(", 128;")
    assert "[68]" in shown[2]


# The order in which threads that have parted go on


def random_flow(seed: int) -> Kernel:
    """A kernel of nothing but labels and branches."""
    rng = random.Random(seed)
    count = rng.randint(2, 14)
    lines = []
    for number in range(count):
        lines.append(f"L{number}: nanosleep.u32 {number};")
        kind = rng.random()
        if kind < 0.55:
            lines.append(f"@p bra L{rng.randrange(count)};")
        elif kind < 0.65:
            lines.append(f"bra L{rng.randrange(count)};")
        elif kind < 0.75:
            lines.append("@p ret;")
    return linked(".entry k() { .reg .pred p; setp.eq.u32 p, 0, 0;" + "\n".join(lines) + "}")


def reaches(successors: list[tuple[int, ...]], start: int, without: int = -1) -> set[int]:
    seen, work = {start}, deque([start])
    while work:
        for to in successors[work.popleft()]:
            if to not in seen and to != without:
                seen.add(to)
                work.append(to)
    return seen


@pytest.mark.parametrize("seeds", [range(60), pytest.param(range(60, 600), marks=exhaustive)])
def test_threads_meet_behind_both_sides_of_a_branch(seeds: range) -> None:
    """The first block that every way from a branch to the end passes (its immediate post-dominator, found by leaving
    blocks out) comes after all blocks on these ways, unless these are in a loop with it."""
    for seed in seeds:
        kernel = random_flow(seed)
        blocks = blocks_of(kernel.items)
        successors = [block.successors for block in blocks]
        order = order_of(blocks)
        assert sorted(order) == list(range(len(blocks)))
        position = {block: index for index, block in enumerate(order)}
        ends = {i for i, block in enumerate(blocks) if isinstance(kernel.items[block.last], Exit)}
        live = reaches(successors, 0)
        for block in live:
            if len(successors[block]) < 2:
                continue
            for meeting in live - {block}:
                between = reaches(successors, block, without=meeting)
                if between & ends or any(meeting not in reaches(successors, each) for each in between):
                    continue  # some way ends elsewhere, or never
                back = reaches(successors, meeting)
                assert all(position[each] < position[meeting] for each in between if each not in back), (seed, block)


def test_a_loop_is_contiguous_and_what_follows_it_comes_after() -> None:
    kernel = linked(
        ".entry k() { .reg .pred p; setp.eq.u32 p, 0, 0; bra B; A: @p bra B; nanosleep.u32 1; E: ret; B: @p bra E; "
        "nanosleep.u32 2; bra A; }"
    )
    rank = {item.text: kernel.rank[item.index] for item in kernel.items if not isinstance(item, Branch)}
    assert rank["nanosleep.u32 1;"] > rank["nanosleep.u32 2;"]
    assert rank["ret;"] > rank["nanosleep.u32 1;"]


# Registers that share numbers


def random_program(seed: int) -> str:
    """A kernel of random sums over some registers, with loops and branches that data decides."""
    rng = random.Random(seed)
    lines = [f"add.u32 %r{i}, %r40, {rng.randrange(99)};" for i in range(12)]
    for number in range(30):
        a, b, d = (rng.randrange(30) for _ in range(3))
        guard = f"@{'!' if rng.random() < 0.5 else ''}%p{rng.randrange(3)} " if rng.random() < 0.3 else ""
        lines.append(f"{guard}add.u32 %r{d}, %r{a}, %r{b};")
        if rng.random() < 0.25:
            lines.append(f"and.b32 %r39, %r{a}, {rng.choice((1, 2, 4, 8))}; setp.ne.u32 %p{rng.randrange(3)}, %r39, 0;")
        if rng.random() < 0.2:
            lines.append(f"@%p{rng.randrange(3)} bra S{number}; xor.b32 %r{d}, %r{b}, 77; S{number}:")
    body = "\n".join(lines)
    total = "\n".join(f"add.u32 %r41, %r41, %r{i};" for i in range(30))
    zero = "\n".join(f"mov.u32 %r{i}, 0;" for i in range(39))
    return f"""{HEAD}.entry k(.param .u64 D) {{ .reg .b32 %r<50>; .reg .pred %p<4>; .reg .b64 %rd<4>;
    {zero} mov.u32 %r40, %tid.x; mov.u32 %r41, 0; mov.u32 %r42, 0;
    setp.ne.u32 %p0, %r40, 3; setp.lt.u32 %p1, %r40, 20; setp.gt.u32 %p2, %r40, 9;
    again: {body}
    {total} add.u32 %r42, %r42, 1; and.b32 %r39, %r40, 3; setp.lt.u32 %p3, %r42, %r39; @%p3 bra again;
    ld.param.u64 %rd1, [D]; mul.wide.u32 %rd2, %r40, 4; add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r41; ret; }}"""


def ran(text: str, allocate: bool) -> tuple[np.ndarray, int]:  # type: ignore[type-arg]
    kernel = link(parse_module(text), "k", allocate=allocate)
    memory = DeviceMemory()
    buffer = memory.place("D", 256)
    params = np.frombuffer(buffer.address.to_bytes(8, "little"), np.uint8)
    run_launch(kernel, (1, 1, 1), (64, 1, 1), memory, params, Options(workers=1))
    return buffer.data.view(np.uint32).copy(), kernel.numbering.words


@pytest.mark.parametrize("seeds", [range(12), pytest.param(range(12, 12 + 2 * PROGRAMS), marks=exhaustive)])
def test_shared_registers_change_no_result(seeds: range) -> None:
    fewer = 0
    for seed in seeds:
        text = random_program(seed)
        (shared, few), (own, many) = ran(text, True), ran(text, False)
        assert (shared == own).all(), seed
        fewer += few < many
    assert fewer == len(seeds)
