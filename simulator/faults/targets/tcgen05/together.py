"""Many faults in the operands of one `tcgen05.mma` at once: what each changes is found through the mappings, and only
the rows or columns of D that can differ are computed. Results are those of `execution`, fault by fault."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isa.tensor_memory.address import TMEM_LANES
from isa.types import Bits
from simulator.arithmetic.check_bits import parity
from simulator.execute.tcgen05.example import Shape
from simulator.faults.detectors.checksums import Checksums, Mask
from simulator.faults.detectors.corrected import by_words
from simulator.faults.detectors.elements import Changed, Elements
from simulator.faults.models import Edits
from simulator.faults.outcomes import SDC, Observed, Results, Whole, judge, numbers
from simulator.faults.targets.policies import saturated
from simulator.faults.targets.tcgen05.operands import NAMES, Lines, Matrices
from simulator.faults.targets.tcgen05.places import Hits, Places, places
from simulator.faults.targets.tcgen05.struck import StruckElements
from simulator.faults.targets.tcgen05.sums import Sums

Integers = NDArray[np.int64]
FAULTS = 1024  # that are computed and judged together
_OF_COLUMNS = ("b", "scale_b")


class _Pairs(NamedTuple):
    """The lines of operands that faults change, an entry for each fault and line.

    Attributes:
        fault, line: int64: the number of the fault, and of the line as in `operands.Lines`.
        values: uint32 [entry, element]: the line with the fault.
    """

    fault: Integers
    line: Integers
    values: Bits


class _Codes(NamedTuple):
    """What checks of the codes say: bool [fault]."""

    illegal: Mask
    unordered: Mask


class Together:
    """Computes and judges faults in the operands of one case.

    Args:
        shape: the instruction.
        operands: its operands without faults.
        golden: D without faults, uint32 [row, n].
        checksums, case: the checksums, and which of their cases this is.
        policy: about undefined codes.
    """

    def __init__(
        self, shape: Shape, operands: Matrices, golden: Bits, checksums: Checksums, case: int, policy: str
    ) -> None:
        self.shape, self.operands, self.golden, self.policy = shape, operands, golden, policy
        self._sums = Sums(checksums, case, numbers(golden, shape.result))
        self._elements = Elements(checksums, case, golden, shape.result)
        self._places: dict[str, dict[str, Places]] = {}
        self._unordered = np.zeros(0, np.bool_)  # by row of both CTAs: whether a code does not ascend without faults
        if shape.form.sparse:
            first = [own.codes[0] for own in operands.ctas if own.codes is not None]
            self._unordered = self._descends(np.concatenate(first))

    @property
    def unordered(self) -> bool:
        """Whether a code does not ascend without faults."""
        return bool(self._unordered.any())

    def judge(self, results: Results, site: str, changes: Edits) -> None:
        """Fills in the outcomes of faults of one site, which change bits that are read."""
        if site not in self._places:
            self._places[site] = places(self.shape, site)
        size, faults = 1 if site == "shared" else TMEM_LANES, len(results)
        words = changes.word * size + changes.lane
        left = np.ones(faults, np.bool_)
        *others, last = self._places[site].items()
        for operand, index in (*others, last):
            hits = index.hit(words, changes.invert)
            hits = hits._replace(change=changes.fault[hits.change])
            touched = np.bincount(hits.change, minlength=faults) > 0
            mine = left & touched if operand != last[0] else left
            left = left & ~mine
            self._judge(results, np.flatnonzero(mine), operand, hits.of(mine), changes)

    def _judge(self, results: Results, mine: Integers, operand: str, hits: Hits, changes: Edits) -> None:
        """Judges the faults `mine`, which change one operand."""
        if not len(mine):
            return
        columns = operand in _OF_COLUMNS
        pairs = self._pairs(operand, hits, np.searchsorted(mine, hits.change))
        codes = self._of_codes(pairs, len(mine)) if operand == "e" else self._without(len(mine))
        lines, values = (
            self._mended(pairs, codes.illegal) if operand == "e" else (pairs, {NAMES[operand]: pairs.values})
        )
        d = (
            self.operands.columns_of_d(Lines(lines.line, values), even=operand == "scale_b")
            if columns
            else self.operands.rows_of_d(Lines(lines.line, values))
        )
        table, right, got = self._compact(len(mine), lines.fault, lines.line, d, columns=columns)
        stored = changes.rows(mine).stored if operand == "e" else None
        part = results[mine]
        self._compared(part, changes.rows(mine), (table, right, got), codes, stored, columns=columns)
        results[mine] = part

    def judge_elements(self, results: Results, struck: StruckElements, changes: Edits) -> None:
        """Fills in the outcomes of faults of units, each of which changes one element of D."""
        right = self.golden[struck.row][:, None]
        got = right.copy()
        got[np.arange(len(got)), 0, struck.column] = struck.patterns
        lines = struck.row[:, None], right, got
        self._compared(results, changes, lines, self._without(len(got)), None, columns=False)

    def _compared(
        self, results: Results, changes: Edits, lines: tuple[Integers, Bits, Bits], codes: _Codes, stored: Bits | None,
        *, columns: bool,
    ) -> None:  # fmt: skip
        """Fills in outcomes from rows or columns of D, as `_compact` gives them. `stored` is what changes in words with
        check bits."""
        table, right, got = lines
        real, none = numbers(got, self.shape.result), np.zeros(len(got), np.bool_)
        stored = np.zeros_like(changes.stored) if stored is None else stored
        handled, corrections = by_words(stored)
        seen: dict[str, Any] = {
            "legality": codes.illegal,
            "ordered": codes.unordered,
            "alignment": none,
            "parity": parity(stored),
            "secded": handled,
            "abft": self._sums.columns_fail(table, real) if columns else self._sums.rows_fail(table, real),
        }
        if columns:
            right, got = right.transpose(0, 2, 1), got.transpose(0, 2, 1)
        observed = Observed(got, seen, np.zeros(len(got), np.uint8), codes.illegal)
        whole = Whole(table, self.golden, columns)
        judge(results, changes, observed, right, self.shape.result, self.policy, whole)
        corrupt = np.flatnonzero(results["outcome"] == SDC)
        field = "first_column" if columns else "first_row"
        results[field][corrupt] = table[corrupt, results[field][corrupt]]
        results["corrections"] = corrections
        self._correct(results, table, right, got, columns=columns)

    def _correct(self, results: Results, table: Integers, right: Bits, got: Bits, *, columns: bool) -> None:
        """Adds what checksums of D correct; lines are rows of `right` and `got` [fault, row, column], or columns."""
        fault, row, column = np.nonzero(got != right)
        line = table[fault, column if columns else row]
        where = (row, line) if columns else (line, column)
        self._elements.correct(results, Changed(fault, where[0], where[1], got[fault, row, column]))

    def _pairs(self, operand: str, hits: Hits, fault: Integers) -> _Pairs:
        """The lines that change, with the changes in them."""
        columns = operand in _OF_COLUMNS
        read = self.operands.column if columns else self.operands.row
        lines, length = self.operands.size(NAMES[operand], columns=columns)
        line, element = np.divmod(hits.element, length)
        key, entry = np.unique(fault * lines + line, return_inverse=True)
        of, number = np.divmod(key, lines)
        values = read(NAMES[operand], number).copy()
        np.bitwise_xor.at(values, (entry, element), hits.invert)
        return _Pairs(of, number, values)

    def _compact(
        self, faults: int, fault: Integers, line: Integers, d: Bits, *, columns: bool
    ) -> tuple[Integers, Bits, Bits]:
        """Of each fault the lines of D that were computed, as arrays [fault, line, ...]: their numbers, ascending and
        -1 for none, their elements without the fault, and with it."""
        golden, m = (self.golden.T if columns else self.golden), self.operands.how.m
        number = line if columns else line % m
        key, entry = np.unique(fault * len(golden) + number, return_inverse=True)
        of, which = np.divmod(key, len(golden))
        slot = np.arange(len(key)) - np.searchsorted(of, of)
        table = np.full((faults, int(slot.max(initial=0)) + 1), -1, np.int64)
        table[of, slot] = which
        right = golden[table]
        got = right.copy()
        if columns:
            got[of[entry], slot[entry], : d.shape[1]] = d
        else:
            n = d.shape[1]
            place = (line // m * n)[:, None] + np.arange(n)
            got[of[entry][:, None], slot[entry][:, None], place] = d
        return table, right, got

    # Codes

    def _without(self, faults: int) -> _Codes:
        """Faults that change no code."""
        return _Codes(np.zeros(faults, np.bool_), np.full(faults, self.unordered))

    def _descends(self, codes: Bits) -> Mask:
        """Whether the indices of any code of a row [row, chunk] do not ascend."""
        table = np.ones(16, np.bool_)
        table[list(self.shape.metadata.sparsity.ordered)] = False
        return np.asarray(table[codes].any(axis=1))

    def _of_codes(self, pairs: _Pairs, faults: int) -> _Codes:
        illegal, unordered = (np.zeros(faults, np.int64) for _ in range(2))
        np.add.at(illegal, pairs.fault, (~self.shape.metadata.legal(pairs.values)).any(axis=1))
        first = np.flatnonzero(pairs.line < self.operands.how.m)  # order is checked in the first copy
        unordered += int(self._unordered.sum())
        now, before = self._descends(pairs.values[first]), self._unordered[pairs.line[first]]
        np.add.at(unordered, pairs.fault[first], now.astype(np.int64) - before)
        return _Codes(illegal > 0, unordered > 0)

    def _mended(self, pairs: _Pairs, illegal: Mask) -> tuple[_Pairs, dict[str, Bits]]:
        """The lines after the policy, and their operands. Where the first copy of the codes holds an undefined one, the
        policies `zero` and `saturate` write all copies anew, as `policies.mend` does."""
        if self.policy not in ("zero", "saturate") or not illegal.any():
            return pairs, {"codes": pairs.values}
        metadata, m, parts = self.shape.metadata, self.operands.how.m, self.operands.parts
        first = pairs.line < m
        broken = ~metadata.legal(pairs.values)
        mends = np.zeros(len(illegal), np.bool_)
        mends[pairs.fault[first & broken.any(axis=1)]] = True
        anew, kept = np.flatnonzero(mends[pairs.fault] & first), np.flatnonzero(~mends[pairs.fault])
        line = np.concatenate([pairs.line[kept], *(pairs.line[anew] + m * part for part in range(parts))])
        source = np.concatenate([kept, *[anew] * parts])
        gone = broken[source]
        gone[: len(kept)] = False
        codes, stored = pairs.values[source], self.operands.row("a", line)
        right = saturated(metadata.sparsity)[codes] if self.policy == "saturate" else np.uint32(metadata.codes[0])
        codes = np.where(gone, right, codes).astype(np.uint32)
        if self.policy == "zero":
            stored = np.where(np.repeat(gone, metadata.sparsity.stored, axis=1), np.uint32(0), stored)
        return _Pairs(pairs.fault[source], line, codes), {"codes": codes, "a": stored}
