"""Time of tcgen05: costs by fractions and by hand, the engine against a scheduler that steps cycle by cycle, and
skipping that changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import ceil

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from isa import decode
from isa.forms.record import Unit
from simulator import ConfigError, load_config
from simulator.chip.config import Config
from simulator.chip.tables import Loop
from simulator.compiler.compile import compile_code
from simulator.compiler.jobs import asynchronous, cycle
from simulator.compiler.schedule import schedule
from simulator.compiler.tcgen05 import cost, mma_cost, sources
from simulator.compiler.timed_code import Periodic, StallReason, TimedCode, TimedLoop, TimedOperation, nesting
from simulator.errors import DeadlockError
from simulator.execute.dynamic_info import (
    CLUSTER,
    ArriveFacts,
    CommitFacts,
    CopyFacts,
    Fact,
    Idle,
    InitFacts,
    MmaFacts,
    MoveFacts,
    MoveWaitFacts,
    ShiftFacts,
    WaitFacts,
)  # fmt: skip
from simulator.program.blocks import Block, Step
from simulator.program.lowering import linearise
from simulator.timing.result import Timing
from simulator.timing.run import simulate
from tests.support.cases import examples, exhaustive
from tests.support.serving import UNKNOWN, Access, Server

B200 = load_config("b200")
FREE_LOOPS = replace(B200, loop=Loop(0, 0, False))
TABLES = B200.tcgen05
assert TABLES is not None
QUEUE, COPY, TMEM, MBARRIER = TABLES.queue, TABLES.copy, TABLES.tmem, TABLES.mbarrier
BAR = (0, 64)
DENSE = MmaFacts(
    "f16", 128, 128, 16, 1, False, False, False, 16, 16
)  # 64 cycles of products, 64 of operands, latency 200
SMALL = replace(DENSE, n=64)  # 32 cycles of products, 48 of operands, latency 168
PAIR = replace(DENSE, m=256, cta_group=2)
UNIT = {
    MmaFacts: Unit.TCGEN05,
    CopyFacts: Unit.TCGEN05,
    ShiftFacts: Unit.TCGEN05,
    CommitFacts: Unit.TCGEN05,
    MoveFacts: Unit.TMEM,
    MoveWaitFacts: Unit.SYNC,
    InitFacts: Unit.SYNC,
    ArriveFacts: Unit.SYNC,
    WaitFacts: Unit.SYNC,
    Idle: Unit.SYNC,
}

Item = TimedOperation | TimedLoop
Body = Sequence["Fact | tuple[Fact, ...] | TimedOperation | Repeat"]


@dataclass(frozen=True)
class Repeat:
    count: int
    body: Body


def code(warps: Sequence[int], body: Body, config: Config = B200) -> TimedCode:
    """A program for some warps: facts (or cycles of them), other operations, loops."""
    items: list[Item] = []
    flatten(items, warps, body, config, 0, 0)
    ends = {item.loop: item for item in items if isinstance(item, TimedLoop)}
    return TimedCode(tuple(warps), items, nesting(items), ends)


def flatten(items: list[Item], warps: Sequence[int], body: Body, config: Config, depth: int, loops: int) -> int:
    for part in body:
        if isinstance(part, Repeat):
            start, loop = len(items), loops
            loops = flatten(items, warps, part.body, config, depth + 1, loops + 1)
            items.append(TimedLoop(start, part.count, depth, loop))
        elif isinstance(part, TimedOperation):
            items.append(part)
        else:
            facts = part if isinstance(part, tuple) else (part,)
            items.append(asynchronous(UNIT[type(facts[0])], dict.fromkeys(warps, facts), config))
    return loops


def alu(writes: int, *reads: int) -> TimedOperation:
    return TimedOperation(Unit.ALU, B200.alu.latency, B200.alu.interval, reads, (writes,), 0)


def load(writes: int, wavefronts: int, warps: Sequence[int] = range(8)) -> TimedOperation:
    """ld.shared of so many wavefronts."""
    return TimedOperation(
        Unit.SHARED,
        B200.shared.latency,
        B200.shared.warp_interval,
        (),
        (writes,),
        0,
        costs=dict.fromkeys(warps, Periodic((wavefronts,))),
    )


def move(store: bool, cells: int, *registers: int) -> TimedOperation:
    """tcgen05.ld into, or st from, these registers, for warp 0 to 7."""
    reads, writes = (registers, ()) if store else ((), registers)
    return asynchronous(
        Unit.TMEM, {warp: (MoveFacts(store, cells),) for warp in range(8)}, B200, reads=reads, writes=writes
    )


def run(*programs: tuple[Sequence[int], Body], config: Config = FREE_LOOPS, warps: int = 4, ctas: int = 1) -> Timing:
    """The timing of programs, checked with and without skipping."""
    codes = [code(who, body, config) for who, body in programs]
    fast, slow = (simulate(config, codes, warps, skip=skip, ctas=ctas) for skip in (True, False))
    assert replace(fast, skipped=0) == slow
    for row in fast.waits.values():
        assert sum(row) == fast.cycles
        assert min(row) >= 0
    return fast


def one(*body: Fact | tuple[Fact, ...] | TimedOperation | Repeat, config: Config = FREE_LOOPS) -> int:
    """Cycles of a program of warp 0."""
    return run(([0], body), config=config).cycles


# Costs

ROWS = {1: (64, 128), 2: (128, 256)}


@given(
    st.sampled_from(["f16", "tf32", "f8f6f4", "i8", "mxf8f6f4", "mxf4", "mxf4nvf4"]),
    st.sampled_from([(1, 64), (1, 128), (2, 128), (2, 256)]),
    st.integers(1, 16),
    st.booleans(),
    st.booleans(),
)
def test_costs_by_fractions(kind: str, shape: tuple[int, int], n: int, sparse: bool, in_tmem: bool) -> None:
    """The published model in exact fractions, with the published constants written out here."""
    group, m = shape
    bits = {"f16": 16, "tf32": 32, "mxf4": 4, "mxf4nvf4": 4}.get(kind, 8)
    rate = {"f16": 4096, "tf32": 2048, "mxf4": 16384, "mxf4nvf4": 16384}.get(kind, 8192)
    k = 256 // bits * (2 if sparse else 1)
    rows, columns = Fraction(m, group), 16 * n
    tensor = rows * columns * k / (rate * (2 if sparse else 1)) * (2 if shape == (1, 64) else 1)
    a = 0 if in_tmem else rows * 32  # every dense or compressed row of A is 32 bytes
    operands = (a + Fraction(columns * k * bits, 8) / group) / 128
    base = {(1, 64): 104, (1, 128): 104, (2, 128): 146, (2, 256): 138}[shape]
    added = {"i8": (-1, -3), "mxf8f6f4": (2, 3), "mxf4": (2, 3), "mxf4nvf4": (2, 3)}.get(kind, (0, 0))[group - 1]
    found = mma_cost(B200, MmaFacts(kind, m, columns, k, group, False, sparse, in_tmem, bits, bits))
    assert (found.tensor, found.operands) == (ceil(tensor), ceil(operands))
    assert found.interval == max(found.tensor, found.operands, 18 if shape == (2, 128) else 1)
    assert found.latency == base + added + ceil(Fraction(a, 128)) + ceil(tensor)
    assert found.bound == (
        "minimum" if found.interval > max(tensor, operands) else "operands" if operands > tensor else "tensor"
    )


@pytest.mark.parametrize(
    ("group", "m", "in_tmem", "wanted"),
    [
        (1, 128, False, (64, 96, 128, 160)),
        (2, 256, False, (48, 64, 96, 128)),
        (1, 128, True, (32, 64, 96, 128)),
        (2, 256, True, (32, 64, 96, 128)),
    ],
)
def test_sparse_predictions(group: int, m: int, in_tmem: bool, wanted: tuple[int, ...]) -> None:
    """f16, K = 32, N = 64, 128, 192, 256: the hypothesis, worked out by hand."""
    facts = [MmaFacts("f16", m, n, 32, group, False, True, in_tmem, 16, 16) for n in (64, 128, 192, 256)]
    assert tuple(mma_cost(B200, fact).interval for fact in facts) == wanted
    assert all("tcgen05 sparse f16" in sources(B200, fact) for fact in facts)
    assert B200.status("tcgen05 sparse f16") == "assumed"


def test_ws_has_fewer_rows_for_the_same_time() -> None:
    costs = [mma_cost(B200, replace(DENSE, m=m, ws=True)) for m in (32, 64, 128)]
    assert {found.tensor for found in costs} == {64}
    assert [found.latency for found in costs] == [104 + 8 + 64, 104 + 16 + 64, 104 + 32 + 64]
    assert B200.status("tcgen05 shape weight stationary, 32 rows") == "assumed"


def test_costs_of_moves() -> None:
    assert cost(B200, CopyFacts(2048, 2048, 1)) == cost(B200, CopyFacts(2048, 8192, 1))  # reading bounds both
    copied = cost(B200, CopyFacts(2048, 2048, 1))
    assert copied is not None
    assert (copied.tensor, copied.operands, copied.interval, copied.latency) == (0, 16, 16, 16 + COPY.latency)
    shifted = cost(B200, ShiftFacts(4096, 1))
    assert shifted is not None
    assert (shifted.operands, shifted.interval) == (0, 8)
    assert cost(B200, WaitFacts(BAR, 0)) is None
    loaded, stored = cost(B200, MoveFacts(False, 32 * 4)), cost(B200, MoveFacts(True, 32))
    assert loaded is not None
    assert stored is not None
    assert (loaded.interval, loaded.latency) == (4, TMEM.load_latency + 3)
    assert (stored.interval, stored.latency) == (1, TMEM.store_latency)


@pytest.mark.parametrize(
    ("config", "fact", "key", "words"),
    [
        ("h100_sxm", DENSE, "tcgen05", ("h100_sxm has no times for tcgen05", "b200")),
        ("h100_sxm", WaitFacts(BAR, 0), "tcgen05", ("mbarrier",)),
        ("b300", replace(DENSE, kind="i8", a_bits=8, b_bits=8), "tcgen05.kind", (".kind::i8 on b300", "f16, tf32")),
        ("b200", replace(DENSE, m=32), "tcgen05.shape", ("M = 32", "cta_group = 1, ws = false, rows with 32")),
        ("b200", replace(PAIR, ws=True), "tcgen05.shape", ("tcgen05.mma.ws",)),
    ],
)
def test_no_such_cost(config: str, fact: Fact, key: str, words: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError) as caught:
        cost(load_config(config), fact)
    assert caught.value.key == key
    assert all(word in str(caught.value) for word in words), str(caught.value)


# Facts


@given(st.lists(st.integers(0, 2), min_size=1, max_size=30))
def test_cycles_of_facts(numbers: list[int]) -> None:
    facts = [WaitFacts(BAR, number) for number in numbers]
    found = cycle(facts)
    assert all(fact == found[r % len(found)] for r, fact in enumerate(facts))
    shorter = [n for n in range(1, len(found)) if all(fact == facts[r % n] for r, fact in enumerate(facts))]
    assert shorter == []


def compiled(text: str, facts: dict[int, Sequence[Fact]], config: Config) -> TimedOperation:
    block = Block((0, 1), (Step(decode(text), 7),), 1)
    found = compile_code(linearise(block), config, {}, {0: facts}).items[0]
    assert isinstance(found, TimedOperation)
    return found


def test_compiled() -> None:
    """From decoded instructions and recorded facts."""
    wait = "mbarrier.try_wait.parity.shared::cta.b64 %p0, [%r0], %r1;"
    found = compiled(wait, {0: [WaitFacts(BAR, r % 2) for r in range(9)], 1: [Idle()]}, B200)
    assert found.jobs is not None
    assert found.unit is Unit.SYNC
    assert [job.fact for job in found.jobs[0].entries] == [WaitFacts(BAR, 0), WaitFacts(BAR, 1)]
    assert found.jobs[1].entries == [(Idle(), None)]
    found = compiled(
        "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r4, %r5}, [%r0];",
        {0: [MoveFacts(False, 64)], 1: [MoveFacts(False, 64)]},
        B200,
    )
    assert (found.unit, found.latency, found.writes) == (Unit.TMEM, TMEM.load_latency + 1, (4, 5))
    assert compiled("tcgen05.fence::before_thread_sync;", {}, B200).unit is Unit.SYNC
    assert (
        compiled("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r0];", {}, B200).unit
        is Unit.TCGEN05
    )
    with pytest.raises(ConfigError, match="line 7: a100 has no times for 'mbarrier"):
        compiled(wait, {}, replace(load_config("a100"), mbarrier=None))
    with pytest.raises(ConfigError, match=r"line 7: no table for 'tcgen05\.mma\.cta_group::1\.kind::i8'"):
        compiled("tcgen05.mma.cta_group::1.kind::i8 [%r0], %rd2, %rd4, %r6, %p0;", {}, load_config("b300"))


# By hand

INIT, COMMIT, WAIT = InitFacts(BAR, 1), CommitFacts((BAR,), 1), WaitFacts(BAR, 0)
L, II = 200, 64  # of DENSE
TURNS = (WaitFacts(BAR, 0), WaitFacts(BAR, 1))
CP = CopyFacts(2048, 2048, 1)


def test_one_mma() -> None:
    """From issue, in cycle 1, until the warp goes on; without a commit the result comes no earlier."""
    assert one(INIT, DENSE, COMMIT, WAIT) == 1 + L
    assert one(DENSE) == L
    assert one(INIT, DENSE, COMMIT, WAIT, alu(0)) == 1 + L + B200.alu.latency
    assert one(INIT, DENSE, COMMIT, alu(0)) == 1 + L
    waits = run(([0], (INIT, DENSE, COMMIT, WAIT, alu(0)))).waits[0]
    assert waits[StallReason.ISSUED] == 5
    assert waits[StallReason.MBARRIER] == L - 3
    assert run(([0], (INIT, DENSE, COMMIT, WAIT))).waits[0][StallReason.MBARRIER] == L - 3


@pytest.mark.parametrize("depth", [1, 2, 3, 17, 100])
def test_streams(depth: int) -> None:
    assert one(INIT, Repeat(depth, (DENSE,)), COMMIT, WAIT) == 1 + (depth - 1) * II + L
    assert one(INIT, Repeat(depth, (SMALL, DENSE)), COMMIT, WAIT) == 1 + depth * 48 + (depth - 1) * II + L
    assert one(INIT, Repeat(depth, (DENSE, COMMIT, TURNS))) == 1 + depth * L


def test_order_of_the_queue() -> None:
    """A copy takes its turn; a commit waits for all before it, not for what comes after; a fast result behind a slow
    one."""
    copied = 16 + COPY.latency
    assert one(INIT, CP, COMMIT, WAIT) == 1 + copied
    assert one(INIT, CP, DENSE, COMMIT, WAIT) == 1 + 16 + L
    assert (
        one(INIT, COMMIT, WAIT, alu(0)) == 3 + B200.alu.latency
    )  # nothing to wait for: it arrives a cycle after the commit, in cycle 2
    first = one(INIT, DENSE, COMMIT, DENSE, WAIT, alu(0))
    assert first == 1 + II + L  # the end is that of the second, though the warp goes on earlier
    waits = run(([0], (INIT, DENSE, COMMIT, DENSE, WAIT, alu(0)))).waits[0]
    assert waits[StallReason.MBARRIER] == L - 4
    slow, fast = replace(DENSE, n=256), CopyFacts(16, 16, 1)
    assert one(INIT, slow, fast, COMMIT, WAIT) == 1 + 264


def test_commits_of_several_warps() -> None:
    """A phase of two arrivals; each commit tracks what its own warp has issued."""
    barrier = InitFacts(BAR, 2)
    both = run(([0], (barrier, DENSE, COMMIT, WAIT)), ([1], (Idle(), Idle(), DENSE, COMMIT)))
    assert both.cycles == 1 + II + L
    shared = run(([0], (INIT, Idle(), DENSE, COMMIT, WAIT)), ([1], (Idle(), DENSE)))
    assert shared.cycles == 1 + II + L


def test_threads_arrive() -> None:
    assert one(InitFacts(BAR, 32), ArriveFacts(BAR, 32), WAIT, alu(0)) == 1 + MBARRIER.latency + B200.alu.latency
    assert one(INIT, WaitFacts(BAR, 1), alu(0)) == 2 + B200.alu.latency  # the phase before the first is complete
    two = run(
        ([0], (InitFacts(BAR, 2), ArriveFacts(BAR, 1), WAIT)), ([1], (Idle(), *[Idle()] * 20, ArriveFacts(BAR, 1)))
    )
    assert two.cycles == 21 + MBARRIER.latency


def test_moves() -> None:
    latency = TMEM.load_latency
    assert one(move(False, 32, 0)) == latency
    assert one(move(False, 256, 0)) == latency + 7
    assert one(move(False, 256, 0), move(False, 32, 1)) == max(latency + 7, 8 + latency)
    assert one(move(False, 32, 0), alu(1, 0)) == latency + B200.alu.latency  # a register is waited for
    assert one(move(False, 32, 0), MoveWaitFacts(False), alu(1)) == latency + B200.alu.latency
    assert one(move(True, 64, 0), MoveWaitFacts(False), alu(1)) == max(2 + B200.alu.latency, TMEM.store_latency + 1)
    assert one(move(True, 64, 0), MoveWaitFacts(True), alu(1)) == TMEM.store_latency + 1 + B200.alu.latency
    assert one(alu(0), move(True, 32, 0)) == B200.alu.address_latency + TMEM.store_latency
    for warps, turns in ((1, 1), (4, 1), (5, 2)):  # a path for each sub-core
        timing = run((range(warps), (move(False, 1024, 0),)), warps=8)
        assert timing.cycles == latency - 1 + 32 * turns
        assert timing.tmem_busy[0] == 32 * turns


def test_shared_memory_serves_operands_too() -> None:
    """Loads wait behind the block of an MMA's operands, and an MMA's operands behind loads."""
    behind = run(([0], (SMALL,)), ([1], (Idle(), load(0, 1), alu(1, 0))))
    assert behind.shared_busy == 48 + 1
    assert (
        behind.waits[1][StallReason.SHARED] == 48 + B200.shared.latency - 2
    )  # the operands of the MMA are read in cycles 0 to 47
    last = 29 * B200.shared.wavefront_interval  # cycle of the last wavefront, decided some cycles later
    decided = [Idle()] * 4
    behind_loads = run(([1], (load(0, 30),)), ([0], (*decided, SMALL)))
    assert behind_loads.cycles == last + 1 + 168  # issued in cycle 4, operands from the last wavefront on


def test_full_queue() -> None:
    """The warp that issues stalls when as many wait as there is room for: one is started, the rest wait."""
    small = replace(FREE_LOOPS, tcgen05=replace(TABLES, queue=replace(QUEUE, queue=2)))  # type: ignore[type-var]
    waits = run(([0], (DENSE, DENSE, DENSE, DENSE, alu(0))), config=small).waits[0]
    assert waits[StallReason.TCGEN05] == II - 3  # the fourth is issued when the second starts
    assert one(DENSE, DENSE, DENSE, DENSE, config=small) == 3 * II + L
    other = run(([0], (DENSE, DENSE, DENSE, DENSE)), ([4], (alu(0), alu(1))), config=small, warps=8)
    assert other.waits[4][StallReason.TCGEN05] == 0  # others of the sub-core go on


def test_pairs() -> None:
    """cta_group::2 takes the units of both SMs; a commit reaches the other CTA; sub-cores, barriers and shared memory
    are apart."""
    both = CommitFacts((BAR, (1, 64)), 2)
    wait = WaitFacts((1, 64), 0)
    meet = (ArriveFacts(CLUSTER, 1), WaitFacts(CLUSTER, 0))
    lead = ([0], (INIT, *meet, PAIR, both, WAIT))
    other = ([4], (InitFacts((1, 64), 1), *meet, wait, alu(0)))
    timing = run(lead, other, ctas=2)
    released = 1 + MBARRIER.latency + 234
    assert timing.cycles == released + B200.alu.latency
    assert timing.tcgen05_busy == ((64, 64), (64, 64))
    assert timing.issued == [6, 0, 0, 0, 5, 0, 0, 0]
    single = run(
        ([0], (PAIR, PAIR)), ([4], (Idle(), DENSE)), ctas=2
    )  # the other SM's own MMA comes behind both of the pair's
    assert single.tcgen05_busy == ((128, 128), (192, 192))
    assert single.cycles == max(2 * 64 + 200, 64 + 234)
    alone = run(([0], (DENSE, DENSE)), ([4], (DENSE, DENSE)), ctas=2)
    assert alone.cycles == II + L


def test_the_cluster_does_not_wait_for_warps_that_have_ended() -> None:
    meet = (ArriveFacts(CLUSTER, 1), WaitFacts(CLUSTER, 0))
    timing = run(([0], (*meet, alu(0))), ([1], (*[Idle()] * 50,)))
    assert timing.cycles == 50 + B200.alu.latency - 1  # released in the cycle of the other's last instruction
    with pytest.raises(
        DeadlockError, match="warps 0 wait for parity 0 of the barrier of the cluster, which lacks 1 of 2"
    ):
        simulate(B200, [code([0], meet), code([1], (INIT, WAIT))], 2)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            (INIT, DENSE, WAIT, alu(0)),
            "warps 0 wait for parity 0 of the mbarrier at shared[64] of CTA 0, which lacks 1 of 1 arrivals",
        ),
        ((INIT, DENSE, WAIT), "lacks 1 of 1"),
        ((InitFacts(BAR, 2), DENSE, COMMIT, WAIT), "lacks 1 of 2"),
        ((INIT, DENSE, COMMIT, WaitFacts(BAR, 0), WaitFacts(BAR, 1)), "parity 1"),
        ((DENSE, COMMIT), "the mbarrier at shared[64] of CTA 0 is used before mbarrier.init"),
        ((WAIT,), "before mbarrier.init"),
    ],
)
def test_deadlocks(body: Body, words: str) -> None:
    with pytest.raises(DeadlockError) as caught:
        simulate(B200, [code([0], body)], 1)
    assert words in str(caught.value)


# Skipping


def test_a_billion() -> None:
    """Loops with several steps, an even and an odd number of turns, and a warp that waits for the end of it all."""
    done = (0, 128)
    cycles = []
    for count in (1000, 2000, 10**9):
        body = (
            INIT,
            InitFacts(done, 1),
            Repeat(count, (DENSE, SMALL, COMMIT, TURNS, move(False, 64, 0))),
            CommitFacts((done,), 1),
        )
        watch = (*[Idle()] * 4, WaitFacts(done, 0), alu(0))
        codes = [code([0], body), code([1], watch)]  # type: ignore[arg-type]
        timing = simulate(B200, codes, 4)
        assert all(sum(row) == timing.cycles for row in timing.waits.values())
        assert timing.waits[1][StallReason.MBARRIER] > 0.99 * timing.cycles
        cycles.append(timing)
    few, more, many = cycles
    assert many.skipped > 0.999 * many.cycles
    assert many.cycles - few.cycles == (more.cycles - few.cycles) * (10**6 - 1)
    assert many.tcgen05_busy[0][0] == 10**9 * (64 + 48)
    assert many.waits[1][StallReason.MBARRIER] - few.waits[1][StallReason.MBARRIER] == (more.cycles - few.cycles) * (
        10**6 - 1
    )


def test_pipeline_of_three_stages() -> None:
    """A producer and a consumer through three buffers with full and empty mbarriers; copies of different lengths.
    Skipped to the cycle."""
    full, empty = [(0, 8 * i) for i in range(3)], [(0, 64 + 8 * i) for i in range(3)]
    start = [InitFacts(b, 1) for b in full + empty]
    produce = [
        part
        for i in range(3)
        for part in (
            (WaitFacts(empty[i], 1), WaitFacts(empty[i], 0)),
            CP,
            replace(SMALL, n=64 + 16 * i),
            CommitFacts((full[i],), 1),
        )
    ]
    consume = [
        part
        for i in range(3)
        for part in ((WaitFacts(full[i], 0), WaitFacts(full[i], 1)), move(False, 128, i), ArriveFacts(empty[i], 1))
    ]
    meet = (ArriveFacts(CLUSTER, 1), WaitFacts(CLUSTER, 0))
    for count in (1, 2, 7, 50):
        run(([0], (*start, *meet, Repeat(count, produce))), ([1], (*meet, Repeat(count, consume))))
    huge = [code([0], (*start, *meet, Repeat(10**8, produce))), code([1], (*meet, Repeat(10**8, consume)))]
    assert simulate(B200, huge, 4).skipped > 10**10


@pytest.mark.parametrize("count", range(1000, 1006))
def test_phases_count_when_skipping(count: int) -> None:
    """Arrivals in a loop that nobody waits for until it is over: which phase it is then depends on every one of
    them."""
    slow = (0, 8)
    loop = Repeat(count, (ArriveFacts(slow, 1), DENSE, COMMIT, TURNS))
    rest = [ArriveFacts(slow, 1)] * (-count % 3)
    parity = (-(-count // 3) - 1) % 2
    timing = run(([0], (InitFacts(slow, 3), INIT, loop, *rest, WaitFacts(slow, parity), alu(0))))
    assert timing.skipped > 0.9 * timing.cycles
    assert timing.waits[0][StallReason.MBARRIER] >= count * (L - 4)


# A second opinion: every cycle


@dataclass
class Thread:
    """A warp of the reference."""

    id: int
    cta: int
    items: list[Item]
    core: int
    pc: int = 0
    turns: dict[int, int] = field(default_factory=dict)
    loops: dict[int, int] = field(default_factory=dict)
    started: dict[int, int] = field(default_factory=dict)
    ready: dict[int, tuple[int, Unit]] = field(default_factory=dict)
    pinned: dict[int, int] = field(default_factory=dict)
    turn: int = 0
    access: int = 0
    sent: int = 0
    gate: int = 0
    waits: bool = False
    complete: int = 0
    moves: list[int] = field(default_factory=lambda: [0, 0])

    @property
    def done(self) -> bool:
        return self.pc >= len(self.items)


@dataclass
class Reference:
    """Plain loops over cycles, SMs, sub-cores and warps; no events, nothing skipped."""

    config: Config
    threads: list[Thread]
    ctas: int
    end: int = 0
    now: int = 0

    def __post_init__(self) -> None:
        cores = self.config.sm.sub_cores * self.ctas
        for thread in self.threads:
            schedule(thread.items, self.config)
        self.free = [dict.fromkeys(Unit, 0) for _ in range(cores)]
        self.turn = [0] * cores
        self.issued, self.tmem = [0] * cores, [0] * cores
        self.queues: list[list[tuple[Thread, Fact]]] = [[] for _ in range(self.ctas)]
        self.unit = [0] * self.ctas
        self.servers = [Server(self.config, self.config.sm.sub_cores) for _ in range(self.ctas)]
        self.port = [0] * cores
        self.begins: list[list[int]] = [[] for _ in range(cores)]  # of each port, when it began with each access
        self.busy, self.shared = [0] * self.ctas, [0] * self.ctas
        self.landings: list[tuple[int, tuple[tuple[int, int], ...]]] = []
        self.bars: dict[tuple[int, int], list[int]] = {
            CLUSTER: [len(self.threads), len(self.threads), 0]
        }  # count, missing, parity
        self.waiting: list[tuple[Thread, tuple[int, int], int]] = []

    def run(self) -> bool:
        """False for a deadlock, which is nothing happening for long."""
        idle = 0
        while (
            any(not t.done or t.waits for t in self.threads)
            or any(self.queues)
            or self.landings
            or any(s.waiting for s in self.servers)
        ):
            before = (sum(self.issued), len(self.landings), sum(map(len, self.queues)))
            due = [landing for landing in self.landings if landing[0] == self.now]
            self.landings = [landing for landing in self.landings if landing[0] != self.now]
            for _, barriers in due:
                for barrier in barriers:
                    self.arrive(barrier)
                self.end = max(self.end, self.now)
            for cta in range(self.ctas):
                self.drain(cta)
            for server in self.servers:
                server.step(self.now)
            for core in range(len(self.free)):
                self.issue(core)
            idle = (
                idle + 1
                if before == (sum(self.issued), len(self.landings), sum(map(len, self.queues))) and not due
                else 0
            )
            if idle > 2000:
                return False
            self.now += 1
        return True

    def works(self) -> bool:
        if self.landings or any(self.queues) or any(server.waiting for server in self.servers):
            return True
        return any(not t.done or t.waits for t in self.threads)

    def arrive(self, barrier: tuple[int, int]) -> None:
        state = self.bars[barrier]
        state[1] -= 1
        if state[1] <= 0:
            state[1], state[2] = state[0], 1 - state[2]
            for thread, _, _ in [entry for entry in self.waiting if entry[1] == barrier and entry[2] != state[2]]:
                thread.waits, thread.gate = False, max(thread.gate, self.now)
            self.waiting = [entry for entry in self.waiting if entry[1] != barrier or entry[2] == state[2]]

    def drain(self, cta: int) -> None:
        queue = self.queues[cta]
        while queue:
            thread, fact = queue[0]
            if isinstance(fact, CommitFacts):
                self.landings.append((max(thread.complete, self.now + 1), fact.barriers))
            else:
                found = cost(self.config, fact)
                assert found is not None
                sms = range(self.ctas) if getattr(fact, "cta_group", 1) == 2 else [cta]
                if any(self.unit[sm] > self.now for sm in sms):
                    return
                late = 0
                for sm in sms:
                    if found.operands:
                        late = max(late, self.servers[sm].block(self.now, found.operands) - self.now)
                        self.shared[sm] += found.operands
                for sm in sms:
                    self.busy[sm] += max(found.interval, late + found.operands)
                    self.unit[sm] = self.now + max(found.interval, late + found.operands)
                thread.complete = max(thread.complete, self.now + late + found.latency)
                self.end = max(self.end, thread.complete)
            queue.pop(0)

    def able(self, thread: Thread) -> bool:
        if thread.done or thread.waits or thread.gate > self.now:
            return False
        op = thread.items[thread.pc]
        assert isinstance(op, TimedOperation)
        if self.free[thread.core][op.unit] > self.now:
            return False
        assert self.config.tcgen05 is not None
        if op.unit is Unit.TCGEN05 and len(self.queues[thread.cta]) >= self.config.tcgen05.queue.queue:
            return False
        more = 0 if op.unit is Unit.ALU else self.config.alu.address_latency - self.config.alu.latency
        for register in op.reads:
            at, producer = thread.ready.get(register, (0, Unit.ALU))
            if at + (more if producer is Unit.ALU and at else 0) > self.now:
                return False
        for register in op.writes:
            at, producer = thread.ready.get(register, (0, Unit.ALU))
            if producer is op.unit is Unit.SHARED:  # values of one warp arrive in order
                at = 0
            if (at > self.now if producer is Unit.SHARED else at >= self.now + op.latency) or thread.pinned.get(
                register, 0
            ) > self.now:
                return False
        return op.unit is not Unit.SHARED or self.now >= thread.access

    def issue(self, core: int) -> None:
        threads = [thread for thread in self.threads if thread.core == core]
        begins, shared, each = self.begins[core], self.config.shared, self.config.sm.sub_cores
        if len(begins) >= shared.queue:
            untaken = len(begins) - shared.queue > self.servers[core // each].took[core % each]
            self.free[core][Unit.SHARED] = UNKNOWN if untaken else begins[-shared.queue] + shared.queue_latency
        order = (
            threads[self.turn[core] :] + threads[: self.turn[core]]
            if self.config.issue.policy == "round-robin"
            else threads
        )
        thread = next((t for t in order if self.able(t)), None)
        if thread is None:
            return
        self.turn[core] = (threads.index(thread) + 1) % len(threads)
        self.issued[core] += 1
        op = thread.items[thread.pc]
        assert isinstance(op, TimedOperation)
        took = self.begin(thread, op)
        self.end = max(self.end, self.now + took)
        self.move_on(thread)

    def begin(self, thread: Thread, op: TimedOperation) -> int:
        now, free = self.now, self.free[thread.core]
        tables = self.config.tcgen05
        assert tables is not None
        took = 1
        thread.gate = max(thread.gate, now + op.stall)  # test_engine.py checks these waits
        if op.unit is Unit.ALU:
            free[Unit.ALU] = now + op.interval
            took = op.latency
        elif op.unit is Unit.SHARED:
            assert op.costs is not None
            shared, waves = self.config.shared, op.costs[thread.id].entries[0]
            at = max(now, self.port[thread.core])
            self.port[thread.core] = at + shared.port_cycles
            self.shared[thread.cta] += waves * shared.cycles
            begins = self.begins[thread.core]
            begins.append(at)
            thread.access = now + shared.warp_interval
            ready = UNKNOWN + len(begins)
            thread.ready |= dict.fromkeys(op.writes, (ready, Unit.SHARED))

            def arrived(done: int) -> None:
                self.end = max(self.end, done)
                for register in op.writes:
                    if thread.ready[register][0] == ready:
                        thread.ready[register] = (done, Unit.SHARED)

            together = op.access is not None and op.access.together
            access = Access(thread, at, waves, not op.writes, len(op.writes), together, op.latency, arrived)
            self.servers[thread.cta].sent[thread.core % self.config.sm.sub_cores].append(access)
            thread.sent = self.port[thread.core] + shared.operand_latency
            thread.pinned |= dict.fromkeys(op.reads, thread.sent)
            return 1
        else:
            assert op.jobs is not None
            jobs = op.jobs[thread.id].entries
            turn = thread.turns.get(thread.pc, 0)
            thread.turns[thread.pc] = turn + 1
            match fact := jobs[turn % len(jobs)].fact:
                case MoveFacts(store=store):
                    found = cost(self.config, fact)
                    assert found is not None
                    free[Unit.TMEM] = now + found.interval
                    self.tmem[thread.core] += found.interval
                    took = found.latency
                    thread.moves[store] = max(thread.moves[store], now + took)
                case MoveWaitFacts(store=store):
                    thread.gate = max(thread.moves[store], thread.gate)
                case InitFacts(barrier=barrier, count=count):
                    self.bars[barrier] = [count, count, 0]
                case ArriveFacts(barrier=barrier, count=count):
                    self.landings.append((now + tables.mbarrier.latency, (barrier,) * count))
                case WaitFacts(barrier=barrier, parity=parity):
                    if self.bars[barrier][2] == parity:
                        thread.waits = True
                        self.waiting.append((thread, barrier, parity))
                case Idle():
                    pass
                case _:
                    free[Unit.TCGEN05] = now + tables.queue.issue
                    self.queues[thread.cta].append((thread, fact))
                    self.drain(thread.cta)
        for register in op.writes:
            thread.ready[register] = (now + took, op.unit)
        return took

    def move_on(self, thread: Thread) -> None:
        thread.pc += 1
        while not thread.done and isinstance(end := thread.items[thread.pc], TimedLoop):
            thread.gate = max(thread.gate, thread.started.get(end.loop, 0) + self.config.loop.minimum, thread.sent)
            thread.started[end.loop] = thread.gate
            thread.loops[end.loop] = thread.loops.get(end.loop, 0) + 1
            if thread.loops[end.loop] < end.count:
                thread.pc = end.start
            else:
                thread.loops[end.loop] = 0
                thread.pc += 1


# Random programs

MMAS = (
    DENSE,
    SMALL,
    PAIR,
    replace(DENSE, n=16),
    replace(SMALL, a_in_tmem=True),
    replace(PAIR, sparse=True, k=32),
    replace(DENSE, m=64, ws=True, n=32),
)
REGISTERS = st.integers(0, 3)


@st.composite
def operations(draw: st.DrawFn, cta: int) -> list[object]:
    """A few operations without waits on mbarriers."""
    match draw(st.integers(0, 9)):
        case 0 | 1 | 2:
            return [draw(st.sampled_from(MMAS))] * draw(st.integers(1, 3))
        case 3:
            return [draw(st.sampled_from([CP, CopyFacts(512, 2048, 1), CopyFacts(4096, 4096, 2), ShiftFacts(4096, 1)]))]
        case 4:
            return [tuple(draw(st.lists(st.sampled_from(MMAS), min_size=2, max_size=3)))]
        case 5:
            return [move(False, draw(st.sampled_from([16, 32, 512])), draw(REGISTERS))]
        case 6:
            return [move(True, draw(st.sampled_from([32, 256])), draw(REGISTERS))]
        case 7:
            return [MoveWaitFacts(draw(st.booleans()))]
        case 8:
            return [load(draw(REGISTERS), draw(st.integers(1, 8)))]
    return [alu(draw(REGISTERS), draw(REGISTERS))]


@dataclass
class Programs:
    """Bodies of each warp, and the mbarriers that they use."""

    warps: int
    ctas: int
    bodies: dict[int, list[object]]


@st.composite
def programs(draw: st.DrawFn, most: int) -> Programs:
    """Warps of one or two CTAs that multiply, copy, move, commit and wait for themselves, and for one another through
    two mbarriers."""
    warps, ctas = draw(st.sampled_from([1, 2, 3, 5])), draw(st.sampled_from([1, 1, 2]))
    numbers = range(warps * ctas)
    inits: list[Fact] = []
    bodies: dict[int, list[object]] = {}
    offset = 0
    for warp in numbers:
        cta = warp // warps
        body: list[object] = []
        for _ in range(draw(st.integers(1, 2))):
            inside: list[object] = []
            for _ in range(draw(st.integers(1, 3))):
                inside += draw(operations(cta))
            if draw(st.booleans()):
                offset += 8
                bars = ((cta, offset), (0, offset + 100_000)) if draw(st.booleans()) else ((cta, offset),)
                inits += [InitFacts(bar, 1) for bar in bars]
                inside += [CommitFacts(bars, 1), *draw(operations(cta))]
                inside.append((WaitFacts(bars[-1], 0), WaitFacts(bars[-1], 1)))
            body += [Repeat(draw(st.integers(1, most)), inside)] if draw(st.booleans()) else inside  # type: ignore[arg-type]
        bodies[warp] = body
    if len(bodies) > 1 and draw(st.booleans()):  # a producer and a consumer
        first, second, count = 0, len(bodies) - 1, draw(st.integers(1, most))
        full, empty = (0, 200_000), (second // warps, 200_008)
        inits += [InitFacts(full, 1), InitFacts(empty, 1)]
        bodies[first].append(
            Repeat(count, [(WaitFacts(empty, 1), WaitFacts(empty, 0)), *draw(operations(0)), CommitFacts((full,), 1)])  # type: ignore[list-item]
        )
        bodies[second].append(
            Repeat(count, [(WaitFacts(full, 0), WaitFacts(full, 1)), *draw(operations(0)), ArriveFacts(empty, 1)])  # type: ignore[list-item]
        )
    for warp in numbers:  # nobody begins before the mbarriers are there
        bodies[warp] = [*(inits if warp == 0 else ()), ArriveFacts(CLUSTER, 1), WaitFacts(CLUSTER, 0), *bodies[warp]]
    return Programs(warps, ctas, bodies)


@dataclass(frozen=True)
class Variant:
    policy: str
    loop: Loop
    queue: int
    sub_cores: int

    @property
    def config(self) -> Config:
        assert TABLES is not None
        tables = replace(TABLES, queue=replace(QUEUE, queue=self.queue))
        return replace(
            B200,
            issue=replace(B200.issue, policy=self.policy),
            loop=self.loop,
            sm=replace(B200.sm, sub_cores=self.sub_cores),
            tcgen05=tables,
        )


VARIANTS = st.builds(
    Variant,
    st.sampled_from(["oldest", "round-robin"]),
    st.sampled_from([Loop(0, 0, False), Loop(1, 28, True), Loop(2, 0, False)]),
    st.sampled_from([1, 3, 32]),
    st.sampled_from([1, 4]),
)
QUIET = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
)


def codes_of(made: Programs, config: Config) -> list[TimedCode]:
    codes = []
    for warp, body in made.bodies.items():
        found = code([warp], body, config)  # type: ignore[arg-type]
        for item in found.items:
            if isinstance(item, TimedOperation) and item.jobs is not None:
                item.jobs = {warp: next(iter(item.jobs.values()))}
            elif isinstance(item, TimedOperation) and item.costs is not None:
                item.costs = {warp: next(iter(item.costs.values()))}
        codes.append(found)
    return codes


def fresh(made: Programs) -> Programs:
    """Copies of the shared operations, so that each warp has its own."""
    return Programs(
        made.warps, made.ctas, {warp: [copied(part) for part in body] for warp, body in made.bodies.items()}
    )


def copied(part: object) -> object:
    if isinstance(part, Repeat):
        return Repeat(part.count, [copied(inner) for inner in part.body])  # type: ignore[misc]
    return replace(part) if isinstance(part, TimedOperation) else part


def contended(codes: list[TimedCode], warps: int) -> bool:
    """Whether both SMs of a pair start instructions of their own, and one of them takes both: which comes first where
    they could start in the same cycle is not the model's business."""
    facts = [
        (number // warps, entry.fact)
        for code in codes
        for number in code.warps
        for item in code.items
        if isinstance(item, TimedOperation) and item.unit is Unit.TCGEN05 and item.jobs is not None
        for entry in item.jobs[number].entries
    ]
    return len({cta for cta, _ in facts}) > 1 and any(getattr(fact, "cta_group", 1) == 2 for _, fact in facts)


@exhaustive
@given(programs(5), VARIANTS)
@settings(QUIET, max_examples=examples(120))
def test_against_cycle_by_cycle(made: Programs, variant: Variant) -> None:
    """The second opinion decides accesses to shared memory at once, the machine some cycles later, so that a block of
    operands between them may move the last value by a cycle."""
    config = variant.config
    codes = codes_of(fresh(made), config)
    assume(not contended(codes, made.warps))
    cores = config.sm.sub_cores
    threads = [
        Thread(
            c.warps[0],
            c.warps[0] // made.warps,
            c.items,
            c.warps[0] // made.warps * cores + c.warps[0] % made.warps % cores,
        )
        for c in codes
    ]
    reference = Reference(config, threads, made.ctas)
    if not reference.run():
        with pytest.raises(DeadlockError):
            simulate(config, codes, made.warps, ctas=made.ctas, skip=False)
        return
    found = simulate(config, codes, made.warps, ctas=made.ctas, skip=False)
    assert abs(found.cycles - reference.end) <= 1
    assert (found.issued, found.shared_busy) == (reference.issued, max(reference.shared))
    assert [busy for busy, _ in found.tcgen05_busy] == reference.busy
    assert list(found.tmem_busy) == reference.tmem


@exhaustive
@given(programs(80), VARIANTS)
@settings(QUIET, max_examples=examples(120))
def test_skipping_changes_nothing(made: Programs, variant: Variant) -> None:
    config = variant.config
    outcomes = []
    for skip in (True, False):
        try:
            outcomes.append(
                replace(
                    simulate(config, codes_of(fresh(made), config), made.warps, ctas=made.ctas, skip=skip),
                    skipped=0,
                )
            )
        except DeadlockError as error:
            outcomes.append(str(error))  # type: ignore[arg-type]
    assert outcomes[0] == outcomes[1]
    if isinstance(outcomes[0], Timing):
        assert all(sum(row) == outcomes[0].cycles and min(row) >= 0 for row in outcomes[0].waits.values())
