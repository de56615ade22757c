"""The arguments of a call of a kernel: arrays, tensor maps of arrays, and values; and the call as a captured launch."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.arguments import described, unmasked
from isa.descriptors.tensor_map import TensorMap
from simulator.memory_room import check_room
from simulator.program.capture_record import SCALARS, BufferSpec, Capture, misfit
from simulator.program.capture_writer import type_of, words
from simulator.program.kernel import Kernel, Parameter
from simulator.simulation.launch.arguments import parameter_bytes, plain
from simulator.simulation.launch.errors import LaunchError
from simulator.simulation.launch.place import dim
from simulator.state.device_memory import DeviceMemory

Declared = Mapping[str, tuple[int, int, int]]
Sizes = int | Sequence[int]


@dataclass(frozen=True)
class CallArgument:
    """One argument of a call.

    Attributes:
        name: what messages call it; no other argument has the same.
        value: a number, or the bytes of a structure; None for an array.
        array: the buffer whose address is passed, or that the tensor map describes.
        tensor: the tensor map that is passed in place of the array's address.
        buffer: name of the argument that has brought the array first; its own, if it is this one.
    """

    name: str
    value: Any = None
    array: NDArray[Any] | None = None
    tensor: TensorMap | None = None
    buffer: str = ""


def _refused(reason: str, legal: str) -> LaunchError:
    return LaunchError(reason, legal, rule="launch-arguments")


def call_arguments(kernel: Kernel, args: Sequence[Any], names: Sequence[str] = ()) -> tuple[CallArgument, ...]:
    """The arguments of a call.

    Args:
        args: as of `simulator.Module`'s kernels.
        names: what messages call them; without them, as the parameters are called.

    Raises:
        LaunchError: arguments that no kernel takes.
    """
    if not isinstance(args, Sequence) or isinstance(args, str | bytes):
        raise _refused(f"{described(args)} in place of the arguments", "a list or tuple, one for each parameter")
    given = [unmasked(v, "an array of the launch") if isinstance(v, np.ma.MaskedArray) else v for v in args]
    flat = [part for value in given for part in (value if isinstance(value, tuple) else (value,))]
    check_room(sum(one.nbytes for one in flat if isinstance(one, np.ndarray)), "the buffers of the launch")
    names = names or [parameter.name for parameter in kernel.parameters]
    taken: dict[str, CallArgument] = {}
    for index, value in enumerate(given):
        name = _unused(names[index] if index < len(names) else f"argument {index}", taken)
        taken[name] = _argument(name, value, taken)
    return tuple(taken.values())


def _unused(name: str, taken: Collection[str]) -> str:
    number, unique = 2, name
    while unique in taken:
        unique, number = f"{name}#{number}", number + 1
    return unique


def _argument(name: str, value: Any, before: Mapping[str, CallArgument]) -> CallArgument:
    if isinstance(value, np.ndarray) and value.ndim:
        return CallArgument(name, array=_checked(name, value), buffer=name)
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], np.ndarray):
        tensor, array = value
        known = next((each.buffer for each in before.values() if each.array is array), None)
        if known is None:
            _checked(name, array)
        return CallArgument(name, array=array, tensor=_tensor(tensor, array, name), buffer=known or name)
    return CallArgument(name, plain(value))


def _checked(name: str, array: NDArray[Any]) -> NDArray[Any]:
    if not array.flags.c_contiguous:
        raise _refused(f"the array for '{name}' is not contiguous", "numpy.ascontiguousarray(array)")
    if array.dtype.hasobject:
        raise _refused(f"the array for '{name}' holds Python objects", "numbers")
    return array


def _tensor(tensor: Any, array: NDArray[Any], name: str) -> TensorMap:
    """A tensor map that its array can have."""
    if not isinstance(tensor, TensorMap):
        raise _refused(f"{described(tensor)} beside the array of '{name}'", "an isa.TensorMap")
    if (last := tensor.reach) > array.nbytes:
        reason = f"the tensor of '{name}' reaches over {last} bytes, its array has {array.nbytes}"
        raise _refused(reason, "sizes and strides within the array")
    return tensor


def captured_call(
    kernel: Kernel,
    source: str | Path,
    grid: Sizes,
    block: Sizes,
    args: Sequence[Any],
    *,
    shared_mem: int = 0,
    cluster: Sizes | None = None,
    names: Sequence[str] = (),
    outputs: Collection[str] | None = None,
    declared: Declared | None = None,
) -> Capture:
    """A call as a captured launch, with copies of its arrays; see `Function.capture`.

    Args:
        source: path of the PTX, or its text.
    """
    given = call_arguments(kernel, args, names)
    addresses = _addresses(given)
    specs: dict[str, BufferSpec] = {}
    before: dict[str, NDArray[Any]] = {}
    for each in given:
        if each.array is not None and each.buffer == each.name:
            is_output = each.array.flags.writeable if outputs is None else each.name in outputs
            specs[each.name] = _spec(each, addresses, is_output=is_output, declared=declared)
            if not specs[each.name].zero:
                before[each.name] = _stored(each.array, specs[each.name])
    for name in {*(outputs or ()), *(declared or ())} - set(specs):
        raise _refused(f"no array '{name}' among the arguments", ", ".join(specs) or "an array")
    values = [addresses[each.buffer] if each.array is not None else each.value for each in given]
    params = []
    for index, (each, value) in enumerate(zip(given, values, strict=True)):
        if each.tensor is not None:
            values[index] = each.tensor.encode(value)
            params.append(("bytes", values[index]))
        elif each.array is not None:
            params.append(("buffer", each.name))
        else:
            known = kernel.parameters[index] if index < len(kernel.parameters) else None
            params.append((_kind(known, value), value))
    parameter_bytes(kernel, values)  # says what does not fit
    return Capture(
        path=Path(source).with_suffix("") if isinstance(source, Path) else Path(kernel.name[:100]),
        ptx=source,
        entry=kernel.name,
        target=str(kernel.module.target),
        grid=dim(grid, "grid"),
        block=dim(block, "block"),
        cluster=None if cluster is None else dim(cluster, "cluster"),
        dynamic_shared=shared_mem,
        params=tuple(params),
        buffers=specs,
        before=before,
        after={},
        fmad=kernel.fmad,
        names=tuple(each.name for each in given),
    )


def _addresses(given: Sequence[CallArgument]) -> dict[str, int]:
    """Where the buffers lie: as those of a launch that says nothing of it."""
    memory = DeviceMemory()
    nothing = np.zeros(0, np.uint8)
    return {
        each.name: memory.place(each.name, each.array.nbytes, storage=nothing).address
        for each in given
        if each.array is not None and each.buffer == each.name
    }


def _spec(
    each: CallArgument, addresses: Mapping[str, int], *, is_output: bool, declared: Declared | None
) -> BufferSpec:
    array = each.array
    assert array is not None
    kind = type_of(array)
    shape = array.shape if np.dtype(kind).itemsize == array.itemsize else words(array).shape
    part = (declared or {}).get(each.name)
    if part is not None and (reason := misfit(*part, elements=array.size)):
        raise _refused(f"the declared part of '{each.name}': {reason}", "rows x columns within the array")
    zero = is_output and not words(array).any()
    return BufferSpec(each.name, array.nbytes, kind, shape, addresses[each.name], zero, is_output, part)


def _stored(array: NDArray[Any], spec: BufferSpec) -> NDArray[Any]:
    """A copy of an array as a capture holds it."""
    return array.reshape(-1).view(np.uint8).copy().view(spec.type).reshape(spec.shape)


def _kind(parameter: Parameter | None, value: Any) -> str:
    """How a capture calls the type of a value: that of the parameter, if it says one."""
    if isinstance(value, bytes | bytearray):
        return "bytes"
    kind = parameter.type if parameter is not None else "s64"
    if kind in SCALARS:
        return kind
    if isinstance(value, float):
        return "f32"
    return f"{'s' if isinstance(value, int) and value < 0 else 'u'}{kind.removeprefix('b')}"
