"""What a campaign counts: each physical bit once, at times that there are; lists and results as people filter them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from simulator.errors import ConfigError
from simulator.faults import Group, MmaTarget, every_fault
from simulator.faults.campaign import read_campaign
from simulator.faults.targets.program import ProgramTarget
from simulator.faults.targets.tcgen05 import Tcgen05Target
from tests.support.paths import GOLDEN

Tcsim = Callable[..., tuple[int, str, str]]
TRACE = 'trace = "digits/f16_tcgen05"\nconfig = "b200"'
OPCODE = 'opcode = "mma.sp.m16n8k32.f32.f16.f16.f32"'


def _campaign(folder: Path, subject: str, *groups: str) -> Path:
    path = folder / "c.toml"
    path.write_text(f"[subject]\n{subject}\n" + "".join(f"[[faults]]\n{group}\n" for group in groups))
    return path


def test_traces_count_each_bit_once_while_its_warp_runs(tmp_path: Path) -> None:
    """Warp 0 has more instructions than the others; shared memory is one, however many warps there are."""
    campaign = read_campaign(
        _campaign(
            tmp_path, TRACE,
            'name = "s"\nsite = "shared"\nkind = "flip"',
            'name = "r"\nsite = "registers"\nkind = "flip"\nat = "any"\ncount = 500',
        )
    )  # fmt: skip
    subject = campaign.subject
    assert isinstance(subject, ProgramTarget)
    bits = {name: int(np.bitwise_count(site.live).sum()) for name, site in subject.sites.items()}
    lengths = {warp: subject.instructions(warp) for warp in subject.numbers}
    assert len(set(lengths.values())) > 1
    (_, shared), (_, registers) = campaign.counts()
    assert shared == bits["shared"]
    assert registers == bits["registers"] * sum(lengths.values())
    rows = np.concatenate([rows[rows["group"] == 1] for rows in campaign.faults()])
    assert all(row["at"] < lengths[int(row["case"])] for row in rows)
    assert len(set(rows["case"].tolist())) == len(lengths)


def test_buffers_of_launches_count_once(tcsim: Tcsim, tmp_path: Path) -> None:
    subject = f'launch = "{GOLDEN / "metadata_launch" / "steps.json"}"'
    path = _campaign(tmp_path, subject, 'name = "g"\nsite = "global"\nkind = "flip"')
    assert "g: 40,960 of 40,960 faults" in tcsim("faults", "list", path, "--count")[1], "5,120 bytes"


def test_list_refuses_what_run_refuses(tcsim: Tcsim, tmp_path: Path) -> None:
    for group, words in (
        ('site = "selector"\nkind = "flip"', "model flip of site selector; legal: selector"),
        ('site = "selector"\nkind = "stuck1"', "model stuck1 of site selector"),
    ):
        path = _campaign(tmp_path, OPCODE, group)
        for more in ((), ("--count",)):
            code, out, err = tcsim("faults", "list", path, *more)
            assert (code, out, err.count("\n")) == (2, "", 1)
            assert words in err
            assert "c.toml" in err


def test_a_filtered_list_is_reported(tcsim: Tcsim, tmp_path: Path) -> None:
    path = _campaign(tmp_path, OPCODE, 'site = "a"\nkind = "flip"', 'site = "c"\nkind = "flip"')
    listed, results = tmp_path / "l.csv", tmp_path / "r.csv"
    assert tcsim("faults", "list", path, "--output", listed)[0] == 0
    lines = listed.read_text().splitlines(keepends=True)
    head = [line if not line.startswith("# faults:") else "# faults: 3\n" for line in lines if line[0] == "#"]
    rows = [line for line in lines if line[0] != "#"]
    listed.write_text("".join([*head, rows[0], *rows[-3:]]))
    assert tcsim("faults", "run", listed, "--output", results)[0] == 0
    code, out, err = tcsim("faults", "report", results)
    assert (code, err) == (0, "")
    assert "a part of the campaign: 3 of its 8,192 faults" in out
    assert "c flip" in out
    assert "a flip" not in out


def test_a_full_disk_is_no_missing_folder(tcsim: Tcsim, tmp_path: Path) -> None:
    if Path("/dev/full").exists():
        path = _campaign(tmp_path, OPCODE, 'site = "e"\nkind = "flip"')
        code, _, err = tcsim("faults", "list", path, "--output", "/dev/full")
        assert (code, err.count("\n")) == (2, 1)
        assert "No space left on device" in err
        assert "room on its disk" in err
        assert "folder" not in err


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        (
            {"site": "registers", "where": "lanes=40"},
            r"faults.where: selects no live bit .* by lanes; legal: .*lanes 0..31",
        ),
        (
            {"site": "registers", "at": [1, 99_999]},
            "at: 99999 strikes nothing, behind the end of every warp; legal: any, or -1",
        ),
        (
            {"site": "mux", "kind": "stuck1", "at": 3},
            "at: 3 strikes nothing; legal: any, or where a matrix instruction",
        ),
    ],
)
def test_what_strikes_nothing_is_named(keys: dict[str, object], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        list(read_campaign("digits/f16", keys).faults())


def test_the_highest_bit_of_a_ue4m3_scale_factor_is_not_read() -> None:
    """The sum of no factor changes with it; of ue8m0 every bit is read."""
    opcode = "mma.sp::ordered_metadata.m16n8k128.kind::{}.block_scale.scale_vec::{}.f32.e2m1.e2m1.f32.{}"
    target = MmaTarget(opcode.format("mxf4nvf4", "4X", "ue4m3"), "sm_120a")
    other = MmaTarget(opcode.format("mxf4", "2X", "ue8m0"), "sm_120a")
    tensor = Tcgen05Target("tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X", n=16)
    for name in ("scale_a", "scale_b"):
        assert set(np.unique(target.sites[name].live).tolist()) <= {0, 0x7F7F7F7F}
        assert set(np.unique(tensor.sites[name].live).tolist()) <= {0, 0x7F7F7F7F}
        assert (other.sites[name].live & 0x80808080).any()
        group = Group("g", name, "flip", where="dead bits=7,15,23,31")
        faults = every_fault(group, target.sites[name], target.layout, 1, 0)
        words, _ = target.faulty(faults[::5])
        assert (target.execute(words, faults[::5]) == target.golden["d"]).all()
