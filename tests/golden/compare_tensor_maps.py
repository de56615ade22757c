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

from isa.descriptors.tensor_map import TensorMap, replaced
from isa.descriptors.tensor_map_fields import FILLS, INTERLEAVES, PROMOTIONS, SWIZZLES, TYPE_OF_DRIVER
from isa.errors import IsaError
from isa.forms.tensor_copies import REDUCTIONS
from isa.shared_memory.tensor_box import broken_rules
from simulator.execute.tensor_copies import REDUCED, filler, move, reduced, rounded_to_tf32, turns

FOLDER = Path(__file__).parent / "tensor_maps"
SHARED = 65536
LOAD, IM2COL, STORE, REDUCE = range(4)
COPIES = ("tiles", "im2col", "refused")


@lru_cache(maxsize=8)
def stored(name: str) -> dict[str, NDArray[Any]]:
    """The arrays of one file."""
    with np.load(FOLDER / f"{name}_h200.npz") as archive:
        return {key: archive[key] for key in archive.files}


def _from(values: Sequence[Any], code: int) -> Any:
    """The value of a code; the code itself, which is none, where it is too high."""
    return values[code] if code < len(values) else f"code {code}"


def map_of(record: Any) -> TensorMap:
    """The map that the fields of a record describe; IsaError where it is refused."""
    rank, im2col = int(record["rank"]), bool(record["im2col"])
    kind = TYPE_OF_DRIVER.get(int(record["type"]))
    corners = {name: record[name][: rank - 2].tolist() for name in ("lower", "upper")} if im2col else {}
    counts = {name: int(record[name]) for name in ("channels", "pixels")} if im2col else {}
    if im2col and not counts["channels"]:
        raise IsaError("0", -1, "no channels")
    return TensorMap(
        kind.name if kind else f"code {record['type']}",
        record["size"][:rank].tolist(), record["stride"][: rank - 1].tolist(),
        () if im2col else record["box"][:rank].tolist(), record["step"][:rank].tolist(),
        _from(SWIZZLES, int(record["swizzle"])), _from(INTERLEAVES, int(record["interleave"])),
        _from(PROMOTIONS, int(record["promotion"])), _from(FILLS, int(record["fill"])), **corners, **counts,
        address=int(record["address"]),
    )  # fmt: skip


def wrong_maps(records: NDArray[Any]) -> Iterator[int]:
    """The places of maps that are judged or encoded in another way, or do not decode to themselves."""
    for place, record in enumerate(records):
        data = record["bytes"].tobytes()
        try:
            tensor = map_of(record)
        except IsaError:
            if record["code"] == 0:
                yield place
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
        broken |= kind == REDUCE and operation not in REDUCED[tensor.type]
        if broken or record["result"]:
            if broken != bool(record["result"]):
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
    inside, outside = move(tensor, start, offsets, 0)
    memory = (0xA0 | (np.arange(SHARED) & 15)).astype(np.uint8)
    where = (inside.memory - int(record["pool"]))[:, None] + np.arange(inside.bytes)
    data = cases["pool"][where]
    if tensor.type.startswith("tf32"):
        data = rounded_to_tf32(data.ravel()).reshape(data.shape)
    memory[inside.shared[:, None] + np.arange(inside.bytes)] = data
    memory[outside[:, None] + np.arange(tensor.element.bytes)] = filler(tensor)
    return memory


def _stored(cases: dict[str, NDArray[Any]], record: Any, tensor: TensorMap, start: tuple[int, ...]) -> NDArray[Any]:
    """Global memory after a store or a reduction."""
    inside, memory = move(tensor, start, (), 0, writes=True).inside, cases["pool"].copy()
    where = (inside.memory - int(record["pool"]))[:, None] + np.arange(inside.bytes)
    data = np.resize(cases["given"], SHARED)[inside.shared[:, None] + np.arange(inside.bytes)]
    if record["kind"] == REDUCE:
        size, operation = tensor.element.bytes, REDUCTIONS[record["operation"]]
        for turn in turns(inside):
            new = reduced(tensor.type, operation, memory[where[turn]].reshape(-1, size), data[turn].reshape(-1, size))
            memory[where[turn]] = new.reshape(where[turn].shape)
        return memory
    memory[where] = data
    return memory


def main() -> int:
    """Prints how many differ."""
    maps, cases = stored("encoded")["maps"], stored("replaced")
    found = {"maps of the driver": (len(list(wrong_maps(maps))), len(maps))}
    found["replacements"] = len(list(wrong_replacements(cases))), len(cases["field"])
    for name in COPIES:
        found[f"copies, {name}"] = len(list(wrong_copies(stored(name)))), len(stored(name)["records"])
    for name, (wrong, total) in found.items():
        print(f"{name:<20} {wrong:6,} of {total:6,} differ")
    copies = sum(total for name, (_, total) in found.items() if name.startswith("copies"))
    print(f"all {len(maps):,} maps {copies:,} copies: {sum(wrong for wrong, _ in found.values())} differ")
    return int(any(wrong for wrong, _ in found.values()))


if __name__ == "__main__":
    sys.exit(main())
