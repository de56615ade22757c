"""Compare faults in the metadata of `mma.sp` that ran on an H100 with the simulator's, bit for bit.

    python -m tests.golden.compare_faults          # from the root: a table by form
    python -m tests.golden.compare_faults --every  # also every single flipped bit and every code in every chunk, by
    digests

Exit status 1 if a bit differs. `faults_h100.npz` and `faults_h100.json` hold operands, faults and results;
measurements/faults.py made them and says how. Here is how the two files are read and written.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.forms.mma import MmaForm, mma_forms
from isa.targets import parse_target
from isa.types import Bits
from simulator.faults import Group, table
from simulator.faults import population as population_of
from simulator.faults.targets.mma import BATCH, MmaTarget
from simulator.layout import Choice

HERE = Path(__file__).resolve().parent
TARGET = "sm_90a"
OPERANDS = ("a", "b", "c", "e")
COLUMNS = (
    "id",
    "group",
    "case",
    "model",
    "site",
    "word",
    "lane",
    "mask",
    "value",
    "word2",
    "lane2",
    "mask2",
)  # what differs between rows of the list
_NAMED = {"model": table.MODELS, "site": table.SITES}


def sparse_forms() -> list[MmaForm]:
    """Every sparse form of the target, forms of the same operands side by side."""
    forms = [form for form in mma_forms().values() if form.sparse and form.supports(parse_target(TARGET))]
    return sorted(forms, key=lambda f: (operand_key(f), f.saturate, f.ordered))


def operand_key(form: MmaForm) -> str:
    """What forms of the same operands share: shape and types."""
    return f"m{form.m}n{form.n}k{form.k}.{form.d_type}.{form.a_type}.{form.b_type}.{form.c_type}"


@dataclass(frozen=True)
class Recording:
    """One form with one selector: what it runs on, faults, and what an H100 made of them.

    Attributes:
        opcode, selector: of the instruction.
        operands: registers uint32 [case, word, lane] of A, B, C and metadata, without faults.
        faults: rows as in `simulator.faults.table`.
        clean: D of each case without a fault, [case, word, lane]; None before it was measured.
        outputs: D of each fault, [fault, word, lane].
    """

    opcode: str
    selector: int
    operands: dict[str, Bits]
    faults: table.Faults
    clean: Bits | None = field(default=None, repr=False)
    outputs: Bits | None = field(default=None, repr=False)

    @cached_property
    def instruction(self) -> MmaTarget:
        """The injector's subject."""
        return self.under("hardware")

    def under(self, policy: str) -> MmaTarget:
        """The subject under a policy of `simulator.faults.targets.policies`."""
        return MmaTarget(
            self.opcode,
            TARGET,
            Choice(self.selector),
            len(self.operands["a"]),
            given=tuple(self.operands.items()),
            policy=policy,
        )

    @property
    def form(self) -> MmaForm:
        return mma_forms()[self.opcode]

    @property
    def selectors(self) -> Bits:
        """The selector that each fault leaves."""
        return selectors(self.faults, self.selector)

    def simulate(self) -> Bits:
        """D of each fault as the simulator gives it."""
        return simulate(self.instruction, self.faults)

    def differing_bits(self) -> int:
        """Bits in which simulator and H100 differ, of all faults and of the cases without one."""
        assert self.clean is not None
        assert self.outputs is not None
        clean = np.bitwise_count(self.instruction.golden["d"] ^ self.clean).sum()
        return int(clean + np.bitwise_count(self.simulate() ^ self.outputs).sum())

    def undefined(self) -> NDArray[np.bool_]:
        """Of each fault: whether it leaves a code that PTX does not define for the form among those that the
        instruction reads."""
        registers, _ = self.instruction.faulty(self.faults)
        found = np.zeros(len(self.faults), np.bool_)
        for selector in np.unique(self.selectors).tolist():
            mine = self.selectors == selector
            codes = self.form.metadata.gather(registers["e"][mine, 0], selector)
            found[mine] = ~self.form.metadata.legal(codes).all(axis=(1, 2))
        return found

    def read(self) -> NDArray[np.bool_]:
        """Of each fault: whether it changes a bit that the instruction reads."""
        return np.asarray(self.instruction.faulty(self.faults)[1].read)


def selectors(faults: table.Faults, selector: int) -> Bits:
    """The selector that each fault leaves of this one."""
    return np.where(faults["site"] == table.SITES.index("selector"), faults["value"], selector).astype(np.uint32)


def simulate(instruction: MmaTarget, faults: table.Faults) -> Bits:
    """D of each fault, by the injector's own path."""
    parts = []
    for first in range(0, len(faults), BATCH):
        rows = faults[first : first + BATCH]
        registers, _ = instruction.faulty(rows)
        parts.append(instruction.execute(registers, rows))
    return np.concatenate(parts)


# Every fault of a kind, of which only digests are recorded

EVERY = (Group("every bit", "e", "flip", where="all"), Group("every code", "e", "code", codes="all"))


def every(instruction: MmaTarget, group: Group) -> table.Faults:
    """All faults of a group in order of lane, mask and value, the cases in turn."""
    population = population_of(group, instruction.sites["e"], instruction.layout, 1)
    faults = population.make(np.arange(population.size))
    faults = faults[np.lexsort((faults["value"], faults["mask"], faults["lane"]))]
    faults["id"] = np.arange(len(faults))
    faults["case"] = faults["id"] % instruction.cases
    return faults


def digest(array: Bits) -> str:
    return hashlib.sha256(np.ascontiguousarray(array, "<u4").tobytes()).hexdigest()[:16]


# Files

Arrays = dict[str, NDArray[Any]]


def packed(recordings: Sequence[Recording]) -> Arrays:
    """All recordings as flat arrays, one after the other.

    `a`, `b`, `c`, `e`, `clean`: words. `count`: faults of each recording, `fault_COLUMN`: their columns. Results:
    `differs` says, a bit a word, which words of D differ from the case without a fault, `change` by what (exclusive
    or).
    """
    arrays: Arrays = {name: np.concatenate([r.operands[name].ravel() for r in recordings]) for name in OPERANDS}
    arrays["count"] = np.array([len(r.faults) for r in recordings], np.uint32)
    rows = np.concatenate([r.faults for r in recordings])
    arrays |= {f"fault_{name}": rows[name] for name in COLUMNS}
    if all(r.clean is not None and r.outputs is not None for r in recordings):
        arrays["clean"] = np.concatenate([r.clean.ravel() for r in recordings])  # type: ignore[union-attr]
        change = np.concatenate([(r.outputs ^ r.clean[r.faults["case"]]).ravel() for r in recordings])  # type: ignore[index]
        arrays["differs"] = np.packbits(change != 0)
        arrays["change"] = change[change != 0]
    return arrays


def about(recordings: Sequence[Recording], cases: Sequence[str], groups: Sequence[str], seed: int) -> dict[str, Any]:
    """What the JSON beside the arrays says."""
    return {
        "target": TARGET,
        "cases": list(cases),
        "groups": list(groups),
        "seed": seed,
        "models": list(table.MODELS),
        "sites": list(table.SITES),
        "recordings": [[r.opcode, r.selector] for r in recordings],
    }


def unpacked(arrays: Arrays, facts: dict[str, Any]) -> list[Recording]:
    """The inverse of `packed`."""
    found, place = [], dict.fromkeys(("clean", "differs", "fault", *OPERANDS), 0)
    change = np.zeros(0, np.uint32)
    if "differs" in arrays:
        differs = np.unpackbits(arrays["differs"]).astype(np.bool_)
        change = np.zeros(len(differs), np.uint32)
        change[differs] = arrays["change"]
    cases = len(facts["cases"])

    def take(name: str, source: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
        size = int(np.prod(shape))
        first = place[name]
        place[name] = first + size
        return source[first : first + size].reshape(shape)

    for (opcode, selector), count in zip(facts["recordings"], arrays["count"].tolist(), strict=True):
        form = mma_forms()[opcode]
        words = {"a": form.a.registers, "b": form.b.registers, "c": form.c.registers, "e": 1}
        operands = {name: take(name, arrays[name], (cases, words[name], 32)) for name in OPERANDS}
        first = place["fault"]
        place["fault"] = first + count
        faults = table.empty(count)
        for name in COLUMNS:
            column = arrays[f"fault_{name}"][first : first + count]
            if name in _NAMED:
                column = np.array([_NAMED[name].index(text) for text in facts[f"{name}s"]])[column]
            faults[name] = column
        faults["seed"] = table.seeds(facts["seed"], faults["id"])
        clean = outputs = None
        if "differs" in arrays:
            clean = take("clean", arrays["clean"], (cases, form.d.registers, 32))
            outputs = take("differs", change, (count, form.d.registers, 32)) ^ clean[faults["case"]]
        found.append(Recording(opcode, selector, operands, faults, clean, outputs))
    return found


def save(path: Path, arrays: Arrays, facts: dict[str, Any]) -> None:
    """`path` without a suffix: .npz and .json."""
    temporary = path.with_suffix(".part.npz")
    np.savez_compressed(temporary, **arrays)  # type: ignore[arg-type]
    temporary.replace(path.with_suffix(".npz"))
    lines = [f"{json.dumps(name)}: {_block(value)}" for name, value in facts.items()]
    path.with_suffix(".json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


def _block(value: Any) -> str:
    """JSON, long lists and tables with one entry a line."""
    text = json.dumps(value)
    if len(text) <= 140 or not isinstance(value, (list, dict)):
        return text
    entries = (
        [json.dumps(x) for x in value]
        if isinstance(value, list)
        else [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in value.items()]
    )
    left, right = "[]" if isinstance(value, list) else "{}"
    return f"{left}\n " + ",\n ".join(entries) + f"\n{right}"


def load(path: Path = HERE / "faults_h100") -> tuple[list[Recording], dict[str, Any]]:
    """The recordings, and the JSON."""
    facts: dict[str, Any] = json.loads(path.with_suffix(".json").read_text())
    with np.load(path.with_suffix(".npz")) as data:
        return unpacked({name: data[name] for name in data.files}, facts), facts


# The table


@dataclass
class Row:
    """One form, all selectors."""

    opcode: str
    faults: int = 0
    undefined: int = 0
    unread: int = 0
    changed: int = 0
    bits: int = 0
    every: int = 0
    every_wrong: int = 0

    def numbers(self) -> list[int]:
        return [self.faults, self.undefined, self.unread, self.changed, self.bits, self.every, self.every_wrong]


def rows(recordings: Sequence[Recording], facts: dict[str, Any], exhaustive: bool) -> Iterator[Row]:
    """One row for each form."""
    for opcode in dict.fromkeys(r.opcode for r in recordings):
        row = Row(opcode)
        for recording in (r for r in recordings if r.opcode == opcode):
            assert recording.outputs is not None
            assert recording.clean is not None
            row.faults += len(recording.faults)
            row.undefined += int(recording.undefined().sum())
            row.unread += int((~recording.read()).sum())
            row.changed += int((recording.outputs != recording.clean[recording.faults["case"]]).any(axis=(1, 2)).sum())
            row.bits += recording.differing_bits()
            if exhaustive:
                for group, (count, measured) in zip(
                    EVERY, facts["digests"][f"{opcode}|{recording.selector}"], strict=True
                ):
                    faults = every(recording.instruction, group)
                    row.every += len(faults)
                    row.every_wrong += int(
                        len(faults) != count or digest(simulate(recording.instruction, faults)) != measured
                    )
        yield row


HEAD = ("faults", "undefined", "unread", "D changed", "differing bits", "by digest", "digests that differ")


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--every"]):
        print("usage: python -m tests.golden.compare_faults [--every]", file=sys.stderr)
        return 2
    recordings, facts = load()
    exhaustive = bool(arguments)
    shown = slice(None) if exhaustive else slice(5)
    print(f"{facts['gpu']}, driver {facts['driver']}, {facts['date']}: faults in the metadata")
    print("  " + f"{'form':80}" + "".join(f" {name:>14}" for name in HEAD[shown]))
    total = np.zeros(len(HEAD), np.int64)
    forms = 0
    for row in rows(recordings, facts, exhaustive):
        print("  " + f"{row.opcode:80}" + "".join(f" {number:14,}" for number in row.numbers()[shown]))
        total += row.numbers()
        forms += 1
    print("  " + f"{f'all {forms} forms':80}" + "".join(f" {number:14,}" for number in total[shown]))
    return int(bool(total[4] or total[6]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
