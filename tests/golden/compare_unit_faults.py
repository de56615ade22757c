"""Compare faults of the tensor core unit with what a GPU made of the operands that emulate them, bit for bit.

    python -m tests.golden.compare_unit_faults     # from the root: a table by part of the unit

Exit status 1 if a bit differs. `unit_faults.npz` holds operands, faults and results: `measurements.unit_faults` made
it, and `measurements.unit_emulation` says what emulates what. The simulator computes each fault from the operands as
they are, by disturbing the sum.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.ptx.opcodes import mma_form
from isa.types import Bits
from simulator.faults import table
from simulator.faults.targets.mma import MmaTarget
from simulator.layout import Choice

HERE = Path(__file__).resolve().parent
FILE = HERE / "unit_faults.npz"
_NAMED = {"site": table.SITES, "model": table.MODELS}


@dataclass(frozen=True)
class Recording:
    """One form with one selector: operands, faults, and what a GPU made of what emulates them.

    Attributes:
        target: the injector's subject.
        faults: rows of a list.
        clean, struck: the elements of D that are compared, without the fault and with it: those of each fault after one
            another.
        elements: how many of each fault: the struck one, or all of D.
    """

    target: MmaTarget
    faults: table.Faults
    clean: Bits
    struck: Bits
    elements: NDArray[np.int64]

    @cached_property
    def _places(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Of each compared element: its fault, and its position row * N + column."""
        size = self.target.form.m * self.target.form.n
        which = np.repeat(np.arange(len(self.faults)), self.elements)
        starts = np.cumsum(self.elements) - self.elements
        within = np.arange(len(which)) - starts[which]
        alone = self.elements[which] < size
        return which, np.where(alone, self.faults["lane"][which], within).astype(np.intp)

    def simulated(self) -> Bits:
        """The compared elements as the simulator gives them."""
        words, _ = self.target.faulty(self.faults)
        d = self.target.form.d.gather(self.target.execute(words, self.faults))
        which, position = self._places
        return np.asarray(d.reshape(len(d), -1)[which, position])

    def differing(self) -> NDArray[np.int64]:
        """Bits in which simulator and GPU differ, of each fault, and of its elements without the fault."""
        which, position = self._places
        golden = self.target.golden_matrix.reshape(self.target.cases, -1)[self.faults["case"][which], position]
        bits = np.bitwise_count(self.simulated() ^ self.struck).astype(np.int64)
        bits += np.bitwise_count(golden ^ self.clean)
        total = np.zeros(len(self.faults), np.int64)
        np.add.at(total, which, bits)
        return total

    def changed(self) -> NDArray[np.bool_]:
        """Of each fault: whether the GPU's D changed."""
        which, _ = self._places
        found = np.zeros(len(self.faults), np.bool_)
        np.logical_or.at(found, which, self.clean != self.struck)
        return found


def load(path: Path = FILE) -> tuple[list[Recording], dict[str, Any]]:
    """The recordings, and what the file says of itself."""
    with np.load(path) as data:
        arrays = {name: data[name] for name in data.files}
    about: dict[str, Any] = json.loads(str(arrays["about"]))
    place = dict.fromkeys(("a", "b", "c", "e", "fault", "element"), 0)

    def take(name: str, source: NDArray[Any], size: int) -> NDArray[Any]:
        first = place[name]
        place[name] += size
        return source[first : first + size]

    rows = table.empty(int(arrays["count"].sum()))
    rows["id"] = np.arange(len(rows))
    for column in about["columns"]:
        values = arrays[f"fault_{column}"]
        if column in _NAMED:
            values = np.array([_NAMED[column].index(name) for name in about[f"{column}s"]])[values]
        rows[column] = values
    recordings = []
    cases = len(about["cases"])
    for (opcode, selector), count in zip(about["subjects"], arrays["count"].tolist(), strict=True):
        form = mma_form(opcode, ptx="99.0")
        words = {"a": form.a.registers, "b": form.b.registers, "c": form.c.registers}
        words |= {"e": 1} if form.sparse else {}
        given = tuple(
            (name, take(name, arrays[name], cases * n * 32).reshape(cases, n, 32)) for name, n in words.items()
        )
        faults = take("fault", rows, count)
        elements = arrays["elements"][place["fault"] - count : place["fault"]]
        size = int(elements.sum())
        clean = take("element", arrays["clean"], size)
        struck = arrays["struck"][place["element"] - size : place["element"]]
        target = MmaTarget(opcode, about["target"], Choice(selector), cases, about["seed"], given=given)
        recordings.append(Recording(target, faults, clean, struck, elements))
    return recordings, about


def rows(recordings: Sequence[Recording]) -> dict[str, NDArray[np.int64]]:
    """By site: forms with selectors, faults, faults with which D changed, differing bits."""
    found: dict[str, NDArray[np.int64]] = {}
    for recording in recordings:
        bits, changed = recording.differing(), recording.changed()
        for number in np.unique(recording.faults["site"]).tolist():
            mine = recording.faults["site"] == number
            numbers = np.array([1, mine.sum(), changed[mine].sum(), bits[mine].sum()], np.int64)
            found[table.SITES[number]] = found.get(table.SITES[number], np.zeros(4, np.int64)) + numbers
    return found


def main(arguments: list[str]) -> int:
    if arguments:
        print("usage: python -m tests.golden.compare_unit_faults", file=sys.stderr)
        return 2
    recordings, about = load()
    print(f"{about['gpu']}, driver {about['driver']}, {about['date']}: faults of the unit, emulated by operands")
    print(f"  {'part':16}" + "".join(f"{name:>16}" for name in ("forms", "faults", "D changed", "differing bits")))
    found = rows(recordings)
    for site, numbers in found.items():
        print(f"  {site:16}" + "".join(f"{number:16,}" for number in numbers))
    total = np.sum(list(found.values()), axis=0)
    print(f"  {'all':16}{len(recordings):16,}" + "".join(f"{number:16,}" for number in total[1:]))
    return int(bool(total[3]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
