"""Checksums of metadata that traces, launches and instructions read: what is seen follows from where a fault strikes,
and from the words there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulator.applications.digits_plan import PLANS
from simulator.applications.digits_tcgen05 import META_BYTES, TMEM_PLANS
from simulator.faults.campaign import read_campaign
from simulator.faults.detectors.afterwards import look
from simulator.faults.detectors.asked import read_asked
from simulator.faults.outcomes import flag
from simulator.faults.targets.mma import MmaTarget
from tests.support.paths import GOLDEN, ROOT

Tcsim = Callable[..., tuple[int, str, str]]
F16 = "mma.sp::ordered_metadata.m16n8k32.f32.f16.f16.f32"


def _faults(subject: Any, **group: Any) -> tuple[Any, Any]:
    campaign = read_campaign(subject, group)
    return campaign.subject, np.concatenate(list(campaign.faults()))


def _seen(target: Any, faults: Any, detect: str) -> Any:
    asked = read_asked([detect])
    with asked.detecting():
        results = target.run(faults)
        look(target, faults, results, asked)
    return results["detectors"] & flag("checksum") != 0


def _sum_changes(bits: int, mask: Any, values: Any) -> Any:
    """Whether a flip of one bit in each of some words [fault, word] changes their sum of so many bits, 0 for the
    exclusive or; in whole numbers."""
    found = []
    for bit, words in zip(mask.tolist(), values.tolist(), strict=True):
        total, turned = sum(words), sum(word ^ bit for word in words)
        odd = len(words) % 2 == 1
        found.append(odd if not bits else (turned - total) % 2**bits != 0)
    return np.array(found)


@pytest.mark.parametrize(("detect", "bits"), [("checksum", 0), ("checksum=32", 32), ("checksum=4", 4)])
def test_bits_of_several_lanes(detect: str, bits: int) -> None:
    """The same bit in two lanes of a register, as an instruction holds it, and as a trace has loaded it."""
    target, faults = _faults(F16, site="e", along="lanes", span=2, count=150)
    assert isinstance(target, MmaTarget)
    lanes = faults["lane"][:, None].astype(int) + np.arange(2)
    words = target.golden["e"][faults["case"][:, None], 0, lanes]
    wanted = _sum_changes(bits, faults["mask"], words)
    assert wanted.any() == bool(bits)
    assert (_seen(target, faults, detect) == wanted).all()

    where = "op=mma.sp role=e lanes=0..30"
    target, faults = _faults("digits/f16", site="registers", where=where, along="lanes", span=2, count=10)
    with np.load(ROOT / "traces" / "digits" / "f16.npz") as data:
        lanes = faults["lane"][:, None].astype(int) + np.arange(2)
        words = data["e"][faults["case"][:, None], lanes, faults["word"][:, None].astype(int) - 12]
    assert (_seen(target, faults, detect) == _sum_changes(bits, faults["mask"], words)).all()


@pytest.mark.parametrize("name", ["f16", "f16_tcgen05"])
def test_words_of_shared_memory_that_traces_load_as_metadata(name: str) -> None:
    """A flip in shared memory before the run is seen where the metadata lie, and nowhere else."""
    target, faults = _faults(f"digits/{name}", site="shared", kind="flip", count=12)
    if name in PLANS:
        first, size = PLANS[name].e_at, 8 * 32 * 4 * PLANS[name].e_registers
    else:
        first, size = TMEM_PLANS[name].meta_at, META_BYTES
    faults["word"][::2] = first // 4 + np.linspace(0, size // 4 - 1, len(faults[::2])).astype(int)
    inside = (4 * faults["word"].astype(int) >= first) & (4 * faults["word"].astype(int) < first + size)
    assert inside.any()
    assert not inside.all()
    seen = _seen(target, faults, "checksum=32")
    assert (seen == inside).all()
    if name in PLANS:
        assert (_seen(replace(target, together=False), faults[:3], "checksum=32") == seen[:3]).all()


def test_registers_of_a_trace() -> None:
    """Flips of metadata registers are seen, together and one by one; those of A are not, nor is another selector."""
    for where, sees in (("op=mma.sp role=e", True), ("op=mma.sp role=a", False)):
        target, faults = _faults("digits/f16", site="registers", kind="flip", where=where, count=20)
        assert (_seen(target, faults, "checksum") == sees).all()
        assert (_seen(replace(target, together=False), faults[:3], "checksum") == sees).all()
    target, faults = _faults("digits/f16", site="selector", kind="selector", at="any", count=5)
    assert not _seen(target, faults, "checksum").any()


def test_buffers_of_a_launch() -> None:
    """A kernel that reads each word of its metadata buffer: faults there are seen, no others."""
    target, faults = _faults(GOLDEN / "planted" / "bug0.json", site="global", kind="flip", count=150)
    first, words = target.buffers["E"]
    faults["word"][::3] = first + np.linspace(0, words - 1, len(faults[::3])).astype(int)
    inside = np.array([target.buffer_of(word)[0] == "E" for word in faults["word"].tolist()])
    seen = _seen(target, faults, "checksum=32")
    assert (seen == inside).all()
    assert (_seen(replace(target, together=False), faults[:5], "checksum") == inside[:5]).all()
    target, faults = _faults(GOLDEN / "planted" / "bug0.json", where="op=mma.sp role=e", count=30)
    seen = _seen(target, faults, "checksum")
    assert seen.all()
    assert (_seen(replace(target, together=False), faults[:3], "checksum") == seen[:3]).all()


def test_sums_of_no_number_of_bits(tcsim: Tcsim, tmp_path: Path) -> None:
    listed, results = tmp_path / "l.csv", tmp_path / "r.csv"
    assert (
        tcsim("faults", "list", "digits/s8", "--where", "op=mma.sp role=e", "--faults", "9", "--output", listed)[0] == 0
    )
    code, _, said = tcsim("faults", "run", listed, "--output", results, "--detect", "checksum=33")
    assert (code, said.count("\n")) == (2, 1)
    assert "checksum=K with K from 1 to 32" in said
    assert tcsim("faults", "run", listed, "--output", results, "--detect", "checksum=8,parity")[0] == 0
    assert "# detect: checksum=8,parity\n" in results.read_text()
