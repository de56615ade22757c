"""What the tables of `isa` say about one instruction: as plain values, and as text."""

from __future__ import annotations

from typing import Any

from isa.descriptors.instruction import InstructionDescriptor, legal_m, legal_n, strict_n
from isa.forms.mma import MmaForm, is_mma
from isa.forms.tcgen05 import Tcgen05MmaForm, is_tcgen05_mma
from isa.forms.wgmma import WgmmaForm, is_wgmma
from isa.ptx.instruction import Immediate, Instruction
from isa.tensor_memory.metadata import TmemMetadata, tmem_metadata
from isa.undefined import RULES
from simulator.tables import aligned

TAKEN_AS_0 = "selector taken as 0, whatever bits 0-1 of the instruction descriptor say"


def describe(instruction: Instruction) -> dict[str, Any]:
    """Everything that the tables of `isa` say about an instruction, as plain values."""
    form = instruction.form
    facts: dict[str, Any] = {
        "instruction": str(instruction),
        "opcode": form.opcode,
        "since": {"ptx": form.since_ptx, "target": form.targets.first},
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
            "products": form.blocks,
            "operation": form.row.operation,
            "addend": "C",
            **_product(form, instruction),
        }
        _describe_fragments(facts["operands"][:4], form)
    elif is_wgmma(form):
        facts |= {"products": 1, "operation": form.operation, "addend": "D"} | _product(form, instruction)
        in_registers = [each for each in facts["operands"][:2] if each["role"] == "d" or form.a_in_registers]
        _describe_fragments(in_registers, form)
        facts["in_shared"] = _in_shared(form, instruction)
    elif is_tcgen05_mma(form):
        facts |= _tcgen05(form, instruction)
    return facts


def _product(form: MmaForm | WgmmaForm, instruction: Instruction) -> dict[str, Any]:
    """Shape, multiply-adds and metadata."""
    facts: dict[str, Any] = {
        "shape": {"m": form.m, "n": form.n, "k": form.k},
        "fma": form.fma,
        "performed_fma": form.performed_fma,
    }
    return facts | ({"metadata": _metadata(form, instruction)} if form.sparse else {})


def _describe_fragments(operands: list[dict[str, Any]], form: MmaForm | WgmmaForm) -> None:
    """Adds what a fragment holds to the operands that are fragments."""
    for operand in operands:
        fragment = getattr(form, operand["role"])
        operand |= {
            "type": str(fragment.type),
            "rows": fragment.shape[0],
            "columns": fragment.shape[1],
            "registers": fragment.registers,
        }


def _in_shared(form: WgmmaForm, instruction: Instruction) -> list[str]:
    """The matrices that descriptors name, in words."""
    matrices = [("b", form.k, form.n, form.b_type)]
    if not form.a_in_registers:
        matrices.insert(0, ("a", form.m, form.k_stored, form.a_type))
    lines = []
    for name, rows, columns, element in matrices:
        given = instruction.by_role.get(f"trans_{name}")
        major = "MN" if isinstance(given, Immediate) and given.value == 1 else "K"
        lines.append(f"{name.upper()} {rows} x {columns} {element} in shared memory, {major}-major")
    return lines


def _tcgen05(form: Tcgen05MmaForm, instruction: Instruction) -> dict[str, Any]:
    """Shapes, metadata, and the instruction descriptor where it is a constant."""
    how: dict[str, Any] = {"cta_group": form.cta_group, "sparse": form.sparse, "ws": form.ws}
    m, n = legal_m(form.kind, **how), legal_n(form.kind, **how)
    least = InstructionDescriptor(form.kind, m=m[0], n=n[0], a_type=0, b_type=0, sparse=form.sparse)
    facts: dict[str, Any] = {"kind": {"name": form.kind, "m": list(m), "n": list(n), "k": least.k}}
    facts["kind"]["narrower"] = _narrower(form, m, n, how)
    if form.sparse:
        each = {rows: tmem_metadata(form.kind, rows, form.cta_group, form.ws) for rows in m}
        facts["tmem_metadata"] = _cells(each[m[0]]) | {"copies": {str(rows): each[rows].copies for rows in m}}
    idesc = instruction.by_role.get("idesc")
    if isinstance(idesc, Immediate):
        word = InstructionDescriptor.decode(idesc.value & 0xFFFFFFFF, form.kind)
        fields = [item.name for item in word.table if item.name != "reserved"]
        facts["idesc"] = {name: getattr(word, name) for name in fields}
        wrong = word.validate(kind=form.kind, cta_group=form.cta_group, sparse=form.sparse, ws=form.ws)
        facts["idesc_findings"] = [str(finding) for finding in wrong]
    return facts


def _narrower(form: Tcgen05MmaForm, m: tuple[int, ...], n: tuple[int, ...], how: dict[str, Any]) -> list[str]:
    """Values of N that PTX's table has and another source does not, in words."""
    said = []
    for rows in m:
        step, who = strict_n(form.kind, rows, **how)
        if any(columns % step for columns in n):
            said.append(f"N with M = {rows}: {who} takes multiples of {step} alone (one source); PTX's table has more")
    return said


def _cells(metadata: TmemMetadata) -> dict[str, Any]:
    return {
        "pattern": metadata.sparsity.name,
        "codes": [f"0b{code:04b}" for code in metadata.codes],
        "chunk_columns": metadata.sparsity.chunk,
        "chunks": metadata.shape[1],
        "selectors": list(metadata.selectors),
        "selector_read": metadata.selector_read,
        "columns": metadata.columns,
    }


def _metadata(form: MmaForm | WgmmaForm, instruction: Instruction) -> dict[str, Any]:
    metadata = form.metadata
    facts: dict[str, Any] = {
        "pattern": metadata.sparsity.name,
        "codes": [f"0b{code:04b}" for code in metadata.codes],
        "rows": metadata.shape[0],
        "chunks": metadata.shape[1],
        "selector": instruction.selector,
        "selectors": metadata.selectors,
        "lanes": [],
        "of_lanes": dict(metadata.mapping.places)["lane"],
    }
    if instruction.selector < metadata.selectors:
        facts["lanes"] = sorted({int(lane) for lane in metadata.mapping.grid[0][..., instruction.selector].ravel()})
    return facts


def _holds(operand: dict[str, Any]) -> str:
    if "type" not in operand:
        return ""
    return f"{operand['type']} {operand['rows']} x {operand['columns']} in {operand['registers']} registers"


def text(facts: dict[str, Any]) -> str:
    """The facts that `describe` gives, for a person."""
    lines = [facts["instruction"], ""]
    if "shape" in facts:
        m, n, k = facts["shape"].values()
        product = f"D[{m} x {n}] = A[{m} x {k}] * B[{k} x {n}] + {facts['addend']}"
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
        lanes = ", ".join(map(str, meta["lanes"])) if len(meta["lanes"]) < meta["of_lanes"] else "all"
        lines.append(f"  metadata {meta['pattern']}, {meta['rows']} rows x {meta['chunks']} chunks of 4 bits")
        where = f"from lanes {lanes}" if lanes else "which no lanes go with"
        lines.append(f"  selector {meta['selector']} of 0..{meta['selectors'] - 1}, {where}")
        lines.append(f"  defined codes: {' '.join(meta['codes'])}")
    lines += [f"  {text}" for text in facts.get("in_shared", ())]
    lines += _tcgen05_lines(facts)
    lines += [f"  note: {text}" for text in facts.get("notes", ())]
    lines += [f"  undefined: {case['name']}: {case['rule']}" for case in facts["undefined"]]
    return "\n".join(lines) + "\n"


def _tcgen05_lines(facts: dict[str, Any]) -> list[str]:
    lines = []
    if "kind" in facts:
        kind = facts["kind"]
        m, n = " or ".join(map(str, kind["m"])), kind["n"]
        shown = ", ".join(map(str, n)) if len(n) <= 4 else f"{n[0]}, {n[1]}, ... {n[-1]}"
        lines.append(f"  .kind::{kind['name']}: M = {m}, N = {shown}, K = {kind['k']}")
        lines += [f"  {note}" for note in kind["narrower"]]
    if "tmem_metadata" in facts:
        meta = facts["tmem_metadata"]
        copies = "".join(f", {count} copies with M = {m}" for m, count in meta["copies"].items() if count > 1)
        lines.append(
            f"  metadata {meta['pattern']}: {meta['chunks']} codes of 4 bits a row, one for {meta['chunk_columns']} "
            f"columns of K, in {meta['columns']} column{'s' * (meta['columns'] > 1)} of Tensor Memory{copies}"
        )
        selectors = " or ".join(map(str, meta["selectors"]))
        said = f"selector {selectors}, in bits 0-1 of the instruction descriptor"
        lines.append(f"  {said if meta['selector_read'] else TAKEN_AS_0}")
        lines.append(f"  defined codes: {' '.join(meta['codes'])}")
    if "idesc" in facts:
        lines.append("  descriptor: " + ", ".join(f"{name} {value}" for name, value in facts["idesc"].items()))
        lines += [f"  descriptor is wrong: {finding}" for finding in facts["idesc_findings"]]
    return lines
