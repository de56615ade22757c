"""The table of all instruction forms, with the operands, metadata, first PTX version and targets of each.

>>> frame = forms(target="sm_90a", type="e4m3", sparse=True)
>>> sorted(frame.metadata.unique())
['2:4']
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from isa.descriptors.instruction import legal_m
from isa.forms.mma import is_mma, mma_forms
from isa.forms.record import Form
from isa.forms.table import plain_forms
from isa.forms.tcgen05 import is_tcgen05_mma
from isa.forms.wgmma import WGMMA_ROWS, is_wgmma
from isa.targets import Target, parse_target
from isa.tensor_memory.metadata import tmem_metadata
from isa.types import MATRIX_TYPES, no_such_type
from simulator.errors import ViewError
from simulator.tables import Table

if TYPE_CHECKING:
    from pandas import DataFrame

COLUMNS = ("opcode", "operands", "selectors", "metadata", "ptx", "targets", "note")
FAMILIES = ("mma", "wgmma", "tcgen05", "plain", "all")


def forms(family: str = "mma", *, target: str | Target = "", type: str = "", sparse: bool = False) -> DataFrame:
    """The forms as a pandas DataFrame; the arguments are those of `table`."""
    return table(family, target=target, type=type, sparse=sparse).frame()


def table(family: str = "mma", *, target: str | Target = "", type: str = "", sparse: bool = False) -> Table:
    """One row for each form. `operands` are names, each followed by its number of registers where that is not one.

    Args:
        family: "mma" (mma and mma.sp), "wgmma", "tcgen05" (with mbarrier and fence), "plain" (all others) or "all".
        target: only forms that this target has.
        type: only forms that multiply this element type.
        sparse: only sparse matrix forms.

    Raises:
        ViewError: no such family or type.
        IsaError: no such target.
    """
    if type and type not in MATRIX_TYPES:
        raise ViewError(no_such_type(type), ", ".join(MATRIX_TYPES))
    chip = parse_target(target) if target else None
    chosen = [
        form
        for form in _family(family)
        if (chip is None or form.supports(chip))
        and (not type or ((is_mma(form) or is_wgmma(form)) and type in (form.a_type.name, form.b_type.name)))
        and (not sparse or form.is_sparse)
    ]
    return Table(COLUMNS, [_row(form) for form in chosen])


def _family(name: str) -> list[Form]:
    if name not in FAMILIES:
        raise ViewError(f"unknown family '{name}'", ", ".join(FAMILIES))
    forms: list[Form] = []
    if name in ("mma", "all"):
        forms += mma_forms().values()
    if name in ("wgmma", "all"):
        forms += (form for row in WGMMA_ROWS for form in row.forms() if "aligned" in form.qualifiers)
    if name in ("tcgen05", "all"):
        from isa.forms.table import family_opcodes
        from isa.ptx.opcodes import find_form

        forms += (find_form(opcode) for opcode in family_opcodes())
    if name in ("plain", "all"):
        forms += plain_forms().values()
    return forms


def _row(form: Form) -> tuple[str | int, ...]:
    """The cells of a form: operands with their registers, number of selectors, metadata pattern, first PTX version,
    targets."""
    selectors, pattern = _metadata(form)
    return (
        form.opcode,
        " ".join(role.name + (str(role.count) if role.count > 1 else "") for role in form.roles),
        selectors,
        pattern,
        form.since_ptx,
        str(form.targets),
        "; ".join(form.notes()),
    )


def _metadata(form: Form) -> tuple[int | str, str]:
    """The number of selectors, and the pattern, of a sparse matrix form; nothing for others."""
    if (is_mma(form) or is_wgmma(form)) and form.sparse:
        return form.metadata.selectors, form.metadata.sparsity.name
    if is_tcgen05_mma(form) and form.sparse:
        m = legal_m(form.kind, cta_group=form.cta_group, sparse=True, ws=form.ws)[0]
        metadata = tmem_metadata(form.kind, m, form.cta_group, form.ws)
        return len(metadata.selectors), metadata.sparsity.name
    return "", ""
