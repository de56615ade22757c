"""Writes random traces with nested loops, guards, barriers and addresses that move in every way that loops move them:
by strides, around buffers, by masks, shifts and comparisons, or as what was loaded says."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

_SHARED, _GLOBAL = 4096, 1 << 16
_COUNTERS = range(2, 8)  # registers that keep what loops change
_WORK = range(8, 14)  # registers that are computed anew
_WIDE = range(2, 5)
_PREDICATES = range(4)
_MMA = (
    "mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
    "{%r20, %r21, %r22, %r23}, {%r24, %r25}, {%r26, %r27}, {%r20, %r21, %r22, %r23}, %r28, 0x0;"
)


class RandomProgram:
    """One random trace.

    Args:
        seed: which one.
        turns: how many turns of loops there may be around an instruction.
    """

    def __init__(self, seed: int, turns: int = 300) -> None:
        self.random, self.turns = np.random.default_rng(seed), turns
        self.warps = int(self.random.choice([1, 2, 3, 4]))
        self.global_bytes = int(self.random.choice([_GLOBAL, _GLOBAL, 5000]))
        self.barriers = self.warps > 1 and self.chance(0.4)
        self.blocks = 1 if self.warps == 1 or self.chance(0.6) else 2
        self.barrier = str(self.random.choice(["bar.sync 0;", f"bar.sync 1, {32 * self.warps};"]))
        self.meetings = [self.one((3, 9, 30)) for _ in range(self.one((1, 1, 2)))] if self.barriers else []

    def text(self) -> str:
        """The trace."""
        parts = [
            ".trace 1",
            ".target sm_90a",
            f".warps {self.warps}",
            f".shared {_SHARED}",
            f".global {self.global_bytes}",
        ]
        first = 0
        for block in range(self.blocks):
            last = self.warps - 1 if block == self.blocks - 1 else first
            parts += [f".warp {first}-{last} {{", *self.start(), *self.body(0, 1)]
            for count in self.meetings:
                parts += [f".repeat {count} {{", *self.body(2, count), self.barrier, "}"]
            parts.append("}")
            first = last + 1
        return "\n".join(parts) + "\n"

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return bool(self.random.random() < probability)

    def one(self, numbers: object) -> int:
        """One of these numbers."""
        return int(self.random.choice(list(numbers)))  # type: ignore[call-overload]

    def start(self) -> Iterator[str]:
        """What is in registers at first."""
        yield "mov.u32 %r0, %tid.x; mov.u32 %r1, %laneid; mov.b32 %r28, 0x44444444;"
        for register in (*_COUNTERS, *_WORK):
            if self.chance(0.9):
                yield f"mov.b32 %r{register}, {self.one((0, 1, 3, 64, 128, 255, 1 << 20))};"
            if self.chance(0.5):
                factor = self.one((0, 4, 16, 16, 32, 128))
                yield f"mad.lo.u32 %r{register}, %r{self.one((0, 1))}, {factor}, %r{register};"
        for register in _WIDE:
            yield f"mul.wide.u32 %rd{register}, %r{self.one((0, 1))}, {self.one((0, 4, 16, 128))};"
        for predicate in _PREDICATES:
            yield f"setp.lt.u32 %p{predicate}, %r{self.one((0, 1, 2))}, {self.one((0, 7, 32, 1000))};"

    def body(self, depth: int, around: int) -> Iterator[str]:
        """The statements of a loop's body, or of a block."""
        for _ in range(self.one((2, 3, 4, 6))):
            if depth < 3 and self.chance(0.35 if depth else 0.6):
                count = self.one((1, 2, 3, 5, 9, 17, 40, 100, 250))
                if around * count <= self.turns:
                    yield f".repeat {count} {{"
                    yield from self.body(depth + 1, around * count)
                    yield "}"
                    continue
            yield self.statement()

    def statement(self) -> str:
        """One statement or a few that belong together."""
        kinds = (self.counter, self.work, self.work, self.shared, self.outside, self.compare, self.matrix)
        kind = kinds[int(self.random.choice(len(kinds), p=[0.24, 0.16, 0.1, 0.2, 0.12, 0.12, 0.06]))]
        if self.barriers and self.blocks == 1 and self.chance(0.08):
            return self.barrier
        return kind()

    def guard(self) -> str:
        """A guard, or none."""
        return f"@{'!' if self.chance(0.3) else ''}%p{self.one(_PREDICATES)} " if self.chance(0.25) else ""

    def counter(self) -> str:
        """Changes a register from turn to turn."""
        r, step = self.one(_COUNTERS), self.one((1, 2, 4, 16, 32, 64, 128, 256, 4096))
        s = self.one(_COUNTERS)
        return self.guard() + str(
            self.random.choice(
                [
                    f"add.u32 %r{r}, %r{r}, {step};",
                    f"add.u32 %r{r}, %r{r}, {step};",
                    f"sub.u32 %r{r}, %r{r}, {step};",
                    f"xor.b32 %r{r}, %r{r}, {step};",
                    f"add.u32 %r{r}, %r{r}, {step}; and.b32 %r{r}, %r{r}, {self.one((3, 63, 255, 1023))};",
                    f"add.u32 %r{r}, %r{r}, 1; setp.ge.u32 %p3, %r{r}, {self.one((2, 3, 5))}; @%p3 mov.b32 %r{r}, 0;",
                    f"add.u32 %r{r}, %r{r}, %r{s};",
                    f"mad.lo.u32 %r{r}, %r{r}, 5, 3;",
                    f"add.u64 %rd{self.one(_WIDE)}, %rd{self.one(_WIDE)}, {self.one((4, 16, 64, 128))};",
                    f"shr.u32 %r{r}, %r{r}, 1;",
                ]
            )
        )

    def work(self) -> str:
        """Computes a register from others."""
        d, a, b = self.one(_WORK), self.one((*_COUNTERS, *_WORK)), self.one((0, 1, *_COUNTERS, *_WORK))
        return (
            self.guard()
            + str(
                self.random.choice(
                    [
                        f"add.u32 %r{d}, %r{a}, %r{b};",
                        f"mul.lo.u32 %r{d}, %r{a}, {self.one((3, 16, 48))};",
                        f"mad.lo.u32 %r{d}, %r{a}, {self.one((4, 16))}, %r{b};",
                        f"and.b32 %r{d}, %r{a}, {self.one((1, 7, 48, 1023, 0xFFF0))};",
                        f"or.b32 %r{d}, %r{a}, {self.one((1, 64))};",
                        f"shl.b32 %r{d}, %r{a}, {self.one((1, 4, 7))};",
                        f"shr.u32 %r{d}, %r{a}, {self.one((1, 3, 8))};",
                        f"shr.s32 %r{d}, %r{a}, {self.one((1, 3, 8))};",
                        f"not.b32 %r{d}, %r{a};",
                        f"selp.b32 %r{d}, %r{a}, %r{b}, %p{self.one(_PREDICATES)};",
                        f"cvt.u64.u32 %rd{self.one(_WIDE)}, %r{a};",
                        f"mul.wide.u32 %rd{self.one(_WIDE)}, %r{a}, {self.one((1, 16))};",
                        f"cvt.u32.u64 %r{d}, %rd{self.one(_WIDE)};",
                        f"mov.b32 %r{d}, %r{a};",
                        f"shfl.sync.bfly.b32 %r{d}, %r{a}, 1, 31, 0xffffffff;",
                    ]
                )
            )
            if not self.chance(0.02)
            else f"lop3.b32 %r{d}, %r{a}, %r{b}, 3, 0x96;"
        )

    def compare(self) -> str:
        """Sets a predicate."""
        order = self.random.choice(["lt", "le", "gt", "ge", "eq", "ne"])
        kind = self.random.choice(["u32", "s32"])
        p, a = self.one(_PREDICATES), self.one((1, *_COUNTERS, *_WORK))
        b = f"%r{self.one(_COUNTERS)}" if self.chance(0.3) else str(self.one((0, 5, 31, 200, 4096)))
        return f"setp.{order}.{kind} %p{p}, %r{a}, {b};"

    def shared(self) -> str:
        """An access to shared memory; most of them through a mask that keeps it inside."""
        a, t, d = self.one((*_COUNTERS, *_WORK)), 15, self.one((14, 16, 17, 18, 19, 28, self.one(_WORK)))
        width = self.one((4, 4, 16))
        fit = f"and.b32 %r{t}, %r{a}, {(_SHARED - 1) & ~(width - 1)}; "
        if self.chance(0.04):
            fit, t = "", self.one(_COUNTERS)
        if width == 16:
            load = f"ldmatrix.sync.aligned.m8n8.x2.shared.b16 {{%r24, %r25}}, [%r{t}];"
            store = f"st.shared.v4.b32 [%r{t}], {{%r20, %r21, %r22, %r23}};"
        else:
            load = f"ld.shared.b32 %r{d}, [%r{t}];"
            store = f"st.shared.b32 [%r{t}], %r{self.one((14, *_WORK))};"
        guard = self.guard() if "ldmatrix" not in load else ""
        copied = f"cp.async.ca.shared.global [%r{t}], [%rd{self.one(_WIDE)}], {width};"
        if self.chance(0.15):
            return f"{fit}{self.guard()}{copied} cp.async.commit_group; cp.async.wait_group {self.one((0, 0, 1))};"
        return fit + (guard + load if self.chance(0.7) else self.guard() + store)

    def outside(self) -> str:
        """An access to global memory."""
        d, w = self.one((14, 16, 29, 30, self.one(_WORK))), self.one(_WIDE)
        fit = f"and.b64 %rd5, %rd{w}, {self.global_bytes // 4096 * 4096 // 2 - 4};" if self.chance(0.9) else ""
        w = 5 if fit else w
        if self.chance(0.75):
            return f"{fit} {self.guard()}ld.global.b32 %r{d}, [%rd{w}];"
        return f"{fit} {self.guard()}st.global.b32 [%rd{w}], %r{self.one((14, *_WORK))};"

    def matrix(self) -> str:
        """A matrix instruction; its metadata may have been loaded."""
        return _MMA
