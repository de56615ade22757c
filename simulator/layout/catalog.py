"""Finds the operands of an opcode, and where each of them lives: `form_layout(OPCODE).operands["e"]`.

mma, mma.sp            a, b, c, d, e (metadata of a selector), scale_a, scale_b (of a byte-id and a thread-id)
wgmma.mma_async(.sp)   d, a in registers, e (metadata of a selector), of the 128 threads of a warpgroup
ldmatrix               d, and address: whose address names which row
tcgen05.mma(.sp, .ws)  d, a in Tensor Memory, e (metadata), scale_a, scale_b, as one CTA holds them
tcgen05.ld, st, cp     d: registers or bytes <-> cells of Tensor Memory from the base address on
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeGuard

from isa import IsaError, MmaForm, parse_target
from isa.arguments import text_of
from isa.descriptors.instruction import legal_m, legal_n
from isa.forms.mma import is_mma
from isa.forms.record import Form
from isa.forms.tcgen05 import Tcgen05MmaForm, is_tcgen05_mma
from isa.forms.wgmma import WgmmaForm, is_wgmma
from isa.fragments.metadata import CODE_BITS
from isa.fragments.registers import matrix_row_addresses
from isa.ptx.opcodes import complete_opcode, read_opcode
from isa.sparsity.forms import is_hypothetical, pattern_form
from isa.tensor_memory.address import CELL_BITS, QUARTER
from isa.tensor_memory.copies import copy
from isa.tensor_memory.datapath import datapath
from isa.tensor_memory.metadata import TmemMetadata, figure_metadata, tmem_metadata
from isa.tensor_memory.moves import move
from isa.tensor_memory.scales import tmem_scales
from simulator.layout.form import Choice, FormLayout
from simulator.layout.operand import Operand

_MEASURED = "measured: NVIDIA H100 80GB, November 2026"
_H100 = parse_target("sm_90a")
_ANY_PTX = "99.0"  # a layout is the same in every PTX version that has the form
_STORED_BITS = {
    "f16": 16,
    "tf32": 32,
    "f8f6f4": 8,
    "i8": 8,
    "mxf8f6f4": 8,
    "mxf4": 4,
    "mxf4nvf4": 4,
}  # of A in Tensor Memory
SWEPT = (8, 16, 32, 64, 128, 256)  # N of tcgen05.mma that sweeps over all forms look at


def form_layout(form: str, choice: Choice | None = None) -> FormLayout:
    """The operands of a form.

    Args:
        form: an opcode; .sync.aligned and .row.col may be left out.
        choice: what the opcode leaves open.

    Raises:
        IsaError: no such form, or no such choice for it.
    """
    choice = choice or Choice()
    form = text_of(form, "an opcode", "mma.sp.m16n8k32.f32.f16.f16.f32")
    record = pattern_form(form) if is_hypothetical(form) else read_opcode(complete_opcode(form), ptx=_ANY_PTX)
    if is_mma(record):
        _refuse(record, choice, "m", "n", "base_lane", "half_split")
        return _mma(record, choice)
    if is_wgmma(record):
        _refuse(record, choice, *(name for name in _EVERY if name != "selector"))
        return _wgmma(record, choice)
    if is_tcgen05_mma(record):
        _refuse(record, choice, "half_split")
        return _tcgen05(record, choice)
    if record.fragment is not None:
        _refuse(record, choice, *_EVERY)
        return _loaded_matrices(record)
    if record.shape:
        _refuse(record, choice, *(name for name in _EVERY if name != "half_split"))
        return _moved(record, choice)
    legal = "mma, mma.sp, wgmma.mma_async, ldmatrix, tcgen05.mma, tcgen05.ld, tcgen05.st or tcgen05.cp"
    raise IsaError(form, -1, f"'{record.opcode}' has no matrix operand", legal)


_EVERY = ("selector", "scale_a", "scale_b", "m", "n", "base_lane", "half_split")


def _refuse(form: Form, choice: Choice, *names: str) -> None:
    """Raises IsaError if the user chose something that the form has no use for."""
    for name in names:
        if getattr(choice, name) != getattr(Choice, name):
            raise IsaError(
                str(getattr(choice, name)),
                -1,
                f"'{form.opcode}' has no {name.replace('_', ' ')} to choose",
                "leave it out",
            )


# mma and loads of matrices


def _mma(form: MmaForm, choice: Choice) -> FormLayout:
    operands = {name: _fragment(form, name) for name in "abcd"}
    shown = _selected(form, choice, operands)
    if form.row.scale:
        for name, ids in (("scale_a", choice.scale_a), ("scale_b", choice.scale_b)):
            scale = getattr(form, name)
            what = (
                f"scale factors of {name[-1].upper()}, {scale.type}, {scale.shape[0]} x {scale.shape[1]}, "
                f"byte-id {ids[0]}, thread-id {ids[1]}"
            )
            mapping = scale.mapping(*ids)
            operands[name] = Operand(
                form.opcode, name, what, scale.type.bits, mapping, "PTX ISA 9.0, 9.7.14.3 (block scaling)", "published"
            )
    else:
        _refuse(form, choice, "scale_a", "scale_b")
    return FormLayout(form.opcode, form, choice, operands, form.m, form.n, form.k, form.blocks, **shown)


def _wgmma(form: WgmmaForm, choice: Choice) -> FormLayout:
    """The operands in registers of a warpgroup; a matrix in shared memory is where its descriptor says."""
    operands = {name: _fragment(form, name) for name in "ad"}
    shown = _selected(form, choice, operands)
    unknown = {
        "b": f"B of '{form.opcode}' is in shared memory, where its descriptor says (tcsim layout shared --read wgmma)",
        "c": f"'{form.opcode}' adds to D: it has no operand c",
    }
    return FormLayout(form.opcode, form, choice, operands, form.m, form.n, form.k, unknown=unknown, **shown)


def _selected(form: MmaForm | WgmmaForm, choice: Choice, operands: dict[str, Operand]) -> dict[str, Any]:
    """Adds the metadata of the chosen selector to the operands of a sparse form; returns what `FormLayout` says of
    it."""
    if not form.sparse:
        if choice.selector:
            _refuse(form, choice, "selector")
        return {}
    metadata = form.metadata
    metadata.places(choice.selector)  # IsaError for one that is out of range
    what = (
        f"metadata e, {metadata.sparsity.name}, selector {choice.selector}, codes of chunks of "
        f"{metadata.sparsity.chunk} columns"
    )
    whole, chosen = metadata.mapping, {"selector": choice.selector}
    mapping, pair = whole.at(**chosen), tuple(chosen.items())
    operands["e"] = Operand(
        form.opcode, "e", what, metadata.bits, mapping, form.section, evidence(form), general=whole, chosen=pair
    )
    return {"sparsity": metadata.sparsity, "codes": metadata.codes, "selectors": tuple(range(metadata.selectors))}


def holds_metadata(form: Form) -> TypeGuard[MmaForm | WgmmaForm]:
    """Whether a form's metadata, if it is sparse, is in registers."""
    return is_mma(form) or is_wgmma(form)


def operation_of(form: Form) -> str:
    """What a form of b1 does with two bits; "" for products."""
    return form.row.operation if is_mma(form) else form.operation if is_wgmma(form) else ""


def evidence(form: MmaForm | WgmmaForm) -> str:
    """How the places of a form's elements are known."""
    if is_mma(form) and form.hypothetical:
        return "assumed: derived from the dense form, no chip has it"
    return _MEASURED if on_h100(form) else "published"


def on_h100(form: MmaForm | WgmmaForm) -> bool:
    """Whether an H100's recorded results confirm the lanes: every sparse form that it has, and dense ones of 16 rows of
    each warp in 32-bit registers; of b1 none was recorded."""
    rows = 16 * form.warps
    return form.supports(_H100) and form.m == rows and form.a_type.register_bits == 32 and form.a_type.bits > 1


def _fragment(form: MmaForm | WgmmaForm, name: str) -> Operand:
    fragment = getattr(form, name)
    what = "stored matrix A" if name == "a" and form.sparse else f"matrix {name.upper()}"
    rows, columns = fragment.shape
    text = (
        f"{what}, {fragment.type}, {rows} x {columns}, {fragment.registers} "
        f"register{'s' * (fragment.registers > 1)} a lane"
        f"{', if A is in registers' * (name == 'a' and form.warps > 1)}"
    )
    logical = form.metadata.sparsity.formula if name == "a" and form.sparse else ""
    bits = fragment.type.bits
    return Operand(
        form.opcode,
        name,
        text,
        bits,
        fragment.mapping,
        form.section,
        evidence(form),
        word_bits=fragment.type.register_bits,
        logical=logical,
    )


def _loaded_matrices(form: Form) -> FormLayout:
    """The operands of a load of 8 x 8 matrices: what each lane receives, and which lane's address names which row."""
    section = f"{form.section} ({form.name})"
    assert form.fragment is not None
    d = Operand(
        form.opcode,
        "d",
        "destination, rows as addressed by lanes 0, 1, ...",
        16,
        form.fragment.mapping,
        section,
        _MEASURED,
    )
    what = "lanes whose address names each row of each matrix"
    whose = Operand(
        form.opcode, "address", what, 32, matrix_row_addresses(form.fragment.registers), section, "published"
    )
    return FormLayout(form.opcode, form, Choice(), {"d": d, "address": whose})


# tcgen05


def _tcgen05(form: Tcgen05MmaForm, choice: Choice) -> FormLayout:
    group, sparse = form.cta_group, form.sparse
    rows = legal_m(form.kind, cta_group=group, sparse=sparse, ws=form.ws)
    choice = replace(choice, m=choice.m or (128 if 128 in rows else rows[0]), n=choice.n or 64)
    if sparse and group == 1 and choice.m == 64 and choice.m not in rows:
        printed = figure_metadata(form.kind)
        if printed is not None:
            return _printed_alone(form, choice, printed)
    _check_size(form, "M", choice.m, rows)
    _check_size(form, "N", choice.n, legal_n(form.kind, cta_group=group, sparse=sparse, ws=form.ws))
    layout = datapath(choice.m, group, sparse, form.ws)
    about = f"{form.opcode}, M = {choice.m}, N = {choice.n}, layout {layout.name}"
    if choice.base_lane or layout.half:
        about += f", base lane {layout.checked(choice.base_lane)}"
    bits = _STORED_BITS[form.kind]
    section = "PTX ISA 9.0, 9.7.16.10.5 (data path layout organization)"
    rank = " of one CTA" * (group == 2)

    def cells(
        name: str,
        what: str,
        width: int,
        mapping: Any,
        evidence: str,
        where: str = section,
        used: int = 0,
        logical: str = "",
    ) -> Operand:
        return Operand(about, name, what, width, mapping, where, evidence, tmem=True, used=used, logical=logical)

    d = layout.d(choice.n, choice.base_lane)
    unknown = {"b": "B is in shared memory, where its descriptor says (docs/descriptors.md)"}
    operands = {
        "d": cells(
            "d", f"matrix D, 32-bit elements, {layout.rows} rows{rank} x {choice.n}", CELL_BITS, d, layout.evidence
        )
    }
    metadata = tmem_metadata(form.kind, choice.m, group, form.ws) if sparse else None
    a = layout.a(bits, choice.base_lane)
    k = a.shape[1] * (2 if sparse else 1)
    what = (
        f"{'stored ' * sparse}matrix A in Tensor Memory, {bits}-bit elements, {layout.rows} rows{rank} x {a.shape[1]}"
    )
    operands["a"] = cells("a", what, bits, a, layout.a_evidence, logical=_logical(metadata))
    if metadata is not None:
        sparsity = metadata.sparsity
        codes = f"codes of chunks of {sparsity.chunk} columns"
        chosen = f"selector {choice.selector}, " if len(metadata.selectors) > 1 or choice.selector else ""
        mapping = metadata.mapping(choice.selector, choice.base_lane)
        where = "PTX ISA 9.0, 9.7.16.10.8 (sparse matrices)"
        operands["e"] = cells(
            "e", f"metadata, {sparsity.name}, {chosen}{codes}", CODE_BITS, mapping, metadata.evidence, where
        )
    else:
        _refuse(form, choice, "selector")
    if form.block_scale:
        for name, ids in (("scale_a", choice.scale_a), ("scale_b", choice.scale_b)):
            if name == "scale_b" and layout.parts > 1 and choice.n % (QUARTER * layout.parts):
                unknown[name] = (
                    f"no source says where the factors of N = {choice.n} columns lie in layout {layout.name}"
                )
                continue
            operands[name] = _scales(form, choice, name, ids, cells)
    else:
        _refuse(form, choice, "scale_a", "scale_b")
    shown: dict[str, Any] = (
        {"sparsity": metadata.sparsity, "codes": metadata.codes, "selectors": metadata.selectors} if metadata else {}
    )
    shape = layout.rows, choice.n, k
    return FormLayout(
        form.opcode, form, choice, operands, *shape, metadata=metadata, layout=layout.name, unknown=unknown, **shown
    )


def _printed_alone(form: Tcgen05MmaForm, choice: Choice, metadata: TmemMetadata) -> FormLayout:
    """The metadata that PTX prints a figure of, for an M that no instruction has."""
    layout, sparsity = metadata.layout, metadata.sparsity
    _refuse(form, replace(choice, n=0), "selector", "n", "scale_a", "scale_b")
    about = f"{form.opcode}, M = {layout.m}, layout {layout.name}, base lane {layout.checked(choice.base_lane)}"
    e = Operand(
        about,
        "e",
        f"metadata, {sparsity.name}, codes of chunks of {sparsity.chunk} columns (no instruction has this M)",
        CODE_BITS,
        metadata.mapping(choice.selector, choice.base_lane),
        "PTX ISA 9.0, 9.7.16.10.8.4.5 (sparsity metadata for M = 64)",
        metadata.evidence,
        tmem=True,
    )
    why = f"no instruction has M = {layout.m} with .kind::{form.kind} (PTX ISA 9.0, 9.7.16.2.1); PTX prints its figure"
    shown: dict[str, Any] = {"sparsity": sparsity, "codes": metadata.codes, "selectors": metadata.selectors}
    shape = layout.rows, choice.n, metadata.k
    return FormLayout(
        form.opcode, form, choice, {"e": e}, *shape, metadata=metadata, layout=layout.name, unknown={"d": why}, **shown
    )


def _check_size(form: Tcgen05MmaForm, name: str, value: int, legal: tuple[int, ...]) -> None:
    if value not in legal:
        raise IsaError(
            str(value),
            -1,
            f"{name} = {value} with '{form.opcode}'",
            ", ".join(map(str, legal)),
            section="PTX ISA 9.0, 9.7.16.2.1",
        )


def _logical(metadata: TmemMetadata | None) -> str:
    """The formula of the logical column; in Tensor Memory, its `column` is called k."""
    return metadata.sparsity.formula.replace("column", "k") if metadata is not None else ""


def _scales(form: Tcgen05MmaForm, choice: Choice, name: str, ids: tuple[int, int], cells: Any) -> Operand:
    if ids[1]:
        raise IsaError(str(ids[1]), -1, f"'{form.opcode}' has no thread-id", f"the id alone, as in {ids[0]}")
    scales = tmem_scales(
        form.kind, name[-1], m=choice.m, n=choice.n, vector=form.vector, cta_group=form.cta_group, sparse=form.sparse
    )
    count, factors = scales.shape
    side = "rows of A" if name == "scale_a" else "columns of B"
    what = f"scale factors, {count} {side} x {factors}, id {ids[0]}"
    operand: Operand = cells(
        name, what, 8, scales.mapping(ids[0]), "published", "PTX ISA 9.0, 9.7.16.10.7 (block scaling)", count
    )
    return operand


def _moved(form: Form, choice: Choice) -> FormLayout:
    if form.access is None:  # tcgen05.cp, which moves no registers
        _refuse(form, choice, "half_split")
        copied = copy(form.shape, form.multicast)
        what = "cells <-> bytes of a matrix in shared memory, from the base address on"
        section = "PTX ISA 9.0, 9.7.16.9.1 (tcgen05.cp)"
        operand = Operand(form.opcode, "d", what, 8, copied.mapping, section, copied.evidence, tmem=True)
        return FormLayout(form.opcode, form, choice, {"d": operand})
    split = choice.half_split
    if form.shape == "16x32bx2" and split is None:
        split = form.repeats * (2 if form.packed else 1)
        choice = replace(choice, half_split=split)
    moved = move(form.shape, form.repeats, form.packed, split)
    about = form.opcode + (f", immHalfSplitoff {split}" if split is not None else "")
    bits = 16 if form.packed else 32
    evidence = "inferred" if form.packed and form.shape not in ("16x64b", "16x32bx2") else "published"
    what = (
        "registers <-> cells of Tensor Memory, from the base address on"
        + f"; of half 1 the column counts from {split}" * (split is not None)
    )
    operand = Operand(about, "d", what, bits, moved.mapping, "PTX ISA 9.0, 9.7.16.8.1 (shapes)", evidence)
    return FormLayout(form.opcode, form, choice, {"d": operand})
