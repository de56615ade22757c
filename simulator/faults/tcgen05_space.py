"""Populations of faults that only `tcgen05` has, in the style of `simulator.faults.space`.

Bits of descriptors and of addresses need none of their own: `flip`, `stuck0`, `stuck1` and `flips` of sites idesc,
a_desc, b_desc, base_d, base_a, base_e, every bit of which is live. Neither do selectors.
"""

from __future__ import annotations

import numpy as np

from isa.tensor_memory.address import TMEM_LANES
from isa.tensor_memory.datapath import HALF
from simulator.errors import ConfigError
from simulator.faults.space import Group, Indices, Population, Site
from simulator.faults.table import MODELS, SITES, Faults, empty
from simulator.layout import FormLayout

BASES = ("base_d", "base_a", "base_e")


def alignment(group: Group, site: Site, found: FormLayout) -> Population:
    """An operand moved to other lanes: where = "live": to the other half of every 32 lanes; "dead": to each other wrong
    lane; "all": both.

    The kind "align" of sites base_d, base_a and base_e. ConfigError elsewhere.
    """
    if site.name not in BASES:
        raise ConfigError("campaign", f"faults.{group.name}", f"kind align of site {site.name}", ", ".join(BASES))
    right = found.choice.base_lane
    half = right ^ HALF
    others = [lane for lane in range(TMEM_LANES) if lane not in (right, half)]
    lanes = np.array({"live": [half], "dead": others, "all": [half, *others]}[group.where], np.uint32)

    def make(index: Indices) -> Faults:
        faults = empty(len(index))
        faults["site"], faults["model"] = SITES.index(site.name), MODELS.index("align")
        faults["mask"], faults["value"] = 0xFFFF0000, lanes[index]
        return faults

    return Population(len(lanes), make)
