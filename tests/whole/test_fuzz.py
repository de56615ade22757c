"""Nothing but IsaError comes out of the decoder and nothing but TraceError out of the reader, whatever goes in."""

from __future__ import annotations

import gzip
import os
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import isa
import simulator
from isa import UndefinedBehavior
from isa.forms.table import plain_forms
from simulator import DeadlockError, TraceError
from simulator.program import reader
from tests.support.cases import examples

OPCODES = [*isa.mma_forms(), *plain_forms()]
TARGETS = (None, "sm_75", "sm_80", "sm_90a", "sm_120a")
OPERANDS = (
    "%r0",
    "%r1",
    "{%r0}",
    "{%r0, %r1}",
    "{%r0, %r1, %r2, %r3}",
    "{_, %r1}",
    "[%r0]",
    "[%r0+16]",
    "[16]",
    "0",
    "0x0",
    "1",
    "-1",
    "%laneid",
    "%p0",
    "0f3F800000",
    "(1+2)*3",
    "~0",
    "1<<3",
    "{}",
    "",
    "_",
    "\u00e9",
    "0x",
    "08",
    "1U",
    "%r999999999999",
    "%",
    "$",
    "((((",
    "1?2:3",
    "18446744073709551616",
)
SOUP = (
    "{}[]()<>,;:.+-*/%&|^~!@?=_\"'\\# \t\n\r\x00\x0b\u00a00123456789abcdefxXuUfFrRpd$" + "\u00b2\u0663\ud7ff\U0001f600"
)
WORDS = (
    ".trace",
    ".target",
    ".warps",
    ".shared",
    ".load",
    ".store",
    ".warp",
    ".repeat",
    "{",
    "}",
    ";",
    "\n",
    "//",
    "/*",
    "*/",
    "sm_90a",
    "sm_80",
    "1",
    "0-7",
    "0",
    "32",
    "99999999999999999999",
    "-1",
    "0x10",
    "%r0",
    "%r254",
    "%r255",
    "shared[0]",
    "shared[",
    '"a.npz"',
    '"k"',
    '"',
    ",",
    "mov.u32 %r0, 1;",
    ".cta",
    ".cta 0-1 {",
    ".cta 1 {",
    "cta1.",
    "cta0.%rd1",
    "tmem[",
    "tmem[16]",
    "%rd0",
    "%p0",
    "%rs1",
    "@%p1",
    "@!%p0",
    "sm_100a",
    "[%r1+8]",
    "mbarrier.init.shared.b64 [%r1], 1;",
    "mbarrier.try_wait.parity.b64 %p1, [%rd1], 0;",
    "barrier.cluster.arrive;",
    "barrier.cluster.wait;",
    "bar.sync 0;",
    "bar.sync 0, 31;",
    "@%p0 bar.sync 0;",
    "ld.shared.b32 %r1, [%r0];",
    "\u00e9",
    "\x00",
    "1_0",
    "\u0661",
    "+1",
    "0b1",
    ". warp",
)
TRACE = """.trace 1
.target sm_90a
.warps 4
.shared 1024
.load %r0, "a.npz", "k";
.load shared[16], "a.npz", "k";
.warp 0-1, 3 {
    mov.u32 %r1, %laneid; // comment
    .repeat 3 { .repeat 2 { add.u32 %r1,
        %r1, 1; bar.sync 0, 64; } }
    mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {%r0, %r1, %r2, %r3}, {%r4, %r5, %r6, %r7}, {%r8, %r9,
    %r10, %r11},
        {%r0, %r1, %r2, %r3}, %r9, 0;
}
.warp 2 { ld.shared.v2.b32 {%r1, %r2}, [%r0+8]; }
.store "x", %r0, 4;
.store "y", shared[0], 64;
"""

ASYNCHRONOUS = """.trace 1
.target sm_100a
.warps 2
.shared 8192
.load %r8, "data.npz", "words";
.load cta1.%r10, "data.npz", "words";
.load %rd4, "data.npz", "wide";
.load tmem[0], "data.npz", "cells";
.cta 0-1 {
    .warp 0 {
        mov.u32 %r0, %tid.x; setp.eq.u32 %p0, %r0, 0; mov.u32 %r1, 0;
        @%p0 mbarrier.init.shared::cta.b64 [%r1], 2;
        barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
        tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%r1+8], 64;
        ld.shared.u32 %r2, [%r1+8];
        barrier.cluster.arrive; barrier.cluster.wait;
        .repeat 3 { @%p0 tcgen05.mma.cta_group::2.kind::f16 [%r2], %rd4, %rd5, %r9, %p1; mov.pred %p1, 1;
        add.s64 %rd4, %rd4, 2; }
        @%p0 tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.b64 [%r1];
        tcgen05.st.sync.aligned.32x32b.x2.b32 [%r2+4], {%r8, %r9};
        tcgen05.wait::st.sync.aligned;
        mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r1], 0;
        barrier.cluster.arrive; barrier.cluster.wait;
        tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r2, 64;
    }
    .warp 1 {
        mov.u32 %r0, %laneid; setp.eq.u32 %p0, %r0, 31; mov.u32 %r3, %cluster_ctarank;
        barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
        mapa.shared::cluster.u32 %r2, %r1, %r3;
        @%p0 mbarrier.arrive.shared::cluster.b64 _, [%r2];
        @!%p0 st.shared.v2.b64 [%r1+16], {%rd4, %rd5};
        cvt.u64.u32 %rd0, %r2; shl.b64 %rd0, %rd0, 4;
        .repeat 2 { barrier.cluster.arrive; barrier.cluster.wait; }
    }
}
.store "x", cta1.%rd0, 4;
.store "y", tmem[4], 2;
"""


def decodes(text: str, target: str | None) -> bool:
    """Whether it decodes; then its canonical text must give the same instruction. Any error but IsaError gets out."""
    try:
        instruction = isa.decode(text, target)
    except isa.IsaError as error:
        well_formed = -1 <= error.position <= len(error.text) and error.reason and "\n" not in str(error)
        if not well_formed:
            raise AssertionError(text) from error
        return False
    assert isa.decode(str(instruction), target) == instruction, text
    return True


def reads(path: Path, data: bytes) -> bool:
    path.write_bytes(data)
    try:
        trace = reader.load(path)
    except TraceError as error:
        well_formed = min(error.line, error.column) >= 0 and str(error).startswith(str(path)) and "\n" not in str(error)
        if not well_formed:
            raise AssertionError(data) from error
        return False
    assert trace.warps >= 1
    return True


def instruction(generator: random.Random) -> str:
    """An opcode, perhaps with a qualifier changed, and operands that often fit."""
    opcode = generator.choice(OPCODES)
    form = isa.mma_forms().get(opcode) or plain_forms()[opcode]
    if generator.random() < 0.3:
        parts = opcode.split(".")
        place = generator.randrange(len(parts))
        parts[place : place + generator.randrange(2)] = generator.choice(OPCODES).split(".")[generator.randrange(2) :][
            : generator.randrange(3)
        ]
        opcode = ".".join(parts)
    operands = []
    for role in form.roles:
        names = [f"%r{generator.randrange(40)}" for _ in range(role.count)]
        fitting = {"vector": "{" + ", ".join(names) + "}", "address": f"[{names[0]}]", "immediate": "0"}.get(
            role.shape.value, names[0]
        )
        operands.append(generator.choice(OPERANDS) if generator.random() < 0.12 else fitting)
    return f"{opcode} {', '.join(operands)};"


def damaged(text: str, generator: random.Random, words: tuple[str, ...]) -> str:
    """A text with a few characters or words inserted, removed, doubled or swapped."""
    for _ in range(generator.randrange(4)):
        start = generator.randrange(len(text) + 1)
        end = min(len(text), start + generator.choice((0, 1, 1, 2, 5, 30)))
        new = generator.choice(("", generator.choice(SOUP), generator.choice(words), text[start:end] * 2))
        text = text[:start] + new + text[end:]
    return text


def soup(generator: random.Random) -> str:
    return "".join(
        generator.choice((generator.choice(SOUP), generator.choice(OPERANDS), generator.choice(WORDS)))
        for _ in range(generator.randrange(20))
    )


def text_of(generator: random.Random) -> str:
    return soup(generator) if generator.random() < 0.15 else damaged(instruction(generator), generator, OPERANDS)


def trace_of(generator: random.Random) -> bytes:
    """The bytes of a trace: damaged text, damaged bytes, damaged gzip."""
    kind = generator.random()
    if kind < 0.2:
        text = "".join(
            generator.choice(WORDS) + generator.choice((" ", "", "\n")) for _ in range(generator.randrange(30))
        )
        text = (".trace 1\n.target sm_90a\n.warps 4\n" if generator.random() < 0.7 else "") + text
    elif kind < 0.4:
        text = f".trace 1\n.target sm_90a\n.warps 4\n.warp 0-3 {{ {text_of(generator)} {instruction(generator)} }}"
    else:
        text = damaged(generator.choice((TRACE, ASYNCHRONOUS)), generator, WORDS)
    data = text.encode("utf-8", "surrogatepass")
    if generator.random() < 0.1:
        place = generator.randrange(len(data) + 1)
        data = data[:place] + generator.randbytes(generator.randrange(4)) + data[place:]
    if generator.random() < 0.05:
        data = gzip.compress(data, 1)
        if generator.random() < 0.5:
            place = generator.randrange(len(data))
            data = data[:place] + generator.randbytes(1) + data[place + generator.randrange(1, 20) :]
    return data


def runs(path: Path, text: str) -> str:
    """What running it for its values comes to: "run", or the name of the error; any but those that a run may end with
    gets out."""
    path.write_text(text)
    try:
        simulator.run(path, None, undefined="hardware")
    except (TraceError, UndefinedBehavior, DeadlockError) as error:
        if not str(error) or "\n" in str(error):
            raise AssertionError(text) from error
        return type(error).__name__
    return "run"


def test_damaged_traces_run_or_say_why_not(tmp_path: Path) -> None:
    """Digits and letters changed in a trace with mbarriers, a CTA pair and Tensor Memory, so that it is often read and
    goes wrong later."""
    generator = random.Random(5)
    np.savez(
        tmp_path / "data.npz",
        words=np.full((2, 32), 0x10 | 2 << 17 | 16 << 24, np.uint32),
        wide=np.full((2, 32), 1 << 46 | 8 << 16 | 16 << 32, np.uint64),
        cells=np.arange(512, dtype=np.uint32).reshape(128, 4),
    )
    ends: Counter[str] = Counter()
    for _ in range(examples(400, 100)):
        text = ASYNCHRONOUS
        for _ in range(generator.randrange(1, 4)):
            places = [i for i, letter in enumerate(text) if letter.isdigit() or letter in ";!@"]
            at = generator.choice(places)
            text = (
                text[:at]
                + generator.choice(("", generator.choice("0123456789"), generator.choice("0123478")))
                + text[at + 1 :]
            )
        if ".repeat 3 " in text:  # not a million times
            ends[runs(tmp_path / "x.trace", text)] += 1
    assert min(ends[end] for end in ("run", "TraceError", "DeadlockError")) > 0, ends
    assert runs(tmp_path / "x.trace", ASYNCHRONOUS) == "run"


@given(st.text(max_size=60) | st.binary(max_size=60).map(lambda data: data.decode("latin-1")), st.sampled_from(TARGETS))
@settings(max_examples=examples(300), deadline=None)
@example("mma.\u0660", None)
@example("add.s32 %r0, %r1, \u0661;", None)
@example(".", "sm_80")
def test_any_text(text: str, target: str | None) -> None:
    decodes(text, target)


@given(st.binary(max_size=200))
@settings(max_examples=examples(200), deadline=None)
@example(b"\x1f\x8b")
@example(b".trace 1\n.target sm_90a\n.warps 1_0\n")
@example(b".trace 1\n.target sm_90a\n.warps \xd9\xa1\n.warp \xd9\xa0 { }")
def test_any_bytes(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    reads(tmp_path_factory.getbasetemp() / "fuzz.trace", data)


def fuzz(seed: int, texts: int, traces: int, path: Path) -> tuple[int, int]:
    """How many of the texts and of the traces were legal."""
    generator = random.Random(seed)
    legal = sum(decodes(text_of(generator), generator.choice(TARGETS)) for _ in range(texts))
    return legal, sum(reads(path, trace_of(generator)) for _ in range(traces))


def test_fuzz(tmp_path: Path) -> None:
    parts = examples(8, 2)
    texts, traces = fuzz(0, 200 * parts, 75 * parts, tmp_path / "x.trace")
    assert 8 * parts < texts < 180 * parts, "the inputs should be legal often enough, and illegal too"
    assert 4 * parts < traces < 70 * parts


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(1, 1 + int(os.environ.get("TCSIM_FUZZ_SEEDS", "1"))))
def test_many(tmp_path: Path, seed: int) -> None:
    """5,000 inputs a seed; `make fuzz` makes a million, with those of test_fuzz_files.py."""
    fuzz(seed, 3_500, 1_500, tmp_path / "x.trace")


@pytest.mark.parametrize(
    "make",
    [
        lambda n: "{" * n,
        lambda n: "(" * n,
        lambda n: "1+" * n,
        lambda n: ".x" * n,
        lambda n: "/*" * n,
        lambda n: " " * n,
    ],
)
def test_long_repetitions(tmp_path: Path, make: Callable[[int], str]) -> None:
    """Length alone breaks nothing, and takes no time out of proportion."""
    for n in (1000, 10_000):
        for text in (make(n), f"add.s32 %r0, %r1, {make(n)};", f"mma{make(n)};"):
            decodes(text, None)
            reads(tmp_path / "x.trace", f".trace 1\n.target sm_90a\n.warps 1\n.warp 0 {{ {text} }}".encode())
            reads(tmp_path / "x.trace", (text + "\n").encode())
