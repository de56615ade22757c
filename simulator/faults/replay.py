"""One fault of a list in words: what it changes, which lanes and elements that concerns, and the result before and
after."""

from __future__ import annotations

from typing import Any

import numpy as np

from isa.types import Bits, ElementType
from simulator.arithmetic.convert import to_float64
from simulator.arithmetic.formats import integers
from simulator.errors import TraceError
from simulator.faults import outcomes, table
from simulator.faults.instruction import Instruction
from simulator.faults.subjects import Any_
from simulator.faults.table import SITES, FaultList, Faults
from simulator.layout import Operand, Place
from simulator.layout.queries import element_name

SHOWN = 16  # elements of D that are listed


def fault_of(found: FaultList, number: int) -> Faults:
    """The row with that id, as an array of one; TraceError if there is none."""
    if not 0 <= number < found.rows:
        raise TraceError(str(found.path), 0, 0, f"no fault {number}", f"0 to {found.rows - 1}")
    for rows in table.read_blocks(found, number, number + 1):
        if int(rows["id"][0]) == number:
            return rows
    raise TraceError(
        str(found.path),
        0,
        0,
        f"row {number} has another id",
        "a list in the order of its ids, as 'tcsim faults list' writes it",
    )


def replay(subject: Any_, fault: Faults) -> dict[str, Any]:
    """What one fault does to any subject; see the functions of that name for the keys."""
    return of_instruction(subject, fault) if isinstance(subject, Instruction) else subject.replay(fault[0])


def of_instruction(subject: Instruction, fault: Faults) -> dict[str, Any]:
    """What one fault does to one `mma`.

    Args:
        fault: a row of the list, as an array of one.

    Returns:
        The fault, its outcome, `changes` (place, before, after, what is there), `codes` (metadata before and after,
        with what they select) and `d` (elements that differ, up to 16), all plain values.
    """
    results = subject.run(fault)
    registers, _ = subject.faulty(fault)
    selector = fault["value"] if SITES[int(fault["site"][0])] == "selector" else np.array([subject.choice.selector])
    after = subject.form.d.gather(subject.execute(registers, selector, fault))[0]
    before = subject.form.d.gather(subject.golden["d"])[int(fault["case"][0])]
    found: dict[str, Any] = {"fault": table.as_dict(fault[0]), "outcome": _outcome(results[0])}
    found["changes"] = _changes(subject, fault, registers)
    if found["outcome"]["outcome"] in ("masked", "sdc"):
        found["d"] = _differences(subject.layout.operands["d"], before, after, subject.form.d.type)
    if found["fault"]["site"] == "selector":
        found["changes"] = [
            {"place": "selector", "before": subject.choice.selector, "after": int(fault["value"][0]), "holds": []}
        ]
    return found


def _outcome(result: Any) -> dict[str, Any]:
    names = [name for name, _ in outcomes.FIELDS]
    values = dict(zip(names, outcomes.texts(np.array([result]))[0].split(","), strict=True))
    del values["id"]
    return {
        name: value if name in ("outcome", "reason", "detectors") else float(value) if "." in value else value
        for name, value in values.items()
    }


def _changes(subject: Instruction, fault: Faults, registers: dict[str, Bits]) -> list[dict[str, Any]]:
    """Every word that is not what it should be."""
    name, case = SITES[int(fault["site"][0])], int(fault["case"][0])
    if name not in subject.golden:
        return []
    operand, was, now = subject.layout.operands[name], subject.golden[name][case], registers[name][0]
    rows = []
    for word, lane in np.argwhere(was != now).tolist():
        before, after = int(was[word, lane]), int(now[word, lane])
        bits = [bit for bit in range(32) if (before ^ after) >> bit & 1]
        elements = sorted({element for bit in bits for element in operand.elements(lane, word, bit, bit)})
        holds = [_about(operand, element, before, after, subject) for element in elements]
        place = f"T{lane} {operand.word_name(word)}"
        rows.append(
            {"place": place, "before": f"{before:#010x}", "after": f"{after:#010x}", "bits": bits, "holds": holds}
        )
    return rows


def _about(operand: Operand, element: tuple[int, ...], before: int, after: int, subject: Instruction) -> str:
    """An element and what the fault makes of it."""
    place = next(iter(operand.places(*element)))
    old, new = (word >> place.low & (1 << operand.bits) - 1 for word in (before, after))
    row, column = element[:2]
    if operand.name == "e":
        size = subject.form.metadata.sparsity.chunk
        legal = "" if new in subject.form.metadata.codes else ", not defined"
        return f"code of row {row}, chunk {column} (A[{row}][{column * size}] to A[{row}][{column * size + size - 1}]): {old:04b} -> {new:04b}{legal}"
    kind = getattr(getattr(subject.form, operand.name, None), "type", None)
    values = f"{old:#x} -> {new:#x}" if kind is None else f"{_value(old, kind)} -> {_value(new, kind)}"
    return f"{element_name(operand)}[{row}][{column}]: {values}"


def _value(pattern: int, element: ElementType) -> str:
    array = np.array([pattern], np.uint32)
    return f"{float(to_float64(array, element)[0]):g}" if element.is_float else str(int(integers(array, element)[0]))


def _differences(operand: Operand, before: Bits, after: Bits, element: ElementType) -> list[dict[str, Any]]:
    rows = []
    for row, column in np.argwhere(before != after).tolist()[:SHOWN]:
        (place,) = operand.places(row, column)
        old, new = int(before[row, column]), int(after[row, column])
        values = {
            "before": _value(old, element),
            "after": _value(new, element),
            "bits_before": f"{old:#x}",
            "bits_after": f"{new:#x}",
        }
        rows.append({"element": f"D[{row}][{column}]", "place": operand.name_of(Place(*place)), **values})
    return rows


def text(found: dict[str, Any]) -> str:
    """The same as lines."""
    if "what" in found:
        return _text(found)
    fault, outcome = found["fault"], found["outcome"]
    lines = [
        f"fault {fault['id']}: {fault['model']} in {fault['site']}, operands of case {fault['case']}, seed {fault['seed']:#x}"
    ]
    for change in found["changes"]:
        lines.append(f"  {change['place']}: {change['before']} -> {change['after']}")
        lines += [f"    {line}" for line in change["holds"]] or ["    no bit that the instruction reads"]
    if not found["changes"]:
        lines.append("  nothing changes: the bits have these values already")
    why = f" ({outcome['reason']})" if outcome["reason"] else ""
    lines.append(
        f"  outcome: {outcome['outcome']}{why}"
        + (f"; seen by {outcome['detectors'].replace('+', ', ')}" if outcome["detectors"] else "")
    )
    if outcome["outcome"] == "sdc":
        lines.append(
            f"  {outcome['elements']} elements of D differ, at most {outcome['max_ulp']} ulp, {outcome['max_rel']} of the value:"
        )
    for row in found.get("d", []):
        lines.append(
            f"    {row['element']:<10} {row['place']:<12} {row['before']:>14} -> {row['after']:<14} {row['bits_before']} -> {row['bits_after']}"
        )
    if outcome["outcome"] == "sdc" and int(outcome["elements"]) > SHOWN:
        lines.append(f"    ... and {int(outcome['elements']) - SHOWN} more")
    return "\n".join(lines) + "\n"


def _text(found: dict[str, Any]) -> str:
    """What happens to a trace or to a `tcgen05.mma`."""
    lines = [f"fault {found['fault']['id']}: {found['what']}"]
    lines += [f"  {found['when']}"] if found.get("when") else []
    lines += [f"  {found['before']} -> {found['after']}"] if found.get("before") else []
    lines += [f"  {place}: {before} -> {after}" for place, before, after in found.get("changes", [])]
    lines += [f"    {held}" for held in found.get("held", [])]
    lines += [f"  read by {reader}" for reader in found.get("read_by", [])]
    why = f" ({found['reason']})" if found["reason"] else ""
    lines.append(
        f"  outcome: {found['outcome']}{why}"
        + (f"; seen by {', '.join(found['detectors'])}" if found["detectors"] else "")
    )
    lines += [f"  {found['error']}"] if found.get("error") else []
    lines += [f"  {found['changed']:,} elements of the result differ:"] if found["changed"] else []
    for *place, before, after in found["elements"]:
        name = f"D[{place[0]}][{place[1]}]" if len(place) == 2 else str(place[0])
        lines.append(f"    {name:<18} {before} -> {after}")
    if found.get("class_changed") is not None:
        lines.append(f"  {found['class_changed']} images change their class; accuracy {found['accuracy']:.4f}")
    return "\n".join(lines) + "\n"
