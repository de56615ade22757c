"""The events of a launch, whose batches execute an instruction for the warps of many CTAs at once: one event for each
CTA, or for each warp that has regions of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from isa.forms.record import Form, Time
from isa.forms.synchronisation import is_mbarrier_wait
from isa.ptx.instruction import Instruction
from simulator.execute.events import Event, Region, mask_of
from simulator.state.registers import Lanes


@lru_cache(maxsize=4096)
def told(form: Form) -> bool:
    """Whether listeners of a launch are told of a form: tcgen05, mbarriers and fences."""
    return form.asynchronous or form.time is Time.COPY_ARRIVAL


def events(
    instruction: Instruction,
    rows: Sequence[int],
    lanes: Lanes,
    reads: tuple[Region, ...],
    writes: tuple[Region, ...],
    ctas: Sequence[int],
    warps_each: int,
) -> Iterator[Event]:
    """The events of one execution of an instruction; their line is 0.

    Args:
        rows: the warps of the batch that execute it.
        lanes: bool [warp, lane]: which of their threads.
        reads, writes: as in `Event`; those of mbarriers name their warps.
        ctas: the numbers of the batch's CTAs.
        warps_each: warps of a CTA. In an event they are numbered within it.
    """
    owners = {region.warp for region in (*reads, *writes)} - {-1}
    if owners:
        parts = [[index] for index, row in enumerate(rows) if row in owners]
    elif is_mbarrier_wait(instruction.form):
        return  # a look at a phase that is not complete
    else:
        by_cta: dict[int, list[int]] = {}
        for index, row in enumerate(rows):
            by_cta.setdefault(row // warps_each, []).append(index)
        parts = list(by_cta.values())
    for part in parts:
        first = rows[part[0]]
        threads = tuple((rows[index] % warps_each, mask_of(lanes[index])) for index in part)
        mine = [tuple(region for region in regions if region.warp in (-1, first)) for regions in (reads, writes)]
        yield Event(instruction.form.opcode, instruction, ctas[first // warps_each], threads, 0, mine[0], mine[1])
