"""Hypotheses about the metadata of a sparse instruction: that of other lanes, codes in another order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from isa.ptx.instruction import Register
from simulator.check.blame.change import Hypothesis, name_of
from simulator.check.blame.seen import Array, Change, of_lanes, of_words, seen_as
from simulator.program.kernel import Kernel, Operation
from simulator.state.registers import WARP_SIZE

ROW_LANES = 4  # lanes that hold metadata of one row of mma.sp; isa.fragments.metadata
LANE_STEPS = (ROW_LANES, -ROW_LANES, 1, -1, 8, -8, 16, 2, -2)
SHIFTS = (2, 4, 8, 16)  # bits: an index, a code, and more


def metadata_hypotheses(kernel: Kernel, item: Operation) -> Iterator[Hypothesis]:
    """All about the metadata of one instruction."""
    operand = item.instruction["e"]
    assert isinstance(operand, Register)
    name = name_of(kernel, operand.name)
    for key, change, what, fix, weight in (*_of_lanes(name), *_of_words(name)):
        action = seen_as(operand.name, change)
        yield Hypothesis({item.index: (action,)}, ("metadata", key), what, fix, None, weight)


def metadata_registers(operations: Sequence[Operation]) -> set[str]:
    """The registers that sparse instructions read metadata from."""
    operands = (item.instruction.by_role.get("e") for item in operations if item.instruction.form.is_sparse)
    return {operand.name for operand in operands if isinstance(operand, Register)}


_Change = tuple[object, Change, str, str, float]  # key, what is seen, mistake, fix, weight


def _of_lanes(name: str) -> Iterator[_Change]:
    """Metadata of other lanes."""
    lanes = np.arange(WARP_SIZE)
    for step in LANE_STEPS:
        count = abs(step)
        which = f"{count} lane{'s' * (count > 1)} {'further' if step > 0 else 'back'}"
        what = "metadata is that of another row" if count % ROW_LANES == 0 else "metadata is that of another lane"
        fix = f"take the metadata from {which} into {name}"
        if count == ROW_LANES:
            fix = f"take the metadata of the {'next' if step > 0 else 'previous'} row into {name} ({which})"
        yield step, of_lanes((lanes + step) % WARP_SIZE), what, fix, 0.85 if count == ROW_LANES else 0.5
    for mask in (1, 2, 16):
        what = f"metadata is that of lane (own xor {mask})"
        fix = f"exchange the metadata of lanes that differ by {mask}"
        yield ("xor", mask), of_lanes(lanes ^ mask), what, fix, 0.5


def _of_words(name: str) -> Iterator[_Change]:
    """The bits of a word of metadata in another order."""
    what = "the halves of the metadata word are swapped"
    yield (
        "halves",
        of_words(lambda v: _exchanged(v, 16, 0x0000FFFF)),
        what,
        f"exchange the 16-bit halves of {name}",
        0.6,
    )
    what = "the bytes of the metadata word are in reverse order"
    yield "bytes", of_words(lambda v: v.byteswap()), what, f"reverse the bytes of {name}", 0.4
    what = "neighbouring bytes of the metadata word are swapped"
    yield "pairs", of_words(lambda v: _exchanged(v, 8, 0x00FF00FF)), what, f"exchange neighbouring bytes of {name}", 0.4
    what = "the two indices of each metadata code are in the wrong order"
    fix = f"write the lower index into the lower bits of each code of {name}"
    yield "codes", of_words(lambda v: _exchanged(v, 2, 0x33333333)), what, fix, 0.6
    for bits in SHIFTS:
        what = f"the metadata word is {bits} bits too low"
        yield ("left", bits), _shifted(bits), what, f"shift {name} left by {bits}", 0.3
        what = f"the metadata word is {bits} bits too high"
        yield ("right", bits), _shifted(-bits), what, f"shift {name} right by {bits}", 0.3


def _exchanged(words: Array, bits: int, mask: int) -> Array:
    """Words whose neighbouring fields of so many bits are exchanged; `mask` has the lower ones."""
    low, by = np.uint32(mask), np.uint32(bits)
    found: Array = ((words & low) << by) | ((words >> by) & low)
    return found


def _shifted(bits: int) -> Change:
    """What shifts words to the left by so many bits."""
    by = np.uint32(abs(bits))
    return of_words((lambda words: words << by) if bits > 0 else (lambda words: words >> by))
