"""Faults in one `mma` or `mma.sp`: thousands at once through the vectorised executor, each with its outcome.

Sites are the fragments of its operands as registers [word, lane], the metadata, scale factors, and the selector, an
immediate. Operands are normal numbers (integers: every pattern alike), A pruned by magnitude, or given. Case c of a
campaign has the same operands whatever else is in it: they come from the campaign's seed and c alone.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from isa import MmaForm, compress, parse_target, prune
from isa.types import Bits
from simulator.arithmetic.random_operands import random_patterns, random_scales
from simulator.arithmetic.rows import sum_row
from simulator.execute.mma import Scales, execute_mma
from simulator.faults import outcomes
from simulator.faults.detectors import Checksums, code_checks, parity, secded
from simulator.faults.models import Edits
from simulator.faults.outcomes import Observed, Results, judge, reason
from simulator.faults.policies import multiply
from simulator.faults.table import SITES, Faults
from simulator.faults.target import SELECTOR, FaultTarget, Site, operand_site, refuse
from simulator.layout import Choice, FormLayout, Operand, Place, form_layout
from simulator.layout.queries import element_name

_DEFAULT = Choice()
BATCH = 2048  # faults that are executed together: what they need fits in cache
_FAULT_FREE = 64  # cases that tolerances of checksums come from
_SHOWN = 16  # elements of D that are listed


@dataclass(frozen=True)
class MmaTarget(FaultTarget):
    """One instruction with operands, to inject faults into.

    Attributes:
        opcode, target: of the instruction.
        choice: selector, ids of scale factors.
        cases: sets of operands.
        seed: of these.
        policy: see `simulator.faults.policies`.
        arithmetic: "chip" or "exact".
        given: registers [case, word, lane] by operand, in place of drawn ones.
    """

    opcode: str
    target: str = "sm_90a"
    choice: Choice = _DEFAULT
    cases: int = 1
    seed: int = 0
    policy: str = "hardware"
    arithmetic: str = "chip"
    given: tuple[tuple[str, Bits], ...] = ()

    @property
    def numbers(self) -> range:
        return range(self.cases)

    @cached_property
    def layout(self) -> FormLayout:
        return form_layout(self.opcode, self.choice)

    @cached_property
    def form(self) -> MmaForm:
        """IsaError or ConfigError if it is no such instruction, or one of 64-bit registers."""
        form = self.layout.form
        if not isinstance(form, MmaForm) or form.a_type.bits == 64 or form.blocks > 1:
            legal = "mma.sp or mma, but f64 and m8n8k4 of f16"
            raise refuse("subject.opcode", f"'{self.opcode}' cannot be a subject", legal)
        return form

    @cached_property
    def sites(self) -> dict[str, Site]:
        found = {}
        for name, operand in self.layout.operands.items():
            fragment = getattr(self.form, name, None) if name in "abcd" else None
            used = (1 << operand.bits) - 1
            if fragment is not None and fragment.type.is_float:
                used = (2 << fragment.type.sign_bit) - (1 << fragment.type.padding)
            found[name] = operand_site(name, operand, used)
        return found | ({"selector": SELECTOR} if self.form.sparse else {})

    @cached_property
    def golden(self) -> dict[str, Bits]:
        """Words uint32 [case, word, lane] of every site, and D as it should be."""
        drawn = [self._draw(case) for case in range(self.cases)]
        words = {name: np.stack([registers[name] for registers in drawn]) for name in drawn[0]}
        words |= {name: np.ascontiguousarray(array) for name, array in self.given}
        words["d"] = self._multiply(words, self.choice.selector, "hardware")
        return words | {"selector": np.full((self.cases, 1, 1), self.choice.selector, np.uint32)}

    def words(self, site: str, case: Any, word: Any, lane: Any) -> Bits:
        return self.golden[site][case, word, lane]

    @cached_property
    def digest(self) -> str:
        found = hashlib.sha256()
        for name in sorted(self.golden.keys() - {"selector"}):
            found.update(name.encode() + np.ascontiguousarray(self.golden[name], "<u4").tobytes())
        return found.hexdigest()[:16]

    @property
    def rule(self) -> str:
        if self.arithmetic != "chip" or not self.form.a_type.is_float:
            return "exact"
        row = sum_row(self.form, parse_target(self.target))
        return (
            f"{row.family} sm_{'/'.join(map(str, row.targets))}, {row.inputs}{', sparse' * row.sparse}: {row.evidence}"
        )

    def describe(self) -> dict[str, Any]:
        about = {name: getattr(self, name) for name in ("opcode", "target", "cases", "seed", "arithmetic")}
        choice = self.choice
        return about | {
            "selector": choice.selector, "scale_a": list(choice.scale_a), "scale_b": list(choice.scale_b),
        }  # fmt: skip

    def _draw(self, case: int) -> dict[str, Bits]:
        """Registers [word, lane] of one case."""
        form, rng = self.form, np.random.default_rng([self.seed, case])
        stored = random_patterns(rng, (form.m, form.k), form.a_type)
        registers: dict[str, Bits] = {}
        if form.sparse:
            sparsity = form.metadata.sparsity
            kept = prune(outcomes.numbers(stored, form.a_type), sparsity)
            stored, codes = compress(stored, sparsity, form.a_type, kept)
            others = rng.integers(0, 1 << 32, 32, dtype=np.uint32)
            registers["e"] = form.metadata.scatter(codes, self.choice.selector, others)[None]
        registers["a"] = form.a.scatter(stored)
        registers["b"] = form.b.scatter(random_patterns(rng, (form.k, form.n), form.b_type))
        registers["c"] = form.c.scatter(random_patterns(rng, (form.m, form.n), form.c_type))
        if form.row.scale:
            for name, ids in (("scale_a", self.choice.scale_a), ("scale_b", self.choice.scale_b)):
                scale = getattr(form, name)
                registers[name] = scale.scatter(random_scales(rng, scale.shape, scale.type.name), *ids)[None]
        return registers

    # Execution

    def _multiply(self, words: dict[str, Bits], selector: int, policy: str) -> Bits:
        """D of each case, [case, word, lane]."""
        scales = None
        if self.form.row.scale:
            factors = (words[name][:, 0] for name in ("scale_a", "scale_b"))
            scales = Scales(*factors, self.choice.scale_a, self.choice.scale_b)
        how: dict[str, Any] = {"target": self.target, "arithmetic": self.arithmetic, "scales": scales}
        operands = words["a"], words["b"], words["c"]
        if not self.form.sparse:
            return execute_mma(self.form, *operands, **how)
        return multiply(self.form, *operands, words["e"][:, 0], selector, policy, **how)

    def faulty(self, faults: Faults) -> tuple[dict[str, Bits], Edits]:
        """Words uint32 [fault, word, lane] with the faults in them (those of D too), and what they change."""
        found = self.edits(faults)
        words = {name: array[faults["case"]] for name, array in self.golden.items()}
        for number in np.unique(faults["site"]).tolist():
            index = np.flatnonzero(faults["site"] == number)
            mine, array = found.rows(index), words[SITES[number]]
            array[index, mine.word, mine.lane] ^= mine.invert
            array[index, mine.word2, mine.lane2] ^= mine.invert2
        return words, found

    def execute(self, words: dict[str, Bits], faults: Faults) -> Bits:
        """D of every fault under the policy, [fault, word, lane], faults in D itself included; where the selector is
        out of range: as it should be."""
        if not self.form.sparse:
            d = self._multiply(words, 0, self.policy)
        else:
            d, selectors = words["d"].copy(), words["selector"][:, 0, 0]
            for value in np.unique(selectors).tolist():
                if value < self.form.metadata.selectors:
                    mine = np.flatnonzero(selectors == value)
                    d[mine] = self._multiply({name: array[mine] for name, array in words.items()}, value, self.policy)
        in_d = np.flatnonzero(faults["site"] == SITES.index("d"))
        d[in_d] = words["d"][in_d]
        return d

    def run(self, faults: Faults) -> Results:
        self.check(faults)
        results = outcomes.empty(faults["id"])
        for first in range(0, len(faults), BATCH):
            part = faults[first : first + BATCH]
            words, found = self.faulty(part)
            matrix = self.form.d.gather(self.execute(words, part))
            stopped = np.zeros(len(part), np.uint8)
            if self.form.sparse:
                beyond = words["selector"][:, 0, 0] >= self.form.metadata.selectors
                stopped[beyond] = reason("illegal-instruction")
            observed = Observed(matrix, self._seen(part, words, found, matrix), stopped)
            golden = self._golden_matrix[part["case"]]
            judge(results[first : first + BATCH], found, observed, golden, self.form.d.type, self.policy)
        return results

    def _seen(self, faults: Faults, words: dict[str, Bits], found: Edits, matrix: Bits) -> dict[str, Any]:
        """What each detector says, [fault]."""
        seen = {"abft": self.checksums.sees(outcomes.numbers(matrix, self.form.d.type), faults["case"])}
        if not self.form.sparse:
            return seen
        metadata, selectors = self.form.metadata, words["selector"][:, 0, 0]
        codes = np.empty((len(faults), *metadata.shape), np.uint32)
        for value in np.unique(selectors).tolist():
            mine = np.flatnonzero(selectors == value)
            codes[mine] = metadata.gather(words["e"][mine, 0], min(value, metadata.selectors - 1))
        illegal, unordered = code_checks(codes, metadata.legal(codes), metadata.sparsity)
        stored = np.where(faults["site"][:, None] == SITES.index("e"), found.stored, np.uint32(0))
        illegal |= selectors >= metadata.selectors
        return seen | {"legality": illegal, "ordered": unordered, "parity": parity(stored), "secded": secded(stored)}

    @cached_property
    def _golden_matrix(self) -> Bits:
        return self.form.d.gather(self.golden["d"])

    @cached_property
    def checksums(self) -> Checksums:
        """Of the cases, with tolerances from at least 64 fault-free ones."""
        exact = replace(self, policy="hardware", arithmetic="exact")
        d, e = (outcomes.numbers(one._golden_matrix, self.form.d.type) for one in (self, exact))
        own = Checksums(d, e)
        if self.cases < _FAULT_FREE:
            own.widen(replace(self, cases=_FAULT_FREE, policy="hardware", given=()).checksums)
        return own

    # One fault in words

    def explain(self, fault: Any) -> dict[str, Any]:
        """Keys: outcome (the row of results), changes (place, before, after, bits, holds: what is there), d (elements
        that differ, up to 16)."""
        one = np.array([fault])
        results, (words, found) = self.run(one), self.faulty(one)
        site, case = SITES[int(fault["site"])], int(fault["case"])
        values = dict(zip((name for name, _ in outcomes.FIELDS), outcomes.texts(results)[0].split(","), strict=True))
        texts = ("outcome", "reason", "detectors")
        about: dict[str, Any] = {
            name: float(value) if "." in value and name not in texts else value
            for name, value in values.items()
            if name != "id"
        }
        shown: dict[str, Any] = {"outcome": about}
        if site == "selector":
            before, after = self.choice.selector, int(words["selector"][0, 0, 0])
            shown["changes"] = [{"place": "selector", "before": before, "after": after, "holds": []}]
        else:
            places = [change for change in found.rows(0).changes() if change[2] != change[3]]
            shown["changes"] = [self._change(self.layout.operands[site], *place) for place in sorted(places)]
        if about["outcome"] in ("masked", "sdc"):
            after = self.form.d.gather(self.execute(words, one))[0]
            shown["d"] = self._differences(self._golden_matrix[case], after)
        return shown

    def _change(self, operand: Operand, word: int, lane: int, before: int, after: int) -> dict[str, Any]:
        """A word that is not what it should be."""
        bits = [bit for bit in range(32) if (before ^ after) >> bit & 1]
        elements = sorted({element for bit in bits for element in operand.elements(lane, word, bit, bit)})
        holds = [self._about(operand, element, before, after) for element in elements]
        place = f"T{lane} {operand.word_name(word)}"
        return {"place": place, "before": f"{before:#010x}", "after": f"{after:#010x}", "bits": bits, "holds": holds}

    def _about(self, operand: Operand, element: tuple[int, ...], before: int, after: int) -> str:
        """An element and what the fault makes of it."""
        place = next(iter(operand.places(*element)))
        old, new = (word >> place.low & (1 << operand.bits) - 1 for word in (before, after))
        row, column = element[:2]
        if operand.name == "e":
            metadata = self.form.metadata
            first, size = column * metadata.sparsity.chunk, metadata.sparsity.chunk
            span = f"A[{row}][{first}] to A[{row}][{first + size - 1}]"
            legal = "" if new in metadata.codes else ", not defined"
            return f"code of row {row}, chunk {column} ({span}): {old:04b} -> {new:04b}{legal}"
        kind = getattr(getattr(self.form, operand.name, None), "type", None)
        values = f"{old:#x} -> {new:#x}" if kind is None else f"{_value(old, kind)} -> {_value(new, kind)}"
        return f"{element_name(operand)}[{row}][{column}]: {values}"

    def _differences(self, before: Bits, after: Bits) -> list[dict[str, Any]]:
        operand, element, rows = self.layout.operands["d"], self.form.d.type, []
        for row, column in np.argwhere(before != after).tolist()[:_SHOWN]:
            (place,) = operand.places(row, column)
            old, new = int(before[row, column]), int(after[row, column])
            values = {"before": _value(old, element), "after": _value(new, element)}
            bits = {"bits_before": f"{old:#x}", "bits_after": f"{new:#x}"}
            rows.append({"element": f"D[{row}][{column}]", "place": operand.name_of(Place(*place)), **values, **bits})
        return rows


def _value(pattern: int, element: Any) -> str:
    (value,) = outcomes.numbers(np.array([pattern], np.uint32), element)
    return f"{value:g}" if element.is_float else str(int(value))
