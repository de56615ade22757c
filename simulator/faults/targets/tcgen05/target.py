"""A fault target that is one `tcgen05.mma` or `tcgen05.mma.sp` instruction: faults in its operands, its descriptors and
its addresses, and in the units that compute its D.

    site                       word, lane
    a, d, e, scale_a, scale_b  column from the operand's address on, lane of Tensor Memory (of the even CTA of a pair)
    shared                     byte address / 4, 0 (the same)
    idesc, a_desc, b_desc      0 (of the 64-bit ones 0 and 1), 0
    selector                   bits 0 and 1 of the instruction descriptor
    base_d, base_a, base_e     0, 0: the address, lane in bits 31 to 16, column below; `align` sets the lane to `value`
    multiplier, term, ...      those of `simulator.faults.unit.sites`; position is row * N + column of D of the even CTA

Addresses that break an alignment rule (`isa.tensor_memory.datapath.violations`) fault, as seen on sm_110 (published);
the outcome is due, misaligned-address. With misaligned = "follow" they are followed instead: the operand is read (D:
read and written) that many lanes further on, modulo 128. This is assumed; no chip is known to do so.

Illegal descriptors give due, illegal (that a chip stops is assumed; PTX calls some of them undefined). A pair of CTAs
is executed as a whole, and its whole D is compared, the rows of the even CTA first. Faults strike the even CTA; faults
in descriptors and addresses strike the instruction, and so both CTAs. Cells beside D that a wrong descriptor or address
makes the instruction write are not part of the result.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.forms.tcgen05 import Tcgen05MmaForm
from isa.types import Bits, ElementType
from simulator.arithmetic import Sum
from simulator.arithmetic.check_bits import parity
from simulator.execute.tcgen05.example import COLUMN, Shape, fill, form_of, shape_of
from simulator.execute.tcgen05.fetch import Cta
from simulator.faults import outcomes
from simulator.faults.detectors.checksums import (
    Checksums,
    FalseAlarms,
    Predicted,
    Reals,
    joined,
)
from simulator.faults.detectors.corrected import by_checksums, by_words
from simulator.faults.models import Edits
from simulator.faults.outcomes import Observed, Results, flag, judge, numbers, reason
from simulator.faults.spread import Site
from simulator.faults.table import SITES, Faults
from simulator.faults.targets.executed import Executed
from simulator.faults.targets.target import (
    DIGEST_CHARACTERS,
    MOST_CASES,
    OTHERS,
    FaultTarget,
)
from simulator.faults.targets.tcgen05 import struck
from simulator.faults.targets.tcgen05.execution import FOLLOWED, Execution
from simulator.faults.targets.tcgen05.operands import Matrices
from simulator.faults.targets.tcgen05.sites import memory_sites
from simulator.faults.targets.tcgen05.struck import StruckElements
from simulator.faults.targets.tcgen05.sums import predicted_by
from simulator.faults.targets.tcgen05.together import FAULTS, Together
from simulator.faults.unit.rows import of_unit
from simulator.faults.unit.sites import UNIT_SITES
from simulator.layout import Choice, FormLayout, form_layout

MISALIGNED = ("fault", "follow")
IMMEDIATE = {
    "idesc": "idesc", "selector": "idesc", "a_desc": "a", "b_desc": "b", "base_d": "d", "base_a": "a",
    "base_e": "sp_meta", "selector_input": "idesc",
}  # sites that are words of the instruction: which field of a `Call`  # fmt: skip
_CALIBRATION, _FRESH = 16, 64  # as in `checksums`; memories take long to fill, and have more sums
_TOGETHER = 32  # faults that are executed one by one and judged together
_KEPT = 16  # cases whose operands are kept as matrices


@dataclass(frozen=True)
class Tcgen05Target(FaultTarget):
    """One instruction with operands, to inject faults into.

    Attributes:
        opcode: for example "tcgen05.mma.sp.cta_group::1.kind::f16".
        m, n: the shape of D; M counts both CTAs of a pair.
        base_lane: the first lane of D, A and metadata: 0, or 16 in layouts C and F.
        selector: the sparsity selector.
        target: the chip, which decides on the arithmetic and on what is legal.
        a_in_tmem: whether A is in Tensor Memory.
        element: the type of A and B; empty for one of the kind's.
        d_type: for kinds f16 and f8f6f4: "f32" or "f16"; empty for f32 (s32 for i8).
        cases, seed: how many sets of operands there are, and the seed that they are drawn from.
        policy: what is done about undefined codes, see `simulator.faults.targets.policies`.
        arithmetic: "chip" or "exact".
        misaligned: "fault" or "follow".
        others: what metadata at the same address that this instruction does not read hold: "valid" codes, as in every
            kernel, or "random" words.
        together: whether faults in operands are computed many at a time; the results are the same.
    """

    opcode: str
    m: int = 128
    n: int = 64
    base_lane: int = 0
    selector: int = 0
    target: str = "sm_100a"
    a_in_tmem: bool = True
    element: str = ""
    d_type: str = ""
    cases: int = 1
    seed: int = 0
    policy: str = "hardware"
    arithmetic: str = "chip"
    misaligned: str = "fault"
    others: str = "valid"
    together: bool = True
    batch = 4096

    def __post_init__(self) -> None:
        self.check_choices(misaligned=MISALIGNED, others=OTHERS)

    def __getstate__(self) -> dict[str, Any]:
        """The fields alone: another process fills its own memory."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def describe(self) -> dict[str, Any]:
        """The plain values from which the same target can be made, without the policy."""
        return {name: value for name, value in self.__getstate__().items() if name not in ("policy", "together")}

    @property
    def rule(self) -> str:
        """The rule by which the chip adds, and its evidence."""
        return (
            f"tcgen05 of {self.target}" + ", sparse: inferred" * self.form.sparse
            if self.arithmetic == "chip"
            else "exact"
        )

    @property
    def numbers(self) -> range:
        """The numbers of the cases."""
        return range(self.cases)

    @cached_property
    def form(self) -> Tcgen05MmaForm:
        """The form of the opcode."""
        return form_of(self.opcode, self.a_in_tmem, self.target)

    @cached_property
    def shape(self) -> Shape:
        """The shape, addresses and descriptors of the instruction. IsaError for one that is not legal."""
        choice = self.m, self.n, self.base_lane, self.selector, self.element, self.d_type
        return shape_of(self.form, *choice, self.target)

    @cached_property
    def layout(self) -> FormLayout:
        """The layout of the operands for this shape."""
        choice = Choice(selector=self.selector, m=self.m, n=self.n, base_lane=self.base_lane)
        return form_layout(self.form.opcode, choice)

    @cached_property
    def result(self) -> ElementType:
        """The element type of D."""
        return self.shape.result

    @cached_property
    def sites(self) -> dict[str, Site]:
        """Operands, shared memory, descriptors and addresses; for a sparse instruction also the selector; and the parts
        of the units."""
        return memory_sites(self.shape, self.layout) | struck.sites_of(self.shape, self.sum)

    @cached_property
    def sum(self) -> Sum:
        """How a CTA adds, all of its D."""
        return struck.sum_of_cta(self.shape, self.target, self.arithmetic)

    # Without faults

    @cached_property
    def memory(self) -> list[list[Cta]]:
        """The CTAs of each case, as they are before the instruction."""
        return [fill(self.shape, self.seed, case, valid=self.others == "valid") for case in range(self.cases)]

    def cells(self, site: str, case: int) -> Bits:
        """The words of a site in memory, uint32 [word, lane], as a view to read and to write."""
        cta = self.memory[case][0]
        return cta.tmem.words.T[COLUMN[site] :] if site in COLUMN else cta.shared.view("<u4")[:, None]

    def words(self, site: str, case: Any, word: Any, lane: Any) -> Bits:
        """The words of a site without faults, at arrays of places."""
        if site in IMMEDIATE:
            value = np.uint64(getattr(self.shape.call, IMMEDIATE[site]))
            return (value >> np.asarray(32 * word, np.uint64)).astype(np.uint32)
        values = np.zeros(len(word), np.uint32)
        if site in UNIT_SITES:  # words that nothing stores
            return values
        for number in np.unique(case).tolist():
            mine = case == number
            values[mine] = self.cells(site, number)[word[mine], lane[mine]]
        return values

    @cached_property
    def golden(self) -> Bits:
        """D of each case, uint32 [case, row, n]."""
        done = [self.execution.run(ctas, self.shape.call) for ctas in self.memory]
        assert all(one.d is not None for one in done), done[0].said
        return np.stack([one.d for one in done if one.d is not None])

    @cached_property
    def digest(self) -> str:
        """A short SHA-256 of the instruction, its memory, and D without faults."""
        call = self.shape.call
        words = [getattr(call, field.name) for field in fields(call)[1:]]
        hasher = hashlib.sha256(f"{call.form.opcode} {words}".encode())
        for cta in (cta for ctas in self.memory for cta in ctas):
            hasher.update(np.ascontiguousarray(cta.tmem.words, "<u4").tobytes() + cta.shared.tobytes())
        hasher.update(np.ascontiguousarray(self.golden, "<u4").tobytes())
        return hasher.hexdigest()[:DIGEST_CHARACTERS]

    def _others(self, first: int, cases: int) -> tuple[Reals, Predicted]:
        """Other products of the same kind without faults, drawn from numbers that no case of a campaign has: D [case,
        row, column], and what its sums should be."""
        d: list[Bits] = []
        should: list[Predicted] = []
        for case in range(MOST_CASES + first, MOST_CASES + first + cases):
            ctas = fill(self.shape, self.seed, case, valid=True)
            should.append(predicted_by(self.shape.call, ctas, self.target))
            done = self.execution.run(ctas, self.shape.call).d
            assert done is not None
            d.append(done)
        return numbers(np.stack(d), self.result), joined(should)

    @cached_property
    def checksums(self) -> Checksums:
        """The checksums of the cases, with tolerances from other products."""
        should = [predicted_by(self.shape.call, ctas, self.target) for ctas in self.memory]
        return Checksums(joined(should), self._others(0, _CALIBRATION))

    def right(self, case: int) -> tuple[Bits, ElementType | None]:
        """D of a case without faults, and its type."""
        return self.golden[case], self.result

    def apart(self, faults: Faults) -> NDArray[np.bool_]:
        """A second execution on other units reads the same memory and words."""
        return of_unit(faults)

    @cached_property
    def largest(self) -> float | None:
        """The largest finite magnitude of D in other products."""
        d = np.abs(self._others(0, _CALIBRATION)[0])
        return float(d[np.isfinite(d)].max(initial=0.0))

    def fresh(self) -> Any:
        """D of fault-free products that no detector's bound is of, float64 [product, row, column]."""
        return self._others(_CALIBRATION, _FRESH)[0]

    def false_alarms(self) -> FalseAlarms:
        """How often the checksums fail products without a fault, neither the campaign's nor those of the tolerance."""
        failed = self.checksums.fails(*self._others(_CALIBRATION, _FRESH))
        return FalseAlarms(int(failed.sum()), _FRESH)

    # Faults

    @cached_property
    def execution(self) -> Execution:
        """How the instruction is executed with one fault."""
        columns = {site: self.layout.operands[site].words for site in FOLLOWED if site in self.sites}
        return Execution(self.shape, columns, self.target, self.policy, self.arithmetic, self.misaligned)

    def executed(self, fault: Any, found: Edits | None = None) -> Executed:
        """Executes the instruction with one fault in it."""
        one = self.edits(np.array([fault])) if found is None else found
        site, ctas, call = SITES[int(fault["site"])], self.memory[int(fault["case"])], self.shape.call
        if site in IMMEDIATE:
            name = IMMEDIATE[site]
            change = sum((before ^ after) << 32 * word for word, _, before, after in one.changes())
            call = replace(call, **{name: getattr(call, name) ^ change})
            if site != "selector_input":
                return self.execution.run(ctas, call)
            with struck.selected_apart(self.shape, ctas, self.shape.idesc.selector ^ change):
                return self.execution.run(ctas, call)
        if site in UNIT_SITES:
            (row, column, pattern, _), d = self.struck(np.array([fault])), self.golden[int(fault["case"])].copy()
            d[row, column] = pattern
            return Executed(d, unordered=self._of_case(int(fault["case"])).unordered)
        cells, changes = self.cells(site, int(fault["case"])), one.changes()
        try:
            for word, lane, _, after in changes:
                cells[word, lane] = after
            return self.execution.run(ctas, call)
        finally:
            for word, lane, before, _ in changes:
                cells[word, lane] = before

    @cached_property
    def _alarms(self) -> NDArray[np.bool_]:
        """Whether the checksums fail each case without a fault: bool [case]."""
        return self.checksums.sees(numbers(self.golden, self.result), np.arange(self.cases))

    @cached_property
    def _spoilt(self) -> NDArray[np.uint8]:
        """What the checksums make of each case without a fault: the field `corrections`, uint8 [case]."""
        results, every = outcomes.empty(np.arange(self.cases)), np.arange(self.cases)
        _, at = self.checksums.look(numbers(self.golden, self.result), every)
        right = self.golden[at.fault, at.row, at.column]
        by_checksums(results, at, right, right, self.result)
        return np.asarray(results["corrections"])

    def run(self, faults: Faults) -> Results:
        """The outcome of each fault. Faults in operands are computed together; of those in descriptors and addresses,
        which many rows of a list share, each is executed once."""
        self.check(faults)
        results = outcomes.empty(faults["id"])
        elements = self.struck(faults)
        changes = self.edits(faults)
        struck.amend(changes, faults, elements.changed)
        results["reason"] = np.where(changes.changed, reason("unread"), reason("same"))
        results["detectors"] = np.where(self._alarms[faults["case"]], flag("abft"), 0)  # where nothing is read
        results["corrections"] = self._spoilt[faults["case"]]
        read = np.flatnonzero(changes.read)
        keys = faults["case"][read].astype(np.int64) * len(SITES) + faults["site"][read]
        for key in np.unique(keys).tolist():
            mine, (case, number) = read[keys == key], divmod(key, len(SITES))
            bursts = (faults["along"][mine] > 0) & (SITES[number] == "shared")  # may reach A and B
            apart, mine = (mine, mine[:0]) if self._apart(SITES[number]) else (mine[bursts], mine[~bursts])
            if len(apart):
                self._run_distinct(results, faults, changes, apart)
            for first in range(0, len(mine), FAULTS):
                some = mine[first : first + FAULTS]
                part, together = results[some], self._of_case(case)
                if SITES[number] in UNIT_SITES:
                    together.judge_elements(part, elements.some(some), changes.rows(some))
                else:
                    together.judge(part, SITES[number], changes.rows(some))
                results[some] = part
        return results

    def struck(self, faults: Faults) -> StruckElements:
        """The elements of D that faults of units strike, and what they make of them; zeros for other faults."""
        return struck.all_elements(self.sum, lambda case: self._of_case(case).operands, faults)

    def codes(self, fault: Any) -> Bits | None:
        """The metadata uint32 [row, chunk] of the part of D that the struck unit computes; None if dense."""
        return struck.codes_of(self._of_case(int(fault["case"])).operands, self.n, fault)

    def _apart(self, site: str) -> bool:
        """Whether faults of a site are executed one by one: all where that is asked for; those in descriptors and
        addresses; and where the policy takes elements from A before `.ashift` moves its rows."""
        moved = self.policy == "zero" and self.form.ashift and site == "e"
        return not self.together or site in IMMEDIATE or moved

    def _of_case(self, case: int) -> Together:
        """What computes the faults of a case; the last few are kept."""
        if case not in self._cases:
            if len(self._cases) >= _KEPT:
                self._cases.pop(next(iter(self._cases)))
            operands = Matrices(self.shape.call, self.memory[case], self.target, self.arithmetic)
            self._cases[case] = Together(self.shape, operands, self.golden[case], self.checksums, case, self.policy)
        return self._cases[case]

    @cached_property
    def _cases(self) -> dict[int, Together]:
        return {}

    def _run_distinct(self, results: Results, faults: Faults, changes: Edits, mine: NDArray[np.intp]) -> None:
        """Executes the faults `mine`, of one case and site, once for each change that is made."""
        places = changes.rows(mine)
        same = places.signature
        _, first, which = np.unique(same, axis=0, return_index=True, return_inverse=True)
        for start in range(0, len(first), _TOGETHER):
            some = mine[first[start : start + _TOGETHER]]
            part = results[some]
            self._run_alone(part, faults[some], changes.rows(some))
            results[some] = part
        ids, results[mine] = results["id"][mine], results[mine[first]][which.ravel()]
        results["id"][mine] = ids

    def _run_alone(self, results: Results, faults: Faults, changes: Edits) -> None:
        """Executes faults one by one."""
        done = [self.executed(fault, changes.rows(index)) for index, fault in enumerate(faults)]
        golden = self.golden[faults["case"]]
        got = np.stack([right if one.d is None else one.d for one, right in zip(done, golden, strict=True)])
        stopped = np.array([reason(one.reason) for one in done], np.uint8)
        stored = changes.stored_at(faults["site"] == SITES.index("e"))
        illegal = np.array([one.illegal for one in done])
        handled, corrections = by_words(stored)
        failed, at = self.checksums.look(numbers(got, self.result), faults["case"])
        seen = {
            "legality": illegal,
            "ordered": np.array([one.unordered for one in done]),
            "alignment": np.array([bool(one.broken) for one in done]),
            "parity": parity(stored),
            "secded": handled,
            "abft": failed & (stopped == 0),
        }
        judge(results, changes, Observed(got, seen, stopped, illegal), golden, self.result, self.policy)
        results["corrections"] = corrections
        places = at.fault, at.row, at.column
        by_checksums(results, at, got[places], golden[places], self.result)
