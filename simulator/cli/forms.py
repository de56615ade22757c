"""`tcsim forms`."""

from __future__ import annotations

import argparse
import csv
import io
import sys
from typing import Any

from isa import IsaError, MmaForm, mma_forms, parse_target
from isa.types import ELEMENT_TYPES
from simulator.cli import BAD, DONE, NO, say

DESCRIPTION = """\
Prints the table of the matrix instructions: every form of mma and mma.sp with its operands, selectors, metadata, first PTX version and targets.

--target keeps what a chip has, --type what multiplies a type, --sparse the sparse forms.
"""

COLUMNS = ("opcode", "d", "a", "b", "c", "selectors", "metadata", "ptx", "targets", "note")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    parser.add_argument("--target", help="only forms that this target has, e.g. sm_90a")
    parser.add_argument("--type", help="only forms that multiply this type, e.g. e4m3")
    parser.add_argument("--sparse", action="store_true", help="only mma.sp")
    parser.add_argument("--format", choices=("table", "csv", "markdown", "json"), default="table")


def execute(options: argparse.Namespace) -> int:
    try:
        target = parse_target(options.target) if options.target else None
    except IsaError as error:
        say(error)
        return BAD
    if options.type and options.type not in ELEMENT_TYPES:
        say(f"unknown element type '{options.type}'; legal: {', '.join(ELEMENT_TYPES)}")
        return BAD
    chosen = [
        form
        for form in mma_forms().values()
        if (target is None or form.supports(target))
        and (not options.type or options.type in (form.a_type.name, form.b_type.name))
        and (form.sparse or not options.sparse)
    ]
    if not chosen:
        say("no form is like that")
        return NO
    rows = [describe(form) for form in chosen]
    sys.stdout.write({"table": _text, "csv": _csv, "markdown": _markdown, "json": _json}[options.format](rows))
    return DONE


def describe(form: MmaForm) -> dict[str, Any]:
    """One row: registers of each operand, how many selectors, the metadata pattern, since when and where."""
    metadata = form.metadata if form.sparse else None
    return {
        "opcode": form.opcode,
        **{name: getattr(form, name).registers for name in "dabc"},
        "selectors": metadata.selectors if metadata else "",
        "metadata": metadata.sparsity.name if metadata else "",
        "ptx": form.since_ptx,
        "targets": str(form.targets),
        "note": "; ".join(form.notes()),
    }


def _text(rows: list[dict[str, Any]]) -> str:
    widths = {column: max(len(column), *(len(str(row[column])) for row in rows)) for column in COLUMNS}
    lines = ["  ".join(column.ljust(widths[column]) for column in COLUMNS).rstrip()]
    lines += ["  ".join(str(row[column]).ljust(widths[column]) for column in COLUMNS).rstrip() for row in rows]
    return "\n".join([*lines, "", f"{len(rows)} forms; d, a, b, c: registers of each lane", ""])


def _csv(rows: list[dict[str, Any]]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def _markdown(rows: list[dict[str, Any]]) -> str:
    lines = ["| " + " | ".join(COLUMNS) + " |", "|" + " --- |" * len(COLUMNS)]
    lines += ["| " + " | ".join(f"`{row[column]}`" if column == "opcode" else str(row[column]) for column in COLUMNS) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _json(rows: list[dict[str, Any]]) -> str:
    import json

    return json.dumps(rows, indent=1) + "\n"
