"""Kernels with detectors: the product stays what it was, and what the detector gathers is what it says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simulator
from simulator.studies.faults.cost import DETECTORS, costs
from simulator.studies.gemm.layout import layout
from simulator.studies.gemm.tile import parse_tile
from simulator.studies.gemm.trace import kernel_trace
from tests.simulator.studies.test_gemm import _operands
from tests.support.cases import exhaustive

TILE = parse_tile("64x64", "f16", stages=2)
DEPTH = 4 * TILE.bk


def _ran(name: str, folder: Path, flipped: int = 0) -> dict[str, Any]:
    """What the kernel with a detector stores, and what is in all its registers; `flipped` changes a bit of metadata."""
    arrays, _ = _operands(TILE, DEPTH, np.random.default_rng(3))
    arrays["e"] = arrays["e"].copy()
    arrays["e"].view(np.uint32).reshape(-1)[7] ^= np.uint32(flipped)
    np.savez(folder / "x.npz", **arrays)  # type: ignore[arg-type]
    where = layout(TILE, DEPTH)
    places = (("a", 0), ("b", where.b), ("e", where.e))
    loads = "\n".join(f'.load global[{at}], "x.npz", "{key}";' for key, at in places)
    text = kernel_trace(TILE, DEPTH, loads=loads, writer=DETECTORS[name])
    (folder / "x.trace").write_text(text + '.store "r", %r0, 200;\n')
    return simulator.run(folder / "x.trace", None, compare=0).arrays


@exhaustive
@pytest.mark.parametrize("name", DETECTORS)
def test_the_product_stays(tmp_path: Path, name: str) -> None:
    plain, ran = _ran("none", tmp_path), _ran(name, tmp_path)
    assert np.array_equal(plain["d"], ran["d"])
    writer = DETECTORS[name](TILE, layout(TILE, DEPTH), 0, 1)
    spare, accumulators = getattr(writer, "spare", 0), TILE.tiles_m * TILE.tiles_n * writer.words_d
    registers = ran["r"]
    results = registers[:, writer.acc : writer.acc + accumulators]
    if name == "range":
        assert np.array_equal(registers[:, spare], (results & 0x7FFFFFFF).max(axis=1))
    if name == "duplicate":
        assert np.array_equal(registers[:, spare : spare + accumulators], results)
        assert not registers[:, spare + accumulators].any()
        assert results.any()
    if name in ("legality", "ordered"):
        at = spare + writer.result  # type: ignore[attr-defined] # of a kernel that checks
        assert (registers[:, at] & 0x11111111 == 0x11111111).all(), "every code is one of the six"
    if name == "checksum":
        changed = registers[:, spare] ^ _ran(name, tmp_path, flipped=0x40)["r"][:, spare]
        assert set(changed.ravel().tolist()) == {0, 0x40}


def test_what_detectors_cost() -> None:
    """A checksum of metadata is the cheapest, a second product the dearest."""
    found = {one.name: one for one in costs(TILE, k=256)}
    assert found["none"].overhead == found["none"].energy_overhead == 0
    energy = [found[name].energy_nj or 0 for name in ("none", "checksum", "legality", "ordered", "duplicate")]
    assert energy == sorted(energy)
    assert len(set(energy)) == 5
    assert found["duplicate"].cycles == max(one.cycles for one in found.values())
