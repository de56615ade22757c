"""Replays one fault of a list and describes it in words: what it changes, which lanes and elements that concerns, and
the result before and after."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np

from simulator.errors import TraceError
from simulator.faults import table
from simulator.faults.outcomes import DETECTORS, OUTCOMES, REASONS
from simulator.faults.table import FaultList, Faults
from simulator.faults.targets.launch import LaunchTarget
from simulator.faults.targets.mma import MmaTarget
from simulator.faults.targets.program import ProgramTarget
from simulator.faults.targets.target import FaultTarget
from simulator.faults.targets.tcgen05 import Tcgen05Target
from simulator.views.faults.launch_words import explain_launch
from simulator.views.faults.mma_words import explain_mma
from simulator.views.faults.program_words import explain_program
from simulator.views.faults.tcgen05_words import explain_tcgen05

_SHOWN = 8  # elements that are listed


def fault_of(found: FaultList, number: int) -> Faults:
    """The row of a list with that id, as an array of one; TraceError if there is none."""
    if not 0 <= number < found.rows:
        raise TraceError(str(found.path), 0, 0, f"no fault {number}", f"0 to {found.rows - 1}")
    ((_, rows),) = table.read_pieces(found, [(number, number + 1)])
    if int(rows["id"][0]) != number:
        legal = "a list in the order of its ids, as 'tcsim faults list' writes it"
        raise TraceError(str(found.path), 0, 0, f"row {number} has another id", legal)
    return rows


def replay(target: FaultTarget, fault: Faults) -> dict[str, Any]:
    """What one fault does to a target, as plain values.

    Args:
        fault: a row of the list, as an array of one.

    Returns:
        fault (the row), what a function such as `explain_mma` says, and outcome, reason and detectors; for targets that
            compare whole results also elements (place, bits before, bits after; the first few), changed (how many) and
            class_changed.
    """
    target.check(fault)
    shown = {"fault": table.as_dict(fault[0])} | _explain(target, fault[0])
    if "golden" not in shown:
        return shown
    (result,) = target.run(fault)
    got, golden, digits = shown.pop("got"), shown.pop("golden"), shown.pop("width") + 2
    place = shown.pop("place", None)
    places = np.argwhere(got != golden).tolist() if got is not None else []
    elements: list[tuple[Any, ...]] = []
    for row, column in places[:_SHOWN]:
        before, after = (f"{array[row, column]:#0{digits}x}" for array in (golden, got))
        elements.append((*((place(row, column),) if place else (row, column)), before, after))
    shown |= {
        "outcome": OUTCOMES[result["outcome"]],
        "reason": REASONS[result["reason"]],
        "detectors": [name for i, name in enumerate(DETECTORS) if result["detectors"] >> i & 1],
        "error": shown.pop("error"),
        "elements": elements,
        "changed": len(places),
    }
    if "accuracy" in shown:
        accuracy = shown.pop("accuracy")
        shown |= {"class_changed": None if accuracy is None else int(result["class_changed"]), "accuracy": accuracy}
    return shown


@singledispatch
def _explain(target: FaultTarget, fault: Any) -> dict[str, Any]:
    """What a fault changes, and what comes of it, from the function for this sort of target."""
    raise TypeError(f"{type(target).__name__}: no fault in words; register a function for it here")


_explain.register(MmaTarget, explain_mma)
_explain.register(Tcgen05Target, explain_tcgen05)
_explain.register(ProgramTarget, explain_program)
_explain.register(LaunchTarget, explain_launch)


def text(found: dict[str, Any]) -> str:
    """What `replay` returns, as lines of text."""
    return "\n".join([*(_whole(found) if "what" in found else _instruction(found)), ""])


def _end(outcome: str, reason: str, detectors: list[str]) -> str:
    why, seen = f" ({reason})" if reason else "", f"; seen by {', '.join(detectors)}" if detectors else ""
    return f"  outcome: {outcome}{why}{seen}"


def _instruction(replayed: dict[str, Any]) -> list[str]:
    """The lines about a fault of an `mma`."""
    fault, outcome = replayed["fault"], replayed["outcome"]
    where = f"{fault['model']} in {fault['site']}, operands of case {fault['case']}, seed {fault['seed']:#x}"
    lines = [f"fault {fault['id']}: {where}"]
    for change in replayed["changes"]:
        stored = "before" in change
        lines.append(f"  {change['place']}" + (f": {change['before']} -> {change['after']}" if stored else ""))
        lines += [f"    {line}" for line in change["holds"]] or ["    no bit that the instruction reads"] * stored
    if not replayed["changes"]:
        lines.append("  nothing changes: the bits have these values already")
    lines.append(_end(outcome["outcome"], outcome["reason"], list(filter(None, outcome["detectors"].split("+")))))
    count, rows = int(outcome["elements"]), replayed.get("d", [])
    if outcome["outcome"] == "sdc":
        size = f"at most {outcome['max_ulp']} ulp, {outcome['max_rel']} of the value"
        lines.append(f"  {outcome['elements']} elements of D differ, {size}:")
    for row in rows:
        values, bits = f"{row['before']:>14} -> {row['after']:<14}", f"{row['bits_before']} -> {row['bits_after']}"
        lines.append(f"    {row['element']:<10} {row['place']:<12} {values} {bits}")
    if outcome["outcome"] == "sdc" and count > len(rows):
        lines.append(f"    ... and {count - len(rows)} more")
    return lines


def _whole(replayed: dict[str, Any]) -> list[str]:
    """The lines about a fault of a trace or of a `tcgen05.mma`."""
    lines = [f"fault {replayed['fault']['id']}: {replayed['what']}"]
    lines += [f"  {replayed['when']}"] if replayed.get("when") else []
    lines += [f"  {replayed['before']} -> {replayed['after']}"] if replayed.get("before") else []
    lines += [f"  {place}: {before} -> {after}" for place, before, after in replayed.get("changes", [])]
    lines += [f"    {held}" for held in replayed.get("held", [])]
    lines += [f"  read by {reader}" for reader in replayed.get("read_by", [])]
    lines.append(_end(replayed["outcome"], replayed["reason"], replayed["detectors"]))
    lines += [f"  {replayed['error']}"] if replayed.get("error") else []
    lines += [f"  {replayed['changed']:,} elements of the result differ:"] if replayed["changed"] else []
    for *place, before, after in replayed["elements"]:
        name = f"D[{place[0]}][{place[1]}]" if len(place) == 2 else str(place[0])
        lines.append(f"    {name:<18} {before} -> {after}")
    if replayed.get("class_changed") is not None:
        lines.append(f"  {replayed['class_changed']} images change their class; accuracy {replayed['accuracy']:.4f}")
    return lines
