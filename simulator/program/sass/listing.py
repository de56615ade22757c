"""Reads machine code: the text that `nvdisasm -c -gp` prints, plain or packed by gzip, or a cubin, which it prints.

The text says for each instruction the line of the PTX that it comes from. ptxas writes these lines with `-lineinfo`
alone. Encodings (`-hex`) may be there, and are passed over.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from simulator.errors import ReasonedError
from simulator.inputs import InputError, read_bytes

RESERVED = (
    2  # registers beyond the highest one named that the system takes; ptxas -v beside the text, sm_90, November 2026
)
MAKE = "ptxas -arch=sm_90a -lineinfo k.ptx -o k.cubin && nvdisasm -c -gp k.cubin > k.sass"
_TARGET = re.compile(r"\s*\.target\s+(sm_\d+[af]?)")
_FUNCTION = re.compile(r"\.text\.([\w$.]+):")
_LABEL = re.compile(r"([.$][\w$.]+):")
_LINE = re.compile(r'\s*//## File "([^"]*)", line (\d+)')
_PTX = ".nv_debug_ptx_txt"  # the name that nvdisasm gives the PTX
_INSTRUCTION = re.compile(r"\s+/\*([0-9a-f]{4,})\*/\s+(?:\{\s*)?(?:(@!?U?P\w+)\s+)?([A-Z][\w.]*)\s*([^;]*?)\s*;")
_TO = re.compile(r"`\(([^)]+)\)")


class MachineCodeError(ReasonedError):
    """Machine code that cannot be read, or that is not the kernel's."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """A machine instruction.

    Attributes:
        guard: its predicate, such as "@!P0"; "" for none.
        opcode: with its suffixes, such as "LDG.E.128".
        operands: as they are printed.
        line: of the PTX; 0 where the text says none.
        target: the label that it jumps to; "" for none.
    """

    guard: str
    opcode: str
    operands: tuple[str, ...]
    line: int
    target: str = ""

    @property
    def name(self) -> str:
        """The opcode without suffixes."""
        return self.opcode.partition(".")[0]

    @property
    def never(self) -> bool:
        """Whether its predicate is never true: ptxas writes such ones to fill time."""
        return self.guard in ("@!PT", "@!UPT")


@dataclass(frozen=True)
class Function:
    """The machine code of a kernel, with what it calls.

    Attributes:
        name: of the entry.
        path: of the file.
        target: the chip that it is for, such as "sm_90a"; "" where the text does not say it.
        instructions: in the order of addresses, 16 bytes each.
        labels: by name, the index of the instruction that it stands in front of.
    """

    name: str
    path: str
    target: str
    instructions: tuple[Instruction, ...]
    labels: dict[str, int]

    @property
    def registers(self) -> int:
        """Registers of a thread."""
        names = (re.findall(r"\bR(\d+)", " ".join(each.operands)) for each in self.instructions)
        return max((int(number) + 1 for found in names for number in found), default=0) + RESERVED


def read_machine_code(path: str | Path, entry: str) -> Function:
    """The machine code of a kernel.

    Raises:
        MachineCodeError: a file that is no machine code, or has no such kernel.
    """
    functions = parse(_text(Path(path)), str(path))
    if entry not in functions:
        legal = ", ".join(functions) or f"what `{MAKE}` writes"
        raise MachineCodeError(f"{path} has no machine code of the kernel '{entry}'", legal)
    found = functions[entry]
    if not any(each.line for each in found.instructions):
        raise MachineCodeError(f"{path} does not say which line of the PTX an instruction comes from", MAKE)
    return found


def _text(path: Path) -> str:
    try:
        data = read_bytes(path, MAKE)
    except InputError as error:
        raise MachineCodeError(f"{path} {error.reason}", error.legal) from None
    if data[:4] == b"\x7fELF":
        return _disassembled(path)
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise MachineCodeError(f"{path} is neither text nor a cubin", MAKE) from None


def _disassembled(path: Path) -> str:
    """What nvdisasm prints of a cubin."""
    tool = nvdisasm()
    if tool is None:
        reason = f"{path} is a cubin, and nvdisasm is not here"
        raise MachineCodeError(reason, "pip install 'tcsim[sass]', or the text of nvdisasm -c -gp")
    done = subprocess.run([tool, "-c", "-gp", str(path)], capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr.strip() or "no reason").splitlines()[-1]
        raise MachineCodeError(f"nvdisasm cannot read {path}: {said}", "a cubin as ptxas writes it")
    return done.stdout


def nvdisasm() -> str | None:
    """The path of nvdisasm: that of the package nvidia-cuda-nvdisasm, or the one on PATH."""
    from importlib.metadata import PackageNotFoundError, files

    try:
        listed = files("nvidia-cuda-nvdisasm") or ()
    except PackageNotFoundError:
        listed = ()
    packaged = [str(each.locate()) for each in listed if each.name in ("nvdisasm", "nvdisasm.exe")]
    return next((each for each in packaged if Path(each).exists()), None) or shutil.which("nvdisasm")


def parse(text: str, path: str) -> dict[str, Function]:
    """The functions of a text of nvdisasm, by name."""
    functions: dict[str, Function] = {}
    target, line = "", 0
    instructions: list[Instruction] = []
    labels: dict[str, int] = {}
    name = ""

    def finish() -> None:
        if name:
            functions[name] = Function(name, path, target, tuple(instructions), labels)

    for row in text.splitlines():
        if found := _INSTRUCTION.match(row):
            guard, opcode, rest = found[2] or "", found[3], found[4]
            to = _TO.search(rest)
            operands = tuple(part.strip() for part in rest.split(",") if part.strip())
            instructions.append(Instruction(guard, opcode, operands, line, to[1] if to else ""))
        elif found := _LINE.match(row):
            line = int(found[2]) if found[1] == _PTX else line
        elif found := _FUNCTION.match(row):
            finish()
            name, instructions, labels, line = found[1], [], {}, 0
        elif found := _LABEL.match(row):
            labels[found[1]] = len(instructions)
        elif found := _TARGET.match(row):
            target = found[1]
    finish()
    return functions
