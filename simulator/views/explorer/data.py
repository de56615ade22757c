"""The data of the explorer's page: plain values made from `simulator.layout`, from which the page's scripts draw and
answer.

Every operand goes into the page as the list of digits of its mapping, its formulas as printed, its widths, evidence and
source. What the 16 codes of metadata select, and which rule each breaks, are tables of 16. Equal operands, mappings and
texts are there only once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from isa import FOUR_OF_EIGHT, ONE_OF_TWO, TWO_OF_FOUR, IsaError, Sparsity, mma_forms, stored_columns
from isa.descriptors.instruction import legal_m, legal_n
from isa.forms.mma import is_mma
from isa.forms.record import Form
from isa.forms.table import plain_forms
from isa.forms.tcgen05 import Tcgen05MmaForm, is_tcgen05_mma
from isa.forms.tcgen05_rows import KIND_ROWS
from isa.fragments.metadata import spliced
from isa.fragments.scales import BYTES
from isa.mapping import Mapping
from isa.targets import parse_target
from isa.tensor_memory.datapath import datapath
from isa.types import ELEMENT_TYPES
from isa.undefined import RULES, metadata_findings
from simulator.arithmetic.formats import decode
from simulator.layout import Choice, FormLayout, Operand, form_layout, select
from simulator.layout.catalog import SWEPT
from simulator.layout.metadata import halves
from simulator.views.drawing.palettes import DEFAULT, PALETTES, number

Record = dict[str, Any]
SMALL = (1, 2, 3, 4)  # the elements of B that the page multiplies with: every type has them
_WGMMA_TYPES = ("f16", "bf16", "tf32", "e4m3", "e5m2", "s8", "u8")
_ALL_CODES = np.arange(16, dtype=np.uint32)
_INFERRED_ORDER = "0b0110 is listed, the only one whose indices descend; what it does is inferred"
_ZERO_CHUNK = "harmless where nothing but zeros is stored in the chunk"


def page_data(first: str) -> Record:
    """Everything that the page needs. `first` is the opcode of the form that it shows first, see `shown_form`."""
    return {**_content(), "first": first}


def shown_form(text: str) -> str:
    """The opcode under which the page has a form. IsaError if there is no such form, or the page does not show it."""
    asked = form_layout(text).form
    if is_tcgen05_mma(asked):
        same = [opcode for opcode, form in _tcgen05_forms().items() if _essence(form) == _essence(asked)]
        assert len(same) == 1
        return same[0]
    if asked.opcode not in _shown():
        raise IsaError(
            text,
            -1,
            f"the explorer does not show '{asked.opcode}'",
            "mma, mma.sp, ldmatrix or tcgen05.mma; `tcsim layout` prints it",
        )
    return asked.opcode


@lru_cache(maxsize=1)
def _content() -> Record:
    tables = _Tables()
    forms = [tables.form(opcode) for opcode in _shown()]
    warpgroups = [tables.warpgroup(opcode) for opcode in _wgmma_tiles()]
    return {
        "palettes": {name: list(colours) for name, colours in PALETTES.items()},
        "palette": DEFAULT,
        "numbers": {
            count: {
                "warp": [number(lane, count) for lane in range(32)],
                "tmem": [number(lane, count, tmem=True) for lane in range(128)],
            }
            for count in sorted({len(colours) for colours in PALETTES.values()})
        },
        "sparsities": {sparsity.name: _sparsity(sparsity) for sparsity in (TWO_OF_FOUR, FOUR_OF_EIGHT, ONE_OF_TWO)},
        "rules": {name: {"rule": RULES[name].rule, "section": RULES[name].section} for name in sorted(tables.rules)},
        "mappings": tables.mappings,
        "operands": tables.operands,
        "forms": forms,
        "warpgroups": warpgroups,
    }


@lru_cache(maxsize=1)
def _shown() -> tuple[str, ...]:
    loads = (opcode for opcode, form in plain_forms().items() if form.fragment is not None)
    return (*mma_forms(), *loads, *_tcgen05_forms())


def _wgmma_tiles() -> Iterator[str]:
    """The mma.sp forms whose tile one warp of a `wgmma.mma_async.sp` multiplies with: one for each type of A."""
    chosen: dict[str, str] = {}
    for opcode, form in mma_forms().items():
        wide = form.d_type.name in ("f32", "s32")
        if form.ordered and form.k == 512 // form.a_type.bits and wide and form.a_type.name in _WGMMA_TYPES:
            chosen.setdefault(form.a_type.name, opcode)
    yield from chosen.values()


@lru_cache(maxsize=1)
def _tcgen05_forms() -> dict[str, Tcgen05MmaForm]:
    """One spelling for each combination of kind, factors, cta_group, .sp and .ws; the other qualifiers change nothing
    about layouts."""
    forms: dict[str, Tcgen05MmaForm] = {}
    for row in KIND_ROWS:
        by_factors = {
            vector.factors: f".block_scale{'.' * bool(vector.spelling)}{vector.spelling}"
            for vector in reversed(row.vectors)
        }
        for scale in list(reversed(by_factors.values())) or [""]:
            for group, ws, sparse in (
                (1, "", ""),
                (1, "", ".sp"),
                (2, "", ""),
                (2, "", ".sp"),
                (1, ".ws", ""),
                (1, ".ws", ".sp"),
            ):
                if ws and not row.ws:
                    continue
                form = form_layout(f"tcgen05.mma{ws}{sparse}.cta_group::{group}.kind::{row.kind}{scale}").form
                assert is_tcgen05_mma(form)
                forms[form.opcode] = form
    return forms


def _essence(form: Tcgen05MmaForm) -> tuple[str, int, bool, bool, int]:
    return form.kind, form.cta_group, form.sparse, form.ws, form.factors


def _sparsity(sparsity: Sparsity) -> Record:
    """What each of the 16 codes selects in its chunk: the column of each stored element, or for 1:2 which halves are
    joined, and to what value."""
    record: Record = {
        "chunk": sparsity.chunk,
        "stored": sparsity.stored,
        "unit": sparsity.unit,
        "columns": stored_columns(_ALL_CODES[:, None], sparsity).tolist(),
        "joined": spliced(_ALL_CODES, sparsity).tolist(),
    }
    if sparsity.splices:
        record["halves"] = [halves(code) for code in range(16)]
        record["values"] = _joined_values()
    return record


def _joined_values() -> list[list[list[float]]]:
    """The tf32 operand that a 1:2 code makes from two elements of `SMALL`: [code][first element][second element]."""
    patterns = np.array(SMALL, np.float32).view(np.uint32)
    parts = np.stack([patterns & 0xFFFF, patterns >> 16])
    first, second = np.meshgrid(np.arange(len(SMALL)), np.arange(len(SMALL)), indexing="ij")
    rows = []
    for code in range(16):
        low, high = (np.where(half // 2 == 0, parts[half % 2][first], parts[half % 2][second]) for half in halves(code))
        rows.append(decode((low | high << 16).astype(np.uint32), ELEMENT_TYPES["tf32"]).value.tolist())
    return rows


class _Tables:
    """The operands, mappings and rules that forms refer to by number or name, each stored once."""

    def __init__(self) -> None:
        self.mappings: list[Record] = []
        self.operands: list[Record] = []
        self.rules: set[str] = {"tmem-copies-differ"}
        self._mapping_of: dict[Mapping, int] = {}
        self._operand_of: dict[Operand, int] = {}

    def form(self, opcode: str) -> Record:
        """One form, with all choices that its opcode leaves open."""
        layout = form_layout(opcode)
        return {
            **_headline(layout),
            **self._metadata(layout),
            "views": [self._view(layout.form, choice) for choice in _choices(layout)],
        }

    def warpgroup(self, opcode: str) -> Record:
        """wgmma.mma_async.sp with the tile of an mma.sp form in each warp, for the page to compare: its A, metadata
        and D."""
        layout = form_layout(opcode)
        assert is_mma(layout.form)
        types = [getattr(layout.form, f"{name}_type").name for name in "dab"]
        own = f"wgmma.mma_async.sp.sync.aligned.m64n{layout.n}k{layout.k}.{'.'.join(types)}"
        views: Record = {"m": 64, "n": layout.n, "base": 0, "rows": 64, "columns": layout.n, "k": layout.k}
        held = form_layout(own).operands
        operands: dict[str, dict[str, int]] = {name: {"": self._operand(held[name])} for name in "ad"}
        operands["e"] = {
            str(selector): self._operand(form_layout(own, Choice(selector=selector)).operands["e"])
            for selector in layout.selectors
        }
        return {
            **_headline(layout),
            **self._metadata(layout),
            "opcode": own,
            "family": "wgmma.sp",
            "group": True,
            "views": [{**views, "blocks": 1, "layout": "", "operands": operands, "unknown": []}],
        }

    def _view(self, form: Form, choice: Choice) -> Record:
        """The form for one choice of M, N and base lane: its operands, each by the selector or by the ids that it
        depends on."""
        chosen = form_layout(form.opcode, choice)
        operands: dict[str, dict[str, int]] = {}
        for name, operand in chosen.operands.items():
            if name == "e":
                layouts = {
                    str(selector): form_layout(form.opcode, replace(choice, selector=selector))
                    for selector in chosen.selectors
                }
            elif name.startswith("scale"):
                layouts = {
                    f"{ids[0]}.{ids[1]}": form_layout(form.opcode, _with_ids(choice, name, ids))
                    for ids in _ids(chosen, name)
                }
            else:
                operands[name] = {"": self._operand(operand)}
                continue
            operands[name] = {key: self._operand(layout.operands[name]) for key, layout in layouts.items()}
        size = (
            {"m": chosen.choice.m, "n": chosen.choice.n, "base": choice.base_lane}
            if chosen.layout
            else {"m": chosen.m, "n": chosen.n, "base": 0}
        )
        shape = {"rows": chosen.m, "columns": chosen.n, "k": chosen.k, "blocks": chosen.blocks, "layout": chosen.layout}
        return {**size, **shape, "operands": operands, "unknown": list(chosen.unknown.values())}

    def _operand(self, operand: Operand) -> int:
        """The number of an operand, whatever form it belongs to."""
        key = replace(operand, form="")
        if key not in self._operand_of:
            names = ("name", "what", "bits", "section", "evidence", "tmem", "word_bits", "used", "logical")
            self._operand_of[key] = len(self.operands)
            record = {
                **{name: getattr(operand, name) for name in names},
                "chosen": dict(operand.chosen),
                "mapping": self._mapping(operand.mapping),
            }
            self.operands.append(
                {
                    **record,
                    "formulas": {name: text for name, text in operand.formulas().items() if name != "logical column"},
                }
            )
        return self._operand_of[key]

    def _mapping(self, mapping: Mapping) -> int:
        if mapping not in self._mapping_of:
            self._mapping_of[mapping] = len(self.mappings)
            names = ("places", "axes", "digits", "fixed")
            self.mappings.append({name: getattr(mapping, name) for name in names})
        return self._mapping_of[mapping]

    def _metadata(self, layout: FormLayout) -> Record:
        """For a sparse form: its pattern, its selectors, and the rule that each of the 16 codes breaks (empty:
        none)."""
        if layout.sparsity is None:
            return {}
        notes: dict[int, str] = {}
        if layout.metadata is not None:
            findings = {
                name: hit for name, hit in layout.metadata.findings(_ALL_CODES).items() if name == "undefined-metadata"
            }
            notes |= {
                int(code): _INFERRED_ORDER
                for code in np.flatnonzero(layout.metadata.findings(_ALL_CODES)["unordered-metadata"])
            }
            harmless = layout.metadata.findings(_ALL_CODES, np.ones(16, np.bool_))["zero-chunk"]
            notes |= {int(code): _ZERO_CHUNK for code in np.flatnonzero(harmless)}
        else:
            assert is_mma(layout.form)
            findings = metadata_findings(layout.form, _ALL_CODES)
        verdicts = [next((name for name, hit in findings.items() if hit[code]), "") for code in range(16)]
        self.rules |= set(verdicts) - {""}
        words = np.zeros((128, 2) if layout.metadata is not None else 32, np.uint32)
        return {
            "sparsity": layout.sparsity.name,
            "codes": list(layout.codes),
            "selectors": list(layout.selectors),
            "verdicts": verdicts,
            "notes": notes,
            "source": _elsewhere(layout.form) or select(layout, words).source,
        }


def _elsewhere(form: Form) -> str:
    """A note about undefined codes where no H100 has the form; empty if it has, and for `tcgen05`."""
    if not is_mma(form) or form.supports(parse_target("sm_90a")):
        return ""
    return "what a plain multiplexer selects, as measured on an H100 for the forms that it has (assumed of this one)"


def _headline(layout: FormLayout) -> Record:
    """What the form is called, and by which words it can be searched for."""
    form = layout.form
    shared: Record = {
        "opcode": form.opcode,
        "since": form.since_ptx,
        "targets": str(form.targets),
        "section": form.section,
    }
    if is_mma(form):
        types = {name: getattr(form, f"{name}_type").name for name in "dabc"}
        shared |= {
            "family": "mma.sp" if form.sparse else "mma",
            "shape": f"m{form.m}n{form.n}k{form.k}",
            "types": types,
            "type": types["a"],
        }
        return shared | {"ordered": form.ordered, "operation": form.row.operation, "remarks": list(form.notes())}
    shared |= {"ordered": False, "operation": "", "remarks": [], "types": {}}
    if is_tcgen05_mma(form):
        family = "tcgen05.mma" + ".ws" * form.ws + ".sp" * form.sparse
        return shared | {"family": family, "shape": f"cta_group::{form.cta_group}", "type": form.kind}
    return shared | {"family": form.name, "shape": form.qualifiers[3], "type": form.type_name}


def _choices(layout: FormLayout) -> Iterator[Choice]:
    """The choices of M, N and base lanes of `tcgen05.mma`; a single one for other forms."""
    form = layout.form
    if not is_tcgen05_mma(form):
        yield Choice()
        return
    sizes = legal_n(form.kind, cta_group=form.cta_group, sparse=form.sparse, ws=form.ws)
    for m in legal_m(form.kind, cta_group=form.cta_group, sparse=form.sparse, ws=form.ws):
        for n in (n for n in SWEPT if n in sizes):
            for base in datapath(m, form.cta_group, form.sparse, form.ws).base_lanes:
                yield Choice(m=m, n=n, base_lane=base)


def _ids(layout: FormLayout, name: str) -> list[tuple[int, int]]:
    """The legal byte-ids and thread-ids of an operand of scale factors."""
    if is_mma(layout.form):
        scale = getattr(layout.form, name)
        return [(byte, thread) for byte in scale.byte_ids for thread in scale.thread_ids]
    return [(byte, 0) for byte in range(0, BYTES, layout.factors)]


def _with_ids(choice: Choice, name: str, ids: tuple[int, int]) -> Choice:
    return replace(choice, scale_a=ids) if name == "scale_a" else replace(choice, scale_b=ids)
