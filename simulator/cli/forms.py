"""`tcsim forms`."""

from __future__ import annotations

import argparse
import csv
import io
import sys
from typing import Any

from isa import IsaError, MmaForm, mma_forms, parse_target
from isa.forms.record import Form
from isa.forms.table import plain_forms
from isa.types import MATRIX_TYPES
from simulator.cli import BAD, DONE, NO, say

DESCRIPTION = """\
Prints the table of instructions: every form with its operands (and how many registers each lane holds of them), selectors, metadata, first PTX
version and targets.

--family mma is mma and mma.sp, tcgen05 also has mbarrier and fence, plain is ldmatrix, loads, stores, integer arithmetic and barriers.
--target keeps what a chip has; --type what multiplies a type, --sparse the sparse forms.
"""

COLUMNS = ("opcode", "operands", "selectors", "metadata", "ptx", "targets", "note")
FAMILIES = ("mma", "tcgen05", "plain", "all")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    parser.add_argument("--family", choices=FAMILIES, default="mma", help="which instructions (default mma)")
    parser.add_argument("--target", help="only forms that this target has, e.g. sm_90a")
    parser.add_argument("--type", help="only forms that multiply this type, e.g. e4m3")
    parser.add_argument("--sparse", action="store_true", help="only sparse matrix forms")
    parser.add_argument("--format", choices=("table", "csv", "markdown", "json"), default="table")


def execute(options: argparse.Namespace) -> int:
    try:
        target = parse_target(options.target) if options.target else None
    except IsaError as error:
        say(error)
        return BAD
    if options.type and options.type not in MATRIX_TYPES:
        say(f"unknown element type '{options.type}'; legal: {', '.join(MATRIX_TYPES)}")
        return BAD
    chosen = [form for form in _family(options.family) if target is None or form.supports(target)]
    if options.type:
        chosen = [
            form
            for form in chosen
            if isinstance(form, MmaForm) and options.type in (form.a_type.name, form.b_type.name)
        ]
    if options.sparse:
        chosen = [form for form in chosen if getattr(form, "sparse", False)]
    if not chosen:
        say("no form is like that")
        return NO
    rows = [describe(form) for form in chosen]
    sys.stdout.write({"table": _text, "csv": _csv, "markdown": _markdown, "json": _json}[options.format](rows))
    return DONE


def _family(name: str) -> list[Form]:
    forms: list[Form] = []
    if name in ("mma", "all"):
        forms += mma_forms().values()
    if name in ("tcgen05", "all"):
        from isa.forms.table import family_opcodes
        from isa.ptx.opcodes import find_form

        forms += (find_form(opcode) for opcode in family_opcodes())
    if name in ("plain", "all"):
        forms += plain_forms().values()
    return forms


def describe(form: Form) -> dict[str, Any]:
    """One row: operands with their registers, how many selectors, the metadata pattern, since when and where."""
    metadata = form.metadata if isinstance(form, MmaForm) and form.sparse else None
    return {
        "opcode": form.opcode,
        "operands": " ".join(role.name + (str(role.count) if role.count > 1 else "") for role in form.roles),
        "selectors": metadata.selectors if metadata else "",
        "metadata": metadata.sparsity.name if metadata else "",
        "ptx": form.since_ptx,
        "targets": str(form.targets),
        "note": "; ".join(form.notes()) if isinstance(form, MmaForm) else "",
    }


def _text(rows: list[dict[str, Any]]) -> str:
    widths = {column: max(len(column), *(len(str(row[column])) for row in rows)) for column in COLUMNS}
    lines = ["  ".join(column.ljust(widths[column]) for column in COLUMNS).rstrip()]
    lines += ["  ".join(str(row[column]).ljust(widths[column]) for column in COLUMNS).rstrip() for row in rows]
    return "\n".join([*lines, "", f"{len(rows)} forms; a number behind an operand: its registers", ""])


def _csv(rows: list[dict[str, Any]]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def _markdown(rows: list[dict[str, Any]]) -> str:
    lines = ["| " + " | ".join(COLUMNS) + " |", "|" + " --- |" * len(COLUMNS)]
    lines += [
        "| " + " | ".join(f"`{row[column]}`" if column == "opcode" else str(row[column]) for column in COLUMNS) + " |"
        for row in rows
    ]
    return "\n".join(lines) + "\n"


def _json(rows: list[dict[str, Any]]) -> str:
    import json

    return json.dumps(rows, indent=1) + "\n"
