"""Reads from ptxas's machine code which bits of a tensor map `tensormap.replace` sets, also those of Blackwell.

    python -m measurements.tensor_maps.read_replacements replacements.json

Needs ptxas and nvdisasm on PATH, no GPU. ptxas writes the instruction as a load of a word, logic and a store, which are
run here on a word of zeros and on one of ones. Written: a list of [target, field, code, byte of the word, word of
zeros after it, word of ones after it].
"""

from __future__ import annotations

import json
import re
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

FIELDS = {
    "elemtype": range(16), "swizzle_mode": range(5), "swizzle_atomicity": range(4), "interleave_layout": range(3),
    "fill_mode": range(2),
}  # fmt: skip
TARGETS = ("sm_90a", "sm_100a", "sm_103a", "sm_120a")
_PTX = """.version 8.8
.target {target}
.address_size 64
.visible .entry k(.param .u64 p) {{
.reg .b64 %rd<2>;
ld.param.u64 %rd1, [p];
cvta.to.global.u64 %rd1, %rd1;
tensormap.replace.tile.{field}.global.b1024.b32 [%rd1], {code};
ret;
}}
"""


def machine_code(target: str, field: str, code: int) -> list[str] | None:
    """The instructions of a kernel that replaces a field; None if ptxas refuses it."""
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = Path(folder) / "k.ptx", Path(folder) / "k.cubin"
        source.write_text(_PTX.format(target=target, field=field, code=code))
        command = ["ptxas", f"-arch={target}", str(source), "-o", str(cubin)]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            return None
        text = subprocess.run(["nvdisasm", str(cubin)], capture_output=True, text=True, check=True).stdout
    return re.findall(r"^\s+/\*[0-9a-f]{4}\*/ {3,}(\S.*?) ;", text, re.MULTILINE)


def executed(code: list[str], word: int) -> tuple[int, int]:
    """The byte of the word that the code changes, and what it makes of it."""
    held, offset = {"RZ": 0}, -1

    def read(name: str) -> int:
        return held[name] if name in held else int(name, 0)

    for line in code:
        name, _, rest = line.partition(" ")
        parts = [part.strip() for part in rest.split(",")]
        if name == "LDG.E":
            held[parts[0]], offset = word, int(parts[1].rpartition("+")[2].rstrip("]"), 0)
        elif name == "STG.E":
            assert int(parts[0].rpartition("+")[2].rstrip("]"), 0) == offset
            return offset, read(parts[1])
        elif name in ("HFMA2", "HFMA2.MMA"):  # of zeros: two constants of 16 bits
            high, low = (struct.unpack("<H", np.float16(part).tobytes())[0] for part in parts[3:5])
            held[parts[0]] = high << 16 | low
        elif name in ("IMAD.MOV.U32", "MOV"):
            held[parts[0]] = read(parts[-1])
        elif name == "LOP3.LUT":
            a, b, c = (read(part) for part in parts[1:4])
            table, bits = int(parts[4], 0), range(32)
            places = ((a >> bit & 1) << 2 | (b >> bit & 1) << 1 | c >> bit & 1 for bit in bits)
            held[parts[0]] = sum((table >> place & 1) << bit for bit, place in zip(bits, places, strict=True))
    raise ValueError(f"no store among {code}")


def main(target_file: str) -> None:
    """Writes what every code of every field does on every target."""
    found: list[tuple[str, str, int, int, int, int]] = []
    for target in TARGETS:
        for field, codes in FIELDS.items():
            for number in codes:
                code = machine_code(target, field, number)
                if code is not None:
                    (offset, zeros), (_, ones) = (executed(code, word) for word in (0, 0xFFFFFFFF))
                    found.append((target, field, number, offset, zeros, ones))
    lines = ",\n".join(json.dumps(each) for each in found)
    Path(target_file).write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main(sys.argv[1])
