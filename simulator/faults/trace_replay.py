"""One fault of a trace in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from isa.forms.mma import MmaForm
from isa.ptx.instruction import register_names
from simulator.faults.injection import FOREVER, FaultInjection
from simulator.faults.lockstep import with_selector
from simulator.faults.outcomes import DETECTORS, OUTCOMES, REASONS
from simulator.faults.table import as_dict
from simulator.layout import Choice, form_layout
from simulator.program.lowering import Operation

if TYPE_CHECKING:
    from simulator.faults.trace import TraceSubject

_SHOWN = 8  # elements of the result, and instructions that read


def replay(subject: TraceSubject, fault: Any) -> dict[str, Any]:
    """What a fault changes and when, which instructions of the warp read it next and as which elements, and the result
    before and after.

    Keys: fault (the row), what, when, before, after (the word, or the instruction), read_by, unread, outcome, reason,
        detectors, error, elements
    (place, bits before, bits after; the first few), changed (how many), class_changed, accuracy (both None without a
    network).
    """
    strike = subject.strike(fault)
    unread = subject.unread(strike)
    run, strike = subject.alone(fault)
    result = subject.run(np.array([fault]))[0]
    stored = subject.stored
    elements, count = [], 0
    if run.arrays:
        got, golden = stored.matrix(run.arrays), stored.golden_matrix
        places = np.argwhere(got != golden)
        count = len(places)
        digits = 8 if stored.element is None else stored.element.bits // 4
        elements = [
            (stored.place(int(r), int(c)), f"{golden[r, c]:#0{digits + 2}x}", f"{got[r, c]:#0{digits + 2}x}")
            for r, c in places[:_SHOWN]
        ]
    network = stored.classifier is not None and bool(run.arrays)
    before, after = _words(subject, strike)
    return {
        "fault": as_dict(fault),
        "what": _what(subject, strike),
        "when": _when(subject, strike),
        "before": before,
        "after": after,
        "read_by": _readers(subject, strike),
        "unread": unread,
        "outcome": OUTCOMES[result["outcome"]],
        "reason": REASONS[result["reason"]],
        "detectors": [name for i, name in enumerate(DETECTORS) if result["detectors"] >> i & 1],
        "error": run.said,
        "elements": elements,
        "changed": count,
        "class_changed": int(result["class_changed"]) if network else None,
        "accuracy": subject.accuracy(run.arrays) if network else None,
    }


def _what(subject: TraceSubject, strike: FaultInjection) -> str:
    mask = f"bits {strike.mask:#010x}"
    cta = f"CTA {strike.cta}, " * (subject.program.trace.ctas > 1)
    if strike.site == "registers":
        return f"{cta}warp {strike.local}, lane {strike.lane}, %r{strike.word}, {mask}: {strike.model}"
    if strike.site == "shared":
        return f"{cta}shared[{4 * strike.word}] to [{4 * strike.word + 3}], {mask}: {strike.model}"
    if strike.site == "tmem":
        return f"{cta}Tensor Memory, lane {strike.lane}, column {strike.word}, {mask}: {strike.model}"
    return f"{cta}warp {strike.local}, sparsity selector {strike.value}"


def _when(subject: TraceSubject, strike: FaultInjection) -> str:
    count = subject.instructions(strike.warp)
    if strike.first >= count:
        return f"behind the last dynamic instruction of warp {strike.local}"
    operation = subject.program.operation(strike.warp, strike.first)
    assert operation is not None
    text = f"before dynamic instruction {strike.first} of {count} of warp {strike.local}, line {operation.line}: {operation.instruction.form.opcode}"
    if strike.lasting:
        text += ", held to the end" if strike.last == FOREVER else f", held to before instruction {strike.last}"
    return text


def _words(subject: TraceSubject, strike: FaultInjection) -> tuple[str, str]:
    """The word before and after the first strike; for a selector the instruction."""
    if strike.site != "selector":
        after = strike.was if strike.target is None else strike.was & ~strike.mask | strike.target & strike.mask
        return f"{strike.was:#010x}", f"{after & 0xFFFFFFFF:#010x}"
    operation = subject.program.operation(strike.warp, strike.first)
    if (
        operation is None
        or not isinstance(operation.instruction.form, MmaForm)
        or not operation.instruction.form.sparse
    ):
        return "", ""
    return str(operation.instruction), str(with_selector(operation.instruction, strike.value))


def _readers(subject: TraceSubject, strike: FaultInjection) -> list[str]:
    """The instructions that read a register of the run without faults until it is written again, and what of it they
    take for what."""
    if strike.site != "registers":
        return []
    found: list[str] = []
    for index in range(strike.first, subject.instructions(strike.warp)):
        operation = subject.program.operation(strike.warp, index)
        assert operation is not None
        if strike.word in operation.reads:
            found.append(f"instruction {index}, line {operation.line}: {_role(operation, strike)}")
        if len(found) == _SHOWN or (
            strike.word in operation.writes and operation.instruction.guard is None and index >= strike.last - 1
        ):
            break
    return found


def _role(operation: Operation, strike: FaultInjection) -> str:
    """The opcode; of a matrix instruction also the elements that the struck bits hold."""
    instruction, form = operation.instruction, operation.instruction.form
    if not isinstance(form, MmaForm) or not strike.mask:
        return form.opcode
    choice = (
        Choice(selector=instruction.selector)
        if form.sparse and instruction.selector < form.metadata.selectors
        else Choice()
    )
    operands = form_layout(form.opcode, choice).operands
    low, high = (strike.mask & -strike.mask).bit_length() - 1, strike.mask.bit_length() - 1
    said = []
    for role, operand in zip(form.roles, instruction.operands, strict=False):
        names = register_names(operand)
        if role.name in operands and role.name != "d" and f"%r{strike.word}" in names:
            held = operands[role.name].elements(
                strike.lane, names.index(f"%r{strike.word}") if role.name in "abc" else 0, low, high
            )
            shown = ", ".join(f"[{row}][{column}]" for row, column, *_ in held) or "nothing that it reads"
            said.append(f"{'codes of row and chunk' if role.name == 'e' else role.name.upper()} {shown}")
    return f"{form.opcode}: {'; '.join(said)}" if said else form.opcode
