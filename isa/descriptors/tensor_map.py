"""Tensor maps: what the copy engine is told of a tensor in global memory, as fields and as NVIDIA's 128 bytes.

PTX calls the object a tensor-map and leaves its bytes open (PTX ISA 9.0, 5.5.8). The places of the fields and what the
driver refuses are measured: 140,000 random calls of cuTensorMapEncodeTiled, cuTensorMapEncodeIm2col and
cuTensorMapEncodeIm2colWide, driver 580 on an H200, of which `TensorMap` decides every one alike that is of a Hopper,
and encodes every legal one to the same bytes (`measurements/tensor_maps`). A wide im2col map is an im2col map whose
corners but those of W are 0, in both modes. Sub-byte types and the swizzles with larger atoms that driver refuses:
see `tensor_map_fields`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from isa.descriptors.tensor_map_fields import (
    ADDRESS,
    ALIGNMENT,
    ALIGNMENTS,
    ATOM,
    ATOMS,
    BOX,
    BOX_BYTES,
    BYTES,
    CORNER_BITS,
    ELEMENT_STRIDES,
    FILL,
    FILLS,
    IM2COL,
    INTERLEAVE,
    INTERLEAVES,
    LOWER,
    PIXELS,
    PROMOTION,
    PROMOTIONS,
    RANK,
    SIZES,
    STRIDES,
    STRIDES_HIGH,
    SWIZZLE,
    SWIZZLE_HIGH,
    SWIZZLES,
    TF32,
    TYPE,
    TYPE_OF_CODE,
    UPPER,
    Place,
)
from isa.descriptors.tensor_map_rules import TensorFields, refuse


@dataclass(frozen=True)
class TensorMap(TensorFields):
    """A tensor in global memory, and the box of it that one copy moves.

    Dimension 0 is the contiguous one. A map is either tiled (`box`) or im2col (`lower`, `upper`, `channels`, `pixels`).

    >>> tensor = TensorMap(type="f16", size=(256, 256), stride_bytes=(512,), box=(64, 64), swizzle=128)
    >>> tensor.box_bytes, len(tensor.encode(address=0x7F0000000000))
    (8192, 128)
    >>> TensorMap.decode(tensor.encode()) == tensor
    True

    Attributes:
        type: of the elements, a name of `TYPE_OF_NAME`.
        size: elements in each of 1 to 5 dimensions, 1 to 2^32.
        stride_bytes: bytes from one element to the next in dimension 1 and up, multiples of 16 below 2^40.
        box: tiled: elements of the box in each dimension, 1 to 256.
        element_stride: in each dimension, every how many elements one is copied, 1 to 8; dimension 0 of a map without
            interleave ignores it.
        swizzle: bytes of a row of the pattern in shared memory: 0, 32, 64, 128 (96: of sm_103a, by tensormap.replace).
        interleave: bytes of a slice of channels: 0, 16, 32. Slices lie within a pixel of dimension 0 then, and the
            dimension that counts slices is the last but one: W, (H, (D,)) C, N.
        l2_promotion: bytes that L2 fetches: 0, 64, 128, 256.
        fill: what lies outside the tensor: "zeros" or "nan".
        lower, upper: im2col: corners of the box of base pixels, of W, H, D.
        channels, pixels: im2col: elements of dimension 0, and how many pixels a copy moves.
        address: of the first element, a multiple of 16 below 2^57.
        atom, flip: bytes that the 128-byte swizzle keeps together (16, 32, 64), and that it swaps in odd lines (0, 8).

    Raises:
        IsaError: the driver refuses such a map.
    """

    # The 128 bytes

    def encode(self, address: int | None = None) -> bytes:
        """Returns NVIDIA's 128 bytes, of this address or another."""
        chosen = self if address is None else replace(self, address=address)
        word = ADDRESS.put(0, chosen.address)
        for place, value in chosen._values():
            word = place.put(word, value)
        return word.to_bytes(BYTES, "little")

    def _values(self) -> Iterator[tuple[Place, int]]:
        """What stands where, but for the address."""
        kind, swizzle = self.element, SWIZZLES.index(self.swizzle)
        yield from ((RANK, self.rank - 1), (TYPE, kind.code), (TF32, kind.tf32), (SWIZZLE, swizzle & 3))
        yield from ((SWIZZLE_HIGH, swizzle >> 2), (ATOM, ATOMS.index((self.atom, self.flip))))
        yield from ((INTERLEAVE, INTERLEAVES.index(self.interleave)), (FILL, FILLS.index(self.fill)))
        yield from ((PROMOTION, PROMOTIONS.index(self.l2_promotion)), (ALIGNMENT, ALIGNMENTS[swizzle]))
        for index, stride in enumerate(self.stride_bytes):
            yield from ((STRIDES[index], stride >> 4), (STRIDES_HIGH[index], stride >> 36))
        yield from zip(SIZES, (size - 1 for size in self.size), strict=False)
        yield from zip(ELEMENT_STRIDES, (step - 1 for step in self.element_stride), strict=False)
        if not self.im2col:
            yield from zip(BOX, (size - 1 for size in self.box), strict=False)
            yield BOX_BYTES, self.coded_bytes
            return
        yield from ((IM2COL, 1), (BOX[0], self.channels - 1), (PIXELS, self.pixels - 1), (BOX_BYTES, self.coded_bytes))
        width = CORNER_BITS[self.rank]
        for place, corner in ((LOWER, self.lower), (UPPER, self.upper)):
            yield place, sum((value & (1 << width) - 1) << width * index for index, value in enumerate(corner))

    @classmethod
    def decode(cls, data: bytes, *, checked: bool = True) -> TensorMap:
        """Reads a map from its 128 bytes.

        Args:
            data: the bytes.
            checked: whether a map is refused that the driver would not make.

        Raises:
            IsaError: there are other than 128 bytes, or a field has a code without a meaning.
        """
        if len(data) != BYTES:
            raise refuse(f"{len(data)} bytes", "not a tensor map", f"{BYTES} bytes", "")
        word = int.from_bytes(data, "little")
        rank, kind = RANK.get(word) + 1, TYPE_OF_CODE.get((TYPE.get(word), TF32.get(word)))
        if rank > 5 or (IM2COL.get(word) and rank < 3):
            raise refuse(rank, f"the map says {rank} dimensions", "1 to 5, of im2col 3 to 5", "rank")
        atom, swizzle = ATOM.get(word), SWIZZLE.get(word) | SWIZZLE_HIGH.get(word) << 2
        if kind is None or INTERLEAVE.get(word) == 3 or atom >= len(ATOMS) or swizzle >= len(SWIZZLES):
            code, name = (TYPE.get(word), "type") if kind is None else (INTERLEAVE.get(word), "interleave")
            if kind is not None and code < 3:
                code, name = (atom, "atom") if atom >= len(ATOMS) else (swizzle, "swizzle")
            raise refuse(code, f"no {name} has code {code}", "bytes that the driver or tensormap.replace made", name)
        values: dict[str, Any] = {
            "type": kind.name,
            "size": [place.get(word) + 1 for place in SIZES[:rank]],
            "stride_bytes": [
                STRIDES[index].get(word) << 4 | STRIDES_HIGH[index].get(word) << 36 for index in range(rank - 1)
            ],
            "element_stride": [place.get(word) + 1 for place in ELEMENT_STRIDES[:rank]],
            "swizzle": SWIZZLES[swizzle],
            **dict(zip(("atom", "flip"), ATOMS[atom], strict=True)),
            "interleave": INTERLEAVES[INTERLEAVE.get(word)],
            "l2_promotion": PROMOTIONS[PROMOTION.get(word)],
            "fill": FILLS[FILL.get(word)],
            "address": ADDRESS.get(word),
        }
        if IM2COL.get(word):
            corners = ((name, place.get(word)) for name, place in (("lower", LOWER), ("upper", UPPER)))
            values |= {name: _corner(value, rank) for name, value in corners}
            values |= {"channels": BOX[0].get(word) + 1, "pixels": PIXELS.get(word) + 1}
        else:
            values["box"] = [place.get(word) + 1 for place in BOX[:rank]]
        return cls(**values, checked=checked)

    @property
    def swizzle_name(self) -> str:
        """The swizzle in words."""
        if not self.swizzle:
            return "none"
        atom = "" if self.atom == 16 else f", {self.atom}-byte atoms" + f", {self.flip}-byte flip" * bool(self.flip)
        return f"{self.swizzle} bytes{atom}"

    def __str__(self) -> str:
        lines = [f"tensor map, {'im2col' if self.im2col else 'tiled'}, {self.rank} dimensions of {self.type}"]
        lines += [f"  address           {self.address:#x}", f"  size              {_words(self.size)}"]
        first = self.group_bytes if self.group == 1 else f"{self.group_bytes}/{self.group}"
        lines.append(f"  stride            {_words((first, *self.stride_bytes))} bytes")
        if self.im2col:
            lines.append(f"  base pixels       {_words(self.lower)} to size - 1 + {_words(self.upper)}")
            lines.append(f"  box               {self.channels} channels of {self.pixels} pixels")
        else:
            lines.append(f"  box               {_words(self.box)}: {self.box_bytes} bytes")
        lines += [f"  element stride    {_words(self.element_stride)}", f"  swizzle           {self.swizzle_name}"]
        lines += [f"  interleave        {self.interleave or 'none'}", f"  outside           {self.fill}"]
        return "\n".join([*lines, f"  L2 promotion      {self.l2_promotion or 'none'}"])


def _words(values: Sequence[object]) -> str:
    return " x ".join(map(str, values))


def _corner(word: int, rank: int) -> list[int]:
    """The signed numbers of a corner, lowest first."""
    width = CORNER_BITS[rank]
    numbers = [word >> width * index & (1 << width) - 1 for index in range(rank - 2)]
    return [number - (number >> width - 1 << width) for number in numbers]
