"""Damaged files of every other kind than traces (test_fuzz.py): modules, launches, captures, arrays, configs,
campaigns, sweeps, designs, machine code. Reading one ends with a result or with one error of tcsim's."""

from __future__ import annotations

import gzip
import os
import random
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import simulator
from isa.ptx.module import parse_module
from simulator.faults.campaign import read_campaign
from simulator.inputs import ArrayFile
from simulator.program.capture import read_capture
from simulator.program.kernel import link
from simulator.program.sass.listing import read_machine_code
from simulator.simulation.launch import batches
from simulator.studies.designs.record import load_design
from simulator.studies.sweep.spec import read_spec
from tests.support.cases import exhaustive
from tests.support.damage import damaged
from tests.support.paths import GOLDEN, ROOT

LAUNCHES = GOLDEN / "launches"
SHARE = 60  # of the inputs of each kind that the tests try by default
SEEDS = int(os.environ.get("TCSIM_FUZZ_SEEDS", "0"))
MANY = 8 if SEEDS else 1  # times as many for each seed
"""`make fuzz` sets 120: some 440,000 inputs here and 600,000 of test_fuzz.py, an hour and a half of a core."""


@dataclass(frozen=True)
class Kind:
    """Something that is read: whole examples of it, what reads a file, and how many there are for one module."""

    examples: tuple[Path, ...]
    suffix: str
    read: Callable[[Path], object]
    share: float = 1.0


def _linked(path: Path) -> object:
    module = parse_module(path.read_text(encoding="utf-8", errors="replace"))
    return [link(module, name) for name, each in module.functions.items() if each.entry]


def _launched(path: Path) -> object:
    """The launch `divergence` with another module."""
    shutil.copy(LAUNCHES / "divergence.json", path.with_name("launch.json"))
    shutil.copy(LAUNCHES / "divergence.npz", path.with_name("divergence.npz"))
    shutil.copy(path, path.with_name("divergence.ptx"))
    return simulator.launch(path.with_name("launch.json"), budget=100_000, workers=1)


def _captured(path: Path) -> object:
    for name in ("divergence.npz", "divergence.ptx"):
        shutil.copy(LAUNCHES / name, path.with_name(name))
    return read_capture(path)


def _arrays(path: Path) -> object:
    file = ArrayFile(path, "an array")
    return [file.read(name, 1 << 20) for name in file.names]


def _listing(path: Path) -> object:
    return read_machine_code(path, "collatz_steps")


def _all(folder: str, pattern: str = "*.toml") -> tuple[Path, ...]:
    return tuple(sorted((ROOT / folder).glob(pattern)))


KINDS = {
    "module": Kind(
        tuple(LAUNCHES / f"{name}.ptx" for name in ("divergence", "barriers", "prune_compress")), "ptx", _linked
    ),
    "launch": Kind((LAUNCHES / "divergence.ptx",), "ptx", _launched, 0.4),
    "capture": Kind((LAUNCHES / "divergence.json", LAUNCHES / "f16_ragged.json"), "json", _captured),
    "arrays": Kind((LAUNCHES / "divergence.npz",), "npz", _arrays),
    "config": Kind(_all("configs"), "toml", simulator.load_config),
    "campaign": Kind(_all("campaigns"), "toml", read_campaign, 0.3),
    "sweep": Kind(_all("configs/sweeps"), "toml", read_spec),
    "design": Kind(_all("configs/designs"), "toml", load_design),
    "machine code": Kind((LAUNCHES / "divergence.sass.gz",), "sass", _listing),
}


def fuzzed(kind: Kind, count: int, seed: str, folder: Path) -> tuple[int, int]:
    """How many damaged files were read, and how many refused with one error; anything else gets out."""
    rng, done, refused = random.Random(seed), 0, 0
    sources = [
        gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes() for path in kind.examples
    ]
    path = folder / f"damaged.{kind.suffix}"
    for number in range(count):
        data = damaged(rng.choice(sources), rng)
        path.write_bytes(data)
        try:
            kind.read(path)
            done += 1
        except simulator.Error as error:
            if not str(error) or "\n" in str(error):
                raise AssertionError(f"{seed}, input {number}: {error!r}") from error
            refused += 1
        except Exception as error:
            kept = folder.parent / f"{seed.replace(' ', '_')}_{number}.{kind.suffix}"
            kept.write_bytes(data)
            raise AssertionError(f"{seed}, input {number}, kept as {kept}: {error!r}") from error
    return done, refused


@pytest.mark.parametrize("name", KINDS)
def test_a_result_or_one_error(name: str, tmp_path: Path) -> None:
    kind = KINDS[name]
    done, refused = fuzzed(kind, int(SHARE * kind.share), f"{name} 0", tmp_path)
    assert min(done, refused) > 0


@exhaustive
@pytest.mark.parametrize("seed", range(1, 1 + max(SEEDS, 1)))
def test_many(seed: int, tmp_path: Path) -> None:
    for name, kind in KINDS.items():
        fuzzed(kind, int(MANY * SHARE * kind.share), f"{name} {seed}", tmp_path)


def _ends(capture: Path, workers: int) -> str:
    """How a launch ends: with an error, or with so many instructions. (Bytes depend on the order of CTAs that write to
    one place, as those of a damaged kernel may.)"""
    try:
        return f"{simulator.launch(capture, budget=30_000, workers=workers).warp_instructions} instructions"
    except simulator.Error as error:
        return str(error)


def _other_numbers(text: str, rng: random.Random) -> str:
    """The text with two numbers of its instructions (registers, constants, labels) in other places."""
    numbers = [match.span() for match in re.finditer(r"\d+", text) if match.start() > text.index("{")]
    for start, end in sorted(rng.sample(numbers, 2), reverse=True):
        first, last = rng.choice(numbers)
        text = text[:start] + text[first:last] + text[end:]
    return text


@pytest.mark.parametrize("count", [10, pytest.param(1000 if SEEDS else 200, marks=exhaustive)])
def test_two_processes_end_as_one_does(count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors of worker processes were lost on the way: each became a TypeError."""
    monkeypatch.setattr(batches, "ROWS", 24)  # six CTAs together, so that there are portions for two processes
    for suffix in ("json", "npz", "ptx"):
        shutil.copy(LAUNCHES / f"prune_compress.{suffix}", tmp_path)
    rng, module = random.Random(f"two processes {count}"), tmp_path / "prune_compress.ptx"
    whole, kinds = module.read_text(), set()
    for number in range(count):
        module.write_text(_other_numbers(whole, rng) if number else whole)
        one, two = (_ends(tmp_path / "prune_compress.json", workers) for workers in (1, 2))
        kept = tmp_path.parent / f"two_processes_{number}.ptx"
        if one != two:
            shutil.copy(module, kept)
        assert one == two, f"input {number}, kept as {kept}"
        kinds.add(one.split(":")[-1][:40])
    assert len(kinds) > 2
