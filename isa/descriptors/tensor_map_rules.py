"""What a tensor map says of a tensor, as fields; what follows of them; and what the driver refuses.

Measured: see `isa.descriptors.tensor_map`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from isa.descriptors.tensor_map_fields import (
    ATOMS,
    CORNER_BITS,
    FILLS,
    INTERLEAVES,
    PROMOTIONS,
    SWIZZLES,
    TYPE_OF_NAME,
    TensorType,
)
from isa.errors import IsaError

RULE = "tensor-map"
MOST_BYTES = 233472  # of a box in shared memory; measured: the driver's limit, 228 KB
GROUP = 128  # elements of a padded type that a row of a box has, and a multiple of which a tensor; driver API
PACKED_ATOMS = {"b4x16_p64": (16, 32), "b6x16_p32": (16, 32, 64)}  # atoms of the swizzle of padded types; driver API


def refuse(text: object, reason: str, legal: str, operand: str) -> IsaError:
    """The error of a map that the driver refuses."""
    return IsaError(
        str(text), -1, reason, legal, section="CUDA driver API, cuTensorMapEncode", rule=RULE, operand=operand
    )


@dataclass(frozen=True)
class TensorFields:
    """A tensor in global memory and the box of it that one copy moves, as fields; see `TensorMap`."""

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
    atom: int = 16
    flip: int = 0

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
    def beyond_hopper(self) -> str:
        """What the driver of a Hopper refuses in this map and Blackwell has, in words; "" if nothing. Measured: 17,000
        maps of which an H200's driver took none."""
        if self.element.group > 1:
            return f"type {self.type}"
        return "" if self.atom == 16 else f"swizzle {self.swizzle} with atoms of {self.atom} bytes"

    @property
    def group(self) -> int:
        """Elements of dimension 0 that lie together: of sub-byte types several; a slice of channels counts as one."""
        return 1 if self.interleave else self.element.group

    @property
    def group_bytes(self) -> int:
        """Bytes of `group` in global memory."""
        return self.interleave or self.element.bytes

    @property
    def reach(self) -> int:
        """Bytes from the first to the last of the tensor."""
        steps = zip(self.size[1:], self.stride_bytes, strict=True)
        return -(-self.size[0] // self.group) * self.group_bytes + sum((size - 1) * step for size, step in steps)

    @property
    def inner_bytes(self) -> int:
        """Bytes in global memory of the box along dimension 0, as the driver counts: of a map without interleave."""
        return (self.channels if self.im2col else self.box[0]) * self.element.bytes // self.element.group

    @property
    def row_bytes(self) -> int:
        """Bytes of shared memory of the box along dimension 0."""
        return self.counts[0] // self.group * (self.interleave or self.element.shared_bytes)

    @property
    def first_pixel_dimension(self) -> int:
        """The dimension of W of an im2col map: that of the channels lies before it, but for slices. Measured."""
        return 0 if self.interleave else 1

    @property
    def steps(self) -> tuple[int, ...]:
        """The element strides that copies follow: that of dimension 0 counts only where slices interleave. Measured."""
        return self.element_stride if self.interleave else (1, *self.element_stride[1:])

    @property
    def counts(self) -> tuple[int, ...]:
        """Elements that a copy moves: of each dimension of the box; of an im2col map channels and pixels.

        Where slices interleave, an element is a slice, dimension 0 is the first in which pixels lie (W), and that of
        the slices is the last but one, of which a copy moves one whatever the box says. Measured on an H200.
        """
        if self.im2col:
            return 1 if self.interleave else self.channels, self.pixels
        counts = [-(-size // step) for size, step in zip(self.box, self.steps, strict=True)]
        if self.interleave:
            counts[-2] = 1
        return tuple(counts)

    @property
    def box_bytes(self) -> int:
        """Bytes that a copy counts on its mbarrier, those outside the tensor too.

        Of padded types those in global memory: assumed, as CUTLASS 4 expects them (`sizeof_bits` of unpacked types).
        """
        total = self.group_bytes
        for count in self.counts:
            total *= count
        return total // self.group

    @property
    def coded_bytes(self) -> int:
        """Bytes of the box as the driver counts and writes them: strides divide down, and slices do not matter."""
        if self.im2col:
            return self.inner_bytes * self.pixels
        total = self.element.bytes
        for size, step in zip(self.box, self.element_stride, strict=True):
            total *= size // max(step, 1)
        return total // self.element.group

    # What the driver refuses

    def problems(self) -> Iterator[IsaError]:
        """What the driver refuses in this map. Measured: `measurements/tensor_maps`.

        Of what Blackwell brought the text of the driver API (CUDA 13.0): assumed, for the driver of an H200 takes none.
        """
        yield from self._shape_problems()
        yield from self._choice_problems()
        yield from self._range_problems()
        yield from self._im2col_problems() if self.im2col else self._box_problems()
        yield from self._inner_problems()
        yield from self._swizzle_problems()
        if self.element.group > 1:
            yield from self._packed_problems()

    def _shape_problems(self) -> Iterator[IsaError]:
        """Wrong numbers of dimensions: nothing else can be judged then."""
        least = 3 if self.interleave or self.im2col else 1
        if not least <= self.rank <= 5:
            why = " of an interleaved or im2col map" * (least == 3)
            raise refuse(self.size, f"{self.rank} dimensions{why}", f"{least} to 5", "size")
        wanted = {"stride_bytes": self.rank - 1, "element_stride": self.rank}
        wanted |= {"lower": self.rank - 2, "upper": self.rank - 2} if self.im2col else {"box": self.rank}
        for name, count in wanted.items():
            if len(getattr(self, name)) != count:
                raise refuse(getattr(self, name), f"{name} has {len(getattr(self, name))} numbers", str(count), name)
        if self.type not in TYPE_OF_NAME:
            raise refuse(self.type, f"no type of a tensor: {self.type!r}", ", ".join(TYPE_OF_NAME), "type")
        yield from ()

    def _choice_problems(self) -> Iterator[IsaError]:
        for name, legal in (("swizzle", SWIZZLES[:4]), ("interleave", INTERLEAVES), ("l2_promotion", PROMOTIONS)):
            if getattr(self, name) not in legal:
                yield refuse(getattr(self, name), f"{name} {getattr(self, name)}", ", ".join(map(str, legal)), name)
        if self.fill not in FILLS:
            yield refuse(self.fill, f"fill {self.fill!r}", ", ".join(FILLS), "fill")
        elif self.fill == "nan" and not self.element.floating:
            yield refuse(self.fill, f"elements of {self.type} cannot be NaN", "zeros", "fill")

    def _range_problems(self) -> Iterator[IsaError]:
        unit = 32 if self.interleave == 32 or self.element.padded else 16
        if self.address % unit or not 0 <= self.address < 1 << 57:
            yield refuse(hex(self.address), f"address {self.address:#x}", f"a multiple of {unit} below 2^57", "address")
        yield from _outside(self.size, 1, 1 << 32, "size")
        yield from _outside(self.element_stride, 1, 8, "element_stride")
        for index, stride in enumerate(self.stride_bytes):
            if stride % unit or not 0 <= stride < 1 << 40:
                where = f"stride of dimension {index + 1} is {stride} bytes"
                yield refuse(stride, where, f"a multiple of {unit} below 2^40", "stride_bytes")

    def _box_problems(self) -> Iterator[IsaError]:
        yield from _outside(self.box, 1, 256, "box")
        if self.coded_bytes > MOST_BYTES:
            yield refuse(self.box, f"a box of {self.coded_bytes} bytes", f"at most {MOST_BYTES}", "box")

    def _im2col_problems(self) -> Iterator[IsaError]:
        yield from _outside((self.channels,), 1, 256, "channels")
        yield from _outside((self.pixels,), 1, 1024, "pixels")
        if self.inner_bytes * self.pixels > MOST_BYTES:
            reason = f"{self.pixels} pixels of {self.inner_bytes} bytes"
            yield refuse(self.pixels, reason, f"at most {MOST_BYTES} bytes", "pixels")
        half = 1 << CORNER_BITS[self.rank] - 1
        for name in ("lower", "upper"):
            yield from _outside(getattr(self, name), -half, half - 1, name)
        first = self.first_pixel_dimension
        for index, (low, high) in enumerate(zip(self.lower, self.upper, strict=True)):
            end = (self.size[index + first] + high + (1 << 31)) % (1 << 32) - (1 << 31)  # 32 bits, as the driver counts
            if end <= low:
                reason = f"corners {low} and {high} leave no base pixel of {self.size[index + first]}"
                yield refuse(low, reason, "lower <= size - 1 + upper", "lower")

    def _inner_problems(self) -> Iterator[IsaError]:
        inner, name = self.inner_bytes, "channels" if self.im2col else "box"
        if inner % 16:
            yield refuse(inner, f"a row of the box has {inner} bytes", "a multiple of 16", name)
        elif self.swizzle and not self.interleave and inner > self.swizzle:
            yield refuse(inner, f"a row of the box has {inner} bytes", f"at most {self.swizzle}, the swizzle", name)

    def _swizzle_problems(self) -> Iterator[IsaError]:
        legal = "16, 32, 64, or 32 with a flip of 8"
        if (self.atom, self.flip) not in ATOMS:
            yield refuse(self.atom, f"atom {self.atom}, flip {self.flip}", legal, "atom")
        elif self.atom != 16 and self.swizzle != 128:
            yield refuse(self.atom, f"an atom of {self.atom} bytes of swizzle {self.swizzle}", "swizzle 128", "atom")

    def _packed_problems(self) -> Iterator[IsaError]:
        """Of sub-byte types."""
        reason = f"{self.size[0]} elements of {self.type} in dimension 0"
        if not self.element.padded:
            if self.size[0] % 2:
                yield refuse(
                    self.size[0], f"{self.size[0]} elements of {self.type} in dimension 0", "an even number", "size"
                )
            return
        if self.size[0] % GROUP:
            reason = f"{self.size[0]} elements of {self.type} in dimension 0"
            yield refuse(self.size[0], reason, f"a multiple of {GROUP}", "size")
        name, count = ("channels", self.channels) if self.im2col else ("box", self.box[0])
        if count != GROUP:
            yield refuse(count, f"a row of the box has {count} elements of {self.type}", str(GROUP), name)
        if self.interleave:
            yield refuse(self.interleave, f"{self.type} does not interleave", "interleave 0", "interleave")
        atoms = PACKED_ATOMS[self.type]
        if self.swizzle not in (0, 128) or (self.atom, self.flip) not in [(atom, 0) for atom in atoms]:
            reason = f"swizzle {self.swizzle}, atom {self.atom}, flip {self.flip} of {self.type}"
            yield refuse(self.swizzle, reason, f"0, or 128 with atoms of {' or '.join(map(str, atoms))}", "swizzle")


def _outside(values: Sequence[int], least: int, most: int, name: str) -> Iterator[IsaError]:
    for index, value in enumerate(values):
        if not least <= value <= most:
            yield refuse(value, f"{name}[{index}] is {value}", f"{least} to {most}", name)
