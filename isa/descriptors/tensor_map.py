"""Tensor maps: what the copy engine is told of a tensor in global memory, as fields and as NVIDIA's 128 bytes.

PTX calls the object a tensor-map and leaves its bytes open (PTX ISA 9.0, 5.5.8). The places of the fields and what the
driver refuses are measured: 120,000 random calls of cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col, driver 580 on an
H200, of which `TensorMap` decides every one alike and encodes every legal one to the same bytes
(`measurements/tensor_maps`). What `tensormap.replace` changes is measured, too (4,000 calls).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from isa.errors import IsaError

BYTES = 128
RULE = "tensor-map"
MOST_BYTES = 233472  # of a box in shared memory; measured: the driver's limit, 228 KB


class TensorType(NamedTuple):
    """The type of a tensor's elements.

    Attributes:
        name: as `tensormap.replace` spells it, without the dot.
        bytes: of one element.
        code: in the map.
        tf32: whether the map's bit for TF32 is set.
        driver: number of its `CUtensorMapDataType`.
        floating: whether elements outside the tensor can be NaN.
    """

    name: str
    bytes: int
    code: int
    tf32: int
    driver: int
    floating: bool


TYPES = (
    TensorType("u8", 1, 0, 0, 0, False),
    TensorType("u16", 2, 1, 0, 1, False),
    TensorType("u32", 4, 2, 0, 2, False),
    TensorType("s32", 4, 3, 0, 3, False),
    TensorType("u64", 8, 4, 0, 4, False),
    TensorType("s64", 8, 5, 0, 5, False),
    TensorType("f16", 2, 6, 0, 6, True),
    TensorType("f32", 4, 7, 0, 7, True),
    TensorType("f32.ftz", 4, 8, 0, 10, True),
    TensorType("f64", 8, 9, 0, 8, True),
    TensorType("bf16", 2, 10, 0, 9, True),
    TensorType("tf32", 4, 7, 1, 11, True),
    TensorType("tf32.ftz", 4, 8, 1, 12, True),
)  # in the order of the immediates of tensormap.replace .elemtype: PTX ISA 9.0, 9.7.9.28
TYPE_OF_NAME = {kind.name: kind for kind in TYPES}
_TYPE_OF_CODE = {(kind.code, kind.tf32): kind for kind in TYPES}
TYPE_OF_DRIVER = {kind.driver: kind for kind in TYPES}
INTERLEAVES = (0, 16, 32)  # bytes of a slice; by code
SWIZZLES = (0, 32, 64, 128)  # bytes of a row of the pattern; by code
PROMOTIONS = (0, 64, 128, 256)  # bytes that L2 fetches; by code
FILLS = ("zeros", "nan")  # by code
_CORNER_BITS = {3: 16, 4: 8, 5: 5}  # of an im2col corner, by rank
_ALIGNMENT = (16, 256, 512, 1024)  # of the box in shared memory, by code of the swizzle: the map's last word


@dataclass(frozen=True)
class Place:
    """A run of bits of the map: its first bit, and how many."""

    low: int
    width: int

    def get(self, word: int) -> int:
        """The bits of a map of 1,024 bits."""
        return word >> self.low & (1 << self.width) - 1

    def put(self, word: int, value: int) -> int:
        """The map with these bits set to the lowest bits of a value."""
        mask = (1 << self.width) - 1
        return word & ~(mask << self.low) | (value & mask) << self.low


ADDRESS, IM2COL, RANK, TYPE = Place(0, 64), Place(64, 1), Place(68, 3), Place(71, 4)
INTERLEAVE, SWIZZLE, FILL, TF32, PROMOTION = Place(75, 2), Place(77, 2), Place(79, 1), Place(80, 1), Place(81, 2)
STRIDES = tuple(Place(96 + 32 * index, 32) for index in range(4))  # bits 4 to 35 of the bytes
STRIDES_HIGH = tuple(Place(224 + 4 * index, 4) for index in range(4))  # bits 36 to 39
SIZES = tuple(Place(256 + 32 * index, 32) for index in range(5))  # less 1
ELEMENT_STRIDES = tuple(Place(416 + 3 * index, 3) for index in range(5))  # less 1
BOX = tuple(Place(440 + 8 * index, 8) for index in range(5))  # less 1; im2col: the first alone, the channels
LOWER, UPPER, PIXELS = Place(448, 16), Place(464, 16), Place(480, 10)  # corners; pixels less 1
BOX_BYTES, ALIGNMENT = Place(512, 24), Place(576, 16)


def _refuse(text: object, reason: str, legal: str, operand: str) -> IsaError:
    return IsaError(str(text), -1, reason, legal, section="CUDA driver API, cuTensorMapEncode", rule=RULE, operand=operand)


@dataclass(frozen=True)
class TensorMap:
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
        swizzle: bytes of a row of the pattern in shared memory: 0, 32, 64, 128.
        interleave: bytes of a slice of channels: 0, 16, 32.
        l2_promotion: bytes that L2 fetches: 0, 64, 128, 256.
        fill: what lies outside the tensor: "zeros" or "nan".
        lower, upper: im2col: corners of the box of base pixels, of W, H, D.
        channels, pixels: im2col: elements of dimension 0, and how many pixels a copy moves.
        address: of the first element, a multiple of 16 below 2^48.

    Raises:
        IsaError: the driver refuses such a map.
    """

    type: str
    size: tuple[int, ...]
    stride_bytes: tuple[int, ...] = ()
    box: tuple[int, ...] = ()
    element_stride: tuple[int, ...] = ()
    swizzle: int = 0
    interleave: int = 0
    l2_promotion: int = 0
    fill: str = "zeros"
    lower: tuple[int, ...] = ()
    upper: tuple[int, ...] = ()
    channels: int = 0
    pixels: int = 0
    address: int = 0

    checked: bool = field(default=True, repr=False, compare=False)
    """Whether the map is refused where the driver would; maps that a kernel wrote need not obey it."""

    def __post_init__(self) -> None:
        for name in ("size", "stride_bytes", "box", "element_stride", "lower", "upper"):
            object.__setattr__(self, name, tuple(int(value) for value in getattr(self, name)))
        if not self.element_stride:
            object.__setattr__(self, "element_stride", (1,) * len(self.size))
        if self.checked:
            for problem in self.problems():
                raise problem

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.size)

    @property
    def im2col(self) -> bool:
        """Whether the map is one of `cuTensorMapEncodeIm2col`."""
        return self.channels > 0

    @property
    def element(self) -> TensorType:
        """The type of the elements."""
        return TYPE_OF_NAME[self.type]

    @property
    def inner_bytes(self) -> int:
        """Bytes of the box along dimension 0."""
        return (self.channels if self.im2col else self.box[0]) * self.element.bytes

    @property
    def steps(self) -> tuple[int, ...]:
        """The element strides that copies follow: that of dimension 0 counts only where slices interleave. Measured."""
        return self.element_stride if self.interleave else (1, *self.element_stride[1:])

    @property
    def counts(self) -> tuple[int, ...]:
        """Elements that a copy moves: of each dimension of the box; of an im2col map channels and pixels."""
        if self.im2col:
            return self.channels, self.pixels
        return tuple(-(-size // step) for size, step in zip(self.box, self.steps, strict=True))

    @property
    def box_bytes(self) -> int:
        """Bytes that a copy counts on its mbarrier, those outside the tensor too."""
        total = self.element.bytes
        for count in self.counts:
            total *= count
        return total

    # What the driver refuses

    def problems(self) -> Iterator[IsaError]:
        """What the driver refuses in this map. Measured: `measurements/tensor_maps`."""
        yield from self._shape_problems()
        yield from self._choice_problems()
        yield from self._range_problems()
        yield from self._im2col_problems() if self.im2col else self._box_problems()
        yield from self._inner_problems()

    def _shape_problems(self) -> Iterator[IsaError]:
        """Wrong numbers of dimensions: nothing else can be judged then."""
        least = 3 if self.interleave or self.im2col else 1
        if not least <= self.rank <= 5:
            why = " of an interleaved or im2col map" * (least == 3)
            raise _refuse(self.size, f"{self.rank} dimensions{why}", f"{least} to 5", "size")
        wanted = {"stride_bytes": self.rank - 1, "element_stride": self.rank}
        wanted |= {"lower": self.rank - 2, "upper": self.rank - 2} if self.im2col else {"box": self.rank}
        for name, count in wanted.items():
            if len(getattr(self, name)) != count:
                raise _refuse(getattr(self, name), f"{name} has {len(getattr(self, name))} numbers", str(count), name)
        if self.type not in TYPE_OF_NAME:
            raise _refuse(self.type, f"no type of a tensor: {self.type!r}", ", ".join(TYPE_OF_NAME), "type")
        yield from ()

    def _choice_problems(self) -> Iterator[IsaError]:
        for name, legal in (("swizzle", SWIZZLES), ("interleave", INTERLEAVES), ("l2_promotion", PROMOTIONS)):
            if getattr(self, name) not in legal:
                yield _refuse(getattr(self, name), f"{name} {getattr(self, name)}", ", ".join(map(str, legal)), name)
        if self.fill not in FILLS:
            yield _refuse(self.fill, f"fill {self.fill!r}", ", ".join(FILLS), "fill")
        elif self.fill == "nan" and not self.element.floating:
            yield _refuse(self.fill, f"elements of {self.type} cannot be NaN", "zeros", "fill")

    def _range_problems(self) -> Iterator[IsaError]:
        unit = 32 if self.interleave == 32 else 16
        if self.address % unit or not 0 <= self.address < 1 << 48:
            yield _refuse(hex(self.address), f"address {self.address:#x}", f"a multiple of {unit} below 2^48", "address")
        yield from _outside(self.size, 1, 1 << 32, "size")
        yield from _outside(self.element_stride, 1, 8, "element_stride")
        for index, stride in enumerate(self.stride_bytes):
            if stride % unit or not 0 <= stride < 1 << 40:
                where = f"stride of dimension {index + 1} is {stride} bytes"
                yield _refuse(stride, where, f"a multiple of {unit} below 2^40", "stride_bytes")

    def _box_problems(self) -> Iterator[IsaError]:
        yield from _outside(self.box, 1, 256, "box")
        total = self.element.bytes
        for size, step in zip(self.box, self.element_stride, strict=True):
            total *= size // max(step, 1)  # as the driver counts
        if total > MOST_BYTES:
            yield _refuse(self.box, f"a box of {total} bytes", f"at most {MOST_BYTES}", "box")

    def _im2col_problems(self) -> Iterator[IsaError]:
        yield from _outside((self.channels,), 1, 256, "channels")
        yield from _outside((self.pixels,), 1, 1024, "pixels")
        if self.inner_bytes * self.pixels > MOST_BYTES:
            reason = f"{self.pixels} pixels of {self.inner_bytes} bytes"
            yield _refuse(self.pixels, reason, f"at most {MOST_BYTES} bytes", "pixels")
        half = 1 << _CORNER_BITS[self.rank] - 1
        for name in ("lower", "upper"):
            yield from _outside(getattr(self, name), -half, half - 1, name)
        first = 0 if self.interleave else 1  # measured: the driver looks one dimension too low where slices interleave
        for index, (low, high) in enumerate(zip(self.lower, self.upper, strict=True)):
            end = (self.size[index + first] + high + (1 << 31)) % (1 << 32) - (1 << 31)  # 32 bits, as the driver counts
            if end <= low:
                reason = f"corners {low} and {high} leave no base pixel of {self.size[index + first]}"
                yield _refuse(low, reason, "lower <= size - 1 + upper", "lower")

    def _inner_problems(self) -> Iterator[IsaError]:
        inner, name = self.inner_bytes, "channels" if self.im2col else "box"
        if inner % 16:
            yield _refuse(inner, f"a row of the box has {inner} bytes", "a multiple of 16", name)
        elif self.swizzle and not self.interleave and inner > self.swizzle:
            yield _refuse(inner, f"a row of the box has {inner} bytes", f"at most {self.swizzle}, the swizzle", name)

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
        yield from ((RANK, self.rank - 1), (TYPE, kind.code), (TF32, kind.tf32), (SWIZZLE, swizzle))
        yield from ((INTERLEAVE, INTERLEAVES.index(self.interleave)), (FILL, FILLS.index(self.fill)))
        yield from ((PROMOTION, PROMOTIONS.index(self.l2_promotion)), (ALIGNMENT, _ALIGNMENT[swizzle]))
        for index, stride in enumerate(self.stride_bytes):
            yield from ((STRIDES[index], stride >> 4), (STRIDES_HIGH[index], stride >> 36))
        yield from zip(SIZES, (size - 1 for size in self.size), strict=False)
        yield from zip(ELEMENT_STRIDES, (step - 1 for step in self.element_stride), strict=False)
        if not self.im2col:
            yield from zip(BOX, (size - 1 for size in self.box), strict=False)
            total = self.element.bytes
            for size, step in zip(self.box, self.element_stride, strict=True):
                total *= size // step
            yield BOX_BYTES, total
            return
        yield from ((IM2COL, 1), (BOX[0], self.channels - 1), (PIXELS, self.pixels - 1), (BOX_BYTES, self.box_bytes))
        width = _CORNER_BITS[self.rank]
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
            raise _refuse(f"{len(data)} bytes", "not a tensor map", f"{BYTES} bytes", "")
        word = int.from_bytes(data, "little")
        rank, kind = RANK.get(word) + 1, _TYPE_OF_CODE.get((TYPE.get(word), TF32.get(word)))
        if rank > 5 or (IM2COL.get(word) and rank < 3):
            raise _refuse(rank, f"the map says {rank} dimensions", "1 to 5, of im2col 3 to 5", "rank")
        if kind is None or INTERLEAVE.get(word) == 3:
            code, name = (TYPE.get(word), "type") if kind is None else (3, "interleave")
            raise _refuse(code, f"no {name} has code {code}", "bytes that the driver or tensormap.replace made", name)
        values: dict[str, Any] = dict(
            type=kind.name,
            size=[place.get(word) + 1 for place in SIZES[:rank]],
            stride_bytes=[
                STRIDES[index].get(word) << 4 | STRIDES_HIGH[index].get(word) << 36 for index in range(rank - 1)
            ],
            element_stride=[place.get(word) + 1 for place in ELEMENT_STRIDES[:rank]],
            swizzle=SWIZZLES[SWIZZLE.get(word)],
            interleave=INTERLEAVES[INTERLEAVE.get(word)],
            l2_promotion=PROMOTIONS[PROMOTION.get(word)],
            fill=FILLS[FILL.get(word)],
            address=ADDRESS.get(word),
        )
        if IM2COL.get(word):
            corners = ((name, place.get(word)) for name, place in (("lower", LOWER), ("upper", UPPER)))
            values |= {name: _corner(value, rank) for name, value in corners}
            values |= {"channels": BOX[0].get(word) + 1, "pixels": PIXELS.get(word) + 1}
        else:
            values["box"] = [place.get(word) + 1 for place in BOX[:rank]]
        return cls(**values, checked=checked)

    def __str__(self) -> str:
        lines = [f"tensor map, {'im2col' if self.im2col else 'tiled'}, {self.rank} dimensions of {self.type}"]
        lines += [f"  address           {self.address:#x}", f"  size              {_words(self.size)}"]
        lines.append(f"  stride            {_words((self.element.bytes, *self.stride_bytes))} bytes")
        if self.im2col:
            lines.append(f"  base pixels       {_words(self.lower)} to size - 1 + {_words(self.upper)}")
            lines.append(f"  box               {self.channels} channels of {self.pixels} pixels")
        else:
            lines.append(f"  box               {_words(self.box)}: {self.box_bytes} bytes")
        lines += [f"  element stride    {_words(self.element_stride)}", f"  swizzle           {self.swizzle or 'none'}"]
        lines += [f"  interleave        {self.interleave or 'none'}", f"  outside           {self.fill}"]
        return "\n".join([*lines, f"  L2 promotion      {self.l2_promotion or 'none'}"])


def _words(values: Sequence[int]) -> str:
    return " x ".join(map(str, values))


def _corner(word: int, rank: int) -> list[int]:
    """The signed numbers of a corner, lowest first."""
    width = _CORNER_BITS[rank]
    numbers = [word >> width * index & (1 << width) - 1 for index in range(rank - 2)]
    return [number - (number >> width - 1 << width) for number in numbers]


def _outside(values: Sequence[int], least: int, most: int, name: str) -> Iterator[IsaError]:
    for index, value in enumerate(values):
        if not least <= value <= most:
            yield _refuse(value, f"{name}[{index}] is {value}", f"{least} to {most}", name)


# tensormap.replace

ORDINALS = {"box_dim": 5, "global_dim": 5, "element_stride": 5, "global_stride": 4}  # fields that have one a dimension


def replaced(data: bytes, name: str, value: int, ordinal: int = 0) -> bytes:
    """Returns a map's 128 bytes after `tensormap.replace.tile.NAME`. PTX ISA 9.0, 9.7.9.28; measured on an H200.

    Args:
        data: the bytes before.
        name: the qualifier of the instruction: global_address, rank, box_dim, global_dim, global_stride,
            element_stride, elemtype, interleave_layout, swizzle_mode or fill_mode.
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
        case "elemtype":
            kind = TYPES[value]
            word = TYPE.put(word, kind.code)
            if kind.tf32:  # measured: the bit is set, and never cleared
                word = TF32.put(word, 1)
        case _:
            places_of_codes = {"rank": RANK, "interleave_layout": INTERLEAVE, "swizzle_mode": SWIZZLE, "fill_mode": FILL}
            word = places_of_codes[name].put(word, value)
    return word.to_bytes(BYTES, "little")
