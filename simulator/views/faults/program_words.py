"""Explains one fault of a program in words."""

from __future__ import annotations

from typing import Any

from isa.forms.mma import is_mma
from isa.ptx.instruction import register_names
from simulator.faults.targets.injection import FOREVER, FaultInjection
from simulator.faults.targets.program import ProgramTarget
from simulator.faults.targets.register_sites import REGISTER_SITES
from simulator.faults.unit.instruction import with_selector
from simulator.faults.unit.sites import UNIT_SITES
from simulator.layout import Choice, form_layout
from simulator.program.lowering import Operation
from simulator.views.faults.unit_words import struck

_SHOWN = 8  # instructions that read a register


def explain_program(target: ProgramTarget, fault: Any) -> dict[str, Any]:
    """What the fault changes and what comes of it, under these keys: what, when, before and after (the word, or the
    instruction), read_by (the instructions of the warp that read it next), unread, error, `got` and `golden` (what is
    stored with and without the fault), place (a function that names the place of an element of these), accuracy."""
    unread = target.unread(target.injection(fault))
    run, injection = target.alone(fault)
    before, after = _words(target, injection)
    network = target.stored.classifier is not None and bool(run.arrays)
    return {
        "what": _what(target, injection),
        "when": _when(target, injection),
        "before": before,
        "after": after,
        "read_by": _readers(target, injection),
        "unread": unread,
        "error": run.said,
        "got": target.stored.matrix(run.arrays) if run.arrays else None,
        "golden": target.stored.golden_matrix,
        "width": 8 if target.stored.element is None else target.stored.element.bits // 4,
        "place": target.stored.place,
        "accuracy": target.stored.accuracy(run.arrays) if network else None,
    }


def _what(target: ProgramTarget, injection: FaultInjection) -> str:
    cta = f"CTA {injection.cta}, " * (target.session.program.ctas > 1)
    end = f", bits {injection.mask:#010x}: {injection.model}"
    if injection.site in REGISTER_SITES:
        names = [
            target.session.program.numbering.name(target.first_register(injection.site) + place.word)
            for place in injection.places
        ]
        second = f", to {names[1]} too" if injection.model == "doubled" else ""
        return f"{cta}warp {injection.local}, lane {injection.lane}, {names[0]}{end}{second}"
    if injection.site == "shared":
        return f"{cta}shared[{4 * injection.word}] to [{4 * injection.word + 3}]{end}"
    if injection.site == "tmem":
        return f"{cta}Tensor Memory, lane {injection.lane}, column {injection.word}{end}"
    if injection.site in UNIT_SITES:
        warps = "sub-core" if injection.lasting else "tensor core, while it executes for one instruction,"
        return f"{cta}{warps} of warp {injection.local}: {struck(injection.row, target.unit_sum)}"
    return f"{cta}warp {injection.local}, sparsity selector {injection.value}"


def _when(target: ProgramTarget, injection: FaultInjection) -> str:
    count, operation = target.instructions(injection.warp), target.session.operation(injection.warp, injection.first)
    warp = f"of warp {injection.local}"
    if operation is None:
        return f"behind the last dynamic instruction {warp}"
    line = f"line {operation.line}: {operation.instruction.form.opcode}"
    until = "to the end" if injection.last == FOREVER else f"to before instruction {injection.last}"
    text = f"before dynamic instruction {injection.first} of {count} {warp}, {line}"
    return text + f", held {until}" * injection.lasting


def _words(target: ProgramTarget, injection: FaultInjection) -> tuple[str, str]:
    """The word before and after the first strike; for a selector the instruction."""
    if injection.site in UNIT_SITES:
        return "", ""
    if injection.site != "selector":
        was, becomes = injection.was, injection.target
        after = was if becomes is None else was & ~injection.mask | becomes & injection.mask
        return f"{was:#010x}", f"{after:#010x}"
    operation = target.session.operation(injection.warp, injection.first)
    if operation is None or not target.selects(injection.warp, injection.first):
        return "", ""
    return str(operation.instruction), str(with_selector(operation.instruction, injection.value))


def _readers(target: ProgramTarget, injection: FaultInjection) -> list[str]:
    """The instructions that read a register, in the run without faults, until it is written again, and what each of
    them takes it for."""
    readers: list[str] = []
    if injection.site != "registers":
        return readers
    for index in range(injection.first, target.instructions(injection.warp)):
        operation = target.session.operation(injection.warp, index)
        assert operation is not None
        if injection.word in operation.reads:
            readers.append(f"instruction {index}, line {operation.line}: {_role(operation, injection)}")
        written = injection.word in operation.writes and operation.instruction.guard is None
        if len(readers) == _SHOWN or (written and index >= injection.last - 1):
            break
    return readers


def _role(operation: Operation, injection: FaultInjection) -> str:
    """The opcode; for a matrix instruction also the elements that the struck bits hold."""
    instruction, form = operation.instruction, operation.instruction.form
    if not is_mma(form) or not injection.mask:
        return form.opcode
    defined = form.sparse and instruction.selector < form.metadata.selectors
    operands = form_layout(form.opcode, Choice(selector=instruction.selector) if defined else Choice()).operands
    low, high = (injection.mask & -injection.mask).bit_length() - 1, injection.mask.bit_length() - 1
    said = []
    for role, operand in zip(form.roles, instruction.operands, strict=False):
        names, register = register_names(operand), f"%r{injection.word}"
        if role.name in operands and role.name != "d" and register in names:
            word = names.index(register) if role.name in "abc" else 0
            held = operands[role.name].elements(injection.lane, word, low, high)
            shown = ", ".join(f"[{row}][{column}]" for row, column, *_ in held) or "nothing that it reads"
            said.append(f"{'codes of row and chunk' if role.name == 'e' else role.name.upper()} {shown}")
    return f"{form.opcode}: {'; '.join(said)}" if said else form.opcode
