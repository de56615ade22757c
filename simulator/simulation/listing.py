"""What gives the recorded numbers of a run their meaning: its instructions in words, for timelines and stalls.

A timing engine records warps, places and cycles. A trace and a launch both describe themselves by a `Listing`, so that
every view shows either.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from isa.forms.mma import is_mma
from isa.forms.record import Form
from simulator.compiler.timed_code import TimedCode, TimedOperation
from simulator.program import lowering
from simulator.program.kernel import Item, Kernel
from simulator.program.kernel import Operation as KernelOperation
from simulator.program.program import Program

_SHOWN = ("x1", "x2", "x4", "v2", "v4", "trans", "async", "bulk", "commit_group", "wait_group", "wait_all")
NAME = 72  # characters of a kernel that are shown
ADDED = "(added: fetch of machine code, or the end of a CTA)"


class Entry(NamedTuple):
    """An instruction in words.

    Attributes:
        short: a name that fits on a slice.
        line: its line in the trace or the PTX; 0 for what stands in neither.
        text: the instruction as PTX.
        reads, writes: names of registers, separated by spaces.
        matrix: whether it multiplies matrices.
        barrier: the number of the barrier that it waits at; None for none.
        source: "file:line" of the source that the PTX was compiled from, or "".
    """

    short: str
    line: int
    text: str
    reads: str = ""
    writes: str = ""
    matrix: bool = False
    barrier: int | None = None
    source: str = ""


@dataclass(frozen=True)
class Listing:
    """The instructions of a run.

    Attributes:
        name: of the trace, or of the kernel.
        ctas: for each SM that was timed, the CTAs on it in words.
        warps: how many an SM has.
        codes: for each code that was timed, the warps that run it.
        entry: the instruction at a place of a code, by their numbers; None for the end of a loop.
    """

    name: str
    ctas: tuple[str, ...]
    warps: int
    codes: tuple[tuple[int, ...], ...]
    entry: Callable[[int, int], Entry | None]


def listing_of_program(name: str, program: Program, codes: Sequence[lowering.Code] | None = None) -> Listing:
    """The listing of a trace, each of whose CTAs has an SM of its own; `codes` if others than the program's ran."""
    codes = program.codes if codes is None else codes

    @cache
    def entry(code: int, place: int) -> Entry | None:
        item = codes[code].items[place]
        if not isinstance(item, lowering.Operation):
            return None
        reads, writes = (" ".join(map(program.numbering.name, names)) for names in (item.reads, item.writes))
        form, barrier = item.instruction.form, item.barrier[0] if item.barrier is not None else None
        return Entry(short(form), item.line, str(item.instruction), reads, writes, is_mma(form), barrier)

    warps = tuple(tuple(code.cta * program.warps + warp for warp in code.warps) for code in codes)
    return Listing(name, tuple(f"CTA {cta}" for cta in range(program.ctas)), program.warps, warps, entry)


def listing_of_launch(
    kernel: Kernel, codes: Sequence[TimedCode], slots: Sequence[Sequence[int]], warps: int, *, apart: int = 1
) -> Listing:
    """The listing of a launch, of whose SMs one is timed.

    Args:
        codes: what was timed; `TimedOperation.line` is the line of the PTX that an operation comes from.
        slots: for each CTA that an SM holds at a time, the CTAs that have that place one after the other, SM by SM.
        warps: of an SM.
        apart: how many SMs are timed.
    """
    items = {item.line: item for item in reversed(kernel.items)}
    of_line = cache(lambda line: _kernel_entry(items[line], kernel) if line in items else Entry("added", 0, ADDED))

    def entry(code: int, place: int) -> Entry | None:
        item = codes[code].items[place]
        if not isinstance(item, TimedOperation):
            return None
        barrier = item.barrier[0] if item.barrier is not None else None
        return of_line(item.line)._replace(barrier=barrier)

    each = len(slots) // apart
    names = []
    for sm in range(apart):
        ctas = sorted(cta for slot in slots[sm * each : (sm + 1) * each] for cta in slot)
        text = ", ".join(map(str, ctas[:8])) + (", ..." if len(ctas) > 8 else "")
        names.append(f"CTA {text}" if apart > 1 and len(ctas) == 1 else f"CTAs {text}")
    return Listing(shown_name(kernel.name), tuple(names), warps, tuple(code.warps for code in codes), entry)


def shown_name(kernel: str) -> str:
    """A kernel's name, which C++ makes long, in the room of a line."""
    return kernel if len(kernel) <= NAME else kernel[: NAME - 3] + "..."


def _kernel_entry(item: Item, kernel: Kernel) -> Entry:
    source = f"{item.source[0]}:{item.source[1]}" if item.source else ""
    if not isinstance(item, KernelOperation):
        return Entry(item.opcode, item.line, item.text, source=source)
    form = item.instruction.form
    reads, writes = (
        " ".join(kernel.names.get(name, (name,))[0] for name in names) for names in (item.reads, item.writes)
    )
    return Entry(short(form), item.line, item.text, reads, writes, form.is_matrix, source=source)


def short(form: Form) -> str:
    """A name of an instruction that fits on a slice."""
    if is_mma(form):
        return f"mma{'.sp' if form.sparse else ''} m{form.m}n{form.n}k{form.k} {form.a_type}"
    return ".".join([form.name, *(q for q in form.opcode.removeprefix(form.name).split(".") if q in _SHOWN)])
