"""Disturbs one field of one tensor map when the driver is asked to encode it."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from isa.descriptors.tensor_map import TensorMap
from isa.descriptors.tensor_map_fields import SWIZZLES
from simulator.execute import tensor_copies
from tests.host.mutants.state import Mutant, active

KINDS = ("tensor map",)
FIELDS = (
    "swizzle 1", "swizzle 2", "swizzle 3", "address 16", "address 64", "address 1024", "size 0 0",
    "size 1 0", "stride_bytes 0 16", "stride_bytes 0 0", "box 0 0", "box 1 0", "element_stride 1 1", "l2_promotion",
)  # fmt: skip
"""Fields of a map: how many modes of swizzle further, a bit of the address; of lists the index, and what is added (0:
the half of it)."""


def drawn(kind: str, turn: int, generator: random.Random) -> Mutant:
    """A disturbance of that map."""
    return Mutant(kind, turn, field=generator.choice(FIELDS))


def disturbed(tensor: TensorMap, field: str) -> TensorMap:
    """A map of which one field is another."""
    name, _, how = field.partition(" ")
    now = getattr(tensor, name)
    if name == "address":
        return replace(tensor, address=now ^ int(how), checked=False)
    if name == "swizzle":
        return replace(tensor, swizzle=SWIZZLES[(SWIZZLES.index(now) + int(how)) % 4], checked=False)
    if name == "l2_promotion":
        return replace(tensor, l2_promotion=256 if now != 256 else 128, checked=False)
    index, change = (int(part) for part in how.split())
    changed = list(now)
    changed[index] = changed[index] // 2 if change == 0 else changed[index] + change
    lists: dict[str, Any] = {name: tuple(changed)}
    return replace(tensor, checked=False, **lists)


def idle(tensor: TensorMap, field: str) -> str:
    """Why a map never uses a field: the dimension has one element, or the box one; "" if it may use it."""
    name, _, how = field.partition(" ")
    if name == "l2_promotion":
        return "a hint for L2"
    if name not in ("stride_bytes", "element_stride"):
        return ""
    index = int(how.split()[0])
    one = tensor.size[index + 1] == 1 if name == "stride_bytes" else tensor.box[index] == 1
    return "the dimension has one element" if one else ""


def unused() -> str:
    """That no copy used the disturbed map; "" if one did, or none is disturbed."""
    return "no copy uses the map" if active[0].map and active[0].map not in active[0].maps else ""


def install() -> None:
    """Puts the hooks where they belong."""
    copies: Any = tensor_copies
    encode, decoded = TensorMap.encode, copies._decoded

    def encoded(self: TensorMap, *address: Any) -> bytes:
        now = active[0]
        if not now.due(KINDS[0]):
            return encode(self, *address)
        now.idle = idle(self, now.mutant.field)
        now.map = encode(disturbed(self, now.mutant.field), *address)
        return now.map

    def used(data: bytes) -> TensorMap:
        active[0].maps.add(data)
        tensor: TensorMap = decoded(data)
        return tensor

    hooks = {(TensorMap, "encode"): encoded, (copies, "_decoded"): used}
    for (owner, name), hook in hooks.items():
        setattr(owner, name, hook)
