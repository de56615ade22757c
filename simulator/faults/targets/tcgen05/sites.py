"""The sites of a `tcgen05.mma` that memory and the instruction itself have: operands, shared memory, descriptors,
addresses and the selector."""

from __future__ import annotations

import numpy as np

from isa.types import SCALE_TYPES, Bits
from simulator.execute.tcgen05.example import SHARED_BYTES, Shape
from simulator.faults.spread import WORD_MODELS, Site
from simulator.faults.targets.target import SELECTOR, operand_site, word_site
from simulator.layout import FormLayout


def memory_sites(shape: Shape, layout: FormLayout) -> dict[str, Site]:
    """Operands, shared memory, descriptors and addresses, by name; for a sparse instruction also the selector."""
    sites: dict[str, Site] = {}
    in_tmem, sparse = bool(shape.form.a_in_tmem), shape.form.sparse
    for name, operand in layout.operands.items():
        used, kind = (1 << operand.bits) - 1, None
        if name in "ad":
            kind = shape.element("a") if name == "a" else shape.result
            used = kind.mask & ~((1 << kind.padding) - 1)
        elif name.startswith("scale"):
            used = SCALE_TYPES[str(shape.idesc.scale_type)].read
        if name != "a" or in_tmem:
            sites[name] = operand_site(name, operand, used, kind)
    sites["shared"] = Site("shared", _shared_live(shape)[:, None], models=WORD_MODELS)
    sites |= {"idesc": word_site("idesc"), "b_desc": word_site("b_desc", 2)}
    bases = ["base_d", *["base_a"] * in_tmem, *["base_e"] * sparse]
    sites |= {} if in_tmem else {"a_desc": word_site("a_desc", 2)}
    sites |= {name: word_site(name, models=(*WORD_MODELS, "align")) for name in bases}
    return sites | ({"selector": SELECTOR} if sparse and not shape.form.kind.startswith("mx") else {})


def _shared_live(shape: Shape) -> Bits:
    """The bits of shared memory that belong to elements, uint32 [word]."""
    live = np.zeros(SHARED_BYTES * 8, np.bool_)
    for operand in "b" if shape.form.a_in_tmem else "ab":
        element, first = shape.smem(operand).element, shape.shared_bits(operand)
        width = {"e2m1": 4, "e2m3": 6, "e3m2": 6}.get(element.name, element.bits)
        for bit in range(element.padding if element.bits == 32 else 0, width):
            live[first + bit] = True
    return np.packbits(live, bitorder="little").view("<u4").astype(np.uint32)
