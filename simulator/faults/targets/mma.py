"""A fault target that is one `mma` or `mma.sp` instruction: it runs thousands of faults at once through the vectorised
executor and gives each its outcome.

The sites are the fragments of its operands as registers [word, lane], the metadata, the scale factors, and the
selector, which is an immediate. The operands are normal numbers (integers: every pattern alike) with A pruned by
magnitude, or they are given. Case c of a campaign has the same operands whatever else is in it, since they come from
the campaign's seed and c alone.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa import MmaForm, parse_target
from isa.forms.mma import is_mma
from isa.types import Bits, ElementType
from simulator.arithmetic import Operands, Sum
from simulator.arithmetic.check_bits import parity
from simulator.arithmetic.disturbance import disturbed
from simulator.arithmetic.random_operands import random_patterns, random_scales, random_sparse
from simulator.arithmetic.rows import sum_row
from simulator.execute.mma import Scales, execute_mma, matrices, sum_of
from simulator.faults import outcomes
from simulator.faults.detectors.checksums import (
    CALIBRATION,
    FRESH,
    Checksums,
    FalseAlarms,
    Predicted,
    predicted,
    real_operands,
)
from simulator.faults.detectors.codes import code_checks
from simulator.faults.detectors.corrected import by_checksums, by_words
from simulator.faults.group import WRITES
from simulator.faults.models import Edits, bits_of
from simulator.faults.outcomes import Observed, Results, judge, reason
from simulator.faults.spread import Site
from simulator.faults.table import SITES, Faults
from simulator.faults.targets.policies import multiply
from simulator.faults.targets.target import MOST_CASES, OTHERS, SELECTOR, FaultTarget, operand_site, refuse
from simulator.faults.unit.forms import form_sites
from simulator.faults.unit.instruction import put
from simulator.faults.unit.rows import disturbance, of_unit
from simulator.faults.unit.sites import UNIT_SITES
from simulator.floating_point import guarded
from simulator.layout import Choice, FormLayout, form_layout

_DEFAULT = Choice()
BATCH = 2048  # faults that are executed together: what they need fits in cache
STORED = {"selector_input": "selector"}  # sites whose words are those of another


@dataclass(frozen=True)
class MmaTarget(FaultTarget):
    """One instruction with its operands, to inject faults into.

    Attributes:
        opcode, target: the instruction, and the chip that executes it.
        choice: the selector, and the ids of scale factors.
        cases: how many sets of operands there are.
        seed: the seed from which they are drawn.
        policy: what is done about undefined codes, see `simulator.faults.targets.policies`.
        arithmetic: "chip" or "exact".
        given: registers [case, word, lane] by operand, in place of drawn ones.
        others: what metadata that other selectors read hold: "valid" codes, as in every kernel, whose registers of
            metadata serve several steps of K one after another; or "random" words, as in lists that do not say which.
        first: the number of the first set of operands that is drawn.

    Raises:
        ConfigError: a policy, an arithmetic or `others` that is none.
    """

    opcode: str
    target: str = "sm_90a"
    choice: Choice = _DEFAULT
    cases: int = 1
    seed: int = 0
    policy: str = "hardware"
    arithmetic: str = "chip"
    given: tuple[tuple[str, Bits], ...] = ()
    others: str = "valid"
    first: int = 0
    batch = 2 * BATCH

    def __post_init__(self) -> None:
        self.check_choices(others=OTHERS)

    @property
    def numbers(self) -> range:
        """The numbers of the cases."""
        return range(self.cases)

    @cached_property
    def layout(self) -> FormLayout:
        """The layout of the instruction, for the choice of selector and ids."""
        return form_layout(self.opcode, self.choice)

    @cached_property
    def form(self) -> MmaForm:
        """The instruction's form. IsaError or ConfigError if it is no `mma` of this kind, or one of 64-bit
        registers."""
        form = self.layout.form
        if not is_mma(form) or form.a_type.bits == 64 or form.blocks > 1:
            legal = "mma.sp or mma, but f64 and m8n8k4 of f16"
            raise refuse("subject.opcode", f"'{self.opcode}' cannot be a subject", legal)
        return form

    @cached_property
    def sites(self) -> dict[str, Site]:
        """The operands, and for a sparse instruction the selector."""
        sites = {}
        for name, operand in self.layout.operands.items():
            kind = getattr(getattr(self.form, name, None), "type", None)
            used = (1 << operand.bits) - 1 if kind is None or not kind.is_float else kind.read
            site = operand_site(name, operand, used, kind)
            sites[name] = replace(site, models=(*site.models, *WRITES * (name == "d")))
        sites |= {"selector": SELECTOR} if self.form.sparse else {}
        return sites | form_sites(self.form, parse_target(self.target), self.arithmetic)

    @cached_property
    def golden(self) -> dict[str, Bits]:
        """What every site holds without faults, uint32 words [case, word, lane], D included."""
        drawn = [self._draw(self.first + case) for case in range(self.cases)]
        words = {name: np.stack([registers[name] for registers in drawn]) for name in drawn[0]}
        words |= {name: np.ascontiguousarray(array) for name, array in self.given}
        words["d"] = self._multiply(words, self.choice.selector, "hardware")
        return words | {"selector": np.full((self.cases, 1, 1), self.choice.selector, np.uint32)}

    def former(self, site: str) -> str:
        """D is added to C in the same registers (as kernels have it), where both have one type."""
        return "c" * (site == "d" and self.form.c_type == self.form.d_type)

    def words(self, site: str, case: Any, word: Any, lane: Any) -> Bits:
        """The words of a site without faults, at arrays of places."""
        if site in UNIT_SITES and site != "selector_input":  # words that nothing stores
            return np.zeros(len(word), np.uint32)
        return np.asarray(self.golden[STORED.get(site, site)][case, word, lane])

    @cached_property
    def digest(self) -> str:
        """A short SHA-256 of the operands and of D without faults."""
        hasher = hashlib.sha256()
        for name in sorted(self.golden.keys() - {"selector"}):
            hasher.update(name.encode() + np.ascontiguousarray(self.golden[name], "<u4").tobytes())
        return hasher.hexdigest()[:16]

    @property
    def rule(self) -> str:
        """The rule by which the chip adds, and its evidence; "exact" where nothing is rounded by the chip's rule."""
        if self.arithmetic != "chip" or not self.form.a_type.is_float:
            return "exact"
        row = sum_row(self.form, parse_target(self.target))
        return (
            f"{row.family} sm_{'/'.join(map(str, row.targets))}, {row.inputs}{', sparse' * row.sparse}: {row.evidence}"
        )

    def describe(self) -> dict[str, Any]:
        """The plain values from which the same target can be made, without the policy."""
        about = {name: getattr(self, name) for name in ("opcode", "target", "cases", "seed", "arithmetic")}
        choice = self.choice
        return about | {
            "selector": choice.selector, "scale_a": list(choice.scale_a), "scale_b": list(choice.scale_b),
            "others": self.others,
        }  # fmt: skip

    def _draw(self, case: int) -> dict[str, Bits]:
        """The registers [word, lane] of one case, by operand."""
        form, rng = self.form, np.random.default_rng([self.seed, case])
        registers: dict[str, Bits] = {}
        if form.sparse:
            stored, codes = random_sparse(rng, (form.m, form.k), form.a_type, form.metadata.sparsity)
            others = rng.integers(0, 1 << 32, 32, dtype=np.uint32)
            if self.others == "valid":
                others = self._defined(case, others)
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

    def _defined(self, case: int, words: Bits) -> Bits:
        """Metadata words uint32 [lane] whose codes are defined, and ascend as a compressor writes them, with every
        selector; drawn for one case."""
        rng, metadata = np.random.default_rng([self.seed, case, 1]), self.form.metadata
        codes = np.array(metadata.sparsity.ordered, np.uint32)
        for selector in range(metadata.selectors):
            words = metadata.scatter(rng.choice(codes, metadata.shape), selector, words)
        return words

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

    @guarded
    def faulty(self, faults: Faults) -> tuple[dict[str, Bits], Edits]:
        """The words uint32 [fault, word, lane] of every site with the faults in them (those of D too), and what the
        faults change."""
        changes = self.edits(faults)
        words = {name: array[faults["case"]] for name, array in self.golden.items()}
        for number in np.unique(faults["site"]).tolist():
            index, name = np.flatnonzero(faults["site"] == number), SITES[number]
            if name in UNIT_SITES:  # bits that do not exist stay as they are
                mine = faults["site"][changes.fault] == number
                changes.invert[mine] &= changes.live[mine]
            if name in words or name in STORED:
                edits, array = changes.rows(index), words[STORED.get(name, name)]
                array[index[edits.fault], edits.word, edits.lane] ^= edits.invert
        index = np.flatnonzero(of_unit(faults))
        if len(index):
            changed = np.zeros(len(faults), np.bool_)
            words["d"][index], changed[index] = self._on_struck_unit(faults[index])
            mine = of_unit(faults[changes.fault])
            bits = np.where(changed[changes.fault], bits_of(faults[changes.fault]), np.uint32(0))
            changes.invert[mine] = bits[mine]
        return words, changes

    def _on_struck_unit(self, faults: Faults) -> tuple[Bits, NDArray[np.bool_]]:
        """D of each fault of the unit, [fault, word, lane], and whether a word of the unit held other bits."""
        how = self.sum
        what = disturbance(faults, how, faults["case"].astype(np.intp))
        patterns, changed = disturbed(how, self.matrices, what)
        d = self.golden["d"][faults["case"]]
        put(self.form, d, replace(what, case=np.arange(len(faults))), patterns)
        return d, changed

    @guarded
    def execute(self, words: dict[str, Bits], faults: Faults) -> Bits:
        """D of every fault under the policy, [fault, word, lane], with the faults in D itself. Where the selector is
        out of range, D is the one without faults."""
        d, selectors = words["d"].copy(), words["selector"][:, 0, 0]
        others = (faults["site"] != SITES.index("d")) & ~of_unit(faults)  # of these, D is there already
        for value in np.unique(selectors[others]).tolist():
            if value < max(self.form.metadata.selectors if self.form.sparse else 1, 1):
                mine = np.flatnonzero(others & (selectors == value))
                d[mine] = self._multiply({name: array[mine] for name, array in words.items()}, value, self.policy)
        return d

    @guarded
    def run(self, faults: Faults) -> Results:
        """Runs all faults at once and gives the outcome of each."""
        self.check(faults)
        results = outcomes.empty(faults["id"])
        for first in range(0, len(faults), BATCH):
            part = faults[first : first + BATCH]
            words, changes = self.faulty(part)
            matrix = self.form.d.gather(self.execute(words, part))
            stopped = np.zeros(len(part), np.uint8)
            if self.form.sparse:
                beyond = words["selector"][:, 0, 0] >= self.form.metadata.selectors
                stopped[beyond] = reason("illegal-instruction")
            failed, at = self.checksums.look(outcomes.numbers(matrix, self.form.d.type), part["case"])
            seen, corrections = self._seen(part, words, changes)
            golden = self.golden_matrix[part["case"]]
            found, places = results[first : first + BATCH], (at.fault, at.row, at.column)
            observed = Observed(matrix, seen | {"abft": failed}, stopped)
            judge(found, changes, observed, golden, self.form.d.type, self.policy)
            found["corrections"] = corrections
            by_checksums(found, at, matrix[places], golden[places], self.form.d.type)
        return results

    def _seen(
        self, faults: Faults, words: dict[str, Bits], changes: Edits
    ) -> tuple[dict[str, Any], NDArray[np.uint8] | int]:
        """What each detector of metadata says about each fault, by the detector's name, and the field
        `corrections`."""
        if not self.form.sparse:
            return {}, 0
        metadata, selectors = self.form.metadata, words["selector"][:, 0, 0]
        codes = np.empty((len(faults), *metadata.shape), np.uint32)
        for value in np.unique(selectors).tolist():
            mine = np.flatnonzero(selectors == value)
            codes[mine] = metadata.gather(words["e"][mine, 0], min(value, metadata.selectors - 1))
        illegal, unordered = code_checks(codes, metadata.legal(codes), metadata.sparsity)
        stored = changes.stored_at(faults["site"] == SITES.index("e"))
        illegal |= selectors >= metadata.selectors
        handled, corrections = by_words(stored)
        seen = {"legality": illegal, "ordered": unordered, "parity": parity(stored), "secded": handled}
        return seen, corrections

    @cached_property
    def golden_matrix(self) -> Bits:
        """D of each case without faults, as a matrix [case, row, column]."""
        return self.form.d.gather(self.golden["d"])

    @property
    def sum(self) -> Sum:
        """How the instruction adds."""
        return sum_of(self.form, parse_target(self.target), self.arithmetic)

    @cached_property
    def matrices(self) -> Operands:
        """The operands of each case as matrices."""
        form, words = self.form, self.golden
        scales = None
        if form.row.scale:
            a, b = (words[name][:, 0] for name in ("scale_a", "scale_b"))
            scales = Scales(a, b, self.choice.scale_a, self.choice.scale_b)
        e = words["e"][:, 0] if form.sparse else None
        c = form.c.gather(words["c"])
        return matrices(form, words["a"], words["b"], c, e, self.choice.selector, scales)

    @cached_property
    def predicted(self) -> Predicted:
        """The checksums of each case, predicted from its operands."""
        return predicted(*real_operands(sum_of(self.form, parse_target(self.target), "exact"), self.matrices))

    def right(self, case: int) -> tuple[Bits, ElementType | None]:
        """D of a case without faults, and its type."""
        return self.golden_matrix[case], self.form.d.type

    def apart(self, faults: Faults) -> NDArray[np.bool_]:
        """A second execution on another unit shares the registers, not D and not the unit."""
        return np.asarray((faults["site"] == SITES.index("d")) | of_unit(faults))

    @cached_property
    def largest(self) -> float | None:
        """The largest finite magnitude of D in other products."""
        d = np.abs(outcomes.numbers(self._others(0, CALIBRATION).golden_matrix, self.form.d.type))
        return float(d[np.isfinite(d)].max(initial=0.0))

    @guarded
    def fresh(self) -> Any:
        """D of fault-free products that no detector's bound is of, values [product, row, column]."""
        return outcomes.values(self._others(CALIBRATION, FRESH).golden_matrix, self.form.d.type)

    def _others(self, first: int, cases: int) -> MmaTarget:
        """Other products of the same kind without faults: drawn from numbers that no case of a campaign has."""
        return _kept(replace(self, policy="hardware", given=(), first=MOST_CASES + first, cases=cases))

    @cached_property
    def checksums(self) -> Checksums:
        """The checksums of the cases, with tolerances from other products."""
        others = self._others(0, CALIBRATION)
        return Checksums(self.predicted, (outcomes.numbers(others.golden_matrix, self.form.d.type), others.predicted))

    @guarded
    def false_alarms(self) -> FalseAlarms:
        """How often the checksums fail products without a fault, neither the campaign's nor those of the tolerance."""
        fresh = self._others(CALIBRATION, FRESH)
        failed = self.checksums.fails(outcomes.numbers(fresh.golden_matrix, self.form.d.type), fresh.predicted)
        return FalseAlarms(int(failed.sum()), FRESH)


@lru_cache(maxsize=16)
def _kept(target: MmaTarget) -> MmaTarget:
    """The same target as the last time that an equal one was asked for, with the operands and results that it has since
    drawn: a list, its run and its report need the same products without faults."""
    return target
