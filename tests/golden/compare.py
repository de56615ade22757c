"""Compare recorded results of real GPUs with the simulator, bit for bit.

    python tests/golden/compare.py DIR

DIR holds `mma_sp_ordered.npz`, `mma_sp_plain.npz` and `mma_dense.npz`, recorded on an H100: the subset in this folder
or the full files. Prints a table; exit status 1 if a bit differs. Dense results of other GPUs: compare_external.py.
"""

from __future__ import annotations

import sys
from pathlib import Path

from simulator.lessons.recordings import Recording, opcode_of, recordings

__all__ = ["Recording", "opcode_of", "recordings"]

H100_FILES = ("mma_sp_ordered.npz", "mma_sp_plain.npz", "mma_dense.npz")


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("usage: compare.py DIR", file=sys.stderr)
        return 2
    folder = Path(arguments[0])
    files = [folder / name for name in H100_FILES if (folder / name).exists()]
    if not files:
        print(f"{folder}: none of {', '.join(H100_FILES)} is there", file=sys.stderr)
        return 2
    total = [0, 0, 0]
    for path in files:
        table: dict[tuple[str, str], tuple[int, int, int]] = {}
        for recording in recordings(path):
            key = (recording.form.opcode, recording.metadata)
            cases, words, bits = table.get(key, (0, 0, 0))
            table[key] = (
                cases + len(recording.outputs),
                words + recording.outputs.size,
                bits + recording.differing_bits(),
            )
        print(f"{path.name}\n  {'form':76} {'metadata':9} {'cases':>7} {'words':>8} {'differing bits':>14}")
        for (opcode, metadata), (cases, words, bits) in table.items():
            print(f"  {opcode:76} {metadata:9} {cases:7} {words:8} {bits:14}")
        sums = [sum(column) for column in zip(*table.values(), strict=True)]
        print(f"  {f'all {len({opcode for opcode, _ in table})} forms':86} {sums[0]:7} {sums[1]:8} {sums[2]:14}")
        total = [one + more for one, more in zip(total, sums, strict=True)]
    print(f"all files: {total[0]:,} cases, {total[1]:,} words: {total[2]:,} bits differ")
    return 1 if total[2] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
