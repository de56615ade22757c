"""Validates shared memory against silicon: loads that depend on each other, streams of loads and stores, and both
beside matrix instructions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

import isa
from simulator.chip.config import Config
from simulator.program.blocks import Step
from simulator.resources import folder
from simulator.state.registers import WARP_SIZE
from simulator.studies.validation.group import Group, Row, assumed
from simulator.studies.validation.measured_loops import Loop, Part, Words, read_loops
from simulator.studies.validation.programs import COUNTS
from simulator.tables import read_rows

SHORT = 12  # of so many loops one is in the short form
STEPS = ("gemm", "beside", "random", "held out")  # kinds of loops with matrix instructions
_DEPENDENT, _LOADS = 16, (16, 48)  # loads in the body of a dependent stream, and its two loop counts
_ADDRESS, _BASE, _MASK, _PART = 9, 8, 10, 11  # registers of a dependent stream; those of the machine code are not known
_OVERLAPPING = (
    "ldmatrix_x2",
)  # streams in whose machine code three of four loads write a register of their own address
_OPCODES = {
    **{f"ldmatrix_x{x}": (f"ldmatrix.sync.aligned.m8n8.x{x}.shared.b16", x) for x in (1, 2, 4)},
    "ldshared_32": ("ld.shared.b32", 1),
    "ldshared_64": ("ld.shared.v2.b32", 2),
    "ldshared_128": ("ld.shared.v4.b32", 4),
}


def _measurements(name: str) -> Path:
    return folder("configs") / "measurements" / name


def _table(name: str) -> Iterable[dict[str, str]]:
    return read_rows(_measurements(name))


@cache
def _loops() -> tuple[Loop, ...]:
    return tuple(replace(loop, counts=COUNTS) for loop in read_loops(_measurements("h100_shared_memory.json.xz")))


def _measured(selected: Callable[[Loop], bool]) -> Callable[[Config, bool], list[Row]]:
    """Makes the function that runs the measured loops for which `selected` holds; the short form has one loop of
    twelve, with at most 8 warps."""

    def rows(config: Config, short: bool) -> list[Row]:
        loops = [loop for loop in _loops() if selected(loop)]
        return [
            Row(loop.name, (("kind", loop.kind), ("warps", warps)), cycles, timed.simulated(warps))
            for loop in (loops[::SHORT] if short else loops)
            for timed in [loop.on(config)]
            for warps, cycles in loop.cycles.items()
            if warps <= 8 or not short
        ]

    return rows


def _step(text: str) -> Step:
    return Step(isa.decode(text), 0)


def _loop(name: str, body: list[str], counts: tuple[int, int], image: Words, registers: dict[int, Words]) -> Loop:
    steps = tuple(map(_step, body))
    part = Part(0, None, steps, registers)
    return Loop(name, "", "", (0, 1, 2, 3), counts, image, (part,), {}, {})


@cache
def _dependent(name: str) -> Loop:
    """Sixteen loads, each from a base plus a part of the value of the one before: LOP3 and IMAD.IADD in the machine
    code."""
    opcode, width = _OPCODES[name]
    value = "%r0" if opcode == "ld.shared.b32" else "{" + ", ".join(f"%r{i}" for i in range(width)) + "}"
    body = []
    places = [1 if name in _OVERLAPPING and number % 4 else _ADDRESS for number in range(_DEPENDENT)]
    for number, place in enumerate(places):
        following = places[(number + 1) % _DEPENDENT]
        body += [
            f"{opcode} {value}, [%r{place}];",
            f"and.b32 %r{_PART}, %r0, %r{_MASK};",
            f"add.s32 %r{following}, %r{_PART}, %r{_BASE};",
        ]
    start = np.arange(WARP_SIZE, dtype=np.uint32) * np.uint32(16 if opcode.startswith("ldmatrix") else 4 * width)
    return _loop(name, body, _LOADS, np.zeros(1024, np.uint32), {_ADDRESS: start, _BASE: start})


def dependent(config: Config, short: bool) -> list[Row]:
    """Cycles of a load together with the arithmetic that its address needs."""
    return [
        Row(
            row["instruction"],
            (("instruction", row["instruction"]), ("warps", warps)),
            float(row["cycles_per_load_per_warp"]),
            cycles / _DEPENDENT,
        )
        for row in _table("h100_dependent_loads.csv")
        for warps in [int(row["warps"])]
        if warps in (1, 8) or not short
        for cycles in [_dependent(row["instruction"]).on(config).simulated(warps)]
    ]


@cache
def _chains(name: str, chains: int) -> Loop:
    """Independent chains of ldmatrix, in each of which a load gives the addresses of the next one."""
    opcode, width = _OPCODES[name.replace(".", "_")]
    pointers = next(loop.image for loop in _loops() if loop.name == "memory_chase_x4_all")
    body = [
        f"{opcode} {{{', '.join(f'%r{width * chain + i}' for i in range(width))}}}, [%r{width * chain}];"
        for chain in range(chains)
    ]
    start = np.arange(WARP_SIZE, dtype=np.uint32) * np.uint32(16)
    return _loop(name, body * 8, (4, 12), pointers, {width * chain: start for chain in range(chains)})


def published(config: Config, short: bool) -> list[Row]:
    """Cycles of a round of `ilp` loads in each warp."""
    return [
        Row(
            row["instruction"],
            (("instruction", row["instruction"]), ("warps", warps), ("ilp", ilp)),
            float(row["cycles"]),
            cycles / 8,
            assumed(config, ("shared", "issue", "loop")),
        )
        for row in _table("a100_ldmatrix.csv")
        for warps, ilp in [(int(row["warps"]), int(row["ilp"]))]
        if warps in (1, 8) or not short
        for cycles in [_chains(row["instruction"], ilp).on(config).simulated(warps)]
    ]


_H100 = (
    "measured: NVIDIA H100 80GB HBM3, 2026-11-24, measurements; held out: 2026-11-25, when the rules, the order of "
    "warps among them, had been fixed"
)
_LOOPS = (
    Group(
        "loads",
        "dependent loads with address arithmetic, cycles a load",
        "measured: H100 80GB, November 2026",
        dependent,
        ("instruction",),
        seconds=0.5,
    ),
    Group(
        "shared",
        "loops of loads and stores, cycles an iteration",
        _H100,
        _measured(lambda loop: loop.kind not in STEPS),
        ("kind", "warps"),
        seconds=24,
    ),
    Group(
        "steps",
        "loads and stores among matrix instructions, cycles an iteration",
        _H100,
        _measured(lambda loop: loop.kind in STEPS),
        ("kind", "warps"),
        seconds=25,
    ),
)
_PUBLISHED = (
    Group(
        "ldmatrix",
        "chains of ldmatrix, cycles a round",
        "published: Sun et al., arXiv 2206.02874v3, Table 9 and Figure 15",
        published,
        ("instruction",),
    ),
)
GROUPS = {"h100_sxm": _LOOPS, "a100": _PUBLISHED}
