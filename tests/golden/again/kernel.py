"""The kernel of a captured launch, read from its files: instructions, registers, buffers and parameters."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np


class Item(NamedTuple):
    """An instruction of the kernel: its opcode, its operands as text, its guard, and where a branch goes."""

    opcode: str
    operands: tuple[str, ...]
    guard: str
    unless: bool
    label: str


@dataclass
class Kernel:
    """The kernel of a capture, and its launch, from their files; `bases` are the addresses of the buffers."""

    path: Path
    bases: Mapping[str, int]

    @cached_property
    def capture(self) -> Any:
        """The capture."""
        return json.loads(self.path.read_text())

    @cached_property
    def text(self) -> str:
        """The PTX without remarks."""
        return re.sub(r"//.*", "", (self.path.parent / self.capture["ptx"]).read_text())

    @cached_property
    def _parsed(self) -> tuple[list[Item], dict[str, int]]:
        body = self.text[self.text.index(".entry " + self.capture["entry"]) :]
        body = body[body.index("{") + 1 : body.index("\n}")]
        items: list[Item] = []
        labels: dict[str, int] = {}
        body = re.sub(r"\n\s*\.loc[^\n]*", "", body)
        body = re.sub(r"\n\s*(\$\w+):", r"\n\1:;", body)
        for text in (" ".join(piece.split()) for piece in body.split(";")):
            if text.startswith("$"):
                labels[text[:-1]] = len(items)
            elif text and not text.startswith("."):
                match = re.match(r"(?:@(!?)(%\w+) )?([\w.:]+) ?(.*)", text)
                assert match, text
                operands = tuple(part.strip() for part in re.split(r",(?![^{]*\})", match[4]) if part.strip())
                label = operands[0] if match[3].startswith("bra") else ""
                items.append(Item(match[3], operands, match[2] or "", bool(match[1]), label))
        return items, labels

    @property
    def items(self) -> list[Item]:
        """The instructions in the order of the text."""
        return self._parsed[0]

    @property
    def labels(self) -> dict[str, int]:
        """The place of each label."""
        return self._parsed[1]

    @cached_property
    def words(self) -> list[tuple[str, int]]:
        """The register of each word that a list can name, and the lowest bit of it: 32-bit registers in the order of
        their declarations, then the halves of 64-bit ones."""
        found: dict[int, list[str]] = {32: [], 64: []}
        for bits, name, count in re.findall(r"\.reg \.[bfsu](\d+)\s+(%\w+)<(\d+)>", self.text):
            found.get(int(bits), []).extend(f"{name}{number}" for number in range(int(count)))
        return [(name, 0) for name in found[32]] + [(name, low) for name in found[64] for low in (0, 32)]

    @cached_property
    def shared_bytes(self) -> int:
        """Bytes of shared memory of a CTA."""
        return sum(map(int, re.findall(r"\.shared .*?\[(\d+)\]", self.text)))

    @cached_property
    def buffers(self) -> dict[str, Any]:
        """The buffers before the launch, uint32 words, in the order of the capture."""
        data = np.load(self.path.parent / self.capture["data"])
        found = {}
        for name, spec in self.capture["buffers"].items():
            raw = b"" if spec.get("zero") else data[f"in|{name}"].tobytes()
            found[name] = np.frombuffer(raw.ljust(spec["bytes"], b"\0"), "<u4")
        return found

    @cached_property
    def memory(self) -> Any:
        """All buffers as words, one after the other."""
        return np.concatenate(list(self.buffers.values()))

    @cached_property
    def parameters(self) -> dict[str, int]:
        """The values of the kernel's parameters."""
        entry = self.capture["entry"]
        found = {}
        for number, given in enumerate(self.capture["params"]):
            ((kind, value),) = given.items()
            found[f"{entry}_param_{number}"] = self.bases[value] if kind == "buffer" else int(value)
        return found
