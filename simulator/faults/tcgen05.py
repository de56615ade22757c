"""Faults in one `tcgen05.mma` or `tcgen05.mma.sp`: its operands, its descriptors and its addresses, one execution a
fault.

    site                       word, lane
    a, d, e, scale_a, scale_b  column from the operand's address on, lane of Tensor Memory (of the even CTA, where there
    are two) shared                     byte address / 4, 0 (the same)
    idesc, a_desc, b_desc      0 (of the 64-bit ones 0 and 1), 0
    selector                   bits 0 and 1 of the instruction descriptor
    base_d, base_a, base_e     0, 0: the address, lane in bits 31 to 16, column below; `align` sets the lane to `value`

Addresses that break an alignment rule (`isa.tensor_memory.datapath.violations`) fault, as seen on sm_110 (published):
due, misaligned-address. With misaligned = "follow" they are followed instead: the operand is read (D: read and written)
so many lanes on, modulo 128. That is assumed; no chip is known to do so.
Illegal descriptors: due, illegal (that a chip stops is assumed; PTX says undefined of some). A pair of CTAs is executed
whole, and its D compared whole, the rows of the even CTA first; faults strike the even one, and of descriptors and
addresses the instruction, so both. Cells beside D that a wrong descriptor or address makes the instruction write are no
part of the result.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from isa.descriptors.bitfields import Severity
from isa.descriptors.instruction import InstructionDescriptor
from isa.errors import IsaError, UndefinedBehavior
from isa.forms.tcgen05 import Tcgen05MmaForm
from isa.shared_memory.layout import smem_operand
from isa.tensor_memory.address import TMEM_LANES, TmemAddress
from isa.tensor_memory.datapath import Violation, datapath, violations
from isa.types import ELEMENT_TYPES, Bits, ElementType
from simulator.arithmetic.convert import to_float64
from simulator.arithmetic.formats import integers
from simulator.errors import ConfigError
from simulator.execute.tcgen05.fetch import Cta
from simulator.execute.tcgen05.multiply import Call, multiply
from simulator.faults import outcomes
from simulator.faults.detectors import Checksums, flags, parity, secded
from simulator.faults.outcomes import DETECTED, DUE, MASKED, Results, compare, reason
from simulator.faults.policies import POLICIES
from simulator.faults.space import Site, code_places, live_bits
from simulator.faults.table import MODELS, SITES, Faults
from simulator.faults.tcgen05_codes import mend
from simulator.faults.tcgen05_scene import COLUMN, SHARED_BYTES, Shape, fill, form_of, shape_of
from simulator.layout import Choice, FormLayout, form_layout

MISALIGNED = ("fault", "follow")
_WORDS = {
    "idesc": "idesc",
    "selector": "idesc",
    "a_desc": "a",
    "b_desc": "b",
    "base_d": "d",
    "base_a": "a",
    "base_e": "sp_meta",
}
_FOLLOWED = (("d", "d", "d"), ("a", "a", "a"), ("sp_meta", "sp_meta", "e"))  # of a call, of a violation, of a site
_FAULT_FREE = 16  # cases that tolerances of checksums come from


@dataclass(frozen=True)
class Executed:
    """What one execution came to.

    Attributes:
        d: uint32 [row, n], where D should be; None where nothing was computed.
        broken: alignment rules that the addresses break.
        illegal: whether a code that was read is not defined, or the instruction descriptor is not legal.
        unordered: whether a code that was read does not ascend.
        outcome, reason: where it ended early; `said`: why.
    """

    d: Bits | None
    broken: tuple[Violation, ...] = ()
    illegal: bool = False
    unordered: bool = False
    outcome: int = MASKED
    reason: str = ""
    said: str = ""


@dataclass(frozen=True)
class Tcgen05Instruction:
    """One instruction with operands, to inject faults into.

    Attributes:
        opcode: e.g. "tcgen05.mma.sp.cta_group::1.kind::f16".
        m, n: its shape; M of both CTAs of a pair.
        base_lane: of D, A and metadata: 0, or 16 in layouts C and F.
        selector: sparsity selector.
        target: whose arithmetic, and what is legal.
        a_in_tmem: whether A is in Tensor Memory.
        element: type of A and B; empty: one of the kind's.
        d_type: of kinds f16 and f8f6f4: "f32" or "f16"; empty: f32 (s32 for i8).
        cases, seed: sets of operands, and what they come from.
        policy: see `simulator.faults.policies`.
        arithmetic: "chip" or "exact".
        misaligned: "fault" or "follow".
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

    def __post_init__(self) -> None:
        for name, value, legal in (("policy", self.policy, POLICIES), ("misaligned", self.misaligned, MISALIGNED)):
            if value not in legal:
                raise ConfigError("campaign", f"subject.{name}", f"{name} '{value}'", ", ".join(legal))

    def __getstate__(self) -> dict[str, Any]:
        """The fields alone: a process fills its own memory."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def form(self) -> Tcgen05MmaForm:
        return form_of(self.opcode, self.a_in_tmem, self.target)

    @cached_property
    def shape(self) -> Shape:
        """IsaError for an instruction that is not legal."""
        return shape_of(
            self.form, self.m, self.n, self.base_lane, self.selector, self.element, self.d_type, self.target
        )

    @cached_property
    def layout(self) -> FormLayout:
        return form_layout(
            self.form.opcode, Choice(selector=self.selector, m=self.m, n=self.n, base_lane=self.base_lane)
        )

    @cached_property
    def result(self) -> ElementType:
        """D's type."""
        return ELEMENT_TYPES[
            str(self.shape.idesc.d_type)
            if self.form.kind in ("f16", "f8f6f4")
            else "s32"
            if self.form.kind == "i8"
            else "f32"
        ]

    @cached_property
    def sites(self) -> dict[str, Site]:
        """Where faults can be."""
        found, form = {}, self.form
        for name, operand in self.layout.operands.items():
            if name == "a" and not self.a_in_tmem:
                continue
            used = (1 << operand.bits) - 1
            if name in "ad":
                element = self.shape.element("a") if name == "a" else self.result
                used = element.mask & ~((1 << element.padding) - 1)
            found[name] = Site(name, live_bits(operand, used), code_places(operand) if name == "e" else None)
        found["shared"] = Site("shared", self._shared_live()[:, None])
        words = {"idesc": 1, "b_desc": 2, "base_d": 1}
        words |= {"a_desc": 2} if not self.a_in_tmem else {"base_a": 1}
        words |= {"base_e": 1} if form.sparse else {}
        found |= {name: Site(name, np.full((count, 1), 0xFFFFFFFF, np.uint32)) for name, count in words.items()}
        if form.sparse and not form.kind.startswith("mx"):
            found["selector"] = Site("selector", np.full((1, 1), 3, np.uint32))
        return found

    def _shared_live(self) -> Bits:
        """The bits of shared memory that belong to elements, uint32 [word]."""
        live = np.zeros(SHARED_BYTES * 8, np.bool_)
        for operand in "b" if self.a_in_tmem else "ab":
            element = smem_operand(self.shape.idesc, operand, cta_group=self.form.cta_group).element
            first = self.shape.shared_bits(operand)
            for bit in range(element.padding if element.bits == 32 else 0, _smem_width(element)):
                live[first + bit] = True
        return np.packbits(live, bitorder="little").view("<u4").astype(np.uint32)

    # Without faults

    @cached_property
    def scenes(self) -> list[list[Cta]]:
        """The CTAs of each case before the instruction."""
        return [fill(self.shape, self.seed, case, self.result) for case in range(self.cases)]

    @cached_property
    def golden(self) -> Bits:
        """D of each case, uint32 [case, row, n]."""
        found = []
        for scene in self.scenes:
            done = self._execute(scene, self.shape.call)
            assert done.d is not None, done.said
            found.append(done.d)
        return np.stack(found)

    @cached_property
    def digest(self) -> str:
        """Of the operands and D: SHA-256 in short."""
        found = hashlib.sha256(repr(self.shape.call).encode())
        for scene in self.scenes:
            for cta in scene:
                found.update(np.ascontiguousarray(cta.tmem.words, "<u4").tobytes() + cta.shared.tobytes())
        found.update(np.ascontiguousarray(self.golden, "<u4").tobytes())
        return found.hexdigest()[:16]

    @cached_property
    def checksums(self) -> Checksums:
        """Of the cases; tolerances from at least 16 without faults."""
        own = Checksums(self._numbers(self.golden), self._numbers(replace(self, arithmetic="exact").golden))
        if self.cases < _FAULT_FREE:
            more = replace(self, cases=_FAULT_FREE).checksums
            own.row_tolerance, own.column_tolerance = more.row_tolerance, more.column_tolerance
        return own

    def _numbers(self, patterns: Bits) -> Any:
        return (
            to_float64(patterns, self.result)
            if self.result.is_float
            else integers(patterns, self.result).astype(np.float64)
        )

    # Execution

    def _read(self, scene: list[Cta]) -> Bits:
        """D where it should be, uint32 [row, n]."""
        found = self.shape.accumulators(self.result)
        return np.concatenate([found.read(cta).transpose(1, 0, 2).reshape(self.shape.rows, -1) for cta in scene])

    def _execute(self, scene: list[Cta], call: Call) -> Executed:
        """The instruction with these operands; memory is afterwards as it was before."""
        kept = [cta.tmem.words.copy() for cta in scene]
        shared = [cta.shared.copy() for cta in scene] if self.policy == "zero" else []
        try:
            return self._multiplied(scene, call)
        finally:
            for cta, words in zip(scene, kept, strict=True):
                cta.tmem.words[:] = words
            for cta, data in zip(scene, shared, strict=False):
                cta.shared[:] = data

    def _multiplied(self, scene: list[Cta], call: Call) -> Executed:
        idesc = InstructionDescriptor.decode(call.idesc, self.form.kind)
        try:
            broken = self._broken(call, idesc)
        except IsaError as error:
            return Executed(None, outcome=DUE, reason="illegal", said=str(error))
        if broken and self.misaligned == "fault":
            return Executed(
                None, tuple(broken), outcome=DUE, reason="misaligned-address", said="; ".join(map(str, broken))
            )
        offsets, call = self._straightened(call, broken)
        for cta in scene:
            for name, lanes in offsets.items():
                at = self._columns(name, call)
                cta.tmem.words[:, at] = np.roll(cta.tmem.words[:, at], -lanes, axis=0)
        met: list[str] = []
        codes = mend(self.shape, scene, call, idesc, self.policy)
        try:
            multiply(
                call,
                scene,
                target=self.target,
                arithmetic=self.arithmetic,
                meet=lambda name, _count, _where: met.append(name),
            )
        except (IsaError, UndefinedBehavior) as error:
            return Executed(None, tuple(broken), self._refused(idesc), outcome=DUE, reason="illegal", said=str(error))
        if "d" in offsets:
            for cta in scene:
                at = self._columns("d", call)
                cta.tmem.words[:, at] = np.roll(cta.tmem.words[:, at], offsets["d"], axis=0)
        return Executed(
            self._read(scene), tuple(broken), "undefined-metadata" in met or codes.undefined, codes.unordered
        )

    def _refused(self, idesc: InstructionDescriptor) -> bool:
        """Whether the instruction descriptor is what is wrong."""
        form, vector = self.form, self.form.vector.removeprefix("scale_vec::")
        how: dict[str, Any] = {
            "cta_group": form.cta_group,
            "sparse": form.sparse,
            "ws": form.ws,
            "target": self.target,
            "a_in_tmem": form.a_in_tmem,
        }
        return any(found.severity is not Severity.WARNING for found in idesc.validate(**how, scale_vec=vector))

    def _broken(self, call: Call, idesc: InstructionDescriptor) -> list[Violation]:
        """Alignment rules that the addresses break; none where the descriptor has no layout to ask."""
        form = self.form
        d, a = TmemAddress.from_word(call.d), TmemAddress.from_word(call.a) if form.a_in_tmem else None
        meta = TmemAddress.from_word(call.sp_meta) if form.sparse else None
        try:
            layout = datapath(idesc.m, form.cta_group, form.sparse, form.ws)
        except IsaError:
            return []
        return violations(layout, d, a=a, sp_meta=meta)

    def _straightened(self, call: Call, broken: list[Violation]) -> tuple[dict[str, int], Call]:
        """What follows of a misalignment: how many lanes on each operand lies, and the instruction with the addresses
        that are right."""
        offsets: dict[str, int] = {}
        if not broken:
            return offsets, call
        right = self.shape.call
        for name, _, site in _FOLLOWED:
            word, legal = getattr(call, name), getattr(right, name)
            if (site == "a" and not self.a_in_tmem) or (site == "e" and not self.form.sparse):
                continue
            if word >> 16 != legal >> 16:
                offsets[site] = (word >> 16) - (legal >> 16)
                call = replace(call, **{name: legal & 0xFFFF0000 | word & 0xFFFF})
        return offsets, call

    def _columns(self, name: str, call: Call) -> slice:
        first = {"d": call.d, "a": call.a, "e": call.sp_meta}[name] & 0xFFFF
        return slice(first, first + self.layout.operands[name].words)

    # Faults

    def checked(self, fault: Any) -> tuple[str, str]:
        """Site and model; ConfigError for a fault that the instruction cannot have."""
        site, model = SITES[int(fault["site"])], MODELS[int(fault["model"])]
        known = self.sites.get(site)
        problem = ""
        if known is None:
            problem, legal = f"site {site}", ", ".join(self.sites)
        elif not (
            fault["word"] < len(known.live) and fault["lane"] < known.live.shape[1] and fault["case"] < self.cases
        ):
            problem, legal = (
                f"word {fault['word']}, lane {fault['lane']}, case {fault['case']} of {site}",
                f"{known.live.shape}, {self.cases} cases",
            )
        elif model not in ("flip", "stuck0", "stuck1", "set", "word", "lane", "swap", "align", "selector"):
            problem, legal = f"model {model}", "those of simulator.faults.table"
        elif (model == "selector") != (site == "selector") or (model == "align" and not site.startswith("base_")):
            problem, legal = f"model {model} in site {site}", "align in base_d, base_a, base_e; selector in selector"
        elif model in ("lane", "swap") and (site not in COLUMN or not 0 <= int(fault["lane2"]) < TMEM_LANES):
            problem, legal = (
                f"model {model} in site {site}, lane2 {fault['lane2']}",
                "operands in Tensor Memory, lanes 0 to 127",
            )
        if problem:
            raise ConfigError("campaign", "faults", problem, legal)
        return site, model

    def edits(self, fault: Any) -> list[tuple[int, int, int, int]]:
        """Word, lane, and the word there before and after: one change, or two of `swap`."""
        site, model = self.checked(fault)
        word, lane, mask, value = (int(fault[name]) for name in ("word", "lane", "mask", "value"))
        now, low = self.word(site, word, lane, int(fault["case"])), (mask & -mask).bit_length() - 1
        if model == "swap":
            word2, lane2, mask2 = (int(fault[name]) for name in ("word2", "lane2", "mask2"))
            then, low2 = self.word(site, word2, lane2, int(fault["case"])), (mask2 & -mask2).bit_length() - 1
            change = (now & mask) >> low ^ (then & mask2) >> low2
            if (word, lane) == (word2, lane2):
                return [(word, lane, now, now ^ change << low ^ change << low2)]
            return [(word, lane, now, now ^ change << low), (word2, lane2, then, then ^ change << low2)]
        if model == "lane":
            new = self.word(site, word, int(fault["lane2"]), int(fault["case"]))
        else:
            new = {
                "flip": now ^ mask,
                "stuck0": now & ~mask,
                "stuck1": now | mask,
                "set": now & ~mask | value & mask,
                "word": value,
                "align": now & 0xFFFF | value << 16,
                "selector": now & ~3 | value & 3,
            }[model]
        return [(word, lane, now, new & 0xFFFFFFFF)]

    def word(self, site: str, word: int, lane: int, case: int) -> int:
        """A word of a site without faults."""
        cta = self.scenes[case][0]
        if site in COLUMN:
            return int(cta.tmem.words[lane, COLUMN[site] + word])
        if site == "shared":
            return int(cta.shared.view("<u4")[word])
        return int(getattr(self.shape.call, _WORDS[site])) >> 32 * word & 0xFFFFFFFF

    def executed(self, fault: Any) -> Executed:
        """The instruction with a fault."""
        site, _ = self.checked(fault)
        scene, call = self.scenes[int(fault["case"])], self.shape.call
        edits = self.edits(fault)
        if site in _WORDS:
            name, (word, _, now, new) = _WORDS[site], edits[0]
            return self._execute(scene, replace(call, **{name: getattr(call, name) ^ (now ^ new) << 32 * word}))
        cells = scene[0].tmem.words.T if site in COLUMN else scene[0].shared.view("<u4")[:, None]
        first = COLUMN.get(site, 0)
        try:
            for word, lane, _, new in edits:
                cells[first + word, lane] = new
            return self._execute(scene, call)
        finally:
            for word, lane, now, _ in edits:
                cells[first + word, lane] = now

    def run(self, faults: Faults) -> Results:
        """The outcome of each fault, in the order given."""
        results = outcomes.empty(faults["id"])
        for at in range(len(faults)):
            self._one(results[at : at + 1], faults[at])
        return results

    def _one(self, result: Results, fault: Any) -> None:
        """One row of results."""
        site, _ = self.checked(fault)
        edits, live = self.edits(fault), self.sites[site].live
        if all(now == new for _, _, now, new in edits):
            result["reason"] = reason("same")
            return
        if all(not (now ^ new) & int(live[word, lane]) for word, lane, now, new in edits):
            result["reason"] = reason("unread")
            return
        done, case = self.executed(fault), int(fault["case"])
        seen = {"legality": done.illegal, "ordered": done.unordered, "alignment": bool(done.broken)}
        if site == "e":
            changed = np.array([[(now ^ new) if live[word, lane] else 0 for word, lane, now, new in edits]], np.uint32)
            seen |= {"parity": bool(parity(changed)[0]), "secded": bool(secded(changed)[0])}
        if done.d is None:
            result["outcome"], result["reason"] = done.outcome, reason(done.reason)
        else:
            compare(result, done.d[None], self.golden[case][None], self.result)
            seen["abft"] = bool(self.checksums.sees(self._numbers(done.d[None]), np.array([case]))[0])
        result["detectors"] = flags(**{name: np.array([saw]) for name, saw in seen.items()})
        if self.policy == "raise" and done.illegal:
            blank = outcomes.empty(result["id"])
            blank["outcome"], blank["detectors"] = DETECTED, result["detectors"]
            blank["reason"] = reason("illegal" if done.d is None else "invalid-code")
            result[:] = blank

    def replay(self, fault: Any) -> dict[str, Any]:
        """One fault in words: what it changes, which elements those bits are, and D before and after."""
        from simulator.faults.tcgen05_replay import replay  # which needs this class

        return replay(self, fault)


def _smem_width(element: ElementType) -> int:
    """Bits of an element in shared memory that count."""
    return {"e2m1": 4, "e2m3": 6, "e3m2": 6}.get(element.name, element.bits)
