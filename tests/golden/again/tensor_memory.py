"""Faults of one `tcgen05.mma` or `tcgen05.mma.sp`, computed again from rows and from what Tensor Memory, shared memory
and the instruction hold without faults (docs/tensor_memory.md, docs/descriptors.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tests.golden.again import judged, rows, sums
from tests.golden.again.descriptors import Idesc, Kind, addresses, idesc_of
from tests.golden.again.numerals import FORMATS, parts, value, whole
from tests.golden.again.rows import Place, Rows
from tests.golden.again.tensor_operands import (
    Block,
    Memory,
    StoppedError,
    code_places,
    elements_at,
    factors_at,
    lanes_of,
)

FIRST = {"d": 0, "a": 256, "e": 264, "scale_a": 272, "scale_b": 288}  # the columns of operands
FIELD = {"selector": "idesc", "base_d": "d", "base_a": "a", "base_e": "e"}  # words of the instruction that sites strike
DEFINED = np.isin(np.arange(16), [0b0100, 0b1000, 0b1100, 0b1001, 0b1101, 0b0110, 0b1110])
ASCENDING = (np.arange(16) & 3) < (np.arange(16) >> 2)
TOGETHER = 64


@dataclass
class TensorInstruction:
    """One instruction with its operands.

    Attributes:
        target: the fault target, of which the fields, the memories of the cases and the words of the instruction are
            read, nothing else.
        models, patterns: the expressions of the campaign's groups, and its patterns.
        others: memories of other products without faults, from which tolerances are taken.
    """

    target: Any
    models: Mapping[int, str]
    patterns: Sequence[Any]
    others: Sequence[Any]

    @cached_property
    def kind(self) -> Kind:
        """What the opcode says."""
        opcode = self.target.opcode
        name = next(word[6:] for word in opcode.split(".") if word.startswith("kind::"))
        return Kind(name, ".sp" in opcode, int(opcode.partition("cta_group::")[2][0]))

    @cached_property
    def words(self) -> dict[str, int]:
        """The words of the instruction."""
        lane = self.target.base_lane << 16
        found = {name: lane | FIRST[name] for name in "dae"}
        for name, count in (("idesc", 1), ("b_desc", 2), *([] if self.target.a_in_tmem else [("a_desc", 2)])):
            values = self.target.words(name, np.zeros(count, int), np.arange(count), np.zeros(count, int))
            found[name] = sum(int(word) << 32 * number for number, word in enumerate(values))
        return found

    @cached_property
    def idesc(self) -> Idesc:
        """What the descriptor says."""
        found = idesc_of(self.words["idesc"], self.kind, self.target.a_in_tmem)
        assert found is not None
        return found

    @cached_property
    def memories(self) -> list[list[Memory]]:
        """Of each case the memories of its CTAs."""
        return [[Memory(cta.tmem.words, cta.shared) for cta in ctas] for ctas in self.target.memory]

    # Sites

    @cached_property
    def sites(self) -> dict[str, Place]:
        """The words that faults strike, of the even CTA."""
        kind, idesc = self.kind, self.idesc
        lanes, halves = lanes_of(idesc.m, kind, self.target.base_lane)
        column = np.arange(idesc.n)[None]
        each = idesc.n // halves
        lane = lanes[:, None] + 64 * (column // each)
        found = {"d": self._place(column % each, lane, 0, each, FORMATS[idesc.d].bits, FORMATS[idesc.d].used)}
        stored, per = kind.k // (2 if kind.sparse else 1), 32 // kind.bits
        if self.target.a_in_tmem:
            number = np.arange(stored)[None]
            low, used = number % per * kind.bits, FORMATS[idesc.a].used
            found["a"] = self._place(number // per, lanes[:, None], low, 8, kind.bits, used, 64 * (halves - 1))
        if kind.sparse:
            lane, column, low = code_places(len(lanes), lanes, kind, idesc.selector)
            found["e"] = self._place(column, lane, low, 2, 4, 15)
        if kind.scaled:
            for name, count, id_ in zip(("scale_a", "scale_b"), (len(lanes), idesc.n), idesc.ids, strict=True):
                number = np.arange(count)[:, None]
                found[name] = self._scale_place(number, id_)
        live = np.zeros(16384, np.uint32)
        for name in "b" if self.target.a_in_tmem else "ab":
            spots = self._shared(self.words, name, self.idesc)
            for byte in range(kind.bits // 8):
                spot = spots + byte
                used = FORMATS[getattr(idesc, name)].used >> 8 * byte & 255
                np.bitwise_or.at(live, spot // 4, (used << 8 * (spot % 4)).astype(np.uint32))
        found["shared"] = Place((16384, 1), None, live[:, None])
        for name, count in (("idesc", 1), ("a_desc", 2), ("b_desc", 2), ("base_d", 1), ("base_a", 1), ("base_e", 1)):
            found[name] = Place((count, 1), None, np.full((count, 1), rows.FULL, np.uint32))
        return found | {"selector": Place((1, 1), None, np.array([[3]], np.uint32))}

    def _place(self, word: Any, lane: Any, low: Any, count: int, bits: int, used: int, copy: int = 0) -> Place:
        grid = np.stack(np.broadcast_arrays(word, lane, low), axis=-1).astype(np.int64)
        live = np.zeros((count, 128), np.uint32)
        for more in {0, copy}:
            masks = (np.uint64(used) << grid[..., 2].astype(np.uint64)).astype(np.uint32)
            np.bitwise_or.at(live, (grid[..., 0], grid[..., 1] + more), masks)
        return Place((count, 128), grid, live, bits)

    def _scale_place(self, number: Any, id_: int) -> Place:
        """Each factor has a copy in every quarter of the lanes."""
        place = self._place(number // 32, number % 32, 8 * id_, -(-len(number) // 32), 8, 255)
        live = place.live.copy()
        for quarter in range(1, 4):
            live[:, 32 * quarter : 32 * quarter + 32] = live[:, :32]
        return place._replace(live=live)

    def _shared(self, words: Mapping[str, int], name: str, idesc: Idesc) -> Any:
        """The byte addresses of A or B in a CTA's shared memory."""
        count = (idesc.m if name == "a" else idesc.n) // self.kind.ctas
        columns = self.kind.k // (2 if name == "a" and self.kind.sparse else 1)
        found = addresses(words[f"{name}_desc"], count, columns, self.kind.bits // 8, idesc.transposed[name == "b"])
        if found is None:
            raise StoppedError("illegal")
        return found

    # Operands

    def blocks(self, ctas: Sequence[Memory], words: Mapping[str, int], idesc: Idesc) -> list[Block]:
        """The operands of an instruction, read from where it says."""
        kind = self.kind
        column = {name: words[name] & 0xFFFF for name in "dae"}
        lanes, halves = lanes_of(idesc.m, kind, words["d"] >> 16)
        each, number, blocks = idesc.n // halves, np.arange(len(lanes)), []
        room = (("d", each), ("a", 8), ("e", 2 if kind.sparse else 0))
        if any(column[name] + size > 512 for name, size in room if size and (name != "a" or self.target.a_in_tmem)):
            raise StoppedError("illegal")
        b = np.concatenate([elements_at(cta, self._shared(words, "b", idesc), idesc.b) for cta in ctas])
        for rank, cta in enumerate(ctas):
            codes = scales = None
            if kind.sparse:
                lane, word, low = code_places(len(lanes), lanes, kind, idesc.selector)
                codes = cta.cells[lane, column["e"] + word].astype(np.int64) >> low & 15
            if kind.scaled:
                scales = [factors_at(cta, FIRST[name], count, id_) for name, count, id_ in
                          zip(("scale_a", "scale_b"), (len(lanes), idesc.n), idesc.ids, strict=True)]  # fmt: skip
            for part in range(halves):
                mine = slice(part * each, (part + 1) * each)
                lane = np.broadcast_to((lanes + 64 * part)[:, None], (len(lanes), each))
                where = np.broadcast_to(column["d"] + np.arange(each), lane.shape)
                a = self._a(cta, words, lanes + 64 * part, column["a"], idesc)
                some = None if scales is None else (scales[0], scales[1][mine])
                blocks.append(Block(rank * len(lanes) + number, np.arange(idesc.n)[mine], (lane, where), a, codes,
                                    b[mine], cta.cells[lane, where], some))  # fmt: skip
        return blocks

    def _a(self, cta: Memory, words: Mapping[str, int], lanes: Any, column: int, idesc: Idesc) -> Any:
        if not self.target.a_in_tmem:
            return elements_at(cta, self._shared(words, "a", idesc), idesc.a)
        per = 32 // self.kind.bits
        found = cta.cells[lanes, column : column + 8].astype(np.int64)
        split = found[..., None] >> np.arange(per) * self.kind.bits & (1 << self.kind.bits) - 1
        return split.reshape(len(lanes), -1)

    # Products

    def product(self, block: Block, idesc: Idesc, row: Any, column: Any) -> Any:
        """D of some rows and columns of a block: words [row, column]."""
        kind = self.kind
        a, b = block.a[row][None, :, None], block.b[column]
        c = block.c[np.ix_(row, column)]
        if kind.sparse:
            code = np.repeat(block.codes[row], 2, axis=1)
            stored = np.arange(kind.k // 2)
            where = 4 * (stored // 2) + np.where(stored % 2 == 1, code >> 2, code & 3)
            b = b.T[where].transpose(0, 2, 1)
        b = b[None]
        form = FORMATS[idesc.d]
        if not form.is_float:
            left, right = whole(a, FORMATS[idesc.a]), whole(b, FORMATS[idesc.b])
            return sums.integers(left, right, whole(c, form)[None], idesc.saturate)[0]
        left, right = parts(a, FORMATS[idesc.a]), parts(b, FORMATS[idesc.b])
        left = left._replace(negative=left.negative ^ idesc.negate[0])
        right = right._replace(negative=right.negative ^ idesc.negate[1])
        c = c[None] & np.uint32((1 << form.bits) - 1)
        if kind.scaled:
            factors = (block.scales[0][row][None, :, None, None], block.scales[1][column][None, None, :, None])
            both = [parts(factor, FORMATS["ue8m0"]) for factor in factors]
            return sums.scaled(left, right, both, c, sums.RULES["Hopper"])[0]
        return sums.fused(left, right, c, (idesc.d, idesc.d), sums.RULES["Hopper"], kind.bits // 8)[0]

    def executed(self, ctas: Sequence[Memory], words: Mapping[str, int], golden: Any) -> Any:
        """D as it is read from where it should be, and the codes that were read. `golden` has the blocks and the
        results of the instruction without a fault, or is None."""
        self._aligned(words)
        idesc = idesc_of(words["idesc"], self.kind, self.target.a_in_tmem)
        if idesc is None:
            raise StoppedError("illegal", "descriptor")
        blocks = self.blocks(ctas, words, idesc)
        results = []
        for number, block in enumerate(blocks):
            if golden is None or idesc._replace(selector=0) != self.idesc._replace(selector=0):
                results.append(self.product(block, idesc, np.arange(len(block.a)), np.arange(len(block.b))))
                continue
            results.append(self._differing(block, golden[0][number], golden[1][number], idesc))
        cells = [cta.cells.copy() for cta in ctas]
        for number, (block, result) in enumerate(zip(blocks, results, strict=True)):
            cells[number * len(ctas) // len(blocks)][block.cell] = result
        return self._read(cells), blocks, results

    def _differing(self, block: Block, right: Block, d: Any, idesc: Idesc) -> Any:
        """D of a block, of which only those rows and columns are computed whose operands differ."""
        row = (block.a != right.a).any(axis=1) | (block.c != right.c).any(axis=1)
        column = (block.b != right.b).any(axis=1)
        if block.codes is not None:
            row |= (block.codes != right.codes).any(axis=1)
        if block.scales is not None:
            row |= block.scales[0] != right.scales[0]
            column |= block.scales[1] != right.scales[1]
        found, every = d.copy(), np.arange(len(row))
        some = np.flatnonzero(row)
        if len(some):
            found[some] = self.product(block, idesc, some, np.arange(len(column)))
        some = np.flatnonzero(column)
        if len(some):
            found[:, some] = self.product(block, idesc, every, some)
        return found

    def _read(self, cells: Sequence[Any]) -> Any:
        """D in the order of its rows."""
        place = self.sites["d"].grid
        form = FORMATS[self.idesc.d]
        each = [one[place[..., 1], place[..., 0] + FIRST["d"]] for one in cells]
        return np.concatenate(each) & np.uint32((1 << form.bits) - 1)

    def _aligned(self, words: Mapping[str, int]) -> None:
        """Stops where addresses lie outside of Tensor Memory, or break a rule of the data path layout."""
        read = ["d"] + ["a"] * self.target.a_in_tmem + ["e"] * self.kind.sparse
        if any(words[name] >> 16 > 127 or words[name] & 0xFFFF > 511 for name in read):
            raise StoppedError("illegal")
        m = (words["idesc"] >> 27 & 3) << 7 if self.kind.scaled else (words["idesc"] >> 24 & 31) << 4
        if m not in (64, 128, 256) or m // self.kind.ctas not in (64, 128):
            return
        halves = (m, self.kind.ctas) == (64, 1) or (m, self.kind.ctas, self.kind.sparse) == (128, 2, True)
        lanes = [words[name] >> 16 for name in read]
        legal = lanes[0] in ((0, 16) if halves else (0,)) and len(set(lanes)) == 1
        if not legal or (self.kind.sparse and words["e"] & 1):
            raise StoppedError("misaligned-address")

    # Faults

    @cached_property
    def golden(self) -> list[tuple[Any, Any, Any]]:
        """Of each case D, and its blocks with their results, without faults."""
        return [self.executed(ctas, self.words, None) for ctas in self.memories]

    def run(self, found: Rows) -> dict[str, Any]:
        """What becomes of every row."""
        pieces = [np.arange(first, min(first + TOGETHER, len(found["id"])))
                  for first in range(0, len(found["id"]), TOGETHER)]  # fmt: skip
        done = [self._run(rows.some(found, index)) for index in pieces]
        return {name: np.concatenate([part[name] for part in done]) for name in done[0]}

    def _run(self, found: Rows) -> dict[str, Any]:
        count, case = len(found["id"]), found["case"].tolist()
        changed, read = np.zeros((2, count), np.bool_)
        turned = np.zeros((count, 256), np.int64)
        stopped, seen = (
            np.full(count, "", object),
            {name: np.zeros(count, np.bool_) for name in ("legality", "ordered")},
        )
        right = np.stack([self.golden[number][0] for number in case])
        got = right.copy()
        for site in set(found["site"].tolist()):
            mine, place = np.flatnonzero(found["site"] == site), self.sites[site]

            def look(row: Any, word: Any, lane: Any, _: bool = False, mine: Any = mine, site: str = site) -> Any:
                return self._words(site, found["case"][mine[row]], word, lane)

            done = rows.changes(rows.some(found, mine), look, place, self.models, self.patterns)
            differs = done.before ^ done.after
            hit = differs & place.live[done.word, done.lane] != 0
            changed[mine[done.row[differs != 0]]] = True
            read[mine[done.row[hit]]] = True
            if site == "e":
                alive = place.live[done.word, done.lane] != 0
                turned[mine[done.row], done.word * 128 + done.lane] = np.where(alive, differs, 0)
            for row in np.unique(done.row[hit]).tolist():
                part, number = done.row == row, int(mine[row])
                change = [column[part] for column in done[1:]]
                try:
                    d, blocks, _ = self._faulty(site, case[number], change)
                except StoppedError as error:
                    stopped[number] = error.args[0]
                    seen["legality"][number] = len(error.args) > 1
                    continue
                got[number] = d
                codes = [block.codes for block in blocks if block.codes is not None]
                seen["legality"][number] = any(not DEFINED[each].all() for each in codes)
                seen["ordered"][number] = any(not ASCENDING[each].all() for each in codes)
        turned[~read] = 0
        seen |= {"alignment": stopped == "misaligned-address", "parity": judged.parity(turned),
                 "secded": judged.secded(turned)}  # fmt: skip
        numbers = value(got, FORMATS[self.idesc.d])
        seen["abft"] = self.sums.fails(numbers, found["case"], self.tolerances) & (stopped == "")
        measures = judged.measured(got, right, FORMATS[self.idesc.d])
        never = np.zeros(count, np.bool_)
        outcome, reason = judged.outcomes((got != right).any(axis=(1, 2)), changed, read, stopped, never)
        for name in judged.MEASURES:
            measures[name] = np.where(stopped != "", -1 if name.startswith("first") else 0, measures[name])
        abft, ulp, off = self.sums.corrected(
            got, right, FORMATS[self.idesc.d], found["case"], self.tolerances, stopped != ""
        )
        seen |= {"corrections": judged.together(judged.words_corrected(turned), abft), "left_ulp": ulp, "left_abs": off}
        return measures | seen | {"outcome": outcome, "reason": reason}

    def _words(self, site: str, case: Any, word: Any, lane: Any) -> Any:
        """Words of a site without faults."""
        field = FIELD.get(site, site)
        if field in self.words and site not in FIRST:
            return np.array([self.words[field] >> 32 * number & rows.FULL for number in word.tolist()], np.int64)
        found = np.zeros(len(word), np.int64)
        for number in set(case.tolist()):
            mine, memory = case == number, self.memories[number][0]
            words = memory.shared.view("<u4")[word[mine]] if site == "shared" else None
            found[mine] = memory.cells[lane[mine], FIRST[site] + word[mine]] if words is None else words
        return found

    def _faulty(self, site: str, case: int, change: Sequence[Any]) -> Any:
        """The instruction with these words changed."""
        word, lane, before, after = change
        ctas, field = list(self.memories[case]), FIELD.get(site, site)
        golden = self.golden[case][1:]
        if site not in FIRST and site != "shared":
            turned = sum(int(bits) << 32 * int(place) for place, bits in zip(word, before ^ after, strict=True))
            return self.executed(ctas, self.words | {field: self.words[field] ^ turned}, golden)
        memory = ctas[0]
        if site == "shared":
            memory = memory._replace(shared=memory.shared.copy())
            memory.shared.view("<u4")[word] = after
        else:
            memory = memory._replace(cells=memory.cells.copy())
            memory.cells[lane, FIRST[site] + word] = after
        ctas[0] = memory
        return self.executed(ctas, self.words, golden)

    # Checksums

    @cached_property
    def sums(self) -> judged.Sums:
        """The checksums of the cases."""
        return self._sums([blocks for _, blocks, _ in self.golden])

    @cached_property
    def tolerances(self) -> tuple[float, float]:
        """The largest distances of other products without faults."""
        done = [self.executed([Memory(cta.tmem.words, cta.shared) for cta in ctas], self.words, None)
                for ctas in self.others]  # fmt: skip
        d = value(np.stack([one[0] for one in done]), FORMATS[self.idesc.d])
        apart = self._sums([one[1] for one in done]).apart(d)
        return float(apart[0].max()), float(apart[1].max())

    def _sums(self, cases: Sequence[Sequence[Block]]) -> judged.Sums:
        kind, idesc = self.kind, self.idesc
        a, b = np.zeros((len(cases), idesc.m, kind.k)), np.zeros((len(cases), kind.k, idesc.n))
        c = np.zeros((len(cases), idesc.m, idesc.n))
        for number, blocks in enumerate(cases):
            for block in blocks:
                left, right = value(block.a, FORMATS[idesc.a]), value(block.b, FORMATS[idesc.b]).T
                if kind.scaled:
                    left = left * value(block.scales[0], FORMATS["ue8m0"])[:, None]
                    right = right * value(block.scales[1], FORMATS["ue8m0"])
                if kind.sparse:
                    code, stored = np.repeat(block.codes, 2, axis=1), np.arange(kind.k // 2)
                    where = 4 * (stored // 2) + np.where(stored % 2 == 1, code >> 2, code & 3)
                    a[number, block.rows[:, None], where] = left
                else:
                    a[number, block.rows] = left
                b[number, :, block.columns] = right.T
                bits = block.c & np.uint32((1 << FORMATS[idesc.d].bits) - 1)
                c[number, block.rows[:, None], block.columns] = value(bits, FORMATS[idesc.d])
        return judged.Sums(a, b, c)
