"""The verb `tcsim decode TEXT`, which explains one PTX instruction, or judges every instruction of a file."""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

from isa import IsaError, Target, decode, parse_target
from isa.errors import Error
from isa.ptx.files import Statement, notes, read_ptx
from simulator.cli import DONE, NO, say
from simulator.cli.answer import UnreadableError, answer

DESCRIPTION = """\
Explains one PTX instruction: its form, operands, types, metadata, and since when and on what it exists. Or judges a
PTX file as a compiler writes it: matrix instructions, loads, stores, integer arithmetic, barriers; instructions of
other families are passed over and counted. What `tcsim launch` could not read or execute of a module's kernels is told
with its line.

TEXT is the instruction, a file (its name ends in .ptx), or - to read an instruction from stdin. Exit code 1 if
anything is not legal, or undefined, or if a launch could not read it: the error says what is wrong, where, and what
would be right.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `tcsim decode` to its parser."""
    parser.description = DESCRIPTION
    parser.add_argument("text", metavar="TEXT")
    parser.add_argument("--target", help="the chip it is compiled for, e.g. sm_90a (default: any that has it)")
    parser.add_argument("--format", choices=("table", "json"), default="table")


def execute(options: argparse.Namespace) -> int:
    """Runs `tcsim decode` with parsed options; returns the exit code."""
    judge = _file if options.text.endswith(".ptx") or (options.text and _is_folder(options.text)) else _instruction
    return answer(lambda: judge(options), illegal=NO)


def _is_folder(text: str) -> bool:
    try:
        return Path(text).is_dir()
    except (OSError, ValueError):  # no name that a file could have
        return False


def _instruction(options: argparse.Namespace) -> tuple[str, int]:
    """Explains one instruction; IsaError if it is not legal."""
    text = options.text
    if not text.strip():
        raise UnreadableError("no instruction", '"bar.sync 0;", a file that ends in .ptx, or - for stdin')
    if text == "-":
        if sys.stdin is None:
            raise UnreadableError("stdin is closed", "one PTX instruction")
        try:
            text = sys.stdin.read()
        except UnicodeDecodeError:
            raise UnreadableError("stdin is not UTF-8 text", "one PTX instruction") from None
    target = _target(options.target)
    instruction = decode(text, target)
    from simulator.views import instruction as views

    facts = views.describe(instruction) | {"notes": list(notes(instruction, target))}
    said = json.dumps(facts, indent=2, default=str) + "\n" if options.format == "json" else views.text(facts)
    return said, NO if facts["undefined"] or facts.get("idesc_findings") else DONE


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
    facts: dict[str, Any] = {
        "file": name,
        "judged": len(judged),
        "wrong": len(wrong),
        "passed_over": len(statements) - len(judged),
    }
    for statement in wrong:
        say(f"{name}:{statement.line}: {statement.error}")
    unread, stops = _module(whole)
    for line, why in unread:
        say(f"{name}:{line}: a launch cannot read this: {why}" if line else f"{name}: a launch cannot read this: {why}")
    if options.format == "json":
        facts["unreadable"] = [dict(zip(("line", "reason"), each, strict=True)) for each in unread]
        facts["not_executed"] = [dict(zip(("line", "text", "reason"), stop, strict=True)) for stop in stops]
        text = json.dumps(facts | {"instructions": [_row(s) for s in judged]}, indent=1) + "\n"
    else:
        lines = [line for statement in judged for line in _judged(name, statement)]
        lines += [f"{name}:{line}: a launch stops here: {text.rstrip(';')}: {reason}" for line, text, reason in stops]
        passed = f"{facts['passed_over']} of other families passed over"
        more = f", {len(unread)} that a launch cannot read" if unread else ""
        text = "\n".join([*lines, f"{len(judged)} instructions judged, {len(wrong)} wrong, {passed}{more}", ""])
    return text, NO if wrong or unread else DONE


_OF_MODULES = re.compile(
    r"^\s*(?:\.(?:visible|extern|weak)\s+)?\.(?:version|target|address_size|entry|func)\b", re.MULTILINE
)
_PLACE = re.compile(r"line (\d+): ")


def _module(text: str) -> tuple[list[tuple[int, str]], list[tuple[int, str, str]]]:
    """(line, why) of what of a module cannot be read, and (line, instruction, why) of what a launch of its other
    kernels would stop at; nothing for a file of instructions alone."""
    from isa.ptx.module import parse_module
    from simulator.program.kernel import link
    from simulator.simulation.launch.interpreter import not_executed

    if not _OF_MODULES.search(text):
        return [], []
    errors: dict[str, None] = {}
    found: set[tuple[int, str, str]] = set()
    try:
        module = parse_module(text)
    except Error as error:
        return [_placed(str(error))], []
    for name, function in module.functions.items():
        if function.error is not None:
            errors[str(function.error)] = None
        elif function.entry:
            try:
                found.update(not_executed(link(module, name)))
            except Error as error:
                errors[str(error)] = None
    return sorted(map(_placed, errors)), sorted(found)


def _placed(error: str) -> tuple[int, str]:
    """The line that an error of a module names, 0 for none, and the rest of it."""
    match = _PLACE.match(error)
    return (int(match[1]), error[match.end() :]) if match else (0, error)


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
