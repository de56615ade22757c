"""Compare what cuSPARSELt, PyTorch and CUTLASS did on real GPUs with the simulator, byte for byte.

    python -m tests.golden.compare_sparselt            the sample beside this file
    python -m tests.golden.compare_sparselt FOLDER     everything in a folder and its folders

FOLDER may hold the whole recordings: `cusparselt.npz`, `torch_semi_structured.npz`, files of `record_sparselt.py`, and
the captured launches `cutlass_sm80_f16.npz` and `cutlass_sm90_f16.npz`. Prints a table: kind, how many arrays, bytes,
differing bytes; exit status 1 if a byte differs. Bytes that the library never writes are counted apart.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import isa
from isa.metadata_formats import metadata_format
from simulator.studies import sparselt

Array = NDArray[np.generic]
SAMPLE = Path(__file__).parent / "sparselt.npz"
MARK = 0x55  # what `record_sparselt.py` fills buffers with before the library writes them
FILES = ("cusparselt.npz", "torch_semi_structured.npz", "sparselt.npz")
ARRANGED = ("f16.npz", "bf16.npz", "f32.npz", "s8.npz", "e4m3.npz", "e5m2.npz", "torch_tiles.npz")


class Checked(NamedTuple):
    """One array: what kind, its bytes, those that differ, and those that the library left as they were."""

    kind: str
    size: int
    differing: int
    unwritten: int = 0


def differing(kind: str, ours: Array, recorded: Array, unwritten: NDArray[np.bool_] | None = None) -> Checked:
    """Compares two arrays of one size by bytes; `unwritten` marks bytes that are not compared."""
    mine, theirs = (np.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in (ours, recorded))
    if mine.size != theirs.size:
        return Checked(kind, theirs.size, max(mine.size, theirs.size))
    left = np.zeros(mine.shape, np.bool_) if unwritten is None else unwritten.reshape(-1)
    return Checked(kind, mine.size, int(((mine != theirs) & ~left).sum()), int(left.sum()))


def checks(data: Mapping[str, Array]) -> Iterator[Checked]:
    """Everything of one file that is known."""
    for key in data:
        parts = key.split("|")
        if parts[0] == "prune" and parts[-1] == "out":
            yield from _pruned(data, parts)
        elif parts[0] == "arranged" and parts[-1] == "out":
            yield from _arranged(data, parts)
        elif parts[0] == "torch" and parts[-1] == "dense":
            yield from _torch(data, parts)
        elif parts[0] == "torchtile" and parts[-1] in ("dense", "in"):
            yield from _torch_tiles(data, parts)


def _pruned(data: Mapping[str, Array], parts: list[str]) -> Iterator[Checked]:
    _, type, kind, algorithm, _ = parts
    stem = "|".join(parts[:4])
    given = data[f"{stem}|in"] if f"{stem}|in" in data else data[f"prune|{type}|{kind}|in"]
    yield differing(f"prune {algorithm} {type}", sparselt.prune(given, type, algorithm), data[f"{stem}|out"])
    if f"{stem}|compressed" in data:
        yield differing(f"compress {type}", sparselt.compress(data[f"{stem}|out"], type), data[f"{stem}|compressed"])


def _arranged(data: Mapping[str, Array], parts: list[str]) -> Iterator[Checked]:
    _, type, shape, kind, order, op, operand, algorithm, _ = parts
    rows, columns = map(int, shape.split("x"))
    how = {"order": order, "op": op, "operand": operand}

    def matrix(flat: Array) -> Array:
        return flat.reshape(columns, rows).T if order == "col" else flat.reshape(rows, columns)

    stem = "|".join(parts[:8])
    given, pruned = matrix(data[f"arranged|{type}|{shape}|{kind}|in"]), matrix(data[f"{stem}|out"])
    name = f"order, op, operand: {algorithm} {type}"
    yield differing(name, sparselt.prune(given, type, algorithm, **how), pruned)
    if f"{stem}|compressed" in data:
        theirs, ours = data[f"{stem}|compressed"], sparselt.compress(pruned, type, **how)
        yield differing(f"order, op, operand: compress {type}", ours, theirs, (theirs == MARK) & (ours == 0))
        back = sparselt.decompress(theirs.astype(np.uint8), type, rows, columns, **how)
        kept = np.where(_is_zero(pruned, type), 0, pruned)
        yield differing(f"order, op, operand: decompress {type}", np.where(_is_zero(back, type), 0, back), kept)


def _is_zero(patterns: Array, type: str) -> NDArray[np.bool_]:
    from simulator.studies.sparselt.pruning import is_zero

    return is_zero(np.asarray(patterns).astype(f"u{patterns.dtype.itemsize}"), type)


def _torch(data: Mapping[str, Array], parts: list[str]) -> Iterator[Checked]:
    type, stem = parts[1], "|".join(parts[:3])
    dense = data[f"{stem}|dense"]
    values, meta = sparselt.to_torch(dense, type)
    yield differing(f"PyTorch values {type}", values, data[f"{stem}|values"])
    yield differing(f"PyTorch meta {type}", meta, data[f"{stem}|meta"])
    back = sparselt.from_torch(data[f"{stem}|values"], data[f"{stem}|meta"], type)
    zero = np.array(0 if type == "s8" else 1 << (8 * back.itemsize - 1), back.dtype)
    patterns = dense.view(back.dtype)  # the recorded matrix holds -0 where it was pruned
    yield differing(f"PyTorch to dense {type}", back, np.where(patterns == zero, 0, patterns).astype(back.dtype))
    if f"{stem}|cslt" in data:
        ours, theirs = sparselt.to_cslt(dense, type), data[f"{stem}|cslt"]
        yield differing(f"PyTorch _cslt_compress {type}", ours, theirs, _unwritten(ours, dense.shape, type))


def _unwritten(buffer: Array, shape: tuple[int, ...], type: str) -> NDArray[np.bool_]:
    """Bytes of `torch._cslt_compress` that cuSPARSELt leaves as the allocator gave them: after the buffer, and after
    the metadata that this direction of K needs."""
    rows, columns = shape
    chunks = columns // (2 if type == "f32" else 4)
    used = rows * columns // 2 * {"s8": 1, "f32": 4}.get(type, 2)
    for name in ("cusparselt", "cusparselt.sm80") if type == "f32" else ("cusparselt",):
        layout = metadata_format(name, type)
        used += int(np.prod(layout.shape(rows, chunks))) * layout.dtype.itemsize
    return np.arange(buffer.size) >= used


def _torch_tiles(data: Mapping[str, Array], parts: list[str]) -> Iterator[Checked]:
    type, stem = parts[1], "|".join(parts[:-1])
    if parts[-1] == "dense":
        found = {(parts[2], "cutlass"): stem}
    else:
        below = (key.removeprefix(f"{stem}|").split("|") for key in data if key.startswith(f"{stem}|"))
        found = {(rest[0], rest[1]): f"{stem}|{rest[0]}|{rest[1]}" for rest in below if len(rest) == 3}
    for (algorithm, form), prefix in found.items():
        name = "largest_values_greedy" if algorithm == "default" else algorithm
        ours = sparselt.torch_tile(data["|".join(parts)], type, name)
        if form == "cusparselt":
            for index, (packed, meta) in enumerate(((ours.packed, ours.meta), (ours.packed_t, ours.meta_t))):
                codes = metadata_format("cutlass.sm80", type).load(meta.reshape(-1), len(packed), packed.shape[1] // 2)
                words = metadata_format("cusparselt.sm80", type).store(codes)
                buffer = np.concatenate([packed.reshape(-1), words])
                yield differing(f"PyTorch tile {type}: cuSPARSELt's buffer", buffer, data[f"{prefix}|{2 * index}"])
            continue
        for index, array in enumerate(ours):
            mine = array.transpose(1, 2, 0) if index in (1, 3) else array
            kind = ("packed", "metadata", "packed, transposed", "metadata, transposed", "thread masks")[index]
            yield differing(f"PyTorch tile {type}: {kind}", mine, data[f"{prefix}|{index}"])


def cutlass(path: Path) -> Iterator[Checked]:
    """A captured launch: E expands A to the matrix whose product with B is D, in whole numbers."""
    name = {"cutlass_sm80_f16.npz": "cutlass.sm80", "cutlass_sm90_f16.npz": "cutlass.sm90.k128"}[path.name]
    layout = metadata_format(name, "f16")
    with np.load(path) as data:
        a, b, e, d = data["in|A"], data["in|B"], data["in|E"], data["out|D"]
    k = 512
    codes = layout.load(e, 256, k // 4)
    matrix = isa.expand(a.reshape(256, k // 2).astype(np.uint32), codes, isa.TWO_OF_FOUR)
    left, right = (bits.astype(np.uint16).view(np.float16).astype(np.float64) for bits in (matrix, b.reshape(-1, k)))
    product = left @ right.T
    if name == "cutlass.sm80":
        yield differing(f"{path.stem}: product of the expanded A", product.astype(np.float16), d)
    else:
        yield differing(f"{path.stem}: product of the expanded A", product.T.astype(np.float32), d)
    yield differing(f"{path.stem}: E written again", layout.store(codes), e)


def files(folder: Path) -> Iterator[tuple[Path, Iterator[Checked]]]:
    """Known files of a folder and what they check."""
    for path in sorted(folder.rglob("*.npz")):
        if path.name.startswith("cutlass_sm"):
            yield path, cutlass(path)
        elif path.name in (*FILES, *ARRANGED):
            with np.load(path) as data:
                yield path, checks({key: data[key] for key in data.files})


def table(found: Iterator[Checked]) -> tuple[str, int]:
    """Sums by kind as text, and all differing bytes."""
    sums: dict[str, list[int]] = {}
    for checked in found:
        row = sums.setdefault(checked.kind, [0, 0, 0, 0])
        for column, value in enumerate((1, checked.size, checked.differing, checked.unwritten)):
            row[column] += value
    lines = [f"  {'kind':58} {'arrays':>7} {'bytes':>10} {'differing':>10} {'unwritten':>10}"]
    lines += [f"  {kind:58} {row[0]:7} {row[1]:10} {row[2]:10} {row[3]:10}" for kind, row in sorted(sums.items())]
    return "\n".join(lines), sum(row[2] for row in sums.values())


def main(arguments: list[str]) -> int:
    if len(arguments) > 1:
        print("usage: python -m tests.golden.compare_sparselt [FOLDER]", file=sys.stderr)
        return 2
    folder = Path(arguments[0]) if arguments else SAMPLE.parent
    found = [entry for entry in files(folder) if arguments or entry[0] == SAMPLE]
    total = 0
    for path, checked in found:
        text, count = table(checked)
        print(f"{path}\n{text}")
        total += count
    if not found:
        print(f"{folder}: no known recording is there", file=sys.stderr)
        return 2
    print(f"{total} differing bytes")
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
