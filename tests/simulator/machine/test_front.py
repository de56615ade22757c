"""The front of an SM, compiled and as it stands: the same cycles, stalls, counters and skipped cycles; and what is
skipped changes nothing."""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from random import Random
from types import FrameType
from unittest import mock

import pytest

import simulator
from simulator.chip.config import config_names, load_config
from simulator.compiler.timed_code import Periodic, TimedOperation
from simulator.machine import engine
from simulator.machine import front as interpreted_front
from simulator.machine.observer import TimingObserver
from simulator.resources import folder as data_folder
from simulator.simulation.session import Session
from simulator.studies.gemm.tile import Tile
from simulator.studies.gemm.trace import kernel_trace
from simulator.timing import run
from simulator.timing.result import Timing
from simulator.timing.run import executions, simulate
from tests.benchmarks.bare_simpy import WARPS, Loop
from tests.support import config_values
from tests.support.cases import PROGRAMS, case_of, examples, exhaustive
from tests.support.random_traces import random_trace

needs_compiled = pytest.mark.skipif(engine.compiled_front() is None, reason="the front has not been compiled")
TRACES = sorted(path.relative_to(data_folder("traces")).as_posix() for path in data_folder("traces").rglob("*.trace"))
INTERPRETED = 1500  # instructions, at most, of programs that run interpreted too: a hundredth of a second each hundred


@contextmanager
def interpreted() -> Iterator[None]:
    """Runs the front as it stands."""
    with (
        mock.patch("simulator.machine.sm.front_module", return_value=interpreted_front),
        mock.patch.object(engine, "front_module", return_value=interpreted_front),
    ):
        yield


def instructions(session: Session) -> int:
    """How many instructions the warps of a program issue."""
    return sum(len(code.warps) * executions(code) for code in session._compiled)


def check(session: Session, sms: int = 1) -> Timing:
    """The timing of a program on one of so many SMs: the same with and without skipping, where all sub-cores are timed
    together, and, if the program is short, where the front is interpreted."""
    executed = session.without_results()
    found, whole = session.time(executed, sms=sms), session.time(executed, skip=False, sms=sms)
    assert replace(found, skipped=0) == whole
    with mock.patch.object(run, "parts", return_value=[]):
        assert replace(session.time(executed, sms=sms), skipped=0) == whole
    if instructions(session) <= INTERPRETED:
        with interpreted():
            assert session.time(executed, sms=sms) == found
    return found


def check_random(seed: int, most: int = 10_000) -> Timing | None:
    """The same of a random program; None for one of more than so many instructions."""
    text, name, policy = random_trace(seed)
    config = load_config(name)
    config = replace(config, issue=replace(config.issue, policy=policy))
    session = Session(text, config, arithmetic="none")
    if instructions(session) > most:
        return None
    with case_of(seed):
        return check(session)


@needs_compiled
def test_random_programs() -> None:
    count = examples(40, 14)
    found = [timing for timing in map(check_random, range(count)) if timing is not None]
    assert len(found) > count // 2
    assert sum(timing.skipped for timing in found) > 0


@needs_compiled
@exhaustive
@pytest.mark.parametrize("first", range(100, 100 + PROGRAMS, 25))
def test_more_random_programs(first: int) -> None:
    """TCSIM_PROGRAMS=1000 makes a thousand, which takes some ten minutes."""
    for seed in range(first, first + 25):
        check_random(seed, 50_000 if PROGRAMS >= 1000 else 10_000)


def check_values(seed: int, most: int = 1000) -> bool:
    """A random program on a chip of which some values are at, near or between their bounds: False where such a chip
    cannot be, or the program is long."""
    random = Random(seed)
    text, name, _ = random_trace(seed)
    overrides = config_values.draw(name, random, random.choice((1, 1, 2, 4)))
    try:
        session = Session(text, load_config(name, overrides), arithmetic="none")
        if instructions(session) > most:
            return False
    except simulator.Error:  # values that contradict each other
        return False
    executed = session.without_results()
    with case_of(f"{seed} {overrides}"):
        compiled_timing = session.time(executed, skip=False)
        with interpreted():
            assert session.time(executed, skip=False) == compiled_timing
    return True


@needs_compiled
def test_random_values_of_configs() -> None:
    """The front agrees, compiled or not, on chips that nobody has built."""
    assert sum(map(check_values, range(70_000, 70_000 + examples(40, 14)))) > 3


@needs_compiled
@exhaustive
@pytest.mark.parametrize("first", range(71_000, 71_000 + 2 * PROGRAMS, 25))
def test_more_random_values_of_configs(first: int) -> None:
    """TCSIM_PROGRAMS=1000 draws two thousand, of which about half can be."""
    for seed in range(first, first + 25):
        check_values(seed)


@needs_compiled
@pytest.mark.parametrize("key", ["shared.port_cycles", "loop.cycles", "loop.minimum"])
def test_values_at_the_bounds_of_words(key: str) -> None:
    """What is moved down by 64 bits or more is nothing, in C, too; a chip has less."""
    most = config_values.keys("h100_sxm")[key][-1]
    for seed in (3190, 3246):
        text, _, _ = random_trace(seed)
        session = Session(text, load_config("h100_sxm", [f"{key}={most}"]), arithmetic="none")
        executed = session.without_results()
        with interpreted():
            expected = session.time(executed, skip=False)
        assert session.time(executed, skip=False) == expected
    with pytest.raises(simulator.ConfigError, match=f"legal: an integer from 0 to {most:,}"):
        load_config("h100_sxm", [f"{key}={most + 1}"])


@needs_compiled
@pytest.mark.parametrize("name", ["digits/f16.trace", "gemm/f16_64x64x64.trace", "digits/f16_tcgen05_pair.trace"])
def test_a_trace_of_each_kind(name: str) -> None:
    check(Session(data_folder("traces") / name, "b200" if "tcgen05" in name else "h100_sxm", arithmetic="none"))


@exhaustive
@pytest.mark.parametrize(("name", "sms"), [("h100_sxm", 132), ("a100", 108), ("h100_sxm", 1)])
def test_copies(name: str, sms: int) -> None:
    """Two CTAs of a GEMM wait for copies of 16 bytes, and of 4 bytes of metadata."""
    config = load_config(name)
    text = kernel_trace(Tile("f16", 64, 64, 64, 2, 2, 3), 12 * 64, ctas=2, target=config.target)
    assert all(copy in text for copy in ("cp.async.cg.shared.global", "cp.async.ca.shared.global"))
    check(Session(text, config, arithmetic="none"), sms)


@needs_compiled
@exhaustive
@pytest.mark.parametrize("name", TRACES)
def test_every_trace(name: str) -> None:
    """On the first chip that can run it, or with TCSIM_PROGRAMS=1000 on every one."""
    ran = 0
    for config in config_names():
        session = Session(data_folder("traces") / name, config, arithmetic="none")
        try:
            session.check()
        except simulator.Error:
            continue
        check(session)
        ran += 1
        if PROGRAMS < 1000:
            break
    assert ran


@needs_compiled
def test_the_last_instruction_of_a_warp() -> None:
    product = f"mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {', '.join(['{%r0, %r1, %r2, %r3}'] * 4)}, %r0, 0;"
    warps = f".warp 0 {{ .repeat 4 {{ {product} }} }} .warp 1-4 {{ .repeat 4 {{ st.shared.b32 [%r0], %r0; }} }}"
    changes = {"sm.sub_cores": 1, "loop.cycles": 0, "loop.minimum": 0, "loop.drain": False}
    text = f".trace 1\n.target sm_90a\n.warps 5\n.shared 1024\n{warps}\n"
    check(Session(text, load_config("h100_sxm", changes), arithmetic="none"))


ENDLESS = """.trace 1
.target sm_90a
.warps 8
.warp 0-7 { .repeat 1000000000 { mov.u32 %r0, 1; mov.u32 %r1, 2; } }
"""


def test_without_the_compiled_front_a_run_takes_the_same_cycles(monkeypatch: pytest.MonkeyPatch) -> None:
    text = ".trace 1\n.target sm_90a\n.warps 1\n.warp 0 {\n    mov.u32 %r0, 1;\n    add.u32 %r1, %r0, %r0;\n}\n"
    expected = simulator.run(text, config="h100_sxm").cycles
    monkeypatch.setenv("TCSIM_KERNEL", "numpy")
    engine.front_module.cache_clear()
    try:
        assert engine.front_module().__name__ == "simulator.machine.front"
        assert simulator.run(text, config="h100_sxm").cycles == expected
    finally:
        engine.front_module.cache_clear()


@needs_compiled
def test_interrupted(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """A run that takes long says how long, once, and can be ended at any time."""

    def interrupt(signal: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "PATIENCE", 0.2)
    caplog.set_level(logging.WARNING, logger="tcsim")  # a test before may have been told to be quiet
    config, session = load_config("h100_sxm"), Session(ENDLESS, "h100_sxm", arithmetic="none")
    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 2.0)  # ten times PATIENCE: the computer may be busy
    start = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            simulate(config, session._compiled, 8, skip=False)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert time.monotonic() - start < 10
    (said,) = [record.getMessage() for record in caplog.records]
    assert said.startswith("tcsim: 4,000,000,000 instructions are timed one by one, which takes about ")
    assert "Ctrl-C" in said


# Skipping


def skipped(body: str, warps: int) -> tuple[Timing, float]:
    text = f".trace 1\n.target sm_90a\n.warps {warps}\n.shared 4096\n{body}"
    session = Session(text, "h100_sxm", arithmetic="none")
    executed = session.without_results()
    whole = session.time(executed, skip=False)
    found = session.time(executed)
    assert replace(found, skipped=0) == whole
    return found, found.skipped / found.cycles


MOVES = "mov.u32 %r0, 1; add.s32 %r1, %r0, 1; "
ACCUMULATORS = "{%r4, %r5, %r6, %r7}"
STREAM = f"mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {ACCUMULATORS}, {{%r8, %r9}}, {{%r10}}, {ACCUMULATORS};"


LONG = f".warp 1-4 {{ .repeat 20000 {{ {STREAM} }} bar.sync 0; bar.sync 0; }}"


@exhaustive
@pytest.mark.parametrize(
    "body",
    [
        f".warp 0 {{ .repeat 2000 {{ {MOVES} }} }} .warp 4 {{ .repeat 1500 {{ {MOVES} {STREAM} }} }}",
        f".warp 0 {{ .repeat 900 {{ {STREAM} }} }} .warp 1 {{ .repeat 30 {{ .repeat 60 {{ {MOVES} }} {STREAM} }} }}",
        f".warp 0 {{ bar.sync 0; }} .warp 1-4 {{ .repeat 3000 {{ {MOVES} }} bar.sync 0; }}",
        f".warp 0-4 {{ .repeat 3 {{ .repeat 3000 {{ {STREAM} }} bar.sync 0; }} }}",
        f".warp 0 {{ .repeat 2 {{ .repeat 3000 {{ {MOVES} }} bar.sync 0; }} }} {LONG}",
    ],
    ids=["unlike periods", "a nest beside a loop", "one waits outside", "nested", "one waits inside"],
)
def test_what_is_skipped(body: str) -> None:
    """Nearly all of it, whatever loops the warps are in."""
    found, share = skipped(body, 5)
    assert share > 0.8, (found.skipped, found.cycles)


@pytest.mark.parametrize("turns", [1, 2, 50])
def test_costs_that_repeat(turns: int) -> None:
    """Wavefronts as a prefix and a period give what all of them in a row give, and do not keep a loop from being
    skipped."""
    text = ".trace 1\n.target sm_90a\n.warps 2\n.shared 4096\n.warp 0-1 {"
    count = 40
    text += f" .repeat {turns} {{ .repeat {count} {{ ld.shared.b32 %r0, [%r1]; {MOVES} }} }} }}"
    session = Session(text, "h100_sxm", arithmetic="none")
    entries = [5, 1, 2, 7, 1, 3]
    repeating = {0: Periodic(entries, 2), 1: Periodic(entries[2:])}
    rows = {warp: [p.entries[p.position(i)] for i in range(turns * count)] for warp, p in repeating.items()}
    found = []
    for costs in (repeating, {warp: Periodic(row) for warp, row in rows.items()}):
        (code,) = session._compiled
        assert isinstance(code.items[0], TimedOperation)
        code.items[0].costs = costs
        for skip in (True, False):
            found.append(simulate(session.chip, [code], 2, skip=skip))
    assert [replace(timing, skipped=0) for timing in found] == [found[1]] * 4
    assert turns < 50 or found[0].skipped > 0.8 * found[0].cycles
    with pytest.raises(ValueError, match="nothing that repeats"):
        Periodic([], 0)


@needs_compiled
def test_room_for_loads() -> None:
    """Where room for loads bounds a stream of `ldmatrix.x1`, which have a place from their wavefront until `freed`
    cycles behind the next: so many of them begin in that time."""
    load = "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r0}, [%r20];"
    text = f".trace 1\n.target sm_90a\n.warps 16\n.shared 1024\n.warp 0-15 {{ .repeat 500 {{ {load * 4} }} }}\n"
    for loads, freed, each in ((10, 4, 1), (10, 19, 2), (20, 19, 1), (8, 31, 4)):
        config = load_config("h100_sxm", {"shared.loads": loads, "shared.freed": freed})
        found = check(Session(text, config, arithmetic="none"))
        assert found.cycles == pytest.approx(500 * 16 * 4 * each, rel=0.03)
        assert found.skipped > 0.5 * found.cycles


@needs_compiled
def test_loads_that_pass() -> None:
    """Three ldmatrix.x4 and a load of four registers that come together on six warps: others pass
    those that find no room."""
    loads = "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r0, %r1, %r2, %r3}, [%r20];" * 3
    body = f"{loads} ld.shared.v4.b32 {{%r4, %r5, %r6, %r7}}, [%r20];"
    text = f".trace 1\n.target sm_90a\n.warps 6\n.shared 1024\n.warp 0-5 {{ .repeat 500 {{ {body} }} }}\n"
    cycles = []
    for passes in (0, 1, 2):
        found = check(Session(text, load_config("h100_sxm", {"shared.passes": passes}), arithmetic="none"))
        assert found.shared_busy == 500 * 6 * 16
        assert found.skipped > 0.9 * found.cycles
        cycles.append(found.cycles)
    assert len({*cycles}) > 1
    assert min(cycles) > 500 * 6 * 16


@needs_compiled
def test_wavefronts_of_any_length() -> None:
    """As many cycles for a wavefront as a config may ask for."""
    config = load_config("h100_sxm", {"shared.cycles": 100})
    assert check(Session("digits/f16", config, arithmetic="none")).shared_busy > 0


@needs_compiled
def test_a_front_of_other_sources_is_not_used(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, logger="tcsim")
    monkeypatch.setattr(engine, "digest", lambda: "of other sources")
    assert engine.compiled_front() is None
    assert "is not used: it was built from other sources; `python -m simulator.machine.build`" in caplog.text


@pytest.mark.parametrize("name", ["issue", "issued", "serve", "resume", "complete"])
def test_what_an_observer_raises_ends_the_run(name: str) -> None:
    """No function of the compiled front on the way swallows it."""

    def fail(*_: object) -> None:
        raise ZeroDivisionError(name)

    observer = TimingObserver()
    setattr(observer, name, fail)
    loop = Loop()
    with pytest.raises(ZeroDivisionError, match=f"^{name}$"):
        simulate(loop.config, [loop.code], WARPS, observer=observer)
