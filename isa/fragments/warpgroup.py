"""Fragments of a warpgroup, the 128 threads that execute one `wgmma`: each of its four warps holds 16 of the 64 rows of
A and of D, laid out as `mma` lays out a tile of 16 rows. PTX ISA 9.0, 9.7.15.5 (register fragments).
"""

from __future__ import annotations

from dataclasses import replace

from isa.fragments.metadata import Metadata
from isa.fragments.registers import Fragment
from isa.mapping import Digit, Mapping

WARPS = 4
LANES = 32
ROWS = 16  # of a warp


def of_warpgroup(mapping: Mapping) -> Mapping:
    """The mapping of a warpgroup whose warps each hold 16 rows by the given mapping of one warp.

    Lanes are counted through the warpgroup: lane 0 to 31 of warp w are 32 * w and on, and hold rows 16 * w and on.
    """
    assert dict(mapping.places)["lane"] == LANES
    assert dict(mapping.axes)["row"] == ROWS
    return replace(
        mapping,
        places=tuple((place, size * WARPS if place == "lane" else size) for place, size in mapping.places),
        axes=tuple((axis, size * WARPS if axis == "row" else size) for axis, size in mapping.axes),
        digits=(*mapping.digits, Digit("lane", LANES, WARPS, "row", ROWS)),
    )


def fragment_of_warpgroup(fragment: Fragment) -> Fragment:
    """The operand of a warpgroup whose warps each hold 16 rows as this fragment holds them."""
    return replace(fragment, mapping=of_warpgroup(fragment.mapping))


def metadata_of_warpgroup(metadata: Metadata) -> Metadata:
    """The metadata of a warpgroup: each warp holds the codes of its own 16 rows, as `mma.sp` does. PTX ISA 9.0,
    9.7.15.6.2; measured on an NVIDIA H100, November 2026 (tests/golden/launches/wgmma_*)."""
    return replace(metadata, mapping=of_warpgroup(metadata.mapping))
