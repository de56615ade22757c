"""What works on its own in the machine is a SimPy process: fronts, copy engines, tensor units, L2, the launcher."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import GeneratorType
from typing import NamedTuple

import pytest
import simpy

from simulator.machine.l2 import L2
from simulator.machine.launcher import Cta, Launcher
from simulator.machine.memory import BulkCopies
from simulator.machine.sm import Sm
from simulator.machine.tensor_unit import TensorUnit
from simulator.resources import folder
from simulator.simulation.session import Session
from simulator.simulation.timed import timed_codes
from simulator.timing.run import simulate

BULK = """.trace 1
.target sm_90a
.warps 1
.shared 2048
.global 2048
.warp 0 {
mov.u32 %r0, %tid.x; setp.eq.u32 %p0, %r0, 0; mov.u32 %r2, 0; mov.u32 %r3, 512; mov.u64 %rd1, 1024;
@%p0 mbarrier.init.shared::cta.b64 [%r2], 1;
@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 1024;
@%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd1], 1024, [%r2];
mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r2], 0;
}
"""


class Watched(NamedTuple):
    """What a run did: steps of SimPy, names of the processes, and instructions that issued."""

    steps: int
    processes: set[str]
    issued: int


def watch(monkeypatch: pytest.MonkeyPatch, program: str | Path, chip: str) -> Watched:
    """Times a trace, nothing skipped, and looks at SimPy."""
    counted, names = [0], set()
    step, process = simpy.Environment.step, simpy.Environment.process

    def counts(env: simpy.Environment) -> None:
        counted[0] += 1
        step(env)

    def begins(env: simpy.Environment, generator: GeneratorType) -> simpy.Process:  # type: ignore[type-arg]
        names.add(generator.__qualname__)
        return process(env, generator)

    monkeypatch.setattr(simpy.Environment, "step", counts)
    monkeypatch.setattr(simpy.Environment, "process", begins)
    session = Session(program, chip, arithmetic="none")
    timing = session.time(session.without_results(), skip=False)
    return Watched(counted[0], names, sum(timing.issued))


@pytest.mark.parametrize(
    ("program", "chip", "processes", "steps"),
    [
        # a program that meets nothing outside is one step of the launcher, one of its front, and their ends
        pytest.param(
            folder("traces") / "digits" / "f16.trace", "h100_sxm", {Sm.run, Launcher.run}, 4, id="matrix instructions"
        ),
        pytest.param(
            BULK, "h100_sxm", {Sm.run, Launcher.run, TensorUnit.run, BulkCopies.run, L2.run}, 15, id="a bulk copy"
        ),
        pytest.param(
            folder("traces") / "digits" / "f16_tcgen05.trace",
            "b200",
            {Sm.run, Launcher.run, TensorUnit.run},
            200,
            id="tcgen05",
        ),
        pytest.param(
            folder("traces") / "digits" / "f16_tcgen05_pair.trace",
            "b200",
            {Sm.run, Launcher.run, TensorUnit.run},
            800,
            id="a pair",
        ),
    ],
)
def test_what_works_on_its_own_is_a_process(
    monkeypatch: pytest.MonkeyPatch, program: str | Path, chip: str, processes: set[Callable[..., object]], steps: int
) -> None:
    """A run is as many steps of SimPy, or more, and of these processes."""
    found = watch(monkeypatch, program, chip)
    assert found.processes == {process.__qualname__ for process in processes}
    assert found.steps >= steps
    assert found.issued > 0


def test_a_cta_that_begins_later_is_launched_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two CTAs of a pair that share nothing: the second takes what it takes alone, 1,000 cycles later."""
    text = ".trace 1\n.target sm_90a\n.warps 1\n.warp 0 { .repeat 100 { add.s32 %r1, %r1, 1; bar.sync 0; } }\n"
    session, launched = Session(text, "h100_sxm", arithmetic="none"), list[tuple[int, int]]()
    (code,) = timed_codes(session.program, session._compiled, session.without_results(), session.chip)
    codes = [code, replace(code, warps=(1,))]
    launch = Launcher.launch

    def notes(self: Launcher, cta: Cta) -> None:
        launched.append((cta.number, int(self.env.now)))
        launch(self, cta)

    monkeypatch.setattr(Launcher, "launch", notes)
    for skip in (True, False):
        both = simulate(session.chip, codes, 1, ctas=2, skip=skip, starts=(0, 1000))
        assert launched == [(0, 0), (1, 1000)]
        second = simulate(session.chip, [code], 1, skip=skip, starts=(1000,))
        assert both.cycles == second.cycles > 1000
        assert both.waits[1] == second.waits[0]
        launched.clear()
