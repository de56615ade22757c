"""Compares tensor maps, their replacements and their copies with what an H200 and its driver did.

    python -m tests.golden.compare_tensor_maps     # prints how many of each differ; 30 s

The data are written by the programs in measurements/tensor_maps.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.descriptors.tensor_map import TensorMap
from isa.descriptors.tensor_map_driver import ENUMERATIONS, of_driver, wide_corners
from isa.descriptors.tensor_map_replace import replaced
from isa.errors import IsaError
from isa.forms.tensor_copies import REDUCTIONS
from isa.shared_memory.tensor_box import broken_rules
from simulator.execute.tensor_pieces import filler, move, rounded_to_tf32
from simulator.execute.tensor_reductions import REDUCED, reduced, turns

FOLDER = Path(__file__).parent / "tensor_maps"
SHARED = 65536
LOAD, IM2COL, STORE, REDUCE, IM2COL_STORE, IM2COL_REDUCE = range(6)
REDUCES = (REDUCE, IM2COL_REDUCE)
COPIES = ("tiles", "im2col", "refused", "interleaved", "im2col_stores")
MAPS = ("encoded", "wide")


@lru_cache(maxsize=8)
def stored(name: str) -> dict[str, NDArray[Any]]:
    """The arrays of one file."""
    with np.load(FOLDER / f"{name}_h200.npz") as archive:
        return {key: archive[key] for key in archive.files}


def map_of(record: Any) -> TensorMap:
    """The map that the fields of a record describe; IsaError where it is refused."""
    rank, im2col, wide = int(record["rank"]), bool(record["im2col"]), record["im2col"] > 1
    names = {"data_type": "type", "l2_promotion": "promotion"}
    values = of_driver({name: int(record[names.get(name, name)]) for name in ENUMERATIONS})
    if im2col:
        values |= {name: record[name][: rank - 2].tolist() for name in ("lower", "upper")}
        values |= {name: int(record[name]) for name in ("channels", "pixels")}
        if not values["channels"]:
            raise IsaError("0", -1, "no channels")
    if wide:
        values |= wide_corners(rank, int(record["lower"][0]), int(record["upper"][0]))
    return TensorMap(
        size=record["size"][:rank].tolist(), stride_bytes=record["stride"][: rank - 1].tolist(),
        box=() if im2col else record["box"][:rank].tolist(), element_stride=record["step"][:rank].tolist(),
        address=int(record["address"]), **values,
    )  # fmt: skip


def wrong_maps(records: NDArray[Any]) -> Iterator[int]:
    """The places of maps that are judged or encoded in another way, or do not decode to themselves.

    What Blackwell brought the driver of a Hopper refuses.
    """
    for place, record in enumerate(records):
        data = record["bytes"].tobytes()
        try:
            tensor = map_of(record)
        except IsaError:
            if record["code"] == 0:
                yield place
            continue
        if tensor.beyond_hopper and record["code"]:
            continue
        if record["code"] or tensor.encode() != data or TensorMap.decode(data) != tensor:
            yield place


def wrong_replacements(cases: dict[str, NDArray[Any]]) -> Iterator[int]:
    """The places of replacements that give other bytes."""
    for place, (before, field, value) in enumerate(zip(cases["before"], cases["field"], cases["value"], strict=True)):
        name, which, coded = cases["names"][field].tolist()
        given = int(which) if coded == "1" else int(value)
        if coded != "1" and name not in ("global_address", "global_stride"):
            given &= 0xFFFFFFFF
        ordinal = int(which) if which and coded != "1" else 0
        if replaced(before.tobytes(), name, given, ordinal) != cases["after"][place].tobytes():
            yield place


def wrong_copies(cases: dict[str, NDArray[Any]], chosen: Sequence[int] | None = None) -> Iterator[int]:
    """The places of copies that are refused otherwise, or leave other bytes in shared or global memory."""
    for place in range(len(cases["records"])) if chosen is None else chosen:
        record = cases["records"][place]
        tensor, kind = TensorMap.decode(record["map"].tobytes()), int(record["kind"])
        start = tuple(record["start"][: tensor.rank].tolist())
        broken = bool(broken_rules(tensor, start, writes=kind >= STORE))
        operation = REDUCTIONS[record["operation"]]
        broken |= kind in REDUCES and operation not in REDUCED[tensor.type]
        if broken or record["result"]:
            if broken != bool(record["result"]):
                yield place
            continue
        if kind < STORE and record["done"] != 1:  # the mbarrier has counted other bytes than the program expected
            yield place
            continue
        got = cases["data"][record["at"] : record["at"] + record["bytes"]]
        mine = (_loaded if kind < STORE else _stored)(cases, record, tensor, start)
        if kind < STORE:
            expected = got
            mine = mine[: len(got)]
        else:
            expected, changed = cases["pool"].copy(), len(got) // 5
            expected[got[: 4 * changed].copy().view("<u4")] = got[4 * changed :]
        if (mine != expected).any():
            yield place


def _loaded(cases: dict[str, NDArray[Any]], record: Any, tensor: TensorMap, start: tuple[int, ...]) -> NDArray[Any]:
    """Shared memory after a load."""
    offsets = tuple(record["offsets"][: tensor.rank - 2].tolist()) if tensor.im2col else ()
    moved = move(tensor, start, offsets, 0)
    inside, outside = moved.inside, moved.outside
    memory = (0xA0 | (np.arange(SHARED) & 15)).astype(np.uint8)
    where = (inside.memory - int(record["pool"]))[:, None] + np.arange(inside.bytes)
    data = cases["pool"][where]
    if tensor.type.startswith("tf32"):
        data = rounded_to_tf32(data.ravel()).reshape(data.shape)
    memory[inside.shared[:, None] + np.arange(inside.bytes)] = data
    memory[outside[:, None] + np.arange(moved.unit)] = filler(tensor, moved.unit)
    return memory


def _stored(cases: dict[str, NDArray[Any]], record: Any, tensor: TensorMap, start: tuple[int, ...]) -> NDArray[Any]:
    """Global memory after a store or a reduction."""
    inside, memory = move(tensor, start, (), 0, writes=True).inside, cases["pool"].copy()
    where = (inside.memory - int(record["pool"]))[:, None] + np.arange(inside.bytes)
    data = np.resize(cases["given"], SHARED)[inside.shared[:, None] + np.arange(inside.bytes)]
    if record["kind"] in REDUCES:
        size, operation = tensor.element.bytes, REDUCTIONS[record["operation"]]
        for turn in turns(inside.memory):
            new = reduced(tensor.type, operation, memory[where[turn]].reshape(-1, size), data[turn].reshape(-1, size))
            memory[where[turn]] = new.reshape(where[turn].shape)
        return memory
    memory[where] = data
    return memory


def main() -> int:
    """Prints how many differ."""
    found, cases = {}, stored("replaced")
    for name in MAPS:
        found[f"maps, {name}"] = len(list(wrong_maps(stored(name)["maps"]))), len(stored(name)["maps"])
    found["replacements"] = len(list(wrong_replacements(cases))), len(cases["field"])
    for name in COPIES:
        found[f"copies, {name}"] = len(list(wrong_copies(stored(name)))), len(stored(name)["records"])
    for name, (wrong, total) in found.items():
        print(f"{name:<22} {wrong:6,} of {total:6,} differ")
    maps, copies = (
        sum(total for name, (_, total) in found.items() if name.startswith(what)) for what in ("maps", "copies")
    )
    print(f"all {maps:,} maps {copies:,} copies: {sum(wrong for wrong, _ in found.values())} differ")
    return int(any(wrong for wrong, _ in found.values()))


if __name__ == "__main__":
    sys.exit(main())
