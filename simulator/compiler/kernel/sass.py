"""Machine code that was read from a file (`simulator.program.sass`), as regions of machine instructions in its order.

A region is a basic block. Each instruction belongs to the item of the PTX whose line nvdisasm prints with it. It does
the access, the product or the wait of that item if its class says so (`simulator.compiler.kernel.classes`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from isa.forms.mma import MmaForm, mma_forms
from isa.forms.record import Time
from simulator.compiler.kernel.classes import SORTS, UNKNOWN, Sort
from simulator.compiler.kernel.regions import Micro, Region
from simulator.program.kernel import Branch, Exit, Item, Kernel, Operation, Switch
from simulator.program.sass import Function, Instruction, MachineCodeError
from simulator.program.sass.operands import COUNT, registers

ENDS = frozenset(("BRA", "BRX", "JMP", "EXIT", "RET", "CALL", "BSYNC"))
_SHAPES = {"1684": "m16n8k4", "1688": "m16n8k8", "16816": "m16n8k16", "16832": "m16n8k32", "16864": "m16n8k64"}
_FEWEST = 0.9  # of the instructions must have lines that the PTX has


@dataclass(frozen=True)
class SassBlock:
    """A basic block of machine code.

    Attributes:
        first, last: indices of its first and last instruction.
        target: the number of the block that its last instruction may jump to; -1 for none.
        conditional: whether execution may also go on behind the block.
        place: the place of the item of the PTX that decides which of both happens; -1 for none.
    """

    first: int
    last: int
    target: int
    conditional: bool
    place: int


@dataclass(frozen=True)
class Sass:
    """A kernel's machine code, beside its PTX.

    Attributes:
        function: the machine code as it was read.
        blocks: its basic blocks, in the order of addresses.
        regions: one for each block.
        places_of: for each line of the PTX, the places of its items.
        registers: how many registers are numbered.
    """

    function: Function
    blocks: tuple[SassBlock, ...]
    regions: tuple[Region, ...]
    places_of: dict[int, tuple[int, ...]]
    registers: int = COUNT


def sass_code(kernel: Kernel, function: Function) -> Sass:
    """The machine code of a kernel, beside its PTX.

    Raises:
        MachineCodeError: the lines in the machine code are not those of this PTX.
    """
    places: dict[int, list[int]] = defaultdict(list)
    for item in kernel.items:
        places[item.line].append(item.index)
    here = [each for each in function.instructions if 0 < each.line <= kernel.items[-1].line + 2]
    count = sum(1 for each in function.instructions if each.line)
    if len(here) < _FEWEST * count or not _agree(kernel, function, places):
        reason = f"{function.path}: the lines of '{function.name}' are not those of this PTX"
        raise MachineCodeError(reason, "machine code that ptxas made of this very file")
    sorts = [SORTS.get(each.name, UNKNOWN) for each in function.instructions]
    micros = [
        _micro(kernel, places, index, each, sort)
        for index, (each, sort) in enumerate(zip(function.instructions, sorts, strict=True))
    ]
    blocks = tuple(_blocks(kernel, function, places))
    regions = tuple(
        Region((number,), tuple(micros[block.first : block.last + 1]), block.first)
        for number, block in enumerate(blocks)
    )
    return Sass(function, blocks, regions, {line: tuple(found) for line, found in places.items()})


def _agree(kernel: Kernel, function: Function, places: dict[int, list[int]]) -> bool:
    """Whether nearly all accesses, products and waits of the machine code have lines of the PTX with such an item."""
    wanted = [(each, SORTS[each.name].own) for each in function.instructions if each.name in SORTS and not each.never]
    own = [(each, times) for each, times in wanted if times]
    fits = sum(1 for each, times in own if _own(kernel, places, each, times) is not None)
    return fits >= _FEWEST * len(own)


def _own(kernel: Kernel, places: dict[int, list[int]], each: Instruction, times: Sequence[Time]) -> Operation | None:
    """The item of the PTX whose access, product or wait a machine instruction is; None for none."""
    for place in places.get(each.line, ()):
        item = kernel.items[place]
        if isinstance(item, Operation) and item.instruction.form.time in times:
            return item
    return None


def _micro(kernel: Kernel, places: dict[int, list[int]], index: int, each: Instruction, sort: Sort) -> Micro:
    """One machine instruction with its class and its item."""
    reads, writes = registers(each)
    own = _own(kernel, places, each, sort.own) if sort.own and not each.never else None
    if own is not None:
        form = _matrix(each) if sort.time is Time.TENSOR else None
        return Micro(own, own.instruction.form.time, reads, writes, own=True, number=index, matrix=form)
    item = kernel.items[places[each.line][0]] if each.line in places else _behind(kernel, each.line)
    words = 0
    time = sort.time
    if each.name in ("LDL", "STL"):
        words = max(len(writes) if each.name == "LDL" else 1, 1)
    elif time.table != "alu":
        time = Time.INTEGER
    slow = sort.slow or each.name in ("LDG", "LDS", "LD")
    return Micro(item, time, reads, writes, slow=slow, tests=sort.tests, number=index, words=words)


def _behind(kernel: Kernel, line: int) -> Item:
    return next((item for item in kernel.items if item.line >= line), kernel.items[-1])


def _matrix(each: Instruction) -> MmaForm | None:
    """The form of PTX that does the same as a matrix instruction of the chip; None if it is not known."""
    parts = each.opcode.split(".")
    sparse = "SP" in parts
    shape = next((_SHAPES[part] for part in parts if part in _SHAPES), "")
    types = [part.lower() for part in parts if part in ("F32", "F16", "BF16", "TF32")]
    if each.name != "HMMA" or not shape or not types:
        return None
    d, a = types[0], types[1] if len(types) > 1 else "f16"
    prefix = "mma.sp" if sparse else "mma"
    for form in mma_forms().values():
        if form.opcode.startswith(f"{prefix}{'::ordered_metadata' if sparse else ''}.sync.aligned.{shape}.") and (
            str(form.d_type), str(form.a_type), str(form.b_type), str(form.c_type)
        ) == (d, a, a, d):  # fmt: skip
            return form
    return None


def _blocks(kernel: Kernel, function: Function, places: dict[int, list[int]]) -> list[SassBlock]:
    code = function.instructions
    leaders = {0, *(index for index in function.labels.values() if index < len(code))}
    leaders.update(index + 1 for index, each in enumerate(code) if each.name in ENDS and index + 1 < len(code))
    starts = sorted(leaders)
    number = {start: place for place, start in enumerate(starts)}
    blocks = []
    for place, start in enumerate(starts):
        last = (starts[place + 1] if place + 1 < len(starts) else len(code)) - 1
        end = code[last]
        target = number.get(function.labels.get(end.target, -1), -1) if end.name in ENDS else -1
        conditional = bool(end.guard) or (end.name in ("BRA", "EXIT") and len(end.operands) > 1)
        conditional = conditional or "DIV" in end.opcode
        decides = _decides(kernel, places, end) if end.name in ENDS and conditional else -1
        blocks.append(SassBlock(start, last, target, conditional, decides))
    return blocks


def _decides(kernel: Kernel, places: dict[int, list[int]], end: Instruction) -> int:
    """The place of the item of the PTX that decides where a branch goes; -1 for none."""
    if "DIV" in end.opcode:
        return -1
    for place in places.get(end.line, ()):
        item = kernel.items[place]
        if isinstance(item, Branch | Exit | Switch) and (item.guard is not None or isinstance(item, Switch)):
            return place
    return -1
