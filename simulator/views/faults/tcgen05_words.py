"""Explains one fault of a `tcgen05.mma` instruction in words."""

from __future__ import annotations

from typing import Any

import numpy as np

from isa.descriptors.instruction import InstructionDescriptor
from isa.shared_memory.descriptor import SharedMemoryDescriptor
from isa.tensor_memory.address import COLUMNS, TMEM_LANES, TmemAddress
from simulator.execute.tcgen05.example import COLUMN
from simulator.faults.models import Edits
from simulator.faults.table import MODELS, SITES
from simulator.faults.targets.executed import Executed
from simulator.faults.targets.tcgen05 import Tcgen05Target
from simulator.faults.unit.sites import UNIT_SITES
from simulator.views.faults import unit_words


def explain_tcgen05(target: Tcgen05Target, fault: Any) -> dict[str, Any]:
    """What the fault changes and what comes of it, under these keys: what, changes (place, before, after), held (the
    elements, codes or fields that the changed bits belong to), error, `got` and `golden` (D with and without the
    fault)."""
    edits, site = target.edits(np.array([fault])).rows(0), SITES[int(fault["site"])]
    done, changes = target.executed(fault, edits), edits.changes()
    shape = f"M = {target.m}, N = {target.n}, layout {target.layout.layout}"
    if site in UNIT_SITES:
        return _of_unit(target, fault, edits, shape) | _results(target, fault, done)
    return {
        "what": f"{MODELS[int(fault['model'])]} in {site} of {target.form.opcode}, {shape}",
        "changes": [
            (_place(target, site, word, lane), f"{now:#010x}", f"{new:#010x}") for word, lane, now, new in changes
        ],
        "held": [text for change in changes for text in _held(target, site, *change)],
    } | _results(target, fault, done)


def _results(target: Tcgen05Target, fault: Any, done: Executed) -> dict[str, Any]:
    golden = target.golden[int(fault["case"])]
    return {"error": done.said, "got": done.d, "golden": golden, "width": target.result.bits // 4}


def _of_unit(target: Tcgen05Target, fault: Any, edits: Edits, shape: str) -> dict[str, Any]:
    """The description of a part of the unit that does not work as it should."""
    where = f"{target.form.opcode}, {shape}"
    shown = {"what": f"{MODELS[int(fault['model'])]} in {SITES[int(fault['site'])]} of {where}"}
    struck = unit_words.struck(fault, target.sum)
    if SITES[int(fault["site"])] == "selector_input":
        ((_, _, before, after),) = edits.changes()
        selector = target.selector ^ before ^ after
        return shown | {"held": [struck, f"the unit takes the metadata of selector {selector}"]}
    return shown | {"held": [struck, *unit_words.computes(fault, target.sum, target.codes(fault))]}


def _place(target: Tcgen05Target, site: str, word: int, lane: int) -> str:
    if site in COLUMN:
        return f"Tensor Memory, lane {lane}, column {COLUMN[site] + word}"
    if site == "shared":
        return f"shared[{4 * word}]"
    if site in ("idesc", "selector"):
        return "instruction descriptor"
    return f"{site}, word {word}" if "desc" in site else site


def _held(target: Tcgen05Target, site: str, word: int, lane: int, now: int, new: int) -> list[str]:
    """The elements, codes or fields that the changed bits belong to."""
    changed = now ^ new
    if not changed:
        return []
    low, high = (changed & -changed).bit_length() - 1, changed.bit_length() - 1
    if site in COLUMN:
        names = {"e": "code of row {} chunk {}", "a": "A[{}][{}] (stored column)", "d": "D[{}][{}]"}
        held = target.layout.operands[site].elements(lane, word, low, high)
        return [names.get(site, f"{site} [{{}}][{{}}]").format(*element[:2]) for element in held]
    if site == "shared":
        elements, bits = [], 32 * word + np.arange(low, high + 1)
        for operand in "b" if target.a_in_tmem else "ab":
            first = target.shape.shared_bits(operand)[..., None]
            last = first + target.shape.element(operand).bits
            places = np.argwhere((first <= bits).any(axis=-1) & (last > bits).any(axis=-1)).tolist()
            elements += [f"A[{row}][{k}]" if operand == "a" else f"B[{k}][{row}]" for row, k in places]
        return elements[:8]
    if site in ("idesc", "selector"):
        return _fields(*(InstructionDescriptor.decode(value, target.form.kind) for value in (now, new)))
    if site.endswith("_desc"):
        whole = target.shape.descriptor(site[0]).encode()
        values = whole, whole ^ changed << 32 * word
        return _fields(*(SharedMemoryDescriptor.decode(value) for value in values))
    return [" -> ".join(_address(value) for value in (now, new))]


def _fields(before: Any, after: Any) -> list[str]:
    names = [item.name for item in before.table if item.name != "reserved"]
    pairs = [(name, getattr(before, name), getattr(after, name)) for name in names]
    return [f"{name}: {old} -> {new}" for name, old, new in pairs if old != new] or ["reserved bits"]


def _address(word: int) -> str:
    lane, column = word >> 16, word & 0xFFFF
    inside = lane < TMEM_LANES and column < COLUMNS
    return str(TmemAddress(lane, column)) if inside else f"lane {lane}, column {column}, outside"
