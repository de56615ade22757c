"""`simulator.launch`: runs a captured launch, and says where its result differs from what the capture holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.chip.config import Config
from simulator.floating_point import guarded
from simulator.memory_room import check_room
from simulator.program.capture import Capture, read_capture
from simulator.program.capture_maps import write_where_zero
from simulator.simulation.launch.arguments import parameter_bytes
from simulator.simulation.launch.batches import shared_storage
from simulator.simulation.launch.launching import Options, run_launch
from simulator.simulation.launch.module import Module
from simulator.simulation.launch.report import Difference, LaunchReport
from simulator.state.device_memory import DeviceMemory


@dataclass(frozen=True)
class Placed:
    """A capture whose buffers lie in memory.

    Attributes:
        memory: the buffers.
        values: the kernel's arguments, addresses included.
    """

    memory: DeviceMemory
    values: list[Any]


@guarded
def launch(
    capture: str | Path | Capture,
    config: str | Path | Config | None = None,
    *,
    fmad: bool | None = None,
    **options: Any,
) -> LaunchReport:
    """Runs a captured launch.

    Args:
        capture: path of its JSON file, or one that has been read.
        config: the chip whose time is reported; None: values alone.
        fmad: as `simulator.Module`; None: as the capture says.
        options: as `simulator.simulation.launch.launching.Options`.

    Returns:
        The report; `.arrays` has each output buffer after the run, `.differences` where it is not what the capture
        says.

    Raises:
        CaptureError: a capture that cannot be read or run.
        LaunchError: what goes wrong in the kernel.
        IsaError: a module that cannot be read.
    """
    if not isinstance(capture, Capture):
        capture = read_capture(capture)
    function = Module(capture.ptx, fmad=capture.fmad if fmad is None else fmad).get_function(capture.entry)
    placed = place(capture)
    params = parameter_bytes(function.kernel, placed.values)
    options.setdefault("target", capture.target)
    options.setdefault("cooperative", capture.cooperative)
    how = Options(config=config, dynamic_shared=capture.dynamic_shared, cluster=capture.cluster, **options)
    report = run_launch(function.kernel, capture.grid, capture.block, placed.memory, params, how)
    if how.arithmetic == "none":
        return report
    arrays = {name: spec.array(placed.memory[name].data) for name, spec in capture.outputs.items()}
    return report.with_arrays(arrays, differences(capture, arrays))


def place(capture: Capture) -> Placed:
    """Puts the buffers of a capture into memory, with what they hold before the launch."""
    check_room(sum(spec.bytes for spec in capture.buffers.values()), f"{capture.path}: the buffers")
    memory = DeviceMemory()
    fixed_first = sorted(capture.buffers.values(), key=lambda spec: spec.address is None)
    for spec in fixed_first:
        buffer = memory.place(spec.name, spec.bytes, spec.address, storage=shared_storage(spec.bytes))
        if spec.name in capture.before:
            buffer.data[:] = capture.before[spec.name].reshape(-1).view(np.uint8)
    values = [memory[value].address if kind == "buffer" else value for kind, value in capture.params]
    for tensor_map in capture.tensor_maps:
        if tensor_map.param is None:
            write_where_zero(memory[tensor_map.buffer].data, tensor_map)
        else:
            held = np.frombuffer(bytes(values[tensor_map.param]), np.uint8).copy()
            write_where_zero(held, tensor_map)
            values[tensor_map.param] = held.tobytes()
    return Placed(memory, values)


def differences(capture: Capture, arrays: Mapping[str, NDArray[Any]]) -> tuple[Difference, ...]:
    """Where output buffers are not what the capture says, the first place of each."""
    found = []
    for name, expected in capture.after.items():
        mine, theirs = (
            np.ascontiguousarray(a).view(f"u{a.itemsize}").reshape(a.shape) for a in (arrays[name], expected)
        )
        wrong = mine != theirs
        if wrong.any():
            place = tuple(int(i) for i in np.argwhere(wrong)[0])
            count = int(
                (np.ascontiguousarray(mine).view(np.uint8) != np.ascontiguousarray(theirs).view(np.uint8)).sum()
            )
            found.append(
                Difference(name, int(wrong.sum()), count, place, arrays[name][place].item(), expected[place].item())
            )
    return tuple(found)


def _patterns(array: NDArray[Any]) -> NDArray[Any]:
    """The bit patterns of an array, of the same shape."""
    return np.ascontiguousarray(array).view(f"u{array.itemsize}").reshape(array.shape)
