"""Whose fault an error is: the line of the kernel, and the first CTA, warp and lane that meet it."""

from __future__ import annotations

from isa.errors import Error
from simulator.execute.dispatch import executor
from simulator.execute.launch_state import LaunchState
from simulator.program.kernel import Item, Kernel, Operation
from simulator.simulation.launch.errors import LaunchError
from simulator.simulation.launch.threads import Group, all_lanes
from simulator.state.registers import WARP_SIZE


def source_of(item: Item) -> str:
    """ "file:line" of the source of an item; "" where the module does not say."""
    return f"{item.source[0]}:{item.source[1]}" if item.source else ""


def blamed(error: Error, kernel: Kernel, item: Item, state: LaunchState, group: Group) -> LaunchError:
    """The error of an instruction as one of the launch: with the line, the thread, and what the thread did.

    The warp and the lane are found by executing the instruction again for each warp, then for each lane, alone.
    """
    source = source_of(item)
    thread, met = _thread(error, item, state, group)
    reason = f"'{item.text}': {met.reason}"
    return LaunchError(reason, met.legal, line=item.line, source=source, thread=thread, rule=met.rule)


def _thread(error: Error, item: Item, state: LaunchState, group: Group) -> tuple[str, Error]:
    """The thread that meets the error, in words, and the error that it meets alone."""
    if not isinstance(item, Operation):
        return "", error
    execute = executor(item.instruction)
    lanes = all_lanes(len(group.rows)) if group.lanes is None else group.lanes
    together = item.instruction.form.warps
    for index in range(0, len(group.rows), together):
        one, own = group.rows[index : index + together], lanes[index : index + together]
        row = int(one[0])
        state.active = None if own.all() else own
        try:
            execute(state, one)
        except Error as met:
            x, y, z = state.batch.cta_of(row)
            where = f"CTA ({x}, {y}, {z}), warp {row % state.warps}"
            lane, alone = _lane(item, state, group, index)
            return (f"{where}, lane {lane}" if lane is not None else where), alone or met
    return "", error


def _lane(item: Operation, state: LaunchState, group: Group, index: int) -> tuple[int | None, Error | None]:
    """The first lane of a row that meets an error alone; None for instructions of whole warps."""
    if item.instruction.form.collective:
        return None, None
    execute = executor(item.instruction)
    lanes = all_lanes(1) if group.lanes is None else group.lanes[index : index + 1]
    for lane in range(WARP_SIZE):
        one = all_lanes(1)
        one[0] = False
        one[0, lane] = lanes[0, lane]
        if not one.any():
            continue
        state.active = one
        try:
            execute(state, group.rows[index : index + 1])
        except Error as met:
            return lane, met
    return None, None
