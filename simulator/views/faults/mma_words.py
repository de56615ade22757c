"""Explains one fault of an `mma` instruction in words."""

from __future__ import annotations

from typing import Any

import numpy as np

from isa.types import Bits
from simulator.faults import outcomes
from simulator.faults.table import SITES
from simulator.faults.targets.mma import MmaTarget
from simulator.faults.unit.sites import UNIT_SITES
from simulator.layout import Operand, Place
from simulator.layout.queries import element_name
from simulator.views.faults.unit_words import computes, struck

_SHOWN = 16  # elements of D that are listed


def explain_mma(target: MmaTarget, fault: Any) -> dict[str, Any]:
    """What the fault changes and what comes of it, under these keys: outcome (the row of results), changes (place,
    before, after, bits, and holds: what is stored there), d (elements that differ, up to 16)."""
    one = np.array([fault])
    results, (words, edits) = target.run(one), target.faulty(one)
    site, case = SITES[int(fault["site"])], int(fault["case"])
    values = dict(zip((name for name, _ in outcomes.FIELDS), outcomes.texts(results)[0].split(","), strict=True))
    texts = ("outcome", "reason", "detectors")
    about: dict[str, Any] = {
        name: float(value) if "." in value and name not in texts else value
        for name, value in values.items()
        if name != "id"
    }
    shown: dict[str, Any] = {"outcome": about}
    if site == "selector":
        before, after = target.choice.selector, int(words["selector"][0, 0, 0])
        shown["changes"] = [{"place": "selector", "before": before, "after": after, "holds": []}]
    elif site in UNIT_SITES:
        shown["changes"] = [_of_unit(target, fault, words)]
    else:
        places = [change for change in edits.rows(0).changes() if change[2] != change[3]]
        shown["changes"] = [_change(target, target.layout.operands[site], *place) for place in sorted(places)]
    if about["outcome"] in ("masked", "sdc"):
        after = target.form.d.gather(target.execute(words, one))[0]
        shown["d"] = _differences(target, target.golden_matrix[case], after)
    return shown


def _of_unit(target: MmaTarget, fault: Any, words: dict[str, Bits]) -> dict[str, Any]:
    """The description of a part of the unit that does not work as it should."""
    how, codes = target.sum, target.matrices.codes
    holds = computes(fault, how, None if codes is None else codes[int(fault["case"])])
    about: dict[str, Any] = {"place": struck(fault, how), "holds": holds}
    if SITES[int(fault["site"])] == "selector_input":
        before, after = target.choice.selector, int(words["selector"][0, 0, 0])
        about |= {"before": before, "after": after, "holds": [f"the unit takes the metadata of selector {after}"]}
    return about


def _change(target: MmaTarget, operand: Operand, word: int, lane: int, before: int, after: int) -> dict[str, Any]:
    """The description of a word that is not what it should be."""
    bits = [bit for bit in range(32) if (before ^ after) >> bit & 1]
    elements = sorted({element for bit in bits for element in operand.elements(lane, word, bit, bit)})
    holds = [_about(target, operand, element, before, after) for element in elements]
    place = f"T{lane} {operand.word_name(word)}"
    return {"place": place, "before": f"{before:#010x}", "after": f"{after:#010x}", "bits": bits, "holds": holds}


def _about(target: MmaTarget, operand: Operand, element: tuple[int, ...], before: int, after: int) -> str:
    """An element, and what the fault makes of it."""
    place = next(iter(operand.places(*element)))
    old, new = (word >> place.low & (1 << operand.bits) - 1 for word in (before, after))
    row, column = element[:2]
    if operand.name == "e":
        metadata = target.form.metadata
        first, size = column * metadata.sparsity.chunk, metadata.sparsity.chunk
        span = f"A[{row}][{first}] to A[{row}][{first + size - 1}]"
        legal = "" if new in metadata.codes else ", not defined"
        return f"code of row {row}, chunk {column} ({span}): {old:04b} -> {new:04b}{legal}"
    kind = getattr(getattr(target.form, operand.name, None), "type", None)
    values = f"{old:#x} -> {new:#x}" if kind is None else f"{_value(old, kind)} -> {_value(new, kind)}"
    return f"{element_name(operand)}[{row}][{column}]: {values}"


def _differences(target: MmaTarget, before: Bits, after: Bits) -> list[dict[str, Any]]:
    operand, element, rows = target.layout.operands["d"], target.form.d.type, []
    for row, column in np.argwhere(before != after).tolist()[:_SHOWN]:
        (place,) = operand.places(row, column)
        old, new = int(before[row, column]), int(after[row, column])
        values = {"before": _value(old, element), "after": _value(new, element)}
        bits = {"bits_before": f"{old:#x}", "bits_after": f"{new:#x}"}
        rows.append({"element": f"D[{row}][{column}]", "place": operand.name_of(Place(*place)), **values, **bits})
    return rows


def _value(pattern: int, element: Any) -> str:
    (value,) = outcomes.numbers(np.array([pattern], np.uint32), element)
    return f"{value:g}" if element.is_float else str(int(value))
