"""The main loop of every variant of gemm.cu as trace text, in the order in which the machine code issues it.

    python order.py --folder build --nvdisasm nvdisasm --output loops.json.gz

Registers keep their SASS numbers. A pair that holds a global address becomes one %rd, whose value does not change over
the loop: the lines that an access touches are the same in every iteration. Addresses of shared memory are free of bank
conflicts as in the kernel, but not the kernel's. Loop counter, branch, uniform arithmetic and instructions that are
predicated off are left out.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import sass  # noqa: E402
from variants import Variant, variants  # noqa: E402

SKIPPED = sass.SKIPPED | {"UIADD3.64", "ULDC", "UMOV", "R2UR", "USEL", "UISETP", "ULOP3", "ULEA", "S2UR", "PLOP3"}
SPARE = "%rd0"  # what arithmetic that leads to no address of a copy writes


def body_of(v: Variant, folder: Path, nvdisasm: str) -> list[sass.Instruction]:
    """The main loop: the longest."""
    lines = sass.listings(folder / f"{v.name}.cubin", nvdisasm)["gemm"]
    return max(sass.loops(lines), key=len)


class Translator:
    """Turns one loop body into statements."""

    def __init__(self, body: list[sass.Instruction]) -> None:
        self.body = body
        self.pairs: dict[tuple[int, str], int] = {}  # low register of a pair and what it points to -> number of its %rd
        self.places: dict[int, str] = {}  # register with the shared address of a copy -> "a", "b", "e"
        self.shared: dict[int, str] = {}  # registers with shared addresses of loads -> "ldmatrix" or "load"
        for x in body:
            if x.opcode.startswith("LDGSTS"):
                to, source = self.copy_operands(x)
                if to not in self.places:  # A is copied first, then B, then the metadata
                    self.places[to] = "abe"[len(self.places)]
                self.pairs.setdefault((source, self.places[to]), len(self.pairs) + 1)

    @staticmethod
    def copy_operands(x: sass.Instruction) -> tuple[int, int]:
        found = re.search(r"\[R(\d+)(?:\+0x[0-9a-f]+)?\], .*\[R(\d+)\.64", x.text)
        assert found, x.text
        return int(found.group(1)), int(found.group(2))

    def lines(self) -> list[str]:
        return [line for place, x in enumerate(self.body) for line in self.one(place, x)]

    def one(self, place: int, x: sass.Instruction) -> list[str]:
        name, family = x.opcode, x.opcode.split(".")[0]
        if x.text.startswith("@!PT") or family in SKIPPED or family in ("ISETP", "BRA", "NOP", "WARPSYNC"):
            return []
        operands = [re.sub(r"\.(reuse|ROW|COL)", "", o.strip()) for o in x.text.split(name, 1)[1].split(",")]
        match family:
            case "HMMA" | "IMMA":
                return [sass._mma(name, operands)]
            case "LDSM":
                register = self.address(operands[1])
                self.shared[register] = "ldmatrix"
                return [f"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {sass._registers(operands[0], 4)}, [%r{register}];"]
            case "LDS":
                width = {"64": 2, "128": 4}.get(name.split(".")[-1], 1)
                register = self.address(operands[1])
                self.shared[register] = f"load{width}"
                target = sass._registers(operands[0], width) if width > 1 else sass._one(operands[0])
                return [f"ld.shared{f'.v{width}' if width > 1 else ''}.b32 {target}, [%r{register}];"]
            case "LDGSTS":
                to, source = self.copy_operands(x)
                size, kind = (
                    (16, "cg") if "BYPASS" in name else ({"64": 8, "128": 16}.get(name.split(".")[-1], 4), "ca")
                )
                return [f"cp.async.{kind}.shared.global [%r{to}], [%rd{self.pairs[source, self.places[to]]}], {size};"]
            case "LDGDEPBAR":
                return ["cp.async.commit_group;"]
            case "DEPBAR":
                return [f"cp.async.wait_group {int(operands[1], 16)};"]
            case "BAR":
                return ["bar.sync 0;"]
        return [self.arithmetic(place, operands[0])]

    @staticmethod
    def address(operand: str) -> int:
        found = re.match(r"\[R(\d+)", operand)
        assert found, operand
        return int(found.group(1))

    def arithmetic(self, place: int, target: str) -> str:
        """An integer instruction: the one that completes a pair before its use writes that pair, the others write what
        nobody reads."""
        found = re.fullmatch(r"R(\d+)", target)
        register = int(found.group(1)) if found else -1
        for low, _ in self.pairs:
            if register in (low, low + 1) and (wide := self.used_next(place, low)):
                return f"add.u64 %rd{wide}, %rd{wide}, 0;"
        return f"mov.u64 {SPARE}, 0;"

    def used_next(self, place: int, low: int) -> int:
        """The %rd of the next copy through a pair; 0 where the pair is written once more before that."""
        for step in range(1, len(self.body)):
            x = self.body[(place + step) % len(self.body)]
            if x.opcode.startswith("LDGSTS") and self.copy_operands(x)[1] == low:
                return self.pairs[low, self.places[self.copy_operands(x)[0]]]
            if re.search(rf"{re.escape(x.opcode)} R({low}|{low + 1})\b", x.text) and x.opcode.split(".")[0] not in (
                "LDSM",
                "LDS",
                "HMMA",
                "IMMA",
            ):
                return 0
        return 0


def entry(v: Variant, folder: Path, nvdisasm: str) -> dict[str, Any]:
    translator = Translator(body_of(v, folder, nvdisasm))
    lines = translator.lines()
    return {
        "variant": v.name,
        "warps": v.threads // 32,
        "iterations": v.stages,
        "row_a": v.row // (2 if v.sparse else 1),
        "row_b": v.row,
        "body": lines,
        "copies": {str(register): what for register, what in translator.places.items()},
        "sources": {str(wide): what for (_, what), wide in translator.pairs.items()},
        "loads": {str(register): what for register, what in translator.shared.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=HERE / "build")
    parser.add_argument("--nvdisasm", default="nvdisasm")
    parser.add_argument("--output", type=Path, default=HERE / "results" / "loops.json.gz")
    options = parser.parse_args()
    found = [entry(v, options.folder, options.nvdisasm) for v in variants()]
    with gzip.GzipFile(options.output, "wb", mtime=0) as file:
        file.write("\n".join(json.dumps(x) for x in found).encode())
    print(len(found), "loops")


if __name__ == "__main__":
    main()
