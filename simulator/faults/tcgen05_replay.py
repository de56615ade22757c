"""One fault of a `tcgen05.mma` in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from isa.descriptors.instruction import InstructionDescriptor
from isa.shared_memory.descriptor import SharedMemoryDescriptor
from isa.tensor_memory.address import TmemAddress
from simulator.faults.outcomes import DETECTORS, OUTCOMES, REASONS
from simulator.faults.table import MODELS, as_dict
from simulator.faults.tcgen05_scene import COLUMN

if TYPE_CHECKING:
    from simulator.faults.tcgen05 import Tcgen05Instruction

_SHOWN = 8


def replay(subject: Tcgen05Instruction, fault: Any) -> dict[str, Any]:
    """What a fault changes, which elements those bits are, and D before and after.

    Keys: fault (the row), what, changes (place, before, after), held (the elements, codes or fields that the bits
        belong to), outcome, reason,
    detectors, error, elements (row, column, bits before, bits after; the first few), changed (how many).
    """
    site, _ = subject.checked(fault)
    done, case = subject.executed(fault), int(fault["case"])
    result = subject.run(np.array([fault]))[0]
    golden = subject.golden[case]
    places = np.argwhere(done.d != golden) if done.d is not None else np.zeros((0, 2), np.int64)
    digits = subject.result.bits // 4 + 2
    edits = subject.edits(fault)
    return {
        "fault": as_dict(fault),
        "what": f"{MODELS[int(fault['model'])]} in {site} of {subject.form.opcode}, M = {subject.m}, N = {subject.n}, layout {subject.layout.layout}",
        "changes": [
            (_place(subject, site, word, lane), f"{now:#010x}", f"{new:#010x}") for word, lane, now, new in edits
        ],
        "held": [text for word, lane, now, new in edits for text in _held(subject, site, word, lane, now, new)],
        "outcome": OUTCOMES[result["outcome"]],
        "reason": REASONS[result["reason"]],
        "detectors": [name for i, name in enumerate(DETECTORS) if result["detectors"] >> i & 1],
        "error": done.said,
        "elements": [
            (int(row), int(column), f"{golden[row, column]:#0{digits}x}", f"{done.d[row, column]:#0{digits}x}")
            for row, column in places[:_SHOWN]
            if done.d is not None
        ],
        "changed": len(places),
    }


def _place(subject: Tcgen05Instruction, site: str, word: int, lane: int) -> str:
    if site in COLUMN:
        return f"Tensor Memory, lane {lane}, column {COLUMN[site] + word}"
    if site == "shared":
        return f"shared[{4 * word}]"
    return {"idesc": "instruction descriptor", "selector": "instruction descriptor"}.get(
        site, f"{site}, word {word}" if "desc" in site else site
    )


def _held(subject: Tcgen05Instruction, site: str, word: int, lane: int, now: int, new: int) -> list[str]:
    """The elements, codes or fields that the changed bits belong to."""
    changed = now ^ new
    if not changed:
        return []
    low, high = (changed & -changed).bit_length() - 1, changed.bit_length() - 1
    if site in COLUMN:
        names = {"e": "code of row {} chunk {}", "a": "A[{}][{}] (stored column)", "d": "D[{}][{}]"}
        held = subject.layout.operands[site].elements(lane, word, low, high)
        return [names.get(site, f"{site} [{{}}][{{}}]").format(*element[:2]) for element in held]
    if site == "shared":
        bits = 32 * word + np.arange(low, high + 1)
        found = []
        for operand in "b" if subject.a_in_tmem else "ab":
            first = subject.shape.shared_bits(operand)
            width = subject.shape.element(operand).bits
            row, column = np.nonzero(
                (first[..., None] <= bits).any(axis=-1) & (first[..., None] + width > bits).any(axis=-1)
            )
            at = f"{operand.upper()}[{{}}][{{}}]" if operand == "a" else "B[{1}][{0}]"
            found += [at.format(int(r), int(c)) for r, c in zip(row, column, strict=True)]
        return found[:_SHOWN]
    if site in ("idesc", "selector"):
        return _fields(
            InstructionDescriptor.decode(now, subject.form.kind), InstructionDescriptor.decode(new, subject.form.kind)
        )
    if site.endswith("_desc"):
        whole = subject.shape.descriptor(site[0]).encode()
        return _fields(
            SharedMemoryDescriptor.decode(whole), SharedMemoryDescriptor.decode(whole ^ changed << 32 * word)
        )
    return [" -> ".join(_address(value) for value in (now, new))]


def _fields(before: Any, after: Any) -> list[str]:
    names = [item.name for item in before.table if item.name != "reserved"]
    differ = [
        f"{name}: {getattr(before, name)} -> {getattr(after, name)}"
        for name in names
        if getattr(before, name) != getattr(after, name)
    ]
    return differ or ["reserved bits"]


def _address(word: int) -> str:
    lane, column = word >> 16, word & 0xFFFF
    return str(TmemAddress(lane, column)) if lane < 128 and column < 512 else f"lane {lane}, column {column}, outside"
