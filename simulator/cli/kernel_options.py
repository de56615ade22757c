"""The options that say how a kernel is launched, the same for every verb that runs one, and the launch that they make.

A verb gets a `Capture`, whether its launch was captured or is put together from a PTX file and these options.
"""

from __future__ import annotations

import argparse
import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simulator.cli.answer import UnreadableError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from isa.descriptors.tensor_map import TensorMap
    from simulator.program.capture import Capture

_DIGITS = 16  # of an extent of an array that any memory could hold
TYPES = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64")
PTX = (".ptx", ".ptx.gz")
LAUNCHED = ("entry", "grid", "block", "cluster", "shared", "arg")
_NAMED = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_DECLARED = re.compile(r"(.+):(\d+),(\d+),(\d+)", re.DOTALL)

ARGUMENTS = """\
arguments of a kernel, in the order of its parameters; a name in front is optional (A=a.npy):
  a.npy                     the array of a file: its address is passed
  x.npz:a                   an array of an archive
  out:float16:2048x2048     an array of zeros, for results
  a.npy:60,50,64            60 rows of 50 columns, each of 64 elements in memory: what lies between is padding; also
                            of out:float16:60x64:60,50,64
  map:FIELDS:a.npy          a tensor map of an array, which is as above or an earlier argument's name; FIELDS are as in
                            'tcsim explain tensormap': type=f16,size=256x64,stride=512,box=64x8,swizzle=128
  0.125, 64, -1, 0x10       a number of the parameter's type
  bytes:00ff...             a structure by value, two digits a byte
"""


def add_kernel(parser: argparse.ArgumentParser) -> None:
    """Adds --entry, --grid, --block, --cluster, --shared, --arg and --fmad."""
    of = parser.add_argument_group("launch of a PTX file")
    of.add_argument("--entry", help="the kernel's name, or a part of it (default: the only one)")
    of.add_argument("--grid", type=_dim, metavar="X[,Y[,Z]]", help="CTAs")
    of.add_argument("--block", type=_dim, metavar="X[,Y[,Z]]", help="threads of a CTA")
    of.add_argument(
        "--cluster", type=_dim, metavar="X[,Y[,Z]]", help="CTAs of a cluster (default: as the kernel demands, or one)"
    )
    of.add_argument("--shared", type=_bytes, default=0, metavar="BYTES", help="dynamic shared memory of a CTA")
    of.add_argument("--arg", action="append", default=[], metavar="VALUE", help="an argument of the kernel, see below")
    of.add_argument(
        "--fmad", action=argparse.BooleanOptionalAction, default=None,
        help="contract mul and add that have no rounding into fma, as ptxas does (default)",
    )  # fmt: skip


def _dim(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not 1 <= len(parts) <= 3 or not all(part.strip().isdecimal() and int(part) for part in parts):
        raise argparse.ArgumentTypeError(f"'{text}'; legal: one to three numbers above 0, such as 16,32")
    return tuple(map(int, parts))


def _bytes(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"'{text}' is no number of bytes; legal: 0 or more")
    return int(text)


def add_reference(parser: argparse.ArgumentParser, *, expect: bool = True) -> None:
    """Adds --rtol and --atol; besides, --expect and --expect-from."""
    of = parser.add_argument_group("reference")
    if expect:
        of.add_argument(
            "--expect", action="append", default=[], metavar="NAME=WHAT",
            help="what a buffer must hold after the launch: d.npy, x.npz:d, or an expression over the inputs such as "
            "'D=A.astype(float32) @ B'; may be repeated",
        )  # fmt: skip
        of.add_argument("--expect-from", metavar="OTHER.ptx", help="the results of this kernel on the same launch")
    of.add_argument("--rtol", type=_tolerance, default=0.0, metavar="R", help="relative error allowed (default 0)")
    of.add_argument("--atol", type=_tolerance, default=0.0, metavar="A", help="absolute error allowed (default 0)")


def _tolerance(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"'{text}' is no tolerance; legal: 0 or more, such as 1e-3")
    return value


def expected(options: argparse.Namespace) -> dict[str, str]:
    """What --expect says, by the name of a buffer."""
    found: dict[str, str] = {}
    for text in options.expect:
        named = _NAMED.fullmatch(text)
        if named is None or not named[2].strip():
            raise UnreadableError(f"--expect {text}", "--expect D=d.npy, or an expression such as 'D=A @ B'")
        found[named[1]] = named[2].strip()
    return found


def is_launch(source: str, options: argparse.Namespace) -> bool:
    """Whether a source is a launch, captured or called, and not a trace."""
    return source.endswith((".json", *PTX)) or any(getattr(options, name) for name in LAUNCHED)


def check_unused(options: argparse.Namespace, names: tuple[str, ...], what: str, legal: str) -> None:
    """UnreadableError for options that were given, but are not for such a source."""
    for name in names:
        if getattr(options, name) not in (None, False, 0, [], ()):
            raise UnreadableError(f"--{name.replace('_', '-')} with {what}", legal)


def chosen_launch(source: str, options: argparse.Namespace) -> Capture:
    """The launch that a source and the options name: the capture of a file, or the call of a PTX file's kernel.

    Raises:
        UnreadableError: options that do not fit, or that are missing.
        CaptureError, IsaError, LaunchError: what cannot be read, and arguments that the kernel does not take.
    """
    if source.endswith(".json"):
        from simulator.program.capture import read_capture

        check_unused(options, LAUNCHED, "a captured launch, which says that itself", "a capture alone")
        capture = read_capture(source)
        if options.fmad is None:
            return capture
        from dataclasses import replace

        return replace(capture, fmad=options.fmad)
    return _called(source, options)


@dataclass
class _Call:
    """The arguments of a call as they are read."""

    values: list[Any] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)
    outputs: set[str] = field(default_factory=set)
    declared: dict[str, tuple[int, int, int]] = field(default_factory=dict)

    def add(self, name: str, text: str) -> None:
        """Reads one argument."""
        if text.startswith("map:"):
            value: Any = self.mapped(name, text)
        elif (array := self.array(name, text)) is not None:
            value = array
        else:
            value = _value(text)
        self.values.append(value)
        self.names.append(name)

    def array(self, name: str, text: str) -> NDArray[Any] | None:
        """The array that a text names; None if it names none."""
        declared = _DECLARED.fullmatch(text)
        plain = declared[1] if declared else text
        is_output = plain.startswith("out:")
        if is_output:
            array = _zeros(plain)
        elif (read := _from_file(plain)) is not None:
            array = read
        elif declared:
            raise UnreadableError(f"argument '{text[:60]}'", "a.npy:ROWS,COLUMNS,LD, or out:TYPE:SHAPE:ROWS,COLUMNS,LD")
        else:
            return None
        self.arrays[name] = array
        if is_output:
            self.outputs.add(name)
        if declared:
            self.declared[name] = int(declared[2]), int(declared[3]), int(declared[4])
        return array

    def mapped(self, name: str, text: str) -> tuple[TensorMap, NDArray[Any]]:
        """A tensor map and its array."""
        from simulator.layout.tensor_box import MAP, read_map

        _, fields, of = [*text.split(":", 2), ""][:3]
        array = self.arrays.get(of) if of in self.arrays else self.array(name, of)
        if not of or array is None:
            raise UnreadableError(f"argument '{text[:80]}' names no array", f"map:{MAP}:a.npy, or an argument's name")
        return read_map(fields), array


def _called(source: str, options: argparse.Namespace) -> Capture:
    from simulator.simulation.launch.module import Module

    for name in ("grid", "block"):
        if not getattr(options, name):
            raise UnreadableError(f"a PTX file without --{name}", f"--{name} X[,Y[,Z]], or a captured launch")
    function = Module(Path(source), fmad=options.fmad is not False).get_function(options.entry)
    parameters = [parameter.name for parameter in function.kernel.parameters]
    call = _Call()
    for index, text in enumerate(options.arg):
        named = _NAMED.fullmatch(text)
        if named:
            call.add(named[1], named[2])
        else:
            call.add(parameters[index] if index < len(parameters) else f"arg{index}", text)
    outputs = call.outputs or None
    return function.capture(
        options.grid, options.block, call.values, shared_mem=options.shared, cluster=options.cluster, names=call.names,
        outputs=outputs, declared=call.declared,
    )  # fmt: skip


def _zeros(text: str) -> NDArray[Any]:
    """An array of zeros, as out:TYPE:SHAPE says."""
    import numpy as np

    from simulator.memory_room import check_room
    from simulator.program.capture import MOST_BYTES

    kind, _, shape = text[4:].partition(":")
    if kind not in TYPES or not re.fullmatch(r"\d+(x\d+)*", shape):
        raise UnreadableError(f"argument '{text}'", "out:TYPE:SHAPE, such as out:float16:2048x2048")
    extents = [int(extent) for extent in shape.split("x") if len(extent) < _DIGITS]
    size = math.prod(extents) * np.dtype(kind).itemsize
    if len(extents) < shape.count("x") + 1 or size > MOST_BYTES:
        raise UnreadableError(f"argument '{text[:60]}' is too large", f"an array of at most {MOST_BYTES:,} bytes")
    check_room(size, f"argument '{text}'", times=2)  # the array, and the buffer of the launch
    return np.zeros(extents, kind)


def _from_file(text: str) -> NDArray[Any] | None:
    """The array of a file; None for a text that names no file of arrays."""
    import numpy as np

    from simulator.inputs import ArrayFile

    if text.endswith(".npy"):
        return np.ascontiguousarray(ArrayFile(text, "a file written by numpy.save").read())
    archive, separator, member = text.partition(".npz:")
    if not separator:
        return None
    return np.ascontiguousarray(ArrayFile(f"{archive}.npz", "a file written by numpy.savez").read(member))


def _value(text: str) -> int | float | bytes:
    """A number, or the bytes of a structure."""
    if text.startswith("bytes:"):
        try:
            return bytes.fromhex(text[6:])
        except ValueError:
            raise UnreadableError(
                f"argument '{text[:40]}' is not hexadecimal", "bytes:00ff..., two digits a byte"
            ) from None
    for read in (lambda: int(text, 0), lambda: float(text)):
        try:
            return read()
        except ValueError:
            continue
    raise UnreadableError(f"argument '{text}'", "a number, a .npy file, out:TYPE:SHAPE, or bytes:HEX")
