"""What ptxas says of single instructions: many in one run, each judged by itself."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence

PTXAS = shutil.which("ptxas")

_KERNEL = """.version 9.0
.target {target}
.address_size 64
.visible .entry k() {{
.reg .b8 %b<256>;
.reg .b16 %rs<256>;
.reg .b32 %r<256>;
.reg .b64 %rd<256>;
.reg .f64 %fd<256>;
.reg .pred %p<256>;
.reg .b128 %rq<256>;
.shared .align 16 .b8 bar[1024];
"""
_FIRST = _KERNEL.count("\n") + 1
_LINE = re.compile(r"line (\d+); (?:error|fatal)")


def assembles(source: str, target: str) -> tuple[bool, str]:
    """Whether ptxas 13.0 takes a whole module, and what it says."""
    assert PTXAS is not None
    done = subprocess.run(
        [PTXAS, "-arch", target, "-", "-o", "/dev/null"], input=source, capture_output=True, text=True, check=False
    )
    return done.returncode == 0, done.stdout + done.stderr


def kernel(texts: Sequence[str], target: str) -> str:
    """A kernel of these instructions, one a line."""
    return _KERNEL.format(target=target) + "\n".join(texts) + "\nret;\n}\n"


def taken(texts: Sequence[str], target: str) -> list[bool]:
    """For each text, which has one line, whether ptxas takes it on the target.

    All are in one kernel; the lines that ptxas names are taken out, and it is run again until it takes the rest."""
    verdicts = [True] * len(texts)
    left = list(range(len(texts)))
    while left:
        fine, said = assembles(kernel([texts[number] for number in left], target), target)
        if fine:
            break
        refused = {int(line) - _FIRST for line in _LINE.findall(said)}
        refused = {place for place in refused if 0 <= place < len(left)}
        if not refused:
            if len(left) == 1:
                verdicts[left[0]] = False
                break
            half = len(left) // 2
            for part in (left[:half], left[half:]):
                for number, verdict in zip(part, taken([texts[n] for n in part], target), strict=True):
                    verdicts[number] = verdict
            break
        for place in refused:
            verdicts[left[place]] = False
        left = [number for place, number in enumerate(left) if place not in refused]
    return verdicts
