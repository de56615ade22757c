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

from isa import MmaForm, parse_target
from isa.forms.mma import is_mma
from isa.types import Bits
from simulator.arithmetic.check_bits import parity, secded
from simulator.arithmetic.random_operands import random_patterns, random_scales, random_sparse
from simulator.arithmetic.rows import sum_row
from simulator.execute.mma import Scales, execute_mma
from simulator.faults import outcomes
from simulator.faults.detectors import Checksums, code_checks
from simulator.faults.models import Edits
from simulator.faults.outcomes import Observed, Results, judge, reason
from simulator.faults.policies import multiply
from simulator.faults.table import SITES, Faults
from simulator.faults.target import SELECTOR, FaultTarget, Site, operand_site, refuse
from simulator.layout import Choice, FormLayout, form_layout

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
        if not is_mma(form) or form.a_type.bits == 64 or form.blocks > 1:
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
        return np.asarray(self.golden[site][case, word, lane])

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
        registers: dict[str, Bits] = {}
        if form.sparse:
            stored, codes = random_sparse(rng, (form.m, form.k), form.a_type, form.metadata.sparsity)
            others = rng.integers(0, 1 << 32, 32, dtype=np.uint32)
            registers["e"] = form.metadata.scatter(codes, self.choice.selector, others)[None]
        else:
            stored = random_patterns(rng, (form.m, form.k), form.a_type)
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
            a, b = (words[name][:, 0] for name in ("scale_a", "scale_b"))
            scales = Scales(a, b, self.choice.scale_a, self.choice.scale_b)
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
            golden = self.golden_matrix[part["case"]]
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
    def golden_matrix(self) -> Bits:
        return self.form.d.gather(self.golden["d"])

    @cached_property
    def checksums(self) -> Checksums:
        """Of the cases, with tolerances from at least 64 fault-free ones."""
        exact = replace(self, policy="hardware", arithmetic="exact")
        d, e = (outcomes.numbers(one.golden_matrix, self.form.d.type) for one in (self, exact))
        own = Checksums(d, e)
        if self.cases < _FAULT_FREE:
            own.widen(replace(self, cases=_FAULT_FREE, policy="hardware", given=()).checksums)
        return own
