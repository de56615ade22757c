"""Prints every ratio: `python -m tests.benchmarks`."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import NamedTuple
from unittest import mock

import numpy as np

import isa
import simulator
from simulator.chip.config import load_config
from simulator.execute.mma import execute_mma
from simulator.faults import MmaTarget, single_bits
from simulator.faults.table import SITES, empty
from simulator.faults.targets.launch import LaunchTarget
from simulator.layout import form_layout
from simulator.machine import engine
from simulator.machine import front as interpreted_front
from simulator.program import load
from simulator.resources import folder
from simulator.simulation.session import Session
from simulator.studies.gemm import estimate
from simulator.studies.gemm.tile import Tile
from simulator.studies.validation.streams import stream
from simulator.views.drawing.registers import matrix_panels
from simulator.views.drawing.svg import figure
from tests.benchmarks.bare_simpy import INSTRUCTIONS, Loop, bare_simpy
from tests.benchmarks.pictures import with_matplotlib
from tests.benchmarks.plain import plain_mma_sp
from tests.support.paths import GOLDEN

ROUNDS = 5
OPCODE = "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32"


class Pair(NamedTuple):
    """Two ways to do the same; `work` says how much of it one call does."""

    what: str
    ours: Callable[[], object]
    ours_work: int
    other: Callable[[], object]
    other_work: int


def operands(cases: int) -> tuple[isa.MmaForm, tuple[np.ndarray, ...]]:  # type: ignore[type-arg]
    """Random operands with ascending metadata."""
    form = isa.mma_form(OPCODE)
    rng = np.random.default_rng(1)

    def normal(shape: tuple[int, ...]) -> np.ndarray:  # type: ignore[type-arg]
        return rng.standard_normal((cases, *shape)).astype(np.float16).view(np.uint16).astype(np.uint32)

    codes = rng.choice(np.array(form.metadata.codes, np.uint32), (cases, *form.metadata.shape))
    c = rng.standard_normal((cases, *form.c.shape)).astype(np.float32).view(np.uint32)
    return form, (
        form.a.scatter(normal(form.a.shape)),
        form.b.scatter(normal(form.b.shape)),
        form.c.scatter(c),
        form.metadata.scatter(codes, 0),
    )


def pairs() -> list[Pair]:
    form, many = operands(4096)
    one = tuple(array[:1] for array in many)
    target = isa.parse_target("sm_90a")

    def ours(arrays: tuple[np.ndarray, ...], arithmetic: str = "chip") -> Callable[[], object]:  # type: ignore[type-arg]
        return lambda: execute_mma(form, *arrays, 0, target=target, arithmetic=arithmetic)  # type: ignore[arg-type]

    subject = MmaTarget(OPCODE, cases=8)
    faults = single_bits(subject, "e")
    drawn, small = form_layout("mma.m16n8k256.s32.b1.b1.s32.and.popc").operands["a"], form_layout(OPCODE).operands["a"]
    loop = folder("traces") / "digits" / "f16.trace"
    blackwell = loop.with_name("f16_tcgen05.trace")
    texts = [line for line in spelled() if line]
    return [
        Pair(
            "decoding 1,000 instructions: plain spelling against the long way",
            lambda: decode_all(texts),
            1,
            lambda: decode_long(texts),
            1,
        ),
        Pair(
            "m16n8k32 f16: 4,096 at once against integers in plain Python, one at a time",
            ours(many),
            4096,
            lambda: plain_mma_sp(form, *one),
            1,
        ),
        Pair("m16n8k32 f16: 4,096 at once against one at a time", ours(many), 4096, ours(one), 1),
        Pair("m16n8k32 f16: the chip's sum against the exact one", ours(many), 4096, ours(many, "exact"), 4096),
        Pair(
            "the digits layer, time alone: repetitions skipped against simulated",
            lambda: simulator.run(loop, arithmetic="none"),
            1,
            lambda: simulator.run(loop, arithmetic="none", skip=False),
            1,
        ),
        Pair(
            "the digits layer: the chip's results alone against exact ones of the whole trace beside them",
            lambda: simulator.run(loop, exact=False),
            1,
            lambda: simulator.run(loop, exact=True),
            1,
        ),
        Pair(
            "the same with tcgen05.mma.sp",
            lambda: simulator.run(blackwell, "b200", exact=False),
            1,
            lambda: simulator.run(blackwell, "b200", exact=True),
            1,
        ),
        Pair(
            "faults in the metadata of m16n8k32, with their outcomes: 4,096 at once against one at a time",
            lambda: subject.run(faults),
            4096,
            lambda: subject.run(faults[:1]),
            1,
        ),
        struck_launches(),
        Pair(
            "a picture, for each labelled cell: SVG as text against matplotlib",
            lambda: figure("", [matrix_panels(drawn, "pastel")]),
            16 * 256,
            lambda: with_matplotlib(small),
            16 * 16,
        ),
        *engines(),
        *flat_loops(),
        Pair(
            "a loop of 1,000,000 repetitions against 100, repetitions skipped",
            repeated(1_000_000),
            1_000_000,
            repeated(100),
            100,
        ),
    ]


def struck_launches() -> Pair:
    """Bits of registers and buffers of a captured launch, struck in copies of its CTAs and in launches of their own."""
    path = GOLDEN / "planted" / "bug0.json"
    together, single = LaunchTarget(path), LaunchTarget(path, together=False)
    generator = np.random.default_rng(1)
    faults = empty(1024)
    for fault in faults:
        site = ("registers", "global")[int(generator.integers(2))]
        fault["site"], fault["mask"] = SITES.index(site), 1 << int(generator.integers(32))
        fault["word"], fault["lane"] = generator.choice(np.argwhere(together.sites[site].live))
        fault["case"] = generator.integers(len(together.numbers))
        fault["at"] = generator.integers(together.instructions(int(fault["case"]))) if site == "registers" else -1
    assert (together.run(faults[:64]) == single.run(faults[:64])).all()
    return Pair(
        "faults of a launch of 10,626 warp instructions: 1,024 together against launches of their own",
        lambda: together.run(faults),
        len(faults),
        lambda: single.run(faults[:16]),
        16,
    )


def flat_loops() -> list[Pair]:
    """Time alone of long loops, all of it, against shorter ones and against execution turn by turn."""
    tile = Tile("f16", 128, 128, 64, 2, 2, 4, True)

    def streamed(turns: int, flat: bool = True) -> Callable[[], object]:
        text = f"""
            .trace 1
            .target sm_90a
            .warps 8
            .shared 65536
            .warp 0-7 {{
                mov.u32 %r20, %tid.x; shl.b32 %r20, %r20, 4;
                .repeat {turns} {{
                    ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%r0, %r1, %r2, %r3}}, [%r20];
                    {OPCODE} {{%r8, %r9, %r10, %r11}}, {{%r0, %r1, %r2, %r3}}, {{%r4, %r5, %r6, %r7}},
                        {{%r8, %r9, %r10, %r11}}, %r12, 0x0;
                }}
            }}
            """
        return lambda: Session(text, "h100_sxm").time(flat=flat)

    def fresh(k: int) -> object:
        """An estimate that remembers nothing of those before."""
        module = sys.modules[estimate.__module__]
        with mock.patch.object(module, "run", module.run.__wrapped__):
            return estimate(tile, 4096, 4096, k)

    return [
        Pair("8 warps of ldmatrix and mma.sp, 1,000,000 turns against 100", streamed(1_000_000), 1, streamed(100), 1),
        Pair(
            "8 warps of ldmatrix and mma.sp, each turn of 1,000: left out against executed",
            streamed(1000),
            1,
            streamed(1000, flat=False),
            1,
        ),
        Pair(
            "a GEMM of 4096 x 4096, K = 65,536 against K = 4,096",
            lambda: fresh(65536),
            1,
            lambda: fresh(4096),
            1,
        ),
    ]


def engines() -> list[Pair]:
    """The machine on 32,008 instructions of a loop, nothing skipped, against a bare SimPy model of as many."""
    timed = Loop()

    def interpreted() -> None:
        with (
            mock.patch("simulator.machine.sm.front_module", return_value=interpreted_front),
            mock.patch.object(engine, "front_module", return_value=interpreted_front),
        ):
            timed()

    other = (bare_simpy, INSTRUCTIONS)
    compiled = [("compiled", timed)] if engine.compiled_front() is not None else []
    return [
        Pair(f"timing ldmatrix and mma.sp, the front {name}: against a bare SimPy model", ours, INSTRUCTIONS, *other)
        for name, ours in [*compiled, ("interpreted", interpreted)]
    ]


def spelled() -> list[str]:
    """1,000 instructions as the digits traces spell them."""
    steps = load(folder("traces") / "digits" / "f16.trace").steps()
    texts = [str(step.instruction) for step in steps]
    return (texts * 10)[:1000]


def decode_all(texts: list[str]) -> None:
    for text in texts:
        isa.decode(text, "sm_90a")


def decode_long(texts: list[str]) -> None:
    """A space in front keeps the short way out."""
    for text in texts:
        isa.decode(" " + text, "sm_90a")


def repeated(count: int) -> Callable[[], object]:
    """The timing engine alone on a loop of 120 matrix instructions in 8 warps."""
    from simulator.compiler.compile import compile_code
    from simulator.program.blocks import Block, Repeat
    from simulator.program.lowering import linearise
    from simulator.timing.run import simulate

    config = load_config("h100_sxm")
    block = Block(tuple(range(8)), (Repeat(count, stream(isa.mma_form(OPCODE), 4), 1),), 1)
    code = compile_code(linearise(block), config, {})
    return lambda: simulate(config, [code], 8)


def measure(pair: Pair) -> list[float]:
    """Ratios other / ours, in time for the same work, one for each round."""
    pair.ours()
    pair.other()
    found = []
    for _ in range(ROUNDS):
        ours, other = (
            _seconds(call) / work for call, work in ((pair.ours, pair.ours_work), (pair.other, pair.other_work))
        )
        found.append(other / ours)
    return found


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def main() -> None:
    print(f"{'how many times as fast, for the same work':<84} {'median':>10} {'lowest':>10} {'highest':>10}")
    for pair in pairs():
        ratios = measure(pair)
        print(f"{pair.what:<84} {statistics.median(ratios):>10,.1f} {min(ratios):>10,.1f} {max(ratios):>10,.1f}")

    timed = Loop()
    seconds = min(_seconds(timed) for _ in range(ROUNDS))
    print(f"{INSTRUCTIONS / seconds:,.0f} instructions a second timed one by one")
    texts = spelled()
    seconds = min(_seconds(lambda: decode_all(texts)) for _ in range(ROUNDS))
    print(f"{len(texts) / seconds:,.0f} instructions a second decoded from text")


if __name__ == "__main__":
    main()
