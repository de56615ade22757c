"""Runs of campaigns lose nothing and believe nothing: inputs, heads, parts of killed runs, two runs at once."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import isa
from simulator.errors import ConfigError
from simulator.faults import MmaTarget
from simulator.faults.run import FAULTS, part_rows, run_list, subject_of
from simulator.faults.table import BLOCK, read_head
from simulator.files import OverwriteError
from simulator.progress import Progress
from simulator.resources import folder
from simulator.studies.faults import forms
from tests.support.cases import exhaustive
from tests.support.paths import ROOT

Tcsim = Callable[..., tuple[int, str, str]]
OPCODE = "mma.sp::ordered_metadata.m16n8k32.f32.f16.f16.f32"
CAMPAIGN = f"""
[campaign]
seed = 5
[subject]
opcode = "{OPCODE}"
[[faults]]
site = "a"
kind = "flips"
count = COUNT
"""


@pytest.fixture
def listed(tmp_path: Path, tcsim: Tcsim) -> Path:
    """A list of fewer faults than were one block before: five parts."""
    return _listed(tmp_path, tcsim, 5 * MmaTarget.batch - 7)


def _listed(folder: Path, tcsim: Tcsim, count: int) -> Path:
    (folder / "c.toml").write_text(CAMPAIGN.replace("COUNT", str(count)))
    assert tcsim("faults", "list", folder / "c.toml", "--output", folder / "list.csv") == (0, "", "")
    return folder / "list.csv"


# What a run must not replace


def test_no_output_replaces_an_input(tmp_path: Path, tcsim: Tcsim, monkeypatch: pytest.MonkeyPatch) -> None:
    listed, results = _listed(tmp_path, tcsim, 10), tmp_path / "results.csv"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "soft.csv").symlink_to("list.csv")
    os.link(listed, tmp_path / "hard.csv")
    assert tcsim("faults", "run", listed, "--output", results)[0] == 0
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for output in ("list.csv", "./list.csv", f"../{tmp_path.name}/list.csv", listed, "soft.csv", "hard.csv"):
        code, out, err = tcsim("faults", "run", "list.csv", "--output", output)
        assert (code, out, err.count("\n")) == (2, "", 1), output
        assert "list.csv: is an input" in err
    for arguments, words in (
        (("run", "list.csv", "--output", "new.csv", "--parquet", "hard.csv"), "list.csv: is an input"),
        (("run", "list.csv", "--output", "new.csv", "--parquet", "./new.csv"), "two outputs in one file"),
        (("list", "c.toml", "--output", "c.toml"), "c.toml: is an input"),
        (("report", "results.csv", "--format", "table", "--output", "results.csv"), "results.csv: is an input"),
    ):
        code, out, err = tcsim("faults", *arguments)
        assert (code, out, err.count("\n")) == (2, "", 1), arguments
        assert words in err
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    with pytest.raises(OverwriteError, match=r"soft\.csv"):
        run_list(read_head(listed), Path("soft.csv"))


# Heads


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("policy", "zer", "6:1: policy is 'zer', did you mean 'zero'?; legal: hardware, raise, zero, saturate"),
        ("policy", "zzz", "6:1: policy is 'zzz'; legal: hardware, raise, zero, saturate"),
        ("policy", "", "6:1: policy is ''"),
        ("seed", "-1", "4:1: seed is '-1'; legal: a number from 0 to 2^63 - 1"),
        ("subject", "[1]", "5:1: subject is '[1]'; legal: a JSON object"),
        ("operands", "none", "8:1: operands is 'none'; legal: a digest"),
        ("groups", '[{"name": 1}]', "9:1: groups is"),
        ("faults", "ten", "its head says ten"),
    ],
)
def test_values_of_heads(tmp_path: Path, tcsim: Tcsim, key: str, value: str, words: str) -> None:
    """Each once for the list, once for results: nothing runs, and no default is taken."""
    listed, results = _listed(tmp_path, tcsim, 3), tmp_path / "results.csv"
    assert tcsim("faults", "run", listed, "--output", results)[0] == 0
    for path, verbs in (
        (
            listed,
            (("run", listed, "--output", tmp_path / "new.csv", "--policy", "raise"), ("replay", listed, "--id", 0)),
        ),
        (results, (("report", results),)),
    ):
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join(f"# {key}: {value}\n" if line.startswith(f"# {key}:") else line for line in lines))
        for arguments in verbs:
            code, out, err = tcsim("faults", *arguments)
            assert (code, out, err.count("\n")) == (2, "", 1), arguments
            assert words in err
    assert not (tmp_path / "new.csv").exists()


def test_a_key_twice(tmp_path: Path, tcsim: Tcsim) -> None:
    listed = _listed(tmp_path, tcsim, 3)
    listed.write_text(listed.read_text().replace("# policy:", "# policy: raise\n# policy:"))
    code, _, err = tcsim("faults", "run", listed, "--output", tmp_path / "r.csv")
    assert (code, err.count("\n")) == (2, 1)
    assert ":7:1: 'policy' stands in the head twice" in err


def test_policies_in_python(tmp_path: Path, tcsim: Tcsim) -> None:
    with pytest.raises(ConfigError, match=r"policy 'zer', did you mean 'zero'.*hardware, raise, zero, saturate"):
        MmaTarget(OPCODE, policy="zer")
    with pytest.raises(ConfigError, match=r"arithmetic 'exakt', did you mean 'exact'.*chip, exact"):
        MmaTarget(OPCODE, arithmetic="exakt")
    with pytest.raises(ConfigError, match="policy 'zer'"):
        subject_of(read_head(_listed(tmp_path, tcsim, 3)), "zer")


# Killed runs, and two at once


@exhaustive
def test_a_killed_run_goes_on(listed: Path, tmp_path: Path, tcsim: Tcsim) -> None:
    """While it stands still nobody else writes its output; killed, it blocks nobody; a damaged part is done again."""
    run_list(read_head(listed), tmp_path / "whole.csv")
    output = tmp_path / "killed.csv"
    parts = tmp_path / "killed.csv.parts"
    command = [sys.executable, "-m", "simulator", "faults", "run", str(listed), "--output", str(output)]
    process = subprocess.Popen(command, cwd=ROOT)
    while process.poll() is None and not (parts / "000001.csv").exists():
        time.sleep(0.002)
    process.send_signal(signal.SIGSTOP)
    try:
        code, _, err = tcsim("faults", "run", listed, "--output", output)
        assert (code, err.count("\n")) == (2, 1)
        assert f"killed.csv: another run is writing it (process {process.pid} on " in err
    finally:
        process.kill()
        process.wait()
    kept = len(list(parts.glob("[0-9]*.csv")))
    assert 2 <= kept < 5, "killed before the end"
    assert (parts / "lock").exists()
    (parts / "000000.csv").write_bytes((parts / "000000.csv").read_bytes()[:-30])
    code, _, err = tcsim("faults", "run", listed, "--output", output)
    assert code == 0
    rows = (kept - 1) * MmaTarget.batch
    assert f"{rows:,} of them from an earlier run; 1 part of it was damaged, and was done again" in err
    assert output.read_bytes() == (tmp_path / "whole.csv").read_bytes()
    assert not parts.exists()


@exhaustive
def test_a_killed_run_of_slow_faults_loses_a_few(tmp_path: Path, tcsim: Tcsim) -> None:
    """Faults of the unit are a run of the trace each: what was done of their part is kept; the rows are the same."""
    (tmp_path / "slow.toml").write_text(
        '[subject]\ntrace = "digits/f16"\n[[faults]]\nsite = "registers"\nkind = "flip"\nat = "any"\ncount = 40\n'
        '[[faults]]\nsite = "mux"\nkind = "stuck1"\ncount = 14\n[[faults]]\nsite = "registers"\nkind = "flip"\n'
        'at = "any"\nalong = "words"\nspan = 2\ncount = 3\n'
    )
    listed, whole, output = (tmp_path / name for name in ("list.csv", "whole.csv", "killed.csv"))
    assert tcsim("faults", "list", tmp_path / "slow.toml", "--output", listed)[0] == 0
    parts = tmp_path / "killed.csv.parts"
    found = read_head(listed)
    assert run_list(found, whole).resumed == 0
    with pytest.raises(KeyboardInterrupt):
        run_list(found, output, progress=_stop_at(50))
    kept = sorted(path.name for path in parts.glob("*.csv"))
    assert kept == [f"000000-00000{piece}.csv" for piece in range(4)]  # 40 together, then 4 each
    first = (parts / kept[1]).read_bytes()
    (parts / kept[1]).write_bytes(first[:-3])
    told: list[int] = []
    run_list(found, output, progress=lambda done, count, what: told.append(done) if what == FAULTS else None)
    assert output.read_bytes() == whole.read_bytes()
    assert list(dict.fromkeys(told)) == [0, 52, 56, 57]  # one of the pieces was damaged
    assert run_list(found, tmp_path / "two.csv", workers=2).injected == 57
    assert (tmp_path / "two.csv").read_bytes() == whole.read_bytes()
    assert not parts.exists()


def _stop_at(faults: int) -> Progress:
    """Stops a run, as Ctrl-C does, when more than so many faults are done."""

    def stop(done: int, count: int, what: str) -> None:
        if done > faults:
            raise KeyboardInterrupt

    return stop


def test_one_process_does_not_race_with_itself(tmp_path: Path, tcsim: Tcsim) -> None:
    found, output = read_head(_listed(tmp_path, tcsim, MmaTarget.batch + 9)), tmp_path / "r.csv"

    def again(done: int, count: int, what: str) -> None:
        if done and what == FAULTS:
            run_list(found, output)

    with pytest.raises(ConfigError, match=f"another run is writing it .process {os.getpid()} on "):
        run_list(found, output, progress=again)
    assert run_list(found, output).resumed == MmaTarget.batch


def test_sizes_of_parts() -> None:
    """A fault at a time where each is a launch; never more than a block, nor very many parts."""
    subject: Any = MmaTarget(OPCODE)
    assert [part_rows(subject, rows) for rows in (1, 10**6, 10**8)] == [4096, 4096, 24_415]
    assert part_rows(subject, 10**10) == BLOCK


def test_platforms_without_locks(tmp_path: Path, tcsim: Tcsim, monkeypatch: pytest.MonkeyPatch) -> None:
    listed, output = _listed(tmp_path, tcsim, 3), tmp_path / "r.csv"
    program = (
        "import sys; sys.modules['fcntl'] = sys.modules['resource'] = None; "
        "from simulator.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", program, "faults", "run", str(listed), "--output", str(output)]
    subprocess.run(command, cwd=ROOT, check=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.toml", "list.csv", "r.csv"]

    def refused(*_: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr("fcntl.lockf", refused)
    assert tcsim("faults", "run", listed, "--output", output)[0] == 0


def test_a_folder_is_no_output(tmp_path: Path, tcsim: Tcsim) -> None:
    """Which is said before the work, by the name that was given, and nothing is left."""
    listed = _listed(tmp_path, tcsim, 3)
    (tmp_path / "dir").mkdir()
    code, _, err = tcsim("faults", "run", listed, "--output", tmp_path / "dir")
    assert (code, err.count("\n")) == (2, 1)
    assert f"{tmp_path / 'dir'}: cannot be written (there is a folder of that name)" in err
    assert ".part" not in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.toml", "dir", "list.csv"]


# What a person sees


def test_progress_on_a_terminal(tmp_path: Path, tcsim: Tcsim, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = _listed(tmp_path, tcsim, MmaTarget.batch + 9)
    monkeypatch.setattr("simulator.cli.answer.Meter._EVERY", 0.0)
    _, _, quiet = tcsim("faults", "run", listed, "--output", tmp_path / "r.csv")
    assert "\r" not in quiet
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    _, _, err = tcsim("faults", "run", listed, "--output", tmp_path / "r.csv", "--parquet", tmp_path / "r.parquet")
    assert re.search(rf"4,096 of {read_head(listed).rows:,} faults, about \d+ s left", err)
    assert "rows of results joined" in err
    assert err.rpartition("\r")[2].startswith("\x1b[Ktcsim: "), "the line goes before the last word"
    one = forms.one_form(next(form for form in isa.mma_forms().values() if form.sparse), "sm_90a", 1, 0, "raise")
    monkeypatch.setattr(forms, "one_form", lambda *_: one)
    _, _, err = tcsim("faults", "forms")
    assert re.search(r"1 of 88 forms, about \d+ s left", err)


def test_help_names_the_campaigns_that_there_are(tcsim: Tcsim) -> None:
    text = " ".join(tcsim("faults", "list", "--help")[1].split())
    names = sorted(path.stem for path in folder("campaigns").glob("*.toml"))
    assert f"one that comes with tcsim: {', '.join(names)}" in text
    for line in tcsim("faults", "--help")[1].splitlines():
        words = line.split()
        if words[:3] == ["tcsim", "faults", "list"]:
            assert words[3] in names or words[3].endswith(".json")
