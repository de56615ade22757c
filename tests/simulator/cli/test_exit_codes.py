"""How commands end that fail in other processes, or by a bug of tcsim: always with one line, and never with exit code
1, which says that the answer is no."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from simulator.parallel import ALONE, RemoteError, sendable

Tcsim = Callable[..., tuple[int, str, str]]
HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n"
HEAD += ".reg .pred %p<4>; .reg .b32 %r<10>; .reg .b64 %rd<10>;\nld.param.u64 %rd1, [p];\n"
LATE = "mov.u32 %r1, %ctaid.x;\nsetp.ge.u32 %p1, %r1, 70;\n@%p1 "  # the first CTAs end
BODIES = {
    "trap": "trap;\nret;\n}",
    "a late trap": f"{LATE}trap;\nret;\n}}",
    "an address": "st.global.u32 [%rd1+99999999], %r1;\nret;\n}",
    "a late address": f"{LATE}st.global.u32 [%rd1+4096], %r1;\nret;\n}}",
    "a loop": "L: add.u32 %r1, %r1, 1;\nbra L;\n}",
    "a late loop": f"{LATE}bra L;\nret;\nL: add.u32 %r1, %r1, 1;\nadd.u32 %r2, %r2, 1;\nbra L;\n}}",
    "an instruction": "tcgen05.wait::ld.sync.aligned;\nret;\n}",
    "a label": "bra NOWHERE;\nret;\n}",
}


def launched(tcsim: Tcsim, folder: Path, body: str, workers: int) -> tuple[int, str, str]:
    (folder / "k.ptx").write_text(HEAD + body)
    np.save(folder / "u.npy", np.zeros(1024, np.uint32))
    how = ("--grid", "200", "--block", "256", "--arg", str(folder / "u.npy"), "--budget", "60000")
    return tcsim("launch", str(folder / "k.ptx"), *how, "--workers", str(workers))


@pytest.mark.parametrize("body", BODIES)
def test_a_kernel_that_fails_says_the_same_with_any_number_of_workers(tcsim: Tcsim, tmp_path: Path, body: str) -> None:
    alone, *others = [launched(tcsim, tmp_path, BODIES[body], workers) for workers in (1, 2, 3)]
    assert alone[:2] == (2, "")
    assert alone[2].startswith("tcsim: line ")
    assert alone[2].count("\n") == 1
    assert others == [alone, alone]
    if "late" in body and "loop" not in body:
        assert "CTA (70, 0, 0), warp 0" in alone[2]


def broken(*_: object) -> None:
    raise ZeroDivisionError("what nobody expected")


@pytest.mark.parametrize("workers", [1, 2])
def test_a_bug_has_an_exit_code_of_its_own(
    tcsim: Tcsim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    monkeypatch.setattr("simulator.simulation.launch.batches._in_turn", broken)
    code, out, err = launched(tcsim, tmp_path, "ret;\n}", workers)
    assert (code, out, err.count("\n")) == (3, "", 1)
    for word in ("internal error", "ZeroDivisionError: what nobody expected", "a bug of tcsim", "TCSIM_TRACEBACK=1"):
        assert word in err
    monkeypatch.setenv("TCSIM_TRACEBACK", "1")
    code, out, err = launched(tcsim, tmp_path, "ret;\n}", workers)
    assert (code, out) == (3, "")
    assert "in broken" in err


@pytest.mark.skipif(ALONE, reason="there are no other processes")
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("validate --config h100_sxm --group chip --group energy", "simulator.studies.validation._run"),
        ("sweep small --output {folder}/r.csv", "simulator.studies.sweep.work.block"),
        ("faults run {folder}/list.csv --output {folder}/f.csv", "simulator.faults.run.work"),
    ],
)
def test_a_bug_in_a_worker_is_one_of_tcsim(
    tcsim: Tcsim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, name: str, workers: int
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("simulator.studies.sweep.work.BLOCK", 1, raising=False)
    if line.startswith("faults"):
        assert tcsim("faults", "list", "metadata", "--output", "list.csv")[0] == 0
    monkeypatch.setattr(name, broken)
    code, out, err = tcsim(*line.format(folder=tmp_path).split(), "--workers", str(workers))
    assert (code, out) == (3, ""), err
    assert "ZeroDivisionError: what nobody expected; this is a bug of tcsim" in err


class Stubborn(Exception):  # noqa: N818 - an exception of somebody else
    """One that cannot be rebuilt from its arguments, nor without its class being called."""

    def __new__(cls, *, size: int) -> Stubborn:
        return super().__new__(cls)

    def __init__(self, *, size: int) -> None:
        super().__init__(f"size {size}")


def test_exceptions_that_cannot_be_sent() -> None:
    sent, told = sendable(Stubborn(size=3))
    assert isinstance(sent, RemoteError)
    assert str(sent) == "Stubborn: size 3"
    assert "Stubborn: size 3" in told


LOOP = (  # a job in the background would ignore Ctrl-C
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from simulator.cli.main import command; sys.exit(command())"
)


@pytest.mark.skipif(ALONE or not hasattr(os, "killpg"), reason="there are no other processes")
def test_an_interruption_ends_all_processes_with_one_line(tmp_path: Path) -> None:
    (tmp_path / "k.ptx").write_text(HEAD + BODIES["a loop"])
    np.save(tmp_path / "u.npy", np.zeros(1024, np.uint32))
    line = ["launch", "k.ptx", "--grid", "200", "--block", "256", "--arg", "u.npy", "--workers", "2"]
    command = subprocess.Popen(
        [sys.executable, "-c", LOOP, *line], cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    children = Path(f"/proc/{command.pid}/task/{command.pid}/children")
    end = time.monotonic() + 30
    while time.monotonic() < end and children.exists() and len(children.read_text().split()) < 2:
        time.sleep(0.05)
    os.killpg(command.pid, signal.SIGINT)
    assert command.communicate(timeout=30)[1] == "tcsim: interrupted\n"
    assert command.returncode == 130
    with pytest.raises(ProcessLookupError):
        os.killpg(command.pid, 0)
