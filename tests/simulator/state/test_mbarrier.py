"""mbarriers: against a model that is one number after another, in traces, in both CTAs of a pair, and every misuse by
its message."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import simulator
from isa import UndefinedBehavior
from simulator import DeadlockError, TraceError
from simulator.state.mbarrier import MOST, Mbarriers, OrderedMemory, parity_of, pending_of
from simulator.state.shared import AddressError
from tests.support.cases import over

HEAD = ".trace 1\n.target sm_100a\n"
LEADER = "mov.u32 %r0, %laneid; setp.eq.u32 %p0, %r0, 0; mov.u32 %r1, 0;\n"
INIT = "@%p0 mbarrier.init.shared::cta.b64 [%r1+{place}], {count};\n"


def barriers(size: int = 64) -> Mbarriers:
    return Mbarriers(OrderedMemory(size, 2).data)


def run(path: Path, text: str, **options: object) -> simulator.Report:
    trace = path / "x.trace"
    trace.write_text(text)
    return simulator.run(trace, None, **options)  # type: ignore[arg-type]


def single(path: Path, body: str, *, warps: int = 1, shared: int = 64, end: str = "") -> simulator.Report:
    return run(
        path, f"{HEAD}.warps {warps}\n.shared {shared}\n.warp 0-{warps - 1} {{\n{body}\n}}\n{end}\n", undefined="raise"
    )


# The object


class Counted:
    """An mbarrier as the text of PTX ISA 9.0, 9.7.13.15.2 to 9.7.13.15.5 describes it."""

    def __init__(self, count: int) -> None:
        self.expected = self.pending = count
        self.tx = self.phase = 0

    def arrive(self, count: int) -> None:
        self.pending -= count
        self.check()

    def check(self) -> None:
        if self.pending == 0 and self.tx == 0:
            self.phase, self.pending = self.phase + 1, self.expected


@over("seed", range(20))
def test_against_the_text(seed: int) -> None:
    """Random legal operations: phase, counts and returned states follow the rules, and a phase ends exactly when
    nothing is lacking."""
    generator = random.Random(seed)
    count = generator.choice((1, 2, 5, MOST))
    ours, theirs = barriers(), Counted(count)
    ours.init(8, count)
    completions = 0
    for _ in range(400):
        before = theirs.phase
        match generator.randrange(4):
            case 0 if theirs.pending:
                number = generator.randint(1, theirs.pending) if theirs.expected < MOST else theirs.pending
                state = ours.arrive(8, number)
                assert pending_of(np.array([state], np.uint64)) == theirs.pending
                assert parity_of(np.array([state], np.uint64)) == theirs.phase % 2
                theirs.arrive(number)
            case 1 if theirs.pending and theirs.tx < 1000:
                announced = generator.randrange(100)
                ours.arrive(8, 1, expect=announced)
                theirs.tx += announced
                theirs.arrive(1)
            case 2 if theirs.tx < 1000 and theirs.pending:
                announced = generator.randrange(1, 100)
                ours.expect(8, announced)
                theirs.tx += announced
                theirs.check()
            case 3 if theirs.tx > 0:
                come = generator.randint(1, theirs.tx)
                ours.complete(8, come)
                theirs.tx -= come
                theirs.check()
        found = ours.at(8)
        assert (found.phase, found.pending, found.transactions, found.expected) == (
            theirs.phase,
            theirs.pending,
            theirs.tx,
            theirs.expected,
        )
        completions += theirs.phase - before
        for parity in (0, 1):  # PTX: false for the current phase, true for the one before
            assert (found.phase > ours.awaited(8, parity)) == (theirs.phase % 2 != parity)
    assert completions > 5


def test_bytes_before_they_are_announced() -> None:
    """complete_tx may come first: the phase waits for the announcement then."""
    ours = barriers()
    ours.init(0, 2)
    ours.complete(0, 64)
    ours.arrive(0, 1)
    assert ours.at(0).phase == 0
    assert "an expect_tx of 64 bytes" in ours.at(0).lacks()
    ours.arrive(0, 1, expect=64)
    assert ours.at(0).phase == 1


def test_dropping_lowers_later_phases() -> None:
    ours = barriers()
    ours.init(0, 3)
    ours.arrive(0, 1, drop=True)
    ours.arrive(0, 2)
    assert (ours.at(0).phase, ours.at(0).pending) == (1, 2)


def test_words_in_memory_are_opaque_but_whole() -> None:
    """The object is 8 bytes of shared memory; a store into it is found, and inval frees it."""
    ours = barriers()
    ours.init(16, 7)
    assert ours.data[16:24].any()
    assert not ours.data[:16].any()
    assert not ours.data[24:].any()
    ours.data[20] ^= 1
    with pytest.raises(AddressError, match="overwritten by a store"):
        ours.arrive(16)
    ours.data[20] ^= 1
    ours.arrive(16)
    ours.inval(16)
    ours.data[16:24] = 0
    ours.init(20 - 4, 1)


MISUSE: list[tuple[str, Callable[[Mbarriers], object]]] = [
    ("no mbarrier at shared[8]", lambda b: b.arrive(8)),
    ("no mbarrier at shared[32]; legal: mbarrier.init before; shared[0]", lambda b: b.inval(32)),
    ("misaligned", lambda b: b.init(4, 1)),
    ("outside of the 64 bytes", lambda b: b.init(64, 1)),
    ("outside of the 64 bytes", lambda b: b.init(-8, 1)),
    ("count of 0", lambda b: b.init(8, 0)),
    (f"count of {MOST + 1}", lambda b: b.init(8, MOST + 1)),
    ("3 arrivals at the mbarrier at shared[0], whose phase lacks 2 of 2 arrivals", lambda b: b.arrive(0, 3)),
    ("legal: 1 to 2, the arrivals that the phase still lacks", lambda b: b.arrive(0, 0)),
    ("none before its bytes have come", lambda b: (b.expect(0, 8), b.arrive(0, 2), b.arrive(0, 1))),  # type: ignore[func-returns-value]
    (".noComplete ends the phase", lambda b: b.arrive(0, 2, complete=False)),
    ("a transaction count", lambda b: b.expect(0, MOST + 1)),
    ("a transaction count", lambda b: (b.complete(0, MOST), b.complete(0, 1))),  # type: ignore[func-returns-value]
]


@over(("words", "operation"), MISUSE, ids=[words for words, _ in MISUSE])
def test_misuse(words: str, operation: Callable[[Mbarriers], object]) -> None:
    ours = barriers()
    ours.init(0, 2)
    with pytest.raises(AddressError) as caught:
        operation(ours)
    assert words in str(caught.value)


# In traces

PIPELINE = """.trace 1
.target sm_100a
.warps 5
.shared 256
.warp 4 {{
    mov.u32 %r0, %laneid; setp.eq.u32 %p0, %r0, 0; mov.u32 %r1, 0;
    @%p0 mbarrier.init.shared::cta.b64 [%r1], 1;
    @%p0 mbarrier.init.shared::cta.b64 [%r1+8], 128;
    bar.sync 0;
    mov.u32 %r3, 1; mov.u32 %r4, 0;
    .repeat {times} {{
        {empty}
        xor.b32 %r3, %r3, 1;
        mad.lo.u32 %r4, %r4, 3, 1;
        @%p0 st.shared.u32 [%r1+64], %r4;
        @%p0 mbarrier.arrive.shared::cta.b64 _, [%r1];
    }}
}}
.warp 0-3 {{
    mov.u32 %r1, 0; mov.u32 %r3, 0;
    bar.sync 0;
    .repeat {times} {{
        {full}
        xor.b32 %r3, %r3, 1;
        ld.shared.u32 %r5, [%r1+64];
        mad.lo.u32 %r6, %r6, 5, %r5;
        mbarrier.arrive.shared::cta.b64 _, [%r1+8];
    }}
}}
.store "sum", %r6, 1;
"""
FULL = "mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], %r3;"
EMPTY = "mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1+8], %r3;"


def test_pipeline(tmp_path: Path) -> None:
    """One producer, 128 consumers, one buffer: every value arrives once, and waits order the accesses (nothing is a
    race)."""
    report = run(tmp_path, PIPELINE.format(times=9, full=FULL, empty=EMPTY), undefined="raise")
    value = total = 0
    for _ in range(9):
        value = 3 * value + 1
        total = (5 * total + value) % 2**32
    assert (report.arrays["sum"][:4] == total).all()


def test_a_missing_wait_is_a_race(tmp_path: Path) -> None:
    """Consumers that do not wait read what nothing orders, whichever is executed first."""
    with pytest.raises(UndefinedBehavior, match="shared-memory-race"):
        run(tmp_path, PIPELINE.format(times=1, full="add.u32 %r7, %r1, 0;", empty=EMPTY), undefined="raise")


def test_a_producer_that_runs_ahead(tmp_path: Path) -> None:
    """A producer that does not wait ends two phases at once: consumers that wait for the first by its parity wait for
    the third then, as on a GPU."""
    with pytest.raises(DeadlockError, match="warps 0 wait in line 23 for phase 2 of the mbarrier"):
        run(tmp_path, PIPELINE.format(times=2, full=FULL, empty="add.u32 %r7, %r1, 0;"))


def test_a_relaxed_wait_orders_nothing(tmp_path: Path) -> None:
    relaxed = FULL.replace("parity.", "parity.relaxed.cta.")
    with pytest.raises(UndefinedBehavior, match="shared-memory-race"):
        run(tmp_path, PIPELINE.format(times=1, full=relaxed, empty=EMPTY), undefined="raise")


def test_states_and_test_wait(tmp_path: Path) -> None:
    """The state that an arrival returns names its phase; test_wait tells, and does not wait."""
    body = (
        LEADER
        + INIT.format(place=0, count=33)
        + """mbarrier.arrive.shared::cta.b64 %rd0, [%r1];
        mbarrier.pending_count.b64 %r2, %rd0;
        mbarrier.test_wait.shared::cta.b64 %p1, [%r1], %rd0;
        @%p0 mbarrier.arrive.shared::cta.b64 %rd1, [%r1], 1;
        mbarrier.test_wait.shared::cta.b64 %p2, [%r1], %rd0;
        mbarrier.try_wait.shared::cta.b64 %p3, [%r1], %rd0;
        mbarrier.test_wait.parity.shared::cta.b64 %p4, [%r1], 1;"""
    )
    report = single(tmp_path, body, end='.store "count", %r2, 1;\n.store "p", %p1, 4;')
    assert report.arrays["count"][0, 0].tolist() == [33 - lane for lane in range(32)], "lanes arrive one after another"
    assert report.arrays["p"].dtype == np.bool_
    assert report.arrays["p"][0].all(axis=1).tolist() == [False, True, True, False]


def test_transactions(tmp_path: Path) -> None:
    """expect_tx with the arrival, bytes in two parts, a wait that ends when they have come."""
    text = f"""{HEAD}.warps 2
.shared 64
.warp 0 {{
{LEADER}{INIT.format(place=0, count=1)}
    bar.sync 0;
    @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 48;
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], 0;
    ld.shared.u32 %r5, [%r1+32];
}}
.warp 1 {{
{LEADER}
    bar.sync 0;
    mov.u32 %r2, 99;
    @%p0 mbarrier.complete_tx.shared::cta.b64 [%r1], 16;
    @%p0 mbarrier.complete_tx.shared::cta.b64 [%r1], 32;
}}
.store "r", %r5, 1;
"""
    assert run(tmp_path, text, undefined="raise").arrays["r"][0, 0, 0] == 0
    with pytest.raises(DeadlockError) as caught:
        run(tmp_path, text.replace("[%r1], 32;", "[%r1], 31;"))
    assert "warps 0 wait in line 11 for phase 0 of the mbarrier at shared[0], which lacks 1 bytes" in str(caught.value)


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        (INIT.format(place=0, count=1), "mbarrier-reinitialised"),
        ("mov.u32 %r5, -1;\n@%p0 mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], %r5;", "mbarrier-parity"),
    ],
)
def test_what_tritons_kernels_do_is_counted_and_works(tmp_path: Path, line: str, rule: str) -> None:
    """As on an H200 (tests/golden/launches/triton_attention): a second init begins anew; of a parity bit 0 counts."""
    text = f"""{HEAD}.warps 1
.shared 64
.warp 0 {{
{LEADER}{INIT.format(place=0, count=2)}
    @%p0 mbarrier.arrive.shared::cta.b64 _, [%r1];
    {line}
    mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r1], 0;
    @%p0 mbarrier.arrive.shared::cta.b64 _, [%r1];
    mbarrier.test_wait.parity.shared::cta.b64 %p2, [%r1], 0;
}}
.store "p", %p1, 1;
.store "q", %p2, 1;
"""
    report = run(tmp_path, text)
    assert dict(report.undefined) == {rule: 1}
    assert not report.arrays["p"].any()
    assert report.arrays["q"].all()
    with pytest.raises(UndefinedBehavior, match=rule):
        run(tmp_path, text, undefined="raise")


def test_lanes_with_barriers_of_their_own(tmp_path: Path) -> None:
    """Each of the 32 threads initialises one, arrives at it, and waits for its neighbour's."""
    body = """mov.u32 %r0, %laneid; shl.b32 %r1, %r0, 3; add.u32 %r2, %r0, 1; and.b32 %r2, %r2, 31; shl.b32 %r2, %r2, 3;
    mbarrier.init.shared::cta.b64 [%r1], 1;
    mbarrier.arrive.shared::cta.b64 _, [%r1];
    mbarrier.try_wait.parity.shared::cta.b64 %p0, [%r2], 0;
    mbarrier.inval.shared::cta.b64 [%r1];"""
    assert single(tmp_path, body, shared=256, end='.store "p", %p0, 1;').arrays["p"].all()
    with pytest.raises(simulator.ConfigError, match="threads of one warp that name different mbarriers"):
        simulator.run(tmp_path / "x.trace", "b200")


def test_a_waiter_does_not_miss_its_phase(tmp_path: Path) -> None:
    """Two phases end while a warp waits for the first: it goes on all the same."""
    text = f"""{HEAD}.warps 2
.shared 64
.warp 0 {{
{LEADER}{INIT.format(place=0, count=1)}
    bar.sync 0;
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], 0;
}}
.warp 1 {{
{LEADER}
    bar.sync 0;
    @%p0 mbarrier.arrive.shared::cta.b64 _, [%r1];
    @%p0 mbarrier.arrive.shared::cta.b64 _, [%r1];
}}
.store "p", %p1, 1;
"""
    assert run(tmp_path, text).arrays["p"][0].all()


@over(
    ("body", "line", "words"),
    [
        ("mbarrier.init.shared::cta.b64 [%r1], 1;", 7, ("by 32 threads", "one thread: @%p0 mbarrier.init")),
        ("@%p0 mbarrier.arrive.shared::cta.b64 _, [%r1];", 7, ("no mbarrier at shared[0]", "mbarrier.init before")),
        ("@%p0 mbarrier.init.shared::cta.b64 [%r1+60], 1;", 7, ("outside of the 64 bytes",)),
        (
            INIT.format(place=0, count=1) + "st.shared.u32 [%r1], %r0; @%p0 mbarrier.arrive.shared.b64 _, [%r1];",
            8,
            ("overwritten by a store",),
        ),
        (INIT.format(place=0, count=1) + "mbarrier.arrive.shared::cta.b64 _, [%r1];", -1, ()),
        (INIT.format(place=0, count=1) + "mbarrier.arrive.shared::cta.b64 _, [%r1], 2;", 8, ("2 arrivals", "1 to 1")),
        (
            "mov.u32 %r5, 0x2000000;\n@%p0 mbarrier.arrive.shared::cluster.b64 _, [%r5];",
            8,
            ("no mbarrier at shared[0]",),
        ),
        (
            "mov.u32 %r5, 0x3000000;\n@%p0 mbarrier.arrive.shared::cluster.b64 _, [%r5];",
            8,
            ("shared memory of CTA 1, and there is none",),
        ),
        ("mov.u32 %r5, -8;\n@%p0 mbarrier.arrive.shared::cluster.b64 _, [%r5];", 8, ("is in no CTA's shared memory",)),
        ("mapa.shared::cluster.u32 %r5, %r1, 1;", 7, ("mapa to CTA 1", "0 to 0")),
        ("mbarrier.arrive.b64 _, [%rd0];", 7, ("no mbarrier",)),
        ("barrier.cluster.wait;", 7, ("waits at the barrier of the cluster without arriving",)),
        ("barrier.cluster.arrive;\nbarrier.cluster.arrive;", 8, ("arrives twice",)),
    ],
)
def test_errors_in_traces(tmp_path: Path, body: str, line: int, words: tuple[str, ...]) -> None:
    """With the line; `-1`: no error (32 arrivals at a barrier of 1 end 32 phases)."""
    if line < 0:
        single(tmp_path, LEADER + body)
        return
    with pytest.raises(TraceError) as caught:
        single(tmp_path, LEADER + body)
    assert caught.value.line == line, str(caught.value)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_deadlock_names_everybody(tmp_path: Path) -> None:
    text = f"""{HEAD}.warps 3
.shared 64
.warp 0 {{
{LEADER}{INIT.format(place=8, count=4)}
    bar.sync 1, 64;
    @%p0 mbarrier.arrive.shared::cta.b64 _, [%r1+8];
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1+8], 0;
}}
.warp 1 {{
{LEADER}
    bar.sync 1, 64;
    bar.sync 0;
}}
"""
    with pytest.raises(DeadlockError) as caught:
        run(tmp_path, text)
    message = str(caught.value)
    assert "warps 0 wait in line 11 for phase 0 of the mbarrier at shared[8], which lacks 3 of 4 arrivals" in message
    assert "warps 1 wait at barrier 0" in message
    assert "1 of 3 warps are finished or have no program" in message


# Pairs

PAIR = """.trace 1
.target sm_100a
.warps 2
.shared 128
.load cta0.shared[64], "data.npz", "zero";
.load cta1.shared[64], "data.npz", "one";
.cta 0-1 {
    .warp 0 {
        mov.u32 %r0, %laneid; setp.eq.u32 %p0, %r0, 0; mov.u32 %r1, 0;
        @%p0 mbarrier.init.shared::cta.b64 [%r1], 2;
        barrier.cluster.arrive.release.aligned;
        barrier.cluster.wait.acquire.aligned;
        mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], 0;
        ld.shared.u32 %r7, [%r1+96];
    }
    .warp 1 {
        mov.u32 %r0, %laneid; setp.eq.u32 %p0, %r0, 0; mov.u32 %r1, 0;
        mov.u32 %r2, %cluster_ctarank; xor.b32 %r2, %r2, 1;
        mov.u32 %r6, %cluster_nctarank;
        mapa.shared::cluster.u32 %r3, %r1, %r2;
        ld.shared.u32 %r5, [%r1+64];
        @%p0 st.shared.u32 [%r1+96], %r5;
        barrier.cluster.arrive;
        barrier.cluster.wait;
        @%p0 mbarrier.arrive.shared::cta.b64 _, [%r1];
        @%p0 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r3];
    }
}
.store "both", %r5, 3;
.store "one", cta1.%r5, 2;
.store "bytes", shared[96], 4;
"""


def pair(path: Path, text: str, config: str | None = None) -> simulator.Report:
    np.savez(path / "data.npz", zero=np.array([7], np.uint32), one=np.array([9], np.uint32))
    trace = path / "x.trace"
    trace.write_text(text)
    return simulator.run(trace, config, undefined="raise")


def test_arrivals_at_the_peer(tmp_path: Path) -> None:
    """Each CTA has its own registers, shared memory and barriers; each barrier needs an arrival from the other CTA."""
    arrays = pair(tmp_path, PAIR).arrays
    assert arrays["both"].shape == (2, 2, 3, 32)
    assert arrays["both"][:, 0, 2, 0].tolist() == [7, 9]
    assert arrays["both"][:, 1, 0, 0].tolist() == [7, 9]
    assert arrays["both"][:, 1, 1, 0].tolist() == [2, 2]
    assert arrays["one"].shape == (2, 2, 32)
    np.testing.assert_array_equal(arrays["one"], arrays["both"][1, :, :2])
    assert arrays["bytes"].tolist() == [[7, 0, 0, 0], [9, 0, 0, 0]]
    timed = pair(tmp_path, PAIR, "b200")
    assert timed.cycles > 0
    assert sorted(timed.waits) == [0, 1, 2, 3]
    assert all(sum(row.values()) == timed.cycles for row in timed.waits.values())


def test_the_masked_address_is_the_even_cta(tmp_path: Path) -> None:
    """CUTLASS clears bit 24 of a mapped address to reach the barrier of the pair's first CTA."""
    text = PAIR.replace(
        "mapa.shared::cluster.u32 %r3, %r1, %r2;", "mapa.shared::cluster.u32 %r3, %r1, 1; and.b32 %r3, %r3, 0xfeffffff;"
    )
    with pytest.raises(DeadlockError) as caught:
        pair(tmp_path, text)
    assert "mbarrier at shared[0] of CTA 1, which lacks 1 of 2 arrivals" in str(caught.value)


def test_a_lone_cta_of_a_pair_waits(tmp_path: Path) -> None:
    text = PAIR.replace("[%r3];", "[%r1];").replace("@%p0 mbarrier.arrive.shared::cta.b64 _, [%r1];\n", "")
    with pytest.raises(DeadlockError) as caught:
        pair(tmp_path, text)
    assert "CTA 0: warps 0 wait in line 13 for phase 0 of the mbarrier at shared[0] of CTA 0" in str(caught.value)
    assert "CTA 1: warps 0 wait in line 13" in str(caught.value)
    assert "2 of 4 warps are finished" in str(caught.value)


def test_the_cluster_waits_for_all_that_run(tmp_path: Path) -> None:
    """A warp that ends without arriving does not hold the others; one that waits elsewhere does."""
    start = (
        f"{HEAD}.warps 2\n.shared 64\n.cta 0 "
        f"{{ .warp 0 {{ barrier.cluster.arrive; barrier.cluster.wait; mov.u32 %r0, 1; }} }}\n"
    )
    ended = run(tmp_path, start + '.cta 1 { .warp 1 { mov.u32 %r0, 2; } }\n.store "r", %r0, 1;')
    assert ended.arrays["r"][:, :, 0, 0].tolist() == [[1, 0], [0, 2]]
    with pytest.raises(DeadlockError, match=r"barrier.cluster: warp 1 of CTA 1 has not arrived"):
        run(tmp_path, start + ".cta 1 { .warp 1 { bar.sync 0; } }\n")
