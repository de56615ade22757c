"""Faults of one `mma` or `mma.sp`, computed again from rows and from the words that operands have without faults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from tests.golden.again import judged, rows, sums
from tests.golden.again.fragments import Form, codes, form_of, gather, live, places, scales
from tests.golden.again.numerals import parts, value, whole
from tests.golden.again.rows import Place, Rows

TOGETHER = 128  # faults that are multiplied together
FIRST_OTHER, OTHERS = 1 << 16, 64  # the products that tolerances are taken from
FP8 = ("e4m3", "e5m2")


@dataclass
class Instruction:
    """One instruction with its operands.

    Attributes:
        target: the fault target, of which the opcode, the chip and the words without faults are read, nothing else.
        models, patterns: the expressions of the campaign's groups, and its patterns.
    """

    target: Any
    models: Mapping[int, str]
    patterns: Sequence[Any]

    @cached_property
    def form(self) -> Form:
        """What the opcode says."""
        return form_of(self.target.opcode)

    @cached_property
    def grids(self) -> dict[str, Any]:
        """The place of every element of an operand."""
        form, choice = self.form, self.target.choice
        found = {name: places(form, name) for name in "abcd"}
        if form.sparse:
            found["e"] = codes(form, choice.selector)
        if form.vector:
            found |= {name: scales(form, name, getattr(choice, name)) for name in ("scale_a", "scale_b")}
        return found

    @cached_property
    def sites(self) -> dict[str, Place]:
        """The words that faults strike."""
        found = {}
        for name, grid in self.grids.items():
            used, bits = (0xF, 4) if name == "e" else (self.form.format(name).used, self.form.format(name).bits)
            shape = (int(grid[..., 0].max()) + 1, 32)
            found[name] = Place(shape, grid, live(grid, used, shape), bits)
        return found | {"selector": Place((1, 1), None, np.array([[3]], np.uint32))}

    @cached_property
    def golden(self) -> dict[str, Any]:
        """The words without faults [case, word, lane]; those of D computed here."""
        return self._golden(self.target)

    def _golden(self, target: Any) -> dict[str, Any]:
        words = {name: target.golden[name] for name in self.grids if name != "d"}
        words["selector"] = np.full((target.cases, 1, 1), target.choice.selector, np.uint32)
        return words | {"d": self._scattered(self.product(words, "hardware"))}

    def _scattered(self, matrix: Any) -> Any:
        """D [case, row, column] in registers."""
        place = self.sites["d"]
        found = np.zeros((len(matrix), *place.shape), np.uint32)
        spot = place.grid
        for row in range(16):
            for column in range(8):
                word, lane, low = spot[row, column]
                found[:, word, lane] |= matrix[:, row, column] << np.uint32(low)
        return found

    def run(self, found: Rows) -> dict[str, Any]:
        """What becomes of every row."""
        parts_ = [self._run(rows.some(found, index)) for index in _pieces(len(found["id"]))]
        return {name: np.concatenate([part[name] for part in parts_]) for name in parts_[0]}

    def _run(self, found: Rows) -> dict[str, Any]:
        count, case = len(found["id"]), found["case"]
        words = {name: array[case] for name, array in self.golden.items()}
        changed, read = np.zeros((2, count), np.bool_)
        turned = np.zeros((count, 1), np.int64)
        for site in set(found["site"].tolist()):
            mine, place = np.flatnonzero(found["site"] == site), self.sites[site]

            def look(row: Any, word: Any, lane: Any, former: bool = False, mine: Any = mine, site: str = site) -> Any:
                return self.golden["c" if former else site][case[mine[row]], word, lane]

            done = rows.changes(rows.some(found, mine), look, place, self.models, self.patterns)
            row, differs = mine[done.row], done.before ^ done.after
            words[site][row, done.word, done.lane] = done.after
            alive = place.live[done.word, done.lane]
            changed[row[differs != 0]] = True
            read[row[(differs & alive) != 0]] = True
            if site == "e":
                turned = np.zeros((count, 32), np.int64)  # a word of each lane
                turned[row, done.lane] = np.where(alive != 0, differs, 0)
        in_d = found["site"] == "d"
        got = self.product(words, self.target.policy)
        struck = gather(words["d"], self.grids["d"], self.form.format("d").bits)
        got = np.where(in_d[:, None, None], struck, got)
        beyond = words["selector"][:, 0, 0] >= self.form.selectors if self.form.sparse else np.zeros(count, np.bool_)
        right = gather(self.golden["d"][case], self.grids["d"], self.form.format("d").bits)
        got = np.where(beyond[:, None, None], right, got)
        seen = self._detectors(found, words, turned, got, beyond)
        how = self._judged(got, right, changed, read, beyond, seen)
        ended = np.isin(how["outcome"], ["due", "detected"])
        form = self.form.format("d")
        abft, how["left_ulp"], how["left_abs"] = self.sums.corrected(got, right, form, case, self.tolerances, ended)
        return how | {"corrections": judged.together(judged.words_corrected(turned), abft)}

    def _judged(self, got: Any, right: Any, changed: Any, read: Any, beyond: Any, seen: dict[str, Any]) -> Any:
        measures = judged.measured(got, right, self.form.format("d"))
        stopped = np.where(beyond, "illegal-instruction", "").astype(object)
        refused = seen["legality"] & (self.target.policy == "raise") if "legality" in seen else np.zeros_like(beyond)
        outcome, reason = judged.outcomes((got != right).any(axis=(1, 2)), changed, read, stopped, refused)
        blank = np.isin(outcome, ["due", "detected"])
        for name in judged.MEASURES:
            measures[name] = np.where(blank, -1 if name.startswith("first") else 0, measures[name])
        return measures | seen | {"outcome": outcome, "reason": reason}

    def _detectors(self, found: Rows, words: Any, turned: Any, got: Any, beyond: Any) -> dict[str, Any]:
        numbers = value(got, self.form.format("d"))
        seen = {"abft": self.sums.fails(numbers, found["case"], self.tolerances)}
        if not self.form.sparse:
            return seen
        read = self._codes(words)
        return seen | {
            "legality": (~self.form.defined[read]).any(axis=(1, 2)) | beyond,
            "ordered": (~self.form.ascending[read]).any(axis=(1, 2)),
            "parity": judged.parity(turned),
            "secded": judged.secded(turned),
        }

    # Products

    def _codes(self, words: Any) -> Any:
        """The codes that are read [fault, row, chunk]; of a selector that the form does not have those of the last."""
        selectors = np.minimum(words["selector"][:, 0, 0], self.form.selectors - 1)
        found = np.zeros((len(selectors), 16, self.form.k // self.form.chunk), np.int64)
        for selector in set(selectors.tolist()):
            mine = selectors == selector
            found[mine] = gather(words["e"][mine], codes(self.form, selector), 4)
        return found

    def product(self, words: Any, policy: str) -> Any:
        """D [fault, row, column] of words [fault, word, lane] by site."""
        form = self.form
        a, b, c = (gather(words[name], self.grids[name], form.format(name).bits) for name in "abc")
        if not form.sparse:
            return self._sum(a[:, :, None], b.transpose(0, 2, 1)[:, None], c, words)
        read = self._codes(words)
        broken = ~form.defined[read]
        if policy == "saturate":
            read = np.where(broken, _saturated(read, form), read)
        chosen = _chosen(read, b.transpose(0, 2, 1), form)
        if policy == "zero":
            gone = np.repeat(broken, form.chunk // 2, axis=2)[:, :, None]
            a, chosen = np.where(gone[:, :, 0], 0, a), np.where(gone, 0, chosen)
        return self._sum(a[:, :, None], chosen, c, words)

    def _sum(self, a: Any, b: Any, c: Any, words: Any) -> Any:
        """D of A [fault, row, 1, k], the B that each meets [fault, row or 1, column, k], and C."""
        form = self.form
        if not form.format("a").is_float:
            left, right = whole(a, form.format("a")), whole(b, form.format("b"))
            return sums.integers(left, right, whole(c, form.format("c")), form.saturate)
        left, right = parts(a, form.format("a")), parts(b, form.format("b"))
        if form.vector:
            return self._scaled(left, right, c, words)
        chip = int("".join(letter for letter in self.target.target if letter.isdigit()))
        if form.a in FP8 and chip in (90, 100, 103, 110):
            assert form.d == "f32", "f16 results of FP8 are not recomputed"
            number = np.arange(a.shape[-1])
            return sums.two_steps(left, right, c, number // 2 % 2 == 0)
        assert chip >= 90 or form.a not in FP8, "the 13 bits of FP8 on sm_89 are not recomputed"
        rule = sums.RULES["Hopper" if chip >= 90 else "Ampere"]
        return sums.fused(left, right, c, (form.c, form.d), rule, max(1, form.format("a").bits // 8))

    def _scaled(self, left: Any, right: Any, c: Any, words: Any) -> Any:
        form = self.form
        bits = form.format("scale").bits
        scale_a = gather(words["scale_a"], self.grids["scale_a"], bits)[:, :, None]
        scale_b = gather(words["scale_b"], self.grids["scale_b"], bits).transpose(0, 2, 1)[:, None]
        count = form.stored // 16 if form.packed else 1
        both = [
            parts(np.repeat(x, count // form.vector or 1, axis=3), form.format("scale")) for x in (scale_a, scale_b)
        ]
        if form.packed:
            return sums.grouped(left, right, both, c)
        return sums.scaled(left, right, both, c, sums.RULES["Hopper"])

    # Checksums

    @cached_property
    def sums(self) -> judged.Sums:
        """The checksums of the cases."""
        return self._sums(self.golden)

    @cached_property
    def tolerances(self) -> tuple[float, float]:
        """The largest distances of other products without faults."""
        other = replace(self.target, first=FIRST_OTHER, cases=OTHERS, given=(), policy="hardware")
        words = self._golden(other)
        d = value(gather(words["d"], self.grids["d"], self.form.format("d").bits), self.form.format("d"))
        rows_, columns = self._sums(words).apart(d)
        return float(rows_.max()), float(columns.max())

    def _sums(self, words: Any) -> judged.Sums:
        form = self.form
        a, b, c = (
            value(gather(words[name], self.grids[name], form.format(name).bits), form.format(name)) for name in "abc"
        )
        if form.sparse:
            a = _expanded(a, self._codes(words), form)
        if form.vector:
            bits = form.format("scale").bits
            scale_a, scale_b = (
                value(gather(words[name], self.grids[name], bits), form.format("scale"))
                for name in ("scale_a", "scale_b")
            )
            a = a * np.repeat(scale_a, form.k // form.vector, axis=2)
            b = b * np.repeat(scale_b, form.k // form.vector, axis=1)
        return judged.Sums(a, b, c)


def _pieces(count: int) -> list[Any]:
    return [np.arange(first, min(first + TOGETHER, count)) for first in range(0, count, TOGETHER)]


def columns_of(read: Any, form: Form) -> Any:
    """The logical column of every stored element [..., row, stored], of codes [..., row, chunk]."""
    each = form.chunk // 2
    code, number = np.repeat(read, each, axis=-1), np.arange(form.stored)
    first = form.chunk * (number // each)
    if form.chunk == 2:
        return first + (code == 0b1110)
    pair = form.chunk == 8
    index = np.where(number // (2 if pair else 1) % 2 == 1, code >> 2, code & 3)
    return first + (2 * index + number % 2 if pair else index)


def _chosen(read: Any, b: Any, form: Form) -> Any:
    """The B that every stored element meets [fault, row, column, stored], of B [fault, column, k]."""
    fault, column = np.arange(len(b))[:, None, None, None], np.arange(b.shape[1])[None, None, :, None]
    if form.chunk > 2:
        return b[fault, column, columns_of(read, form)[:, :, None]]
    first, halves = 2 * np.arange(form.stored), []
    for index in (read & 3, read >> 2):
        element = b[fault, column, (first + (index >> 1))[:, :, None]].astype(np.int64)
        halves.append(element >> 16 * (index & 1)[:, :, None] & 0xFFFF)
    return halves[0] | halves[1] << 16


def _saturated(read: Any, form: Form) -> Any:
    """Codes whose second index is made at least the first plus one."""
    if form.chunk == 2:
        return np.where(read >> 2 >= 2, 0b1110, 0b0100)
    low = np.minimum(read & 3, 2)
    return low | np.maximum(read >> 2, low + 1) << 2


def _expanded(a: Any, read: Any, form: Form) -> Any:
    """A with its zeros [case, row, k]."""
    found = np.zeros((*a.shape[:2], form.k))
    np.put_along_axis(found, columns_of(read, form), a, axis=2)
    return found
