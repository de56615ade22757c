"""The verb `tcsim decode TEXT`, which explains one PTX instruction, or judges every instruction of a file."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from isa import Instruction, IsaError, MmaForm, Target, decode, parse_target
from isa.errors import Error
from isa.forms.mma import is_mma
from isa.ptx.files import Statement, notes, read_ptx
from isa.undefined import RULES
from simulator.cli import DONE, NO, say
from simulator.cli.answer import UnreadableError, answer
from simulator.tables import aligned

DESCRIPTION = """\
Explains one PTX instruction: its form, operands, types, metadata, and since when and on what it exists. Or judges a
PTX file as a compiler writes it: matrix instructions, loads, stores, integer arithmetic, barriers; instructions of
other families are passed over and counted. What `tcsim launch` could not execute of a module's kernels stands at the
end, with its line.

TEXT is the instruction, a file (its name ends in .ptx), or - to read an instruction from stdin. Exit code 1 if
anything is not legal: the error says what is wrong, where, and what would be right.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `tcsim decode` to its parser."""
    parser.description = DESCRIPTION
    parser.add_argument("text", metavar="TEXT")
    parser.add_argument("--target", help="the chip it is compiled for, e.g. sm_90a (default: any that has it)")
    parser.add_argument("--format", choices=("table", "json"), default="table")


def execute(options: argparse.Namespace) -> int:
    """Runs `tcsim decode` with parsed options; returns the exit code."""
    judge = _file if options.text.endswith(".ptx") or _is_folder(options.text) else _instruction
    return answer(lambda: judge(options), illegal=NO)


def _is_folder(text: str) -> bool:
    try:
        return Path(text).is_dir()
    except (OSError, ValueError):  # no name that a file could have
        return False


def _instruction(options: argparse.Namespace) -> str:
    """Explains one instruction; IsaError if it is not legal."""
    text = options.text
    if text == "-":
        try:
            text = sys.stdin.read()
        except UnicodeDecodeError:
            raise UnreadableError("stdin is not UTF-8 text", "one PTX instruction") from None
    target = _target(options.target)
    instruction = decode(text, target)
    facts = describe(instruction) | {"notes": list(notes(instruction, target))}
    return json.dumps(facts, indent=2) + "\n" if options.format == "json" else _table(facts)


def _target(name: str | None) -> Target | None:
    try:
        return parse_target(name) if name else None
    except IsaError as error:
        raise UnreadableError(str(error)) from None


def _file(options: argparse.Namespace) -> tuple[str, int]:
    """Judges every instruction of a PTX file; the exit code is 1 if anything in it is wrong."""
    name = options.text
    from simulator.inputs import read_text

    whole = read_text(name, "one PTX instruction, or a file whose name ends in .ptx")
    try:
        statements = list(read_ptx(whole, options.target))
    except IsaError as error:
        raise UnreadableError(f"{name}: {error}") from None
    if not statements:
        raise UnreadableError(f"{name}: has no PTX instruction", "a PTX file as a compiler writes it")
    judged = [statement for statement in statements if not statement.passed_over]
    wrong = [statement for statement in judged if statement.error is not None]
    facts = {"file": name, "judged": len(judged), "wrong": len(wrong), "passed_over": len(statements) - len(judged)}
    for statement in wrong:
        say(f"{name}:{statement.line}: {statement.error}")
    stops = _stops(whole)
    if options.format == "json":
        facts["not_executed"] = [dict(zip(("line", "text", "reason"), stop, strict=True)) for stop in stops]
        text = json.dumps(facts | {"instructions": [_row(s) for s in judged]}, indent=1) + "\n"
    else:
        lines = [line for statement in judged for line in _judged(name, statement)]
        lines += [f"{name}:{line}: a launch stops here: {text.rstrip(';')}: {reason}" for line, text, reason in stops]
        passed = f"{facts['passed_over']} of other families passed over"
        text = "\n".join([*lines, f"{len(judged)} instructions judged, {len(wrong)} wrong, {passed}", ""])
    return text, NO if wrong else DONE


def _stops(text: str) -> list[tuple[int, str, str]]:
    """(line, instruction, why) of what a launch of the module's kernels would stop at; nothing for what is no whole
    module."""
    from isa.ptx.module import parse_module
    from simulator.program.kernel import link
    from simulator.simulation.launch.interpreter import not_executed

    try:
        module = parse_module(text)
        entries = [name for name, function in module.functions.items() if function.entry]
        found = {stop for entry in entries for stop in not_executed(link(module, entry))}
    except Error:
        return []
    return sorted(found)


def _judged(name: str, statement: Statement) -> list[str]:
    """The lines on one instruction of a file."""
    place = f"{name}:{statement.line}:"
    first = f"{place} {'no ' if statement.error else 'ok '} {statement.instruction or statement.text}"
    return [first, *(f"{place}     note: {note}" for note in statement.notes)]


def _row(statement: Statement) -> dict[str, Any]:
    error = str(statement.error) if statement.error else None
    return {
        "line": statement.line,
        "text": str(statement.instruction or statement.text),
        "error": error,
        "notes": list(statement.notes),
    }


def describe(instruction: Instruction) -> dict[str, Any]:
    """Everything that the tables of `isa` say about an instruction, as plain values."""
    form = instruction.form
    facts: dict[str, Any] = {
        "instruction": str(instruction),
        "opcode": form.opcode,
        "since": {"ptx": form.since_ptx, "target": f"sm_{form.since_target}"},
        "source": form.section,
        "operands": [
            {"role": role.name, "text": str(operand), "direction": "written" if role.output else "read"}
            for role, operand in zip(form.roles, instruction.operands, strict=False)
        ],
        "reads": list(instruction.reads),
        "writes": list(instruction.writes),
        "undefined": [{"name": name, "rule": RULES[name].rule} for name in instruction.undefined],
    }
    if is_mma(form):
        facts |= {
            "shape": {"m": form.m, "n": form.n, "k": form.k},
            "fma": form.fma,
            "performed_fma": form.performed_fma,
        }
        facts |= {"products": form.blocks, "operation": form.row.operation}
        for operand in facts["operands"][:4]:
            fragment = getattr(form, operand["role"])
            operand |= {
                "type": str(fragment.type),
                "rows": fragment.shape[0],
                "columns": fragment.shape[1],
                "registers": fragment.registers,
            }
        if form.sparse:
            facts["metadata"] = _metadata(form, instruction)
    return facts


def _metadata(form: MmaForm, instruction: Instruction) -> dict[str, Any]:
    metadata = form.metadata
    facts: dict[str, Any] = {
        "pattern": metadata.sparsity.name,
        "codes": [f"0b{code:04b}" for code in metadata.codes],
        "rows": metadata.shape[0],
        "chunks": metadata.shape[1],
        "selector": instruction.selector,
        "selectors": metadata.selectors,
        "lanes": [],
    }
    if instruction.selector < metadata.selectors:
        facts["lanes"] = sorted({int(lane) for lane in metadata.mapping.grid[0][..., instruction.selector].ravel()})
    return facts


def _holds(operand: dict[str, Any]) -> str:
    if "type" not in operand:
        return ""
    return f"{operand['type']} {operand['rows']} x {operand['columns']} in {operand['registers']} registers"


def _table(facts: dict[str, Any]) -> str:
    lines = [facts["instruction"], ""]
    if "shape" in facts:
        m, n, k = facts["shape"].values()
        product = f"D[{m} x {n}] = A[{m} x {k}] * B[{k} x {n}] + C"
        product = product if facts["products"] == 1 else f"{facts['products']} independent products {product}"
        what = (
            f"bits joined by {facts['operation']}"
            if facts["operation"]
            else f"multiply-adds, {facts['performed_fma']:,} performed"
        )
        lines.append(f"  {product}, {facts['fma']:,} {what}")
    lines.append(f"  since PTX {facts['since']['ptx']}, {facts['since']['target']}; {facts['source']}")
    rows = [
        (*(operand[key] for key in ("role", "direction", "text")), _holds(operand)) for operand in facts["operands"]
    ]
    lines += aligned(rows, widths=(11, 8, 34, 0), gap=" ", indent="  ")
    if "metadata" in facts:
        meta = facts["metadata"]
        lanes = ", ".join(map(str, meta["lanes"])) if len(meta["lanes"]) < 32 else "all"
        lines.append(f"  metadata {meta['pattern']}, {meta['rows']} rows x {meta['chunks']} chunks of 4 bits")
        lines.append(f"  selector {meta['selector']} of 0..{meta['selectors'] - 1}, from lanes {lanes or 'none'}")
        lines.append(f"  defined codes: {' '.join(meta['codes'])}")
    lines += [f"  note: {text}" for text in facts.get("notes", ())]
    lines += [f"  undefined: {case['name']}: {case['rule']}" for case in facts["undefined"]]
    return "\n".join(lines) + "\n"
