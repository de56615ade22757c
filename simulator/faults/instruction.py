"""Faults in one `mma` or `mma.sp`: thousands at once through the vectorised executor, each with its outcome.

Operands are normal numbers (integers: every pattern alike), A pruned by magnitude, or given. Case c of a campaign has
the same operands whatever else is in it: they come from the campaign's seed and c alone.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from isa import MmaForm, compress, prune
from isa.types import Bits
from simulator.arithmetic.convert import to_float64
from simulator.arithmetic.formats import integers
from simulator.errors import ConfigError
from simulator.execute.mma import Scales, execute_mma
from simulator.faults import outcomes
from simulator.faults.detectors import Checksums, Mask, flags, ordered, parity, secded
from simulator.faults.outcomes import DETECTED, DUE, Results, compare, reason
from simulator.faults.policies import multiply
from simulator.faults.space import Site, code_places, live_bits
from simulator.faults.table import MODELS, SITES, Faults, as_dict
from simulator.layout import Choice, FormLayout, form_layout
from simulator.studies.accuracy.operands import draw

_DEFAULT = Choice()
BATCH = 2048  # faults that are executed together: what they need fits in cache
_FLIP, _STUCK0, _STUCK1, _SET, _WORD, _LANE, _SWAP, _SELECTOR = (
    MODELS.index(name) for name in ("flip", "stuck0", "stuck1", "set", "word", "lane", "swap", "selector")
)
_SELECTOR_SITE = SITES.index("selector")


@dataclass(frozen=True)
class Instruction:
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

    @cached_property
    def layout(self) -> FormLayout:
        return form_layout(self.opcode, self.choice)

    @cached_property
    def form(self) -> MmaForm:
        """IsaError or ConfigError if it is no such instruction, or one of 64-bit registers."""
        form = self.layout.form
        if not isinstance(form, MmaForm) or form.a_type.bits == 64 or form.blocks > 1:
            raise ConfigError(
                "campaign",
                "subject.opcode",
                f"'{self.opcode}' cannot be a subject",
                "mma.sp or mma, but f64 and m8n8k4 of f16",
            )
        return form

    @cached_property
    def sites(self) -> dict[str, Site]:
        """Where faults can be."""
        found = {}
        types = {name: getattr(self.form, name, None) for name in "abcd"}
        for name, operand in self.layout.operands.items():
            fragment = types.get(name)
            used = (1 << operand.bits) - 1
            if fragment is not None and fragment.type.is_float:
                used = (2 << fragment.type.sign_bit) - (1 << fragment.type.padding)
            found[name] = Site(name, live_bits(operand, used), code_places(operand) if name == "e" else None)
        if self.form.sparse:
            found["selector"] = Site("selector", np.full((1, 1), 3, np.uint32))
        return found

    @cached_property
    def golden(self) -> dict[str, Bits]:
        """Registers uint32 [case, word, lane] of every operand, and D as it should be."""
        drawn = [self._draw(case) for case in range(self.cases)]
        registers = {name: np.stack([registers[name] for registers in drawn]) for name in drawn[0]}
        for name, array in self.given:
            registers[name] = np.ascontiguousarray(array)
        registers["d"] = self._multiply(registers, self.choice.selector, "hardware")
        return registers

    @cached_property
    def digest(self) -> str:
        """Of the operands: SHA-256 in short."""
        found = hashlib.sha256()
        for name in sorted(self.golden):
            found.update(name.encode() + np.ascontiguousarray(self.golden[name], "<u4").tobytes())
        return found.hexdigest()[:16]

    def _draw(self, case: int) -> dict[str, Bits]:
        """Registers [word, lane] of one case."""
        form, rng = self.form, np.random.default_rng([self.seed, case])
        a = self._patterns(rng, (form.m, form.k), form.a_type)
        registers: dict[str, Bits] = {}
        if form.sparse:
            sparsity = form.metadata.sparsity
            numbers = to_float64(a, form.a_type) if form.a_type.is_float else integers(a, form.a_type)
            stored, codes = compress(a, sparsity, form.a_type, prune(numbers, sparsity))
            registers["e"] = form.metadata.scatter(
                codes, self.choice.selector, rng.integers(0, 1 << 32, 32, dtype=np.uint32)
            )[None]
        else:
            stored = a
        registers["a"] = form.a.scatter(stored)
        registers["b"] = form.b.scatter(self._patterns(rng, (form.k, form.n), form.b_type))
        registers["c"] = form.c.scatter(self._patterns(rng, (form.m, form.n), form.c_type))
        if form.row.scale:
            for name, ids in (("scale_a", self.choice.scale_a), ("scale_b", self.choice.scale_b)):
                scale = getattr(form, name)
                middle = {"ue8m0": 127, "ue4m3": 0x38}[scale.type.name]
                patterns = (middle + rng.integers(-3, 4, scale.shape)).astype(np.uint32)
                registers[name] = scale.scatter(patterns, *ids)[None]
        return registers

    @staticmethod
    def _patterns(rng: np.random.Generator, shape: tuple[int, int], element: Any) -> Bits:
        if element.bits == 32 and not element.is_float:
            return rng.integers(-1000, 1000, shape).astype(np.int32).view(np.uint32)
        if not element.is_float:
            return rng.integers(0, 1 << element.bits, shape, dtype=np.uint32)
        return draw(rng, shape, element, "normal", 1.0)

    def _multiply(self, registers: dict[str, Bits], selector: int, policy: str) -> Bits:
        scales = None
        if self.form.row.scale:
            scales = Scales(
                registers["scale_a"][:, 0], registers["scale_b"][:, 0], self.choice.scale_a, self.choice.scale_b
            )
        operands = registers["a"], registers["b"], registers["c"]
        if not self.form.sparse:
            return execute_mma(self.form, *operands, target=self.target, arithmetic=self.arithmetic, scales=scales)
        how: dict[str, Any] = {"target": self.target, "arithmetic": self.arithmetic, "scales": scales}
        return multiply(self.form, *operands, registers["e"][:, 0], selector, policy, **how)

    # Faults

    def edits(self, faults: Faults, site: str) -> tuple[Bits, ...]:
        """What the faults of one site change: word, lane, bits to invert, and the same of the second place (none where
        there is no such)."""
        golden, case = self.golden[site], faults["case"]
        word, lane, mask, value, model = (faults[name] for name in ("word", "lane", "mask", "value", "model"))
        now = golden[case, word, lane]
        lane2, mask2 = np.maximum(faults["lane2"], 0), faults["mask2"]
        then = golden[case, faults["word2"], lane2]
        field = (now & mask) >> _shift(mask)
        field2 = (then & mask2) >> _shift(mask2)
        exchanged = (field ^ field2) << _shift(mask)
        source = golden[case, word, lane2]
        choices = [model == m for m in (_FLIP, _STUCK0, _STUCK1, _SET, _WORD, _LANE, _SWAP)]
        invert = np.select(
            choices,
            [mask, now & mask, ~now & mask, (now ^ value) & mask, now ^ value, now ^ source, exchanged],
            np.uint32(0),
        )
        second = np.where(model == _SWAP, (field ^ field2) << _shift(mask2), np.uint32(0))
        return word, lane, invert.astype(np.uint32), faults["word2"], lane2, second.astype(np.uint32)

    def faulty(self, faults: Faults) -> tuple[dict[str, Bits], Mask]:
        """Registers uint32 [fault, word, lane] with the faults in them (those of D too), and whether a bit that is read
        has changed: [fault]."""
        case = faults["case"]
        registers = {name: array[case] for name, array in self.golden.items()}
        read = np.zeros(len(faults), np.bool_)
        for number in np.unique(faults["site"]).tolist():
            if number == _SELECTOR_SITE:
                read |= (faults["site"] == number) & (faults["value"] != self.choice.selector)
                continue
            name = SITES[number]
            index = np.flatnonzero(faults["site"] == number)
            word, lane, invert, word2, lane2, second = self.edits(faults[index], name)
            array, live = registers[name], self.sites[name].live
            array[index, word, lane] ^= invert
            array[index, word2, lane2] ^= second
            read[index] = ((invert & live[word, lane]) | (second & live[word2, lane2])) != 0
        return registers, read

    def check(self, faults: Faults) -> None:
        """ConfigError for the first row that names what there is not: a case, a site, a word, a lane, a kind of fault
        that the site has not."""
        _refuse(faults, faults["case"] >= self.cases, "case", f"0 to {self.cases - 1}")
        models = [MODELS.index(name) for name in ("flip", "stuck0", "stuck1", "set", "word", "lane", "swap")]
        names = [SITES.index(name) for name in self.sites]
        _refuse(faults, ~np.isin(faults["site"], names), "site", ", ".join(self.sites))
        in_selector = faults["site"] == _SELECTOR_SITE
        _refuse(
            faults,
            in_selector != (faults["model"] == _SELECTOR),
            "model",
            "selector in the site selector, and there alone",
        )
        _refuse(
            faults,
            ~in_selector & ~np.isin(faults["model"], models),
            "model",
            ", ".join(MODELS[model] for model in models),
        )
        _refuse(faults, in_selector & (faults["value"] > 3), "value", "0 to 3, two bits")
        for name, site in self.sites.items():
            mine = (faults["site"] == SITES.index(name)) & ~in_selector
            words, lanes = site.live.shape
            for field, size in (("word", words), ("word2", words), ("lane", lanes), ("lane2", lanes)):
                _refuse(faults, mine & (faults[field] >= size), field, f"0 to {size - 1}")

    def run(self, faults: Faults) -> Results:
        """The outcome of each fault; ConfigError as `check`."""
        self.check(faults)
        results = outcomes.empty(faults["id"])
        for first in range(0, len(faults), BATCH):
            results[first : first + BATCH] = self._run(faults[first : first + BATCH])
        return results

    def _run(self, faults: Faults) -> Results:
        registers, read = self.faulty(faults)
        selector = np.where(faults["site"] == _SELECTOR_SITE, faults["value"], self.choice.selector)
        d = self.execute(registers, selector, faults)
        results = outcomes.empty(faults["id"])
        form, case = self.form, faults["case"]
        matrix = form.d.gather(d)
        compare(results, matrix, self._golden_matrix[case], form.d.type)
        changed = self._changed(faults, registers)
        results["reason"] = np.where(
            (results["outcome"] == outcomes.MASKED) & ~read, reason("unread"), results["reason"]
        )
        results["reason"] = np.where(
            (results["outcome"] == outcomes.MASKED) & ~changed, reason("same"), results["reason"]
        )
        seen = self._seen(faults, registers, selector, matrix)
        results["detectors"] = flags(**seen)
        if self.policy == "raise" and form.sparse:
            self._stop(results, seen["legality"], DETECTED, "invalid-code")
        if form.sparse:
            self._stop(results, selector >= form.metadata.selectors, DUE, "illegal-instruction")
        return results

    def execute(self, registers: dict[str, Bits], selector: Bits, faults: Faults) -> Bits:
        """D of every fault under the policy, faults in D itself included; where the selector is out of range: as it
        should be."""
        if not self.form.sparse:
            d = self._multiply(registers, 0, self.policy)
        else:
            d = registers["d"].copy()
            for value in np.unique(selector).tolist():
                if value < self.form.metadata.selectors:
                    mine = np.flatnonzero(selector == value)
                    d[mine] = self._multiply(
                        {name: array[mine] for name, array in registers.items()}, int(value), self.policy
                    )
        in_d = np.flatnonzero(faults["site"] == SITES.index("d"))
        if len(in_d):
            d[in_d] = registers["d"][in_d]
        return d

    @cached_property
    def _golden_matrix(self) -> Bits:
        return self.form.d.gather(self.golden["d"])

    def _changed(self, faults: Faults, registers: dict[str, Bits]) -> Any:
        """Whether anything at all is other than it should be."""
        changed = faults["site"] == _SELECTOR_SITE
        for number in np.unique(faults["site"]).tolist():
            if number != _SELECTOR_SITE:
                index = np.flatnonzero(faults["site"] == number)
                name = SITES[number]
                changed[index] = (registers[name][index] != self.golden[name][faults["case"][index]]).any(axis=(1, 2))
        return changed

    def _seen(self, faults: Faults, registers: dict[str, Bits], selector: Bits, matrix: Bits) -> dict[str, Any]:
        """What each detector says, [fault]."""
        form, case = self.form, faults["case"]
        seen = {"abft": self.checksums.sees(self._numbers(matrix), case)}
        if not form.sparse:
            return seen
        legal = np.minimum(selector, form.metadata.selectors - 1)
        codes = np.empty((len(faults), *form.metadata.shape), np.uint32)
        lanes = np.zeros((len(faults), 32), np.bool_)
        for value in np.unique(legal).tolist():
            mine = np.flatnonzero(legal == value)
            codes[mine] = form.metadata.gather(registers["e"][mine, 0], int(value))
            lanes[np.ix_(mine, np.unique(form.metadata.places(int(value))[0]))] = True
        changed = np.where(lanes, registers["e"][:, 0] ^ self.golden["e"][case, 0], np.uint32(0))
        seen["legality"] = (~form.metadata.legal(codes)).any(axis=(1, 2)) | (selector >= form.metadata.selectors)
        return seen | {
            "ordered": ordered(codes, form.metadata.sparsity),
            "parity": parity(changed),
            "secded": secded(changed),
        }

    @staticmethod
    def _stop(results: Results, where: Any, outcome: int, why: str) -> None:
        """Faults that end the instruction: there is no result to compare."""
        blank = outcomes.empty(results["id"])
        blank["outcome"], blank["reason"], blank["detectors"] = outcome, reason(why), results["detectors"]
        results[where] = blank[where]

    def _numbers(self, matrix: Bits) -> Any:
        return (
            to_float64(matrix, self.form.d.type)
            if self.form.d.type.is_float
            else integers(matrix, self.form.d.type).astype(np.float64)
        )

    @cached_property
    def checksums(self) -> Checksums:
        """Of the cases, with tolerances from at least 64 fault-free ones."""
        sample = (
            self
            if self.cases >= _FAULT_FREE
            else Instruction(self.opcode, self.target, self.choice, _FAULT_FREE, self.seed, "hardware", self.arithmetic)
        )
        tolerances = sample if sample is self else sample.checksums
        own = Checksums(self._numbers(self._golden_matrix), self._exact())
        if isinstance(tolerances, Checksums):
            own.row_tolerance = max(own.row_tolerance, tolerances.row_tolerance)
            own.column_tolerance = max(own.column_tolerance, tolerances.column_tolerance)
        return own

    def _exact(self) -> Any:
        """A * B + C in float64 [case, row, column]."""
        exact = Instruction(
            self.opcode, self.target, self.choice, self.cases, self.seed, "hardware", "exact", self.given
        )
        return exact._numbers(exact._golden_matrix)


_FAULT_FREE = 64


def _refuse(faults: Faults, wrong: Mask, field: str, legal: str) -> None:
    """ConfigError for the first fault that is wrong."""
    if wrong.any():
        fault = faults[int(np.argmax(wrong))]
        value = as_dict(fault)[field] if field in ("site", "model") else int(fault[field])
        raise ConfigError(f"fault {int(fault['id'])}", field, f"{value}", legal)


def _shift(mask: Bits) -> Bits:
    """Place of the lowest bit that is set; 0 for no bit."""
    lowest = mask & (~mask + np.uint32(1))
    return np.where(mask == 0, 0, np.bitwise_count(lowest - np.uint32(1))).astype(np.uint32)
