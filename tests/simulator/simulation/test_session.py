"""Programs from anywhere, sessions that run them again and again, and observers that watch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import simulator
from simulator.check import check
from simulator.errors import ConfigError, TraceError
from simulator.execute.cta_state import NOTHING, CtaState, Executor, Outcome
from simulator.execute.events import Event
from simulator.machine.observer import TimingObserver
from simulator.program import Program, load
from simulator.program.lowering import Operation
from simulator.simulation.group import Group
from simulator.simulation.observer import Observer
from simulator.simulation.session import Session
from simulator.state.registers import Warps

TEXT = """.trace 1
.target sm_90a
.warps 2
.shared 256
.load %r1, "data.npz", "r";
.warp 0-1 {
    mov.u32 %r0, %laneid;
    shl.b32 %r2, %r0, 2;
    .repeat 3 {
        add.u32 %r1, %r1, %r0;
        .repeat 2 { add.u32 %r1, %r1, 1; }
    }
    st.shared.u32 [%r2], %r1;
    bar.sync 0;
    ld.shared.u32 %r3, [%r2];
}
.store "r", %r1, 1;
"""
LINES = [7, 8, *([10, 11, 11] * 3), 13, 14, 15]  # of the dynamic instructions


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with the data of the text."""
    np.savez(tmp_path / "data.npz", r=np.arange(32, dtype=np.uint32)[None])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_path_a_text_and_a_program_are_the_same(folder: Path) -> None:
    (folder / "x.trace").write_text(TEXT)
    program = load(TEXT)
    reports = [simulator.run(source) for source in ("x.trace", Path("x.trace"), TEXT, program)]
    assert len({report.cycles for report in reports}) == 1
    assert all((report.arrays["r"] == 4 * np.arange(32) + 6).all() for report in reports)
    assert [report.trace for report in reports] == ["x.trace", "x.trace", "<text>", "<text>"]
    assert load(program) is program
    assert isinstance(program, Program)
    assert check(TEXT).table().startswith("<text>:13: shared-memory-race: ")
    assert load("digits/f16").name == "digits/f16"


def test_errors_of_a_text_name_it() -> None:
    with pytest.raises(TraceError, match=r"^<text>:7:5: unknown instruction 'move'"):
        load(TEXT.replace("mov.u32", "move.u32"))
    with pytest.raises(TraceError, match=r"^<text>:5: 'other\.npz' is not there"):
        simulator.run(TEXT.replace("data.npz", "other.npz"))
    with pytest.raises(TraceError, match=r"^<text>: the trace has no \.warp block"):
        load(".trace 1")


class Watcher(Observer):
    """Writes down what it is told, and lets an addition do nothing if it `changes` anything."""

    wants_accesses = True

    def __init__(self, *, changes: bool = True) -> None:
        self.changes = changes
        self.heard: list[str] = []
        self.accesses: list[Event] = []
        self.lines: list[int] = []

    def started(self, machines: list[CtaState]) -> None:
        self.heard.append("started")

    def before(self, machine: CtaState, group: Group, operation: Operation, index: int) -> Executor | None:
        self.lines.append(operation.line)
        return _nothing if self.changes and index == 2 else None

    def accessed(self, event: Event) -> None:
        self.accesses.append(event)

    def undefined(self, cta: int, line: int, name: str, count: int, where: str, *, rule: str) -> None:
        self.heard.append(f"{name} {line} {count}")

    def finished(self, machines: list[CtaState]) -> None:
        self.heard.append("finished")


def _nothing(_machine: CtaState, _warps: Warps) -> Outcome:
    return NOTHING


def test_an_observer_hears_everything_and_may_change_it() -> None:
    session, watcher = Session(TEXT), Watcher()
    changed = session.run(watcher).arrays["r"]
    assert (changed == 3 * np.arange(32) + 6).all()
    assert watcher.lines == LINES
    assert watcher.heard == ["started", "finished"]  # both warps store the same
    unlike = TEXT.replace("    st.shared", "    mov.u32 %r4, %warpid; add.u32 %r1, %r1, %r4;\n    st.shared")
    Session(unlike).run(other := Watcher(changes=False))
    assert other.heard == ["started", "shared-memory-race 14 32", "finished"]
    assert [(event.line, len(event.threads)) for event in watcher.accesses] == [(13, 2), (14, 2), (15, 2)]
    (region,) = watcher.accesses[0].writes
    assert (region.role, region.space, region.cells.shape) == ("bytes", "shared", (2, 32, 4))
    again = session.run()
    assert (again.arrays["r"] == 4 * np.arange(32) + 6).all()
    assert not again.machine.wants_accesses


def test_a_session_knows_its_dynamic_instructions() -> None:
    session = Session(TEXT, "h100_sxm")
    assert sorted(session.sequences) == [0, 1]
    operations = [session.operation(1, index) for index in range(len(LINES))]
    assert [operation.line for operation in operations if operation is not None] == LINES
    assert session.operation(0, len(LINES)) is None
    cycles = session.issue_cycles[0]
    assert len(cycles) == len(LINES)
    assert (np.diff(cycles) > 0).all()
    assert session.instruction_at(0, cycles).tolist() == list(range(len(LINES)))
    assert session.time().cycles == simulator.run(TEXT).cycles == session.time(skip=False).cycles
    with pytest.raises(ConfigError, match="values without a chip take no time"):
        Session(TEXT).time()


class Counter(TimingObserver):
    """Counts issues."""

    def __init__(self) -> None:
        self.issues = 0

    def issue(self, *_: object) -> None:
        self.issues += 1


def test_an_observer_of_the_time() -> None:
    counter = Counter()
    Session(TEXT, "h100_sxm").time(skip=False, observer=counter)
    assert counter.issues == 2 * len(LINES)
