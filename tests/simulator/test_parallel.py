"""Processes that do the work of another one end with it, however it ends, and leave its output to it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from simulator import parallel
from simulator.parallel import undisturbed
from tests.support.cases import examples, exhaustive
from tests.support.paths import ROOT

_WORKED = """
import os, time
from simulator import parallel
def work(key, block):
    print("nothing of this is seen")
    os.write(2, b"at work\\n")
    time.sleep(600)
    return b""
WATCH
list(parallel.worked(work, "", iter([(0, 0), (1, 1)]), 2, "", 2))
"""
_BATCHES = """
import os, time, types
import numpy as np
from simulator.simulation.launch import batches
def in_turn(*_):
    os.write(2, b"at work\\n")
    time.sleep(600)
WATCH
batches._in_turn = in_turn
setup = types.SimpleNamespace(kernel=types.SimpleNamespace(items=[]))
batches._in_processes(setup, None, [np.arange(1)] * 2, 2)
"""
_THREADS = "from simulator import parallel; parallel._killed_with_parent = lambda: False"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes that are started anew")
@pytest.mark.parametrize("program", [_WORKED, _BATCHES], ids=["worked", "batches"])
@pytest.mark.parametrize("watch", ["", _THREADS], ids=["by the system", "by a thread"])
def test_workers_end_with_a_parent_that_is_killed(program: str, watch: str) -> None:
    """SIGKILL of the parent alone: both pipes come to their end, so no process is left that holds them."""
    process = subprocess.Popen(
        [sys.executable, "-c", program.replace("WATCH", watch)],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        assert process.stderr is not None
        assert [process.stderr.readline() for _ in range(2)] == ["at work\n"] * 2
        process.send_signal(signal.SIGKILL)
        out, err = process.communicate(timeout=20)
        assert (out, err, process.returncode) == ("", "", -signal.SIGKILL)
    finally:
        if process.poll() is None or _is_there(process.pid):
            os.killpg(process.pid, signal.SIGKILL)


def _is_there(group: int) -> bool:
    """Whether any process of a group is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_killed_campaign_leaves_no_process(tmp_path: Path) -> None:
    """The pipe that `tcsim faults run | ...` prints to ends when the command is killed."""
    tcsim = [sys.executable, "-m", "simulator", "faults"]
    (tmp_path / "c.toml").write_text(
        '[subject]\nopcode = "mma.sp.m16n8k32.f32.f16.f16.f32"\n[[faults]]\nsite = "a"\nkind = "flips"\ncount = 24000\n'
    )
    command = [*tcsim, "list", str(tmp_path / "c.toml"), "--output", str(tmp_path / "l.csv")]
    subprocess.run(command, cwd=ROOT, check=True)
    command = [*tcsim, "run", str(tmp_path / "l.csv"), "--output", str(tmp_path / "r.csv"), "--workers", "2"]
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    parts = tmp_path / "r.csv.parts"
    try:
        while process.poll() is None and not list(parts.glob("[0-9]*.csv")):
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        assert process.communicate(timeout=20) == (b"", None)
    finally:
        if _is_there(process.pid):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL, "killed before the end"


def test_an_interruption_is_heard_behind_the_start_of_processes() -> None:
    """Also where another thread could take the signal: then it interrupted the start, or woke nobody who waited."""
    over, steps = threading.Event(), list[str]()

    def start() -> None:
        with undisturbed():
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.05)
            steps.append("started")

    other = threading.Thread(target=over.wait)
    other.start()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            start()
    finally:
        signal.signal(signal.SIGINT, before)
        over.set()
        other.join()
    assert steps == ["started"]


def _fails_late(key: str, block: int) -> bytes:
    if block == 3:
        raise ZeroDivisionError(key)
    return bytes(1 << 20)


@exhaustive
@pytest.mark.skipif(parallel.ALONE, reason="there are no other processes")
def test_a_pool_whose_processes_end_in_the_middle_of_a_result_does_not_wait_for_the_rest() -> None:
    for _ in range(examples(30, 10)):
        with pytest.raises(ZeroDivisionError):
            list(parallel.worked(_fails_late, "key", ((n, n) for n in range(20)), 2, "", 20))


_LEFT = """
import time
from simulator import parallel
def work(key, block):
    time.sleep(0 if block[0] == 0 else 600)
    return b"done"
tasks = ((number, bytes([number]) + bytes(1 << 22)) for number in range(8))
results = parallel.worked(work, "", tasks, 2, "", 8)
print(next(results)[1].decode(), flush=True)
results.close()
"""


def test_a_pool_that_is_left_while_a_long_block_is_sent_does_not_wait_for_a_reader() -> None:
    """Blocks of 4 MB fill the pipe while both processes are at work."""
    done = subprocess.run(
        [sys.executable, "-c", _LEFT], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "done\n"
