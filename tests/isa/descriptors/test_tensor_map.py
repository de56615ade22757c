"""Tensor maps against the driver, and what `tensormap.replace` changes against an H200."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isa.descriptors.tensor_map import TensorMap
from isa.descriptors.tensor_map_fields import ATOMS, DRIVER_SWIZZLES, PROMOTIONS, SWIZZLES, TYPES
from isa.descriptors.tensor_map_replace import replaced
from isa.errors import IsaError
from tests.golden.compare_tensor_maps import FOLDER, stored, wrong_maps, wrong_replacements
from tests.support.cases import exhaustive

PACKED = {"type": "b6x16_p32", "size": (256, 256), "stride_bytes": (256,), "box": (128, 4)}
TENSOR = TensorMap("f16", size=(256, 256), stride_bytes=(512,), box=(64, 64), swizzle=128)


def test_the_driver_judges_and_encodes_alike() -> None:
    assert list(wrong_maps(stored("encoded")["maps"][:3000])) == []


@exhaustive
def test_the_driver_judges_and_encodes_all_alike() -> None:
    assert list(wrong_maps(stored("encoded")["maps"])) == []


def test_the_chip_replaces_fields_alike() -> None:
    assert list(wrong_replacements(stored("replaced"))) == []


def test_the_driver_of_a_hopper_makes_wide_maps_alike_and_none_of_blackwell() -> None:
    assert list(wrong_maps(stored("wide")["maps"])) == []


def test_ptxas_writes_replacements_of_blackwell_alike() -> None:
    cases = json.loads((FOLDER / "replacements_ptxas.json").read_text())
    for target, field, code, byte, *words in cases:
        for before, after in zip((bytes(128), b"\xff" * 128), words, strict=True):
            expected = before[:byte] + after.to_bytes(4, "little") + before[byte + 4 :]
            assert replaced(before, field, code) == expected, (target, field, code)


@st.composite
def tensor_maps(draw: st.DrawFn) -> TensorMap:
    """Legal tiled maps."""
    draws = random.Random(draw(st.integers(0, 1 << 32)))
    kind, rank, (code, atom) = draws.choice(TYPES), draws.randint(1, 5), draws.choice(DRIVER_SWIZZLES)
    if kind.padded:
        code, atom = draws.choice(((0, 0), (3, 0), (3, 1)))
    swizzle, unit, group = SWIZZLES[code], 32 if kind.padded else 16, 128 if kind.padded else kind.group
    inner = 128 if kind.padded else draws.randint(1, (swizzle or 256) // 16) * 16 // kind.bytes * kind.group
    box = [min(inner, 256 // kind.group * kind.group), *(draws.randint(1, 4) for _ in range(rank - 1))]
    return TensorMap(
        kind.name, tuple(draws.randint(1, (1 << 32) // group) * group for _ in box),
        tuple(draws.randrange(1 << 35) * unit for _ in box[1:]), tuple(box), tuple(draws.randint(1, 8) for _ in box),
        swizzle, l2_promotion=draws.choice(PROMOTIONS), address=draws.randrange(1 << 44) * unit,
        fill="nan" if kind.floating and draws.random() < 0.5 else "zeros", atom=ATOMS[atom][0], flip=ATOMS[atom][1],
    )  # fmt: skip


@given(tensor_maps())
def test_maps_decode_to_themselves(tensor: TensorMap) -> None:
    assert TensorMap.decode(tensor.encode()) == tensor


@pytest.mark.parametrize(
    ("changes", "reason", "operand"),
    [
        ({"type": "f17"}, "no type of a tensor: 'f17'", "type"),
        ({"size": (256,)}, "stride_bytes has 1 numbers", "stride_bytes"),
        ({"stride_bytes": (500,)}, "stride of dimension 1 is 500 bytes", "stride_bytes"),
        ({"box": (128, 64)}, "a row of the box has 256 bytes", "box"),
        ({"box": (60, 64)}, "a row of the box has 120 bytes", "box"),
        ({"box": (64, 257)}, "box[1] is 257", "box"),
        ({"swizzle": 96}, "swizzle 96", "swizzle"),
        ({"type": "u16", "fill": "nan"}, "elements of u16 cannot be NaN", "fill"),
        ({"address": 8}, "address 0x8", "address"),
        ({"element_stride": (1, 9)}, "element_stride[1] is 9", "element_stride"),
        ({"swizzle": 64, "box": (32, 64), "atom": 32}, "an atom of 32 bytes of swizzle 64", "atom"),
        ({"flip": 8}, "atom 16, flip 8", "atom"),
        ({"type": "b4x16", "size": (255, 256)}, "255 elements of b4x16 in dimension 0", "size"),
        ({**PACKED, "size": (192, 256)}, "192 elements of b6x16_p32 in dimension 0", "size"),
        ({**PACKED, "box": (64, 4)}, "a row of the box has 64 elements of b6x16_p32", "box"),
        ({**PACKED, "stride_bytes": (208,)}, "stride of dimension 1 is 208 bytes", "stride_bytes"),
        ({**PACKED, "swizzle": 64}, "a row of the box has 96 bytes", "box"),
        ({**PACKED, "type": "b4x16_p64", "atom": 64}, "swizzle 128, atom 64, flip 0 of b4x16_p64", "swizzle"),
        ({**PACKED, "fill": "nan"}, "elements of b6x16_p32 cannot be NaN", "fill"),
    ],
)
def test_refused_maps_say_what_and_where(changes: dict[str, object], reason: str, operand: str) -> None:
    fields = {"type": "f16", "size": (256, 256), "stride_bytes": (512,), "box": (64, 64), "swizzle": 128}
    with pytest.raises(IsaError) as raised:
        TensorMap(**{**fields, **changes})  # type: ignore[arg-type] # what is wrong on purpose
    assert (raised.value.reason, raised.value.operand, raised.value.rule) == (reason, operand, "tensor-map")


def test_bytes_without_a_meaning_are_refused() -> None:
    data = bytearray(TENSOR.encode())
    data[8] |= 0x70  # eight dimensions
    with pytest.raises(IsaError, match="the map says 8 dimensions"):
        TensorMap.decode(bytes(data))
    with pytest.raises(IsaError, match="not a tensor map"):
        TensorMap.decode(bytes(64))
