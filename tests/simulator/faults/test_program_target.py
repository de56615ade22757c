"""Faults in traces, against faults put in by hand: other data, other instructions, other text; and copies in a batch
against runs alone."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isa
import simulator
from simulator.applications.digits import Classifier
from simulator.errors import ConfigError
from simulator.faults import outcomes
from simulator.faults.group import Group
from simulator.faults.population import population
from simulator.faults.table import MODELS, SITES, Faults, empty
from simulator.faults.targets.program import ProgramTarget
from simulator.faults.targets.single_run import SingleRun
from simulator.faults.unit.sites import UNIT_SITES
from simulator.program.shipped import find_trace
from simulator.views.faults.replay import replay
from simulator.views.timeline import Timeline
from tests.support.paths import ROOT

OPCODE = "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32"
D, A, B, E = (16, range(16, 20)), (0, range(4)), (4, range(4, 8)), 12
TEXT = """
.trace 1
.target sm_90a
.warps 2
.shared 512
.load %r0, "x.npz", "a";
.load %r4, "x.npz", "b";
.load %r12, "x.npz", "e";
.load shared[0], "x.npz", "words";
.warp 0-1 {
    mov.u32 %r20, %laneid;
    shl.b32 %r20, %r20, 2;
    bar.sync 0;
    ld.shared.u32 %r21, [%r20];
    mov.u32 %r22, %warpid;
    shl.b32 %r22, %r22, 7;
    add.u32 %r22, %r22, %r20;
    st.shared.u32 [%r22+256], %r21;
    .repeat 3 {
        MMA {%r16, %r17, %r18, %r19}, {%r0, %r1, %r2, %r3}, {%r4, %r5, %r6, %r7}, {%r16, %r17, %r18, %r19}, %r12,
        SELECTOR;
    }
    add.u32 %r23, %r23, %r21;
}
.store "d", %r16, 4;
.store "sum", %r23, 1;
.store "out", shared[256], 256;
"""
LD, ST, MMA, ADD = 3, 7, 8, 11  # dynamic instructions


def data() -> dict[str, Any]:
    rng = np.random.default_rng(5)
    form = isa.mma_form(OPCODE)
    found: dict[str, list[Any]] = {"a": [], "b": [], "e": []}
    for _ in range(2):
        weights = rng.standard_normal((16, 32)).astype(np.float16)
        patterns = weights.view(np.uint16).astype(np.uint32)
        stored, codes = isa.compress(patterns, isa.TWO_OF_FOUR, form.a_type, isa.prune(weights, isa.TWO_OF_FOUR))
        found["a"].append(form.a.scatter(stored))
        found["e"].append(form.metadata.scatter(codes, 0, rng.integers(0, 1 << 32, 32, dtype=np.uint32))[None])
        found["b"].append(
            form.b.scatter(rng.standard_normal((32, 8)).astype(np.float16).view(np.uint16).astype(np.uint32))
        )
    return {
        **{name: np.stack(arrays) for name, arrays in found.items()},
        "words": rng.integers(0, 1 << 20, 64, dtype=np.uint32),
    }


def write(
    folder: Path, change: Callable[[dict[str, Any]], None] | None = None, text: str = TEXT, selector: int = 0
) -> Path:
    folder.mkdir(exist_ok=True)
    arrays = data()
    if change is not None:
        change(arrays)
    np.savez(folder / "x.npz", **arrays)
    path = folder / "x.trace"
    path.write_text(text.replace("MMA", OPCODE).replace("SELECTOR", str(selector)), encoding="utf-8")
    return path


def faults(*rows: dict[str, Any]) -> Faults:
    found = empty(len(rows))
    for at, row in enumerate(rows):
        given = {"site": "registers", "model": "flip", "mask": 1, **row}
        for name, value in given.items():
            found[at][name] = (
                {"site": SITES, "model": MODELS}[name].index(value) if name in ("site", "model") else value
            )
    found["id"] = np.arange(len(rows))
    return found


def names(result: Any) -> tuple[str, str]:
    return outcomes.OUTCOMES[result["outcome"]], outcomes.REASONS[result["reason"]]


def seen(result: Any) -> set[str]:
    return {name for i, name in enumerate(outcomes.DETECTORS) if result["detectors"] >> i & 1}


@pytest.fixture
def subject(tmp_path: Path) -> ProgramTarget:
    return ProgramTarget(write(tmp_path / "right"))


def arrays_of(path: Path) -> dict[str, Any]:
    return dict(simulator.run(path, config=None).arrays)


def same(left: dict[str, Any], right: dict[str, Any]) -> bool:
    return left.keys() == right.keys() and all((left[name] == right[name]).all() for name in left)


# Against faults put in by hand


@pytest.mark.parametrize(
    ("key", "register", "lane", "bit"), [("a", 1, 9, 3), ("b", 6, 31, 22), ("e", 12, 4, 1), ("e", 12, 9, 30)]
)
def test_a_flip_in_loaded_registers_is_other_data(
    subject: ProgramTarget, tmp_path: Path, key: str, register: int, lane: int, bit: int
) -> None:
    first = {"a": 0, "b": 4, "e": 12}[key]

    def change(arrays: dict[str, Any]) -> None:
        arrays[key][1, register - first, lane] ^= np.uint32(1 << bit)

    right = arrays_of(write(tmp_path / "wrong", change))
    fault = faults({"case": 1, "word": register, "lane": lane, "mask": 1 << bit, "at": -1})
    run, injection = subject.alone(fault[0])
    assert injection.changed
    assert same(run.arrays, right)
    result = subject.run(fault)[0]
    changed = right["d"] != subject.stored.golden["d"]
    assert names(result)[0] == "sdc"
    assert result["elements"] == changed.sum()
    assert (result["first_row"], result["first_column"]) == tuple(np.argwhere(changed.reshape(-1, 32))[0])
    got, want = right["d"].view(np.float32).astype(float), subject.stored.golden["d"].view(np.float32).astype(float)
    assert result["max_abs"] == np.abs(got - want).max()


def test_a_flip_between_two_instructions_is_what_mma_sp_gives(subject: ProgramTarget) -> None:
    a, b, e = (data()[key][0] for key in ("a", "b", "e"))
    d = np.zeros((1, 4, 32), np.uint32)
    for turn in range(3):
        if turn == 1:
            a[2, 7] ^= np.uint32(1 << 13)
        d = simulator.mma_sp(OPCODE, a[None], b[None], d, e)
    run, _ = subject.alone(faults({"word": 2, "lane": 7, "mask": 1 << 13, "at": MMA + 1})[0])
    assert (run.arrays["d"][0] == d[0]).all()
    assert (run.arrays["d"][1] == subject.stored.golden["d"][1]).all()


def test_a_fault_in_shared_memory_is_other_data(subject: ProgramTarget, tmp_path: Path) -> None:
    def change(arrays: dict[str, Any]) -> None:
        arrays["words"][5] ^= np.uint32(1 << 9)

    right = arrays_of(write(tmp_path / "wrong", change))
    fault = faults({"site": "shared", "word": 5, "mask": 1 << 9, "at": 0})
    assert same(subject.alone(fault[0])[0].arrays, right)
    result = subject.run(fault)[0]
    assert names(result) == ("sdc", "")
    assert result["elements"] == sum(
        (right[name].view(np.uint32) != subject.stored.golden[name].view(np.uint32)).sum() for name in right
    )


def test_a_selector_is_another_instruction(subject: ProgramTarget, tmp_path: Path) -> None:
    right = arrays_of(write(tmp_path / "wrong", selector=1))
    fault = faults({"site": "selector", "model": "selector", "value": 1, "case": 1, "at": -1})
    arrays = subject.alone(fault[0])[0].arrays
    assert (arrays["d"][1] == right["d"][1]).all()
    assert (arrays["d"][0] == subject.stored.golden["d"][0]).all()
    once, beyond, beside, none = subject.run(
        faults(
            *(
                {"site": "selector", "model": "selector", "value": v, "at": at}
                for v, at in ((1, MMA), (2, MMA), (1, ST), (0, MMA))
            )
        )
    )
    assert names(once) == ("sdc", "")
    assert names(beyond) == ("due", "illegal-instruction")
    assert names(beside) == ("masked", "unread")
    assert names(none) == ("masked", "same")


# When


def test_a_flip_strikes_once_and_a_stuck_bit_holds(subject: ProgramTarget, tmp_path: Path) -> None:
    held = TEXT.replace(
        "[%r20];", "[%r20];\n    or.b32 %r21, %r21, 0x80000;"
    )  # what a bit that is stuck at 1 does, in all warps and lanes
    right = arrays_of(write(tmp_path / "wrong", text=held))
    lanes = [{"model": "stuck1", "word": 21, "lane": lane, "mask": 0x80000, "at": -1, "case": 0} for lane in range(32)]
    early, late = ({"word": 21, "lane": 3, "mask": 0x80000, "at": at} for at in (LD, ADD))
    for lane, fault in enumerate(faults(*lanes)):
        arrays = subject.alone(fault)[0].arrays
        assert arrays["sum"][0, 0, lane] == right["sum"][0, 0, lane]
        assert (arrays["out"].view(np.uint32)[lane] == right["out"].view(np.uint32)[lane]).all()
    first, second = subject.run(faults(early, late))
    assert names(first) == ("masked", "unread")  # the load writes it
    assert (names(second), second["elements"]) == (("sdc", ""), 1)  # the store has gone by


def test_a_stuck_bit_lasts_until(subject: ProgramTarget) -> None:
    where = {"model": "stuck1", "word": 21, "lane": 3, "mask": 1 << 25}
    before, during, after = subject.run(faults(*({**where, "at": 0, "until": until} for until in (LD, ST, ADD + 1))))
    assert names(before) == ("masked", "unread")
    assert names(during) == ("sdc", "")
    assert (during["elements"], after["elements"]) == (2, 2)
    stuck_shared = subject.run(faults({"site": "shared", "model": "stuck0", "word": 64, "mask": 0xFFFFFFFF, "at": -1}))[
        0
    ]
    assert (names(stuck_shared), stuck_shared["elements"]) == (("sdc", ""), 1)


def test_a_held_flip_keeps_its_new_value(subject: ProgramTarget) -> None:
    assert subject.stored.golden["sum"][0, 0, 3] == data()["words"][3]
    fault = faults({"word": 21, "lane": 3, "mask": 1 << 25, "at": 0, "until": 50})[0]
    assert subject.alone(fault)[0].arrays["sum"][0, 0, 3] == data()["words"][3] | 1 << 25


def test_a_strike_behind_the_last_instruction_reaches_what_is_stored(subject: ProgramTarget) -> None:
    end = subject.instructions(0)
    assert end == ADD + 1
    last, beyond, other = subject.run(
        faults({"word": 23, "at": end}, {"word": 23, "at": end + 1}, {"word": 21, "at": end})
    )
    assert (names(last), last["elements"]) == (("sdc", ""), 1)
    assert names(beyond) == names(other) == ("masked", "unread")


def test_a_cycle_becomes_the_first_instruction_that_issues_from_then_on() -> None:
    subject = ProgramTarget("digits/f16", "h100_sxm")
    timeline = Timeline(0, 2000)
    simulator.run("digits/f16", "h100_sxm", arithmetic="none", timeline=timeline)
    issued = [issue.cycle for issue in timeline.recorder.issues if issue.warp == 5]
    rows = faults(*({"case": 5, "at": cycle} for cycle in (-1, 0, 100, 777, 1500)), {"case": 5, "at": 10_000_000})
    found = subject.at_cycles(rows)["at"].tolist()
    assert found[0] == -1
    assert found[1:5] == [sum(cycle < at for cycle in issued) for at in (0, 100, 777, 1500)]
    assert found[5] == subject.instructions(5) == 580
    with pytest.raises(ConfigError, match="take no time"):
        ProgramTarget("digits/f16").at_cycles(rows)


# What goes wrong


def test_addresses_that_leave_memory_or_are_misaligned(subject: ProgramTarget) -> None:
    far, odd, inside = subject.run(faults(*({"word": 20, "mask": mask, "at": LD} for mask in (1 << 30, 2, 4))))
    assert names(far) == ("due", "illegal")
    assert names(odd) == ("due", "misaligned-address")
    assert names(inside)[0] == "sdc"
    assert "outside" in replay(subject, faults({"word": 20, "mask": 1 << 30, "at": LD}))["error"]


def test_a_store_to_another_warps_bytes_races(subject: ProgramTarget) -> None:
    """The other warp stores the same words: one that comes to its own place does not race."""
    where = {"lane": 1, "at": ST}
    moved = ({**where, "word": 22, "mask": mask} for mask in (128 + 4, 128))
    race, same, lone = subject.run(faults(*moved, {**where, "word": 21}))
    assert names(race)[0] == names(same)[0] == names(lone)[0] == "sdc"
    assert "race" in seen(race)
    assert "race" not in seen(same) | seen(lone)


def test_illegal_codes_are_seen_where_they_are_read(subject: ProgramTarget) -> None:
    form = isa.mma_form(OPCODE)
    lane, _ = form.metadata.places(0)
    words = data()["e"][0, 0]
    rows = [{"word": 12, "lane": x, "mask": 1 << bit, "at": -1} for x in (0, 1, 2) for bit in range(32)]
    results = subject.run(faults(*rows))
    for row, result in zip(rows, results, strict=True):
        changed = words.copy()
        changed[row["lane"]] ^= np.uint32(row["mask"])
        illegal = not form.metadata.legal(form.metadata.gather(changed, 0)).all()
        assert ("legality" in seen(result), "ordered" in seen(result)) == (illegal, illegal)
        if row["lane"] not in lane:
            assert names(result) == ("masked", "equal")
    careful = ProgramTarget(subject.path, policy="raise").run(faults(*rows))
    for result, stopped in zip(results, careful, strict=True):
        assert names(stopped) == (("detected", "invalid-code") if "legality" in seen(result) else names(result))


def test_a_wait_that_is_never_over_hangs(tmp_path: Path) -> None:
    path = tmp_path / "wait.trace"
    path.write_text(
        """
.trace 1
.target sm_90a
.warps 1
.shared 16
.warp 0 {
    mov.u32 %r0, %laneid;
    mov.u32 %r1, 0;
    mov.u32 %r2, 0;
    setp.eq.u32 %p0, %r0, 0;
    @%p0 mbarrier.init.shared::cta.b64 [%r1], 1;
    @%p0 mbarrier.arrive.shared::cta.b64 _, [%r1];
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], %r2;
    mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%r4, %r5, %r6, %r7}, {%r8, %r9}, {%r10}, {%r4, %r5, %r6, %r7};
}
.store "d", %r4, 4;
""",
        encoding="utf-8",
    )
    subject = ProgramTarget(path)
    lanes = [{"word": 2, "lane": lane, "at": 6} for lane in range(2)]
    hang = subject.run(faults(*lanes))[0]
    assert names(hang) == ("hang", "deadlock")
    corrupt = subject.run(faults({"site": "shared", "word": 1, "mask": 1 << 30, "at": 5}))[0]
    assert names(corrupt) == ("due", "illegal")


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"case": 2}, "case 2"),
        ({"word": 99}, "word 99"),
        ({"lane": 32}, "lane 32"),
        ({"site": "tmem"}, "site tmem"),
        ({"site": "a"}, "site a"),
        ({"model": "swap"}, "model swap"),
        ({"model": "selector"}, "model selector"),
    ],
)
def test_faults_that_there_cannot_be(subject: ProgramTarget, row: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        subject.run(faults(row))


# Populations, dead words, batches, processes


def test_words_that_nobody_reads_are_dead(subject: ProgramTarget) -> None:
    live = subject.sites["registers"].live
    assert live.shape == (24, 32)
    assert set(np.flatnonzero(live[:, 0])) == {*range(8), 12, *range(16, 24)}
    assert np.flatnonzero(subject.sites["shared"].live[:, 0]).tolist() == [*range(32), *range(64, 128)]
    group = Group("g", "registers", "flip", where="dead", at=(0, MMA))
    dead = population(group, subject.sites["registers"], subject.layout, subject.cases)
    assert dead.size == 7 * 32 * 32 * 2 * 2
    results = subject.run(dead.make(np.arange(0, dead.size, 997)))
    assert {names(result) for result in results} == {("masked", "unread")}


def random_faults(subject: ProgramTarget, count: int, seed: int = 0) -> Faults:
    """Of all sites and models, a few words that are read often among them."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        site = rng.choice([name for name in subject.sites if name not in ("selector", *UNIT_SITES)] + ["registers"])
        words, lanes = subject.sites[site].live.shape
        size = subject.sites[site].size
        model = str(rng.choice(["flip", "stuck0", "stuck1", "set", *["word"] * (size == 32)]))
        warp = int(rng.integers(subject.cases))
        at = int(rng.integers(-1, subject.instructions(warp) + 2))
        until = -1 if rng.random() < 0.6 else at + int(rng.integers(0, 40))
        mask, value = (int(x) for x in rng.integers(1, 1 << size, 2))
        mask = mask if rng.random() < 0.3 else 1 << int(rng.integers(size))
        word, lane = int(rng.integers(words)), int(rng.integers(lanes))
        rows.append(
            {
                "site": str(site),
                "model": model,
                "case": warp,
                "word": word,
                "lane": lane,
                "mask": mask,
                "value": value,
                "at": at,
                "until": until,
            }
        )
    return faults(*rows)


@pytest.mark.parametrize(
    "name", ["small", *(pytest.param(f"digits/{name}", marks=pytest.mark.exhaustive) for name in ("f16", "s8"))]
)
def test_a_batch_gives_what_runs_alone_give(subject: ProgramTarget, name: str) -> None:
    path = subject.path if name == "small" else name
    together, alone = ProgramTarget(path), ProgramTarget(path, together=False)
    rows = random_faults(together, 300 if name == "small" else 40)
    left, right = together.run(rows), alone.run(rows)
    assert together._together
    assert left.tolist() == right.tolist()
    assert {names(result)[0] for result in left} >= {"masked", "sdc"}
    backwards = together.run(rows[::-1])[::-1]
    assert left.tolist() == backwards.tolist()


@pytest.mark.parametrize("name", ["small", pytest.param("digits/f16_tcgen05", marks=pytest.mark.exhaustive)])
def test_what_is_said_to_be_unread_changes_nothing(subject: ProgramTarget, name: str) -> None:
    chosen = subject if name == "small" else ProgramTarget(name)
    rows = random_faults(chosen, 150 if name == "small" else 50, seed=1)
    unread = [row for row in rows if chosen.unread(chosen.injection(row))]
    assert len(unread) >= 15
    for row in unread:
        run = SingleRun(chosen.session, chosen.injection(row)).run()
        assert same(run.arrays, chosen.stored.golden)


def test_a_process_gets_the_fields_and_finds_the_same(subject: ProgramTarget) -> None:
    rows = random_faults(subject, 30)
    results, digest = subject.run(rows), subject.digest
    again = pickle.loads(pickle.dumps(subject))
    assert "session" not in vars(again)
    assert (again.run(rows).tolist(), again.digest) == (results.tolist(), digest)
    assert len(pickle.dumps(subject)) < 500


def test_a_run_without_a_strike_is_the_golden_one(subject: ProgramTarget) -> None:
    run, injection = subject.alone(faults({"model": "set", "mask": 0, "word": 3, "at": 5})[0])
    assert same(run.arrays, subject.stored.golden)
    assert not injection.changed
    assert same(subject.stored.golden, arrays_of(Path(subject.path)))


# Tensor Memory, pairs, the network


@cache
def blackwell() -> ProgramTarget:
    return ProgramTarget("digits/f16_tcgen05_m64_lane16", "b200")


def test_metadata_in_tensor_memory_and_the_bytes_that_are_copied_there(tmp_path: Path) -> None:
    subject = blackwell()
    copied = next(
        index
        for index in range(subject.instructions(0))
        if (op := subject.session.operation(0, index)) is not None
        and op.instruction.form.opcode.startswith("tcgen05.mma")
    )
    row, column = 20, 1  # 128 rows of 16 bytes become 4 columns
    shared = faults({"site": "shared", "word": 65536 // 4 + row * 4 + column, "mask": 1 << 6, "at": -1})
    tmem = faults({"site": "tmem", "word": 384 + column, "lane": row, "mask": 1 << 6, "at": copied})
    (left, _), (right, _) = subject.alone(shared[0]), subject.alone(tmem[0])
    assert same(left.arrays, right.arrays)
    assert not same(left.arrays, subject.stored.golden)
    folder = tmp_path / "copy"
    folder.mkdir()
    name = "f16_tcgen05_m64_lane16"
    shutil.copy(find_trace(f"digits/{name}"), folder / f"{name}.trace")
    with np.load(ROOT / "traces" / "digits" / f"{name}.npz") as file:
        arrays = dict(file)
    arrays["e"].reshape(-1).view(np.uint8)[16 * row + 4 * column] ^= 1 << 6
    np.savez(folder / f"{name}.npz", **arrays)
    assert same(simulator.run(folder / f"{name}.trace", "b200").arrays, left.arrays)
    results = [subject.run(rows)[0] for rows in (shared, tmem)]
    assert [result["detectors"] for result in results] == [results[0]["detectors"]] * 2


def test_an_address_in_the_other_half_is_misaligned() -> None:
    subject = blackwell()
    places = range(0, subject.instructions(0), 3)
    rows = faults(*({"word": 2, "mask": 1 << 16, "at": index} for index in places))
    found = subject.run(rows)
    hit = [result for result in found if "alignment" in seen(result)]
    assert hit
    assert {names(result) for result in hit} == {("due", "misaligned-address")}


def test_a_fault_in_one_cta_of_a_pair() -> None:
    subject = ProgramTarget("digits/f16_tcgen05_pair", application=False)
    assert subject.cases == 16
    end = subject.instructions(8)
    row = faults({"site": "tmem", "case": 8, "word": 3, "lane": 40, "mask": 1 << 30, "at": end - 12, "until": end})
    arrays = subject.alone(row[0])[0].arrays
    (name,) = arrays
    differ = arrays[name] != subject.stored.golden[name]
    assert not differ[0].any()
    assert differ[1].any()
    assert subject.run(row)[0]["elements"] == differ.sum()


def test_digits_that_change() -> None:
    subject = ProgramTarget("digits/f16")
    row = faults({"case": 4, "word": 8, "lane": 9, "model": "word", "value": 0x47000000, "at": 60})  # a bias of 32768
    result = subject.run(row)[0]
    run, _ = subject.alone(row[0])
    network = Classifier("f16")
    right, wrong = (network.digits(arrays) for arrays in (subject.stored.golden, run.arrays))
    assert result["class_changed"] == (right != wrong).sum() > 0
    shares = [float((digits == network.labels).mean()) for digits in (right, wrong)]
    assert [subject.stored.accuracy(arrays) for arrays in (subject.stored.golden, run.arrays)] == shares
    words = replay(subject, row)
    assert words["accuracy"] == shares[1]
    assert words["before"] != words["after"] == "0x47000000"
    assert words["changed"] == result["elements"]
    assert ProgramTarget("digits/f16", application=False).run(row)[0]["class_changed"] == -1


def test_a_fault_in_words() -> None:
    subject = ProgramTarget("digits/f16")
    words = replay(subject, faults({"case": 2, "word": 12, "lane": 4, "mask": 2, "at": 60}))
    assert words["what"] == "warp 2, lane 4, %r12, bits 0x00000002: flip"
    assert "line 121" in words["when"]
    assert int(words["before"], 16) ^ int(words["after"], 16) == 2
    assert words["read_by"][2].endswith("codes of row and chunk [1][0]")
    assert words["detectors"] == ["legality", "ordered"]
