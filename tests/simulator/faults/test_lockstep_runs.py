"""Faults of traces whose runs are made together, against the same runs one by one: addresses that go astray, guards,
words that other warps read, narrow stores, races, several barriers and several programs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from simulator.faults.outcomes import DETECTORS, OUTCOMES, REASONS
from simulator.faults.own import OwnModel
from simulator.faults.run import part_rows
from simulator.faults.table import MODELS, SITES, Faults, empty
from simulator.faults.targets.program import ProgramTarget
from simulator.simulation.footprints import Footprints
from tests.simulator.faults.test_program_target import random_faults

EXCHANGE = """
.trace 1
.target sm_90a
.warps 3
.shared 2200
.warp 0-1 {
    mov.u32 %r0, %tid.x;
    shl.b32 %r1, %r0, 2;
    mul.lo.u32 %r2, %r0, 2654435761;
    st.shared.u32 [%r1+64], %r2;
    shl.b32 %r3, %r0, 1;
    st.shared.u16 [%r3+1024], %r2;
    bar.sync 0;
    xor.b32 %r4, %r1, 124;
    ld.shared.u32 %r5, [%r4+64];
    setp.lt.u32 %p0, %r5, %r2;
    @%p0 add.u32 %r6, %r5, %r2;
    @!%p0 st.shared.u32 [%r1+512], %r5;
    @%p0 ld.shared.u32 %r7, [%r1+64];
    vote.sync.ballot.b32 %r8, %p0, 0xffffffff;
    selp.b32 %r9, %r8, %r7, %p0;
    shl.b32 %r15, %r0, 3;
    and.b32 %r14, %r15, 248;
    bar.sync 0;
    .repeat 3 {
        ld.shared.u16 %r10, [%r3+1024];
        add.u32 %r11, %r11, %r10;
        xor.b32 %r3, %r3, 64;
        st.shared.u8 [%r0+1408], %r11;
        bar.sync 0;
        ld.shared.v2.u32 {%r12, %r13}, [%r14+64];
        mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%r16, %r17, %r18, %r19}, {%r12, %r9}, {%r13},
            {%r16, %r17, %r18, %r19};
    }
    st.shared.v2.u32 [%r15+1600], {%r16, %r12};
}
.warp 2 {
    mov.u32 %r0, %laneid;
    shl.b32 %r1, %r0, 2;
    bar.sync 0;
    ld.shared.u32 %r2, [%r1+64];
    st.shared.u32 [%r1+1280], %r2;
    bar.sync 0;
    bar.sync 0;
    bar.sync 0;
    bar.sync 0;
    ld.shared.u32 %r5, [%r1+1408];
    add.u32 %r6, %r2, %r5;
}
.store "sums", %r5, 15;
.store "bytes", shared[2], 2190;
"""


def both(name: str | Path, rows: Faults) -> np.ndarray:  # type: ignore[type-arg]
    """The results on which runs together and runs one by one agree."""
    together, alone = ProgramTarget(name), ProgramTarget(name, together=False)
    for target in (together, alone):
        target.take({0: OwnModel("bits * 3 + random")}, ())
    left, right = together.run(rows), alone.run(rows)
    assert together._together
    differ = [row for row in zip(rows, left, right, strict=True) if row[1].tolist() != row[2].tolist()]
    assert not differ, (len(differ), differ[:3])
    return left


@pytest.fixture(scope="module")
def exchange(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("exchange") / "x.trace"
    path.write_text(EXCHANGE, encoding="utf-8")
    return path


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.exhaustive) for seed in range(2, 8))])
def test_together_is_what_one_by_one_gives(exchange: Path, seed: int) -> None:
    rows = random_faults(ProgramTarget(exchange), 900, seed)
    rng, astray = np.random.default_rng(seed), np.flatnonzero(rows["site"] == SITES.index("registers"))[:200]
    rows["word"][astray] = rng.choice([0, 1, 3, 4, 14, 15], len(astray))  # addresses
    rows["mask"][astray] = np.uint32(1) << rng.integers(2, 11, size=len(astray)).astype(np.uint32)
    rows["word"][astray[::4]], rows["mask"][astray[::4]] = 14, 4  # in the middle of eight bytes
    own = rng.random(len(rows)) < 0.1
    rows["model"] = np.where(own, MODELS.index("own"), rows["model"])
    rows["seed"] = rng.integers(1 << 63, size=len(rows))
    results = both(exchange, rows)
    assert {OUTCOMES[outcome] for outcome in set(results["outcome"])} == {"masked", "sdc", "due"}
    assert {REASONS[why] for why in set(results["reason"])} >= {"unread", "equal", "illegal", "misaligned-address"}
    assert (results["detectors"] >> DETECTORS.index("race") & 1).any()


@pytest.mark.exhaustive
@pytest.mark.parametrize("words", [(3, 4, 5, 6), (8, 12, 13, 16, 112, 120)], ids=["addresses", "operands"])
def test_a_layer_of_the_digits(words: tuple[int, ...]) -> None:
    """Faults in chosen registers, and in selectors."""
    rng, count = np.random.default_rng(7), 150
    rows = empty(count)
    rows["site"], rows["model"] = SITES.index("registers"), rng.integers(3, size=count)
    rows["word"], rows["lane"] = rng.choice(words, count), rng.integers(32, size=count)
    rows["case"], rows["at"] = rng.integers(8, size=count), rng.integers(580, size=count)
    rows["mask"] = np.uint32(1) << rng.integers(19, size=count).astype(np.uint32)
    struck = rng.random(count) < 0.15
    rows["site"][struck], rows["model"][struck] = SITES.index("selector"), MODELS.index("selector")
    rows["word"][struck], rows["lane"][struck], rows["mask"][struck] = 0, 0, 3
    rows["value"][struck] = rng.integers(4, size=int(struck.sum()))
    rows["id"] = np.arange(count)
    results = both("digits/f16", rows)
    assert (results["outcome"] == OUTCOMES.index("sdc")).any()


def test_no_room_for_all_copies(exchange: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies that find no row are run later, with the same results."""
    rows = random_faults(ProgramTarget(exchange), 300, 9)
    right = ProgramTarget(exchange).run(rows)
    monkeypatch.setattr("simulator.simulation.rows._MOST_ROWS", 12)
    monkeypatch.setattr("simulator.simulation.rows._LEAST_ROWS", 12)
    assert ProgramTarget(exchange).run(rows).tolist() == right.tolist()


def test_a_part_of_a_run_takes_seconds(exchange: Path) -> None:
    together, alone = ProgramTarget(exchange), ProgramTarget("digits/f16_tcgen05")
    assert [part_rows(together, rows) for rows in (10, 10**9)] == [together.batch, 2 * together.batch]
    assert [part_rows(alone, rows) for rows in (10, 10**9)] == [32, 32]


def test_what_is_not_kept_of_epochs_changes_no_result(exchange: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is not known who touches what, copies that go astray are run alone."""
    rows = random_faults(ProgramTarget(exchange), 60, 9)
    right = ProgramTarget(exchange).run(rows)
    monkeypatch.setattr("simulator.simulation.footprints._MOST_BYTES", 0)
    assert ProgramTarget(exchange).run(rows).tolist() == right.tolist()


def test_footprints_know_who_touches_what_between_barriers(exchange: Path) -> None:
    footprints = Footprints(ProgramTarget(exchange).session)
    first = footprints.of(0)
    assert first.writers[16:48].tolist() == [1] * 32
    assert first.writers[48:80].tolist() == [2] * 32
    assert not first.readers.any()
    assert footprints.of(1).readers[16:48].tolist() == [0b101] * 32
