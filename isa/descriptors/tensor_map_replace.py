"""What `tensormap.replace` makes of the 128 bytes of a tensor map. PTX ISA 9.0, 9.7.9.28.

Measured on an H200 (4,000 replacements). Sub-byte types, swizzle_atomicity and the 96-byte swizzle: as ptxas 13.0
writes the instruction for sm_100a and sm_103a (`measurements/tensor_maps/read_replacements.py`).
"""

from __future__ import annotations

from isa.descriptors.tensor_map_fields import (
    ADDRESS,
    ATOM,
    BOX,
    BYTES,
    ELEMENT_STRIDES,
    FILL,
    INTERLEAVE,
    RANK,
    SIZES,
    STRIDES,
    STRIDES_HIGH,
    SWIZZLE,
    SWIZZLE_HIGH,
    TF32,
    TYPE,
    TYPES,
)

ORDINALS = {"box_dim": 5, "global_dim": 5, "element_stride": 5, "global_stride": 4}  # fields that have one a dimension


def replaced(data: bytes, name: str, value: int, ordinal: int = 0) -> bytes:
    """Returns a map's 128 bytes after `tensormap.replace.tile.NAME`. PTX ISA 9.0, 9.7.9.28; measured on an H200.

    Args:
        data: the bytes before.
        name: the qualifier of the instruction: global_address, rank, box_dim, global_dim, global_stride,
            element_stride, elemtype, interleave_layout, swizzle_mode, swizzle_atomicity or fill_mode.
        value: the operand; bits that the field has no room for are dropped.
        ordinal: which dimension, of those in `ORDINALS`.
    """
    word = int.from_bytes(data, "little")
    match name:
        case "global_address":
            word = ADDRESS.put(word, value)
        case "global_stride":
            word = STRIDES_HIGH[ordinal].put(STRIDES[ordinal].put(word, value >> 4), value >> 36)
        case "box_dim" | "global_dim" | "element_stride":
            places = {"box_dim": BOX, "global_dim": SIZES, "element_stride": ELEMENT_STRIDES}[name]
            word = places[ordinal].put(word, value - 1)
        case "swizzle_mode":
            word = SWIZZLE_HIGH.put(SWIZZLE.put(word, value), value >> 2)
        case "elemtype":
            kind = TYPES[value]
            word = TYPE.put(word, kind.code)
            if kind.tf32:  # measured: the bit is set, and never cleared
                word = TF32.put(word, 1)
        case _:
            places_of_codes = {
                "rank": RANK,
                "interleave_layout": INTERLEAVE,
                "swizzle_atomicity": ATOM,
                "fill_mode": FILL,
            }
            word = places_of_codes[name].put(word, value)
    return word.to_bytes(BYTES, "little")
