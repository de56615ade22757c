"""Faults in captured launches: against launches with other data, and one bit of a register in one element."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import simulator
from simulator.errors import ConfigError
from simulator.faults import outcomes, table
from simulator.faults.outcomes import DETECTED, DUE, HANG, MASKED, REASONS, SDC
from simulator.faults.table import MODELS, SITES, Faults
from simulator.faults.targets.injection import FaultInjection
from simulator.faults.targets.launch import LaunchTarget
from simulator.program.capture import read_capture
from simulator.program.kernel import Operation
from tests.support.cases import exhaustive
from tests.support.paths import GOLDEN

Tcsim = Callable[..., tuple[int, str, str]]
CAPTURE = GOLDEN / "planted" / "bug0.json"
TARGET = LaunchTarget(CAPTURE)


def row(site: str, word: int, mask: int, lane: int = 0, warp: int = 0, at: int = -1, model: str = "flip") -> Faults:
    fault = table.empty(1)
    for name, value in {"case": warp, "model": MODELS.index(model), "site": SITES.index(site), "word": word, "at": at,
                        "lane": lane, "mask": mask, "lane2": -1, "until": -1}.items():  # fmt: skip
        fault[name] = value
    return fault


@pytest.mark.parametrize("buffer", ["A", pytest.param("B", marks=exhaustive), "E"])
def test_a_buffer_is_as_if_it_had_held_other_data(buffer: str) -> None:
    capture = read_capture(CAPTURE)
    first = next(first for name, (first, _) in TARGET.buffers.items() if name == buffer)
    assert TARGET.buffer_of(first + 7) == (buffer, 7)
    capture.before[buffer].reshape(-1).view(np.uint32)[7] ^= 0x40  # type: ignore[index] # a mapping of arrays
    expected = simulator.launch(capture, workers=1).arrays["D"]
    ended, injection = TARGET.alone(row("global", first + 7, 0x40)[0])
    assert injection.changed
    assert (ended.arrays["D"].view(np.uint32) == expected.view(np.uint32)).all()
    (result,) = TARGET.run(row("global", first + 7, 0x40))
    right = simulator.launch(CAPTURE, workers=1).arrays["D"]
    assert result["elements"] == (expected.view(np.uint32) != right.view(np.uint32)).sum()


def test_a_bit_of_what_is_stored() -> None:
    """A register right before its store: one bit of one element. Behind the store it is not read."""
    warp, count = 1, TARGET.instructions(1)
    stores = (i for i in range(count - 1, 0, -1) if "st.global" in getattr(TARGET.item(warp, i), "opcode", ""))
    at = next(stores)
    item = TARGET.item(warp, at)
    assert isinstance(item, Operation)
    register = TARGET.kernel.numbering.numbers(item.instruction.reads[1:])[0]
    ended, _ = TARGET.alone(row("registers", register, 1 << 22, lane=9, warp=warp, at=at)[0])
    right = simulator.launch(CAPTURE, workers=1).arrays["D"].view(np.uint32)
    differing = ended.arrays["D"].view(np.uint32) ^ right
    assert sorted(set(differing.ravel().tolist())) == [0, 1 << 22]
    assert (differing != 0).sum() == 1
    later = row("registers", register, 1 << 22, lane=9, warp=warp, at=at + 1)
    assert TARGET.run(later)["outcome"].tolist() == [MASKED]


def test_outcomes_do_not_depend_on_order() -> None:
    generator = np.random.default_rng(2)
    most = TARGET.sites["registers"].live.shape[0], 32, 32, 16, 600
    draws = generator.integers(0, most, (12, 5)).tolist()
    rows = [row("registers", word, 1 << bit, lane, warp, at) for word, bit, lane, warp, at in draws]
    faults = np.concatenate(rows)
    faults["id"] = np.arange(len(faults))
    one, other = TARGET.run(faults), TARGET.run(faults[::-1])[::-1]
    assert (one == other).all()
    assert set(one["outcome"]) <= {MASKED, SDC, DUE, HANG}


def test_a_launch_that_does_not_end_is_a_hang() -> None:
    """As a launch without a fault counts that has too few instructions left."""
    ended = TARGET._launched(None, 1000)
    assert (ended.reason, ended.arrays) == ("endless", {})
    assert "budget" in ended.said
    results = outcomes.empty(np.zeros(1, np.int64))
    TARGET.judging.ended(results, FaultInjection.of(row("global", 0, 1)[0], 4), ended)
    assert (results["outcome"][0], REASONS[results["reason"][0]]) == (HANG, "endless")


def test_bad_use(tcsim: Tcsim, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="site tmem"):
        TARGET.run(row("tmem", 3, 1))
    with pytest.raises(ConfigError, match="0 to 4863"):
        TARGET.run(row("shared", 4864, 1))
    campaign = tmp_path / "c.toml"
    for subject, faults, said in [
        (
            f'launch = "{CAPTURE}"',
            'site = "tmem"\nkind = "flip"',
            "legal: global, registers, predicates, shared",
        ),
        (f'launch = "{CAPTURE}"', 'site = "registers"\nkind = "flip"\nclock = "cycle"', "cycles of a launch"),
        (f'launch = "{CAPTURE}"', 'site = "registers"\nkind = "flip"\nwarps = [99]', "warps with a program"),
        ('launch = "nothing.json"', 'site = "global"\nkind = "flip"', "nothing.json"),
    ]:
        campaign.write_text(f"[subject]\n{subject}\n[[faults]]\n{faults}\n")
        code, out, err = tcsim("faults", "list", str(campaign), "--output", str(tmp_path / "l.csv"))
        assert (code, out, err.count("\n"), said in err) == (2, "", 1, True), err


# Undefined codes


STEPS = GOLDEN / "metadata_launch" / "steps.json"


def _flips_of_metadata(target: LaunchTarget) -> tuple[Faults, np.ndarray]:
    """Flips of bits of the buffer of metadata, and whether each leaves a code with equal or descending indices in a
    lane that selector 0 of m16n8k32 reads: the first two of each four, as PTX draws it."""
    first, count = target.buffers["E"]
    metadata = target.capture.before["E"].reshape(-1)
    places = np.random.default_rng(4).choice(32 * count, 60, replace=False).tolist()
    faults = np.concatenate([row("global", first + place // 32, 1 << place % 32) for place in places])
    faults["id"] = np.arange(len(faults))
    undefined = np.zeros(len(places), np.bool_)
    for number, place in enumerate(places):
        word = int(metadata[place // 32]) ^ 1 << place % 32
        codes = [word >> low & 15 for low in range(0, 32, 4)]
        undefined[number] = place // 32 % 4 < 2 and any((code & 3) >= code >> 2 for code in codes)
    return faults, undefined


def test_legality_in_launches() -> None:
    """As in traces: seen where a code is undefined, and a policy that stops there detects the fault."""
    target = LaunchTarget(STEPS)
    faults, undefined = _flips_of_metadata(target)
    assert 5 < undefined.sum() < 55
    results = target.run(faults)
    for name in ("legality", "ordered"):
        assert (((results["detectors"] & outcomes.flag(name)) > 0) == undefined).all(), name
    assert (results["outcome"][undefined] == SDC).all()
    stopped = LaunchTarget(STEPS, policy="raise").run(faults)
    assert ((stopped["outcome"] == DETECTED) == undefined).all()
    assert {REASONS[number] for number in stopped["reason"][undefined]} == {"invalid-code"}
    assert (stopped["detectors"][undefined] & outcomes.flag("legality") > 0).all()
    assert (stopped["outcome"][~undefined] == results["outcome"][~undefined]).all()
