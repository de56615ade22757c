"""What architects vary: each knob moves what it should, to its limit, compiled or not."""

from __future__ import annotations

import pytest

import simulator
from simulator import load_config
from simulator.chip.config import Config
from simulator.simulation.session import Session
from simulator.timing.run import executions
from simulator.views.timeline import Timeline
from simulator.views.timeline.tracks import tracks
from tests.simulator.machine.test_front import check
from tests.support.cases import PROGRAMS, case_of, examples, exhaustive, over
from tests.support.random_traces import random_trace

BODY = {
    (False, 8): "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {d}, {{%r0, %r1}}, {{%r4}}, {d};",
    (False, 16): "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {d}, {{%r0, %r1, %r2, %r3}}, {{%r4, %r5}}, {d};",
    (True, 16): "mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
    "{d}, {{%r0, %r1}}, {{%r4, %r5}}, {d}, %r10, 0x0;",
    (True, 32): "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 "
    "{d}, {{%r0, %r1, %r2, %r3}}, {{%r4, %r5, %r6, %r7}}, {d}, %r10, 0x0;",
}
TURNS = 200


def trace(body: list[str], warps: int) -> str:
    lines = "\n".join(body)
    head = f".trace 1\n.target sm_90a\n.warps {warps}\n.shared 1024\n"
    return f"{head}.warp 0-{warps - 1} {{ .repeat {TURNS} {{\n{lines}\n}} }}\n"


def matrix(form: tuple[bool, int], chains: int = 4) -> list[str]:
    """Independent chains of one matrix instruction."""
    places = (20 + 4 * i for i in range(chains))
    return [BODY[form].format(d="{" + ", ".join(f"%r{p + i}" for i in range(4)) + "}") for p in places]


def interval(config: Config, form: tuple[bool, int], warps: int = 16, chains: int = 8) -> float:
    """Cycles for each matrix instruction on a sub-core that does nothing else."""
    report = simulator.run(trace(matrix(form, chains), warps), config, arithmetic="none")
    return report.cycles / (TURNS * chains * max(warps // 4, 1))


@exhaustive
@over(
    ("overrides", "wanted"),
    [
        ([], (4, 6, 6, 8)),
        (["sm.tensor_pipes=2"], (2.3, 3.1, 3.1, 4.2)),  # the loop's counter finds less room between them
        (["sm.tensor_pipes=8"], (1.56, 1.84, 11 / 8, 1.84)),  # the counter and the branch take slots, too
        (["operands.registers=4"], (2, 4, 4, 4)),
        (["operands.registers=1"], (8, 10, 10, 14)),
        (["operands.registers=64"], (2, 4, 2, 4)),
        (["sm.tensor_pipes=2", "operands.shared=true"], (4, 6, 6, 8)),
        (["sm.tensor_pipes=2", "sm.metadata_cycles=6"], (2.3, 3.1, 6, 6)),
        (["tensor.sparse_full_k.interval=5"], (4, 6, 6, 5)),
    ],
)
def test_matrix_instructions(overrides: list[str], wanted: tuple[float, ...]) -> None:
    """A second pipe halves a stream that the pipe bounds, until the issue slot or dependencies bind; read ports bind
    where their time is longer than the multipliers'; shared ports and the path of metadata bind all pipes."""
    config = load_config("h100_sxm", overrides)
    found = [interval(config, form) for form in BODY]
    assert found == pytest.approx(wanted, rel=0.13)


def test_ports_explain_the_intervals() -> None:
    """Two registers a cycle in steps of two, or the multipliers, whichever takes longer: the interval of every class
    that has the numbers, measured on an H100 and published of an A100 and an H800."""
    compared = 0
    for name in ("h100_sxm", "h800_pcie", "a100"):
        config = load_config(name)
        assert config.operands is not None
        for row in config.tensor:
            if row.multiply:
                compared += 1
                assert max(row.multiply, config.operands.cycles(row.words, config.operands.measured)) == row.interval
    assert compared == 12 + 12 + 4


def integers(count: int) -> list[str]:
    return [f"mov.b32 %r{i}, {i};" for i in range(count)]


def test_issue_width() -> None:
    """Two slots nearly halve a stream that the slot bounds, matrix and integer instructions of many warps; one warp
    alone, or a full pipe, gains nothing."""
    fast = ["alu.interval=1", "sm.tensor_pipes=8"]
    mixed = [*matrix((False, 8), 6), *integers(6)]
    for body, warps, given, gain in (
        (mixed, 32, fast, 15 / 8),
        (mixed, 4, fast, 1.0),
        (matrix((False, 16)), 32, [], 1.0),
    ):
        one, two = (
            simulator.run(trace(body, warps), load_config("h100_sxm", overrides), arithmetic="none").cycles
            for overrides in (given, [*given, "issue.width=2"])
        )
        assert one / two == pytest.approx(gain, rel=0.1)


LOADS = [f"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%r{p}, %r{p + 1}, %r{p + 2}, %r{p + 3}}}, [%r0];" for p in (4, 8)]


def test_bandwidth_of_shared_memory() -> None:
    """Cycles of loads follow 128 * wavefronts / cycles bytes a cycle, exactly where the server bounds them."""
    body = [f"shl.b32 %r0, %r1, 0;\n{LOADS[0]}", LOADS[1]]
    cycles = {}
    for wavefronts, period in ((1, 2), (1, 1), (3, 2), (2, 1), (4, 2), (64, 1)):
        overrides = {"shared.wavefronts": wavefronts, "shared.cycles": period}
        report = simulator.run(trace(body, 32), load_config("h100_sxm", overrides), arithmetic="none")
        cycles[wavefronts, period] = report.cycles / (TURNS * 32 * len(LOADS) * 4)
        assert report.utilisation["shared memory"] <= 1
    assert [cycles[key] for key in ((1, 2), (1, 1), (3, 2))] == pytest.approx([2, 1, 2 / 3], rel=0.05)
    assert cycles[4, 2] == pytest.approx(cycles[2, 1], rel=0.02)
    assert cycles[64, 1] <= cycles[2, 1] <= cycles[3, 2]


def test_warp_slots_and_clock() -> None:
    """More warps than slots are refused; the clock changes time and no cycle."""
    with pytest.raises(simulator.TraceError, match="at most 16"):
        simulator.run(trace(integers(2), 32), load_config("h100_sxm", ["sm.warps=16"]), arithmetic="none")
    one, two = (
        simulator.run(trace(integers(2), 8), load_config("h100_sxm", o), arithmetic="none")
        for o in ([], ["chip.clock_mhz=x2"])
    )
    assert (one.cycles, one.time_us) == (two.cycles, pytest.approx(2 * two.time_us))


VARIANTS = (
    {"issue.width": 2},
    {"issue.width": 3, "sm.tensor_pipes": 2},
    {"sm.tensor_pipes": 3, "sm.metadata_cycles": 7},
    {"shared.wavefronts": 2},
    {"shared.wavefronts": 3, "shared.cycles": 2, "issue.width": 2, "shared.wavefront_interval": 1},
    {"sm.tensor_pipes": 2, "sm.metadata_cycles": 3},
)
SHARED_PORTS = {"operands.shared": True, "operands.registers": 3, "sm.tensor_pipes": 2}


def check_variant(number: int, seed: int, most: int = 20_000) -> int:
    """A random program on a config with a knob turned: both engines, with and without skipping. Returns what was
    skipped; 0 for a program of more than so many instructions."""
    text, name, policy = random_trace(seed)
    overrides = dict(VARIANTS[number % len(VARIANTS)]) | {"issue.policy": policy}
    if name in ("h100_sxm", "a100", "h800_pcie") and number % 2:
        overrides |= SHARED_PORTS
    session = Session(text, load_config(name, overrides), arithmetic="none")
    if sum(len(code.warps) * executions(code) for code in session._compiled) > most:
        return 0
    with case_of((number, seed)):
        return check(session).skipped


def test_both_engines() -> None:
    assert sum(check_variant(number, 500 + number, 4_000) for number in range(examples(3, 2) * len(VARIANTS))) > 0


@exhaustive
@pytest.mark.parametrize("first", range(0, min(PROGRAMS, 200), 50))
def test_both_engines_more(first: int) -> None:
    for number in range(first, first + 50):
        check_variant(number, 1000 + number)


def test_timeline_of_two_pipes() -> None:
    """Each tensor pipe has a row of its own, in which nothing overlaps, and all uses are in one of them."""
    timeline = Timeline(0, 400)
    config = load_config("h100_sxm", {"sm.tensor_pipes": 2, "issue.width": 2})
    simulator.run(trace(matrix((False, 16)), 8), config, arithmetic="none", timeline=timeline)
    rows = [track for track in tracks(timeline) if track.name.startswith("sub-core 0 tensor pipe")]
    assert [track.name[-1] for track in rows] == ["1", "2"]
    for track in rows:
        ends = [part.end for part in track.slices]
        assert all(part.begin >= end for part, end in zip(track.slices[1:], ends, strict=False))
        assert all(part.end - part.begin == 6 for part in track.slices[:-1])
    assert len(rows[0].slices) - len(rows[1].slices) in (0, 1)
