"""Which matrix instructions run on units that faults strike, and which sum a unit's positions are those of."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeGuard

from isa.forms.mma import MmaForm, is_mma
from isa.forms.record import Form
from isa.forms.wgmma import WgmmaForm, is_wgmma
from isa.targets import Target
from isa.types import F64
from simulator.arithmetic import Sum
from simulator.execute import mma, wgmma
from simulator.faults.spread import Site
from simulator.faults.unit.mapping import rows_of_warp
from simulator.faults.unit.sites import unit_sites


def has_unit(form: Form) -> TypeGuard[MmaForm | WgmmaForm]:
    """Whether faults of the unit strike a form when a program executes it: `wgmma`, and all `mma` but f64, and m8n8k4
    of f16, which has several products."""
    return is_wgmma(form) or (is_mma(form) and form.a_type is not F64 and form.blocks == 1)


def unit_sum(form: MmaForm | WgmmaForm, target: Target, arithmetic: str) -> Sum:
    """How the tensor core of one warp's sub-core adds: D has the rows of that warp."""
    how = mma.sum_of(form, target, arithmetic) if is_mma(form) else _of_warpgroup(form, target, arithmetic)
    return replace(how, m=rows_of_warp(how.m, form.warps))


def form_sites(form: MmaForm | WgmmaForm, target: Target, arithmetic: str) -> dict[str, Site]:
    """The sites of the units that execute a form on a chip, by name; none under the exact arithmetic of floats."""
    if not has_unit(form):
        return {}
    return unit_sites(unit_sum(form, target, arithmetic), selector_count(form))


def selector_count(form: MmaForm | WgmmaForm) -> int:
    """How many sparsity selectors a form has; 0 of a dense one."""
    return form.metadata.selectors if form.sparse else 0


def _of_warpgroup(form: Form, target: Target, arithmetic: str) -> Sum:
    assert is_wgmma(form)
    return wgmma.sum_of(form, target, arithmetic)
