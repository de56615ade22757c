"""What the results of a launch are compared with: arrays of files, numpy expressions over the inputs, or the results of
the same kernel from another file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.targets import parse_target
from simulator.check import launches
from simulator.check.launch_finding import LaunchCheck
from simulator.inputs import ArrayFile
from simulator.numpy_expression import ExpectationError, evaluate
from simulator.program.capture import Capture, read_capture
from simulator.program.capture_record import BufferSpec
from simulator.program.capture_writer import words
from simulator.simulation.launch.captured import launch
from simulator.simulation.launch.errors import LaunchError
from simulator.simulation.launch.module import Module

_MEMBER = re.compile(r"(?P<file>.+\.npz)(?::(?P<member>.+))?", re.DOTALL)


def check_expected(
    capture: str | Path | Capture,
    expect: Mapping[str, Any] | None = None,
    *,
    expect_from: str | Path | None = None,
    rtol: float = 0.0,
    atol: float = 0.0,
) -> LaunchCheck:
    """Checks a captured launch against another reference than the results that it holds.

    Args:
        capture: path of its JSON file, or one as an object.
        expect: by name of a buffer, what it must hold after the launch: an array, the file of one (`d.npy`,
            `x.npz:d`), or an expression over the inputs (`A.astype(float32) @ B`).
        expect_from: a PTX file, or the text of one, whose kernel's results on the same launch are the reference.
        rtol, atol: how far results may be from the reference, as of `numpy.allclose`; 0: bit for bit.

    Raises:
        CaptureError, IsaError, LaunchError: a capture or module that cannot be read, or a launch that does not fit.
        ExpectationError: a reference that cannot be had.
    """
    if not (0 <= rtol < np.inf and 0 <= atol < np.inf):
        raise ExpectationError(f"tolerances of {rtol} and {atol}", "numbers from 0 on")
    report = launches.check_launch(with_reference(capture, expect, expect_from), rtol=rtol, atol=atol)
    return replace(report, reference="expected") if expect or expect_from is not None else report


def with_reference(
    capture: str | Path | Capture, expect: Mapping[str, Any] | None = None, expect_from: str | Path | None = None
) -> Capture:
    """A captured launch whose results are this reference; arguments and errors as of `check_expected`."""
    if not isinstance(capture, Capture):
        capture = read_capture(capture)
    after = dict(capture.after)
    if expect_from is not None:
        after = results_of(from_other(capture, expect_from), "the reference")
    for name, given in (expect or {}).items():
        if name not in capture.buffers:
            raise ExpectationError(f"no buffer '{name}'", ", ".join(capture.buffers) or "a kernel with buffers")
        after[name] = _fitted(capture, capture.buffers[name], given)
    return replace(capture, after=after)


def from_other(capture: Capture, source: str | Path, entry: str | None = None) -> Capture:
    """The same launch, on the same chip, of a kernel from another PTX file: of the same name, or the only one. A module
    that is for a later chip runs on that.

    Args:
        entry: its name, or a part of it; None: as that of the capture, or the only one.

    Raises:
        LaunchError, IsaError: no such file or kernel.
    """
    module = Module(source)
    entry = module.find(entry or (capture.entry if capture.entry in module.entries else None))
    own = parse_target(str(module.parsed.target))
    target = str(own) if own.number > parse_target(capture.target).number else capture.target
    return replace(capture, ptx=module.source, entry=entry, target=target)


def results_of(capture: Capture, what: str) -> dict[str, NDArray[Any]]:
    """What a launch leaves in its outputs.

    Args:
        what: whose results these are, for errors.

    Raises:
        LaunchError: it does not run to its end.
    """
    try:
        arrays = launch(replace(capture, after={})).arrays
    except LaunchError as error:
        raise LaunchError(f"{what} does not run: {error}", rule=error.rule) from None
    return {name: arrays[name].copy() for name in capture.outputs}


def _fitted(capture: Capture, spec: BufferSpec, given: Any) -> NDArray[Any]:
    """A reference as the buffer holds it."""
    found = _found(capture, given)
    try:
        array = np.ascontiguousarray(found)
    except ValueError as error:
        raise ExpectationError(f"the reference of '{spec.name}' is no array: {error}", "an array") from None
    if array.dtype.hasobject or array.dtype.kind not in "biufcV":
        raise ExpectationError(f"the reference of '{spec.name}' has type {array.dtype}", "an array of numbers")
    whole = capture.before.get(spec.name, np.zeros(spec.shape, spec.type)).copy()
    part = spec.data(whole)
    for target in (part, whole):
        if _same_shape(np.shape(found), target.shape):
            target[...] = _typed(array, spec).reshape(target.shape if array.size == target.size else ())
            return whole
    shown = " x ".join(map(str, np.shape(found)))
    raise ExpectationError(
        f"the reference of '{spec.name}' has shape {shown}", " x ".join(map(str, part.shape)) + ", as the buffer"
    )


def _found(capture: Capture, given: Any) -> Any:
    """What a reference is: an array as it is, that of a file, or the value of an expression."""
    if isinstance(given, Path):
        given = str(given)
    if not isinstance(given, str):
        return given
    if given.endswith(".npy"):
        return ArrayFile(given, "a file written by numpy.save").read()
    if named := _MEMBER.fullmatch(given):
        archive = ArrayFile(named["file"], "a file written by numpy.savez")
        member = named["member"] or (archive.names[0] if len(archive.names) == 1 else "")
        return archive.read(member)
    return evaluate(given, inputs_of(capture))


def inputs_of(capture: Capture) -> dict[str, Any]:
    """By name, what an expression may use: the buffers before the launch, of which the declared part, and numbers."""
    found: dict[str, Any] = {}
    names = capture.names or tuple(
        each.name for each in Module(capture.ptx).get_function(capture.entry).kernel.parameters
    )
    for name, (kind, value) in zip(names, capture.params, strict=False):
        if kind not in ("buffer", "bytes"):
            found[name] = value
    for name, spec in capture.buffers.items():
        found[name] = spec.data(capture.before.get(name, np.zeros(spec.shape, spec.type)))
    return found


def _same_shape(given: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Whether an array goes into another: a number goes into each, one in a row into one of as many elements, and
    extents of 1 do not count."""
    first, second = (tuple(extent for extent in shape if extent != 1) for shape in (given, wanted))
    flat = min(len(first), len(second)) <= 1 and np.prod(given) == np.prod(wanted)
    return not given or first == second or bool(flat)


def _typed(array: NDArray[Any], spec: BufferSpec) -> NDArray[Any]:
    """A reference in the type of its buffer, rounded as numpy rounds."""
    wanted = np.dtype(spec.type)
    if array.dtype == wanted:
        return array
    has_bits = array.dtype.kind == "V" or (wanted.kind in "iu" and array.dtype == np.float16)
    if has_bits and array.itemsize == wanted.itemsize:  # a type that the buffer's words stand for
        return words(array).view(wanted)
    with np.errstate(all="ignore"):
        converted = array.astype(wanted)
        exact = wanted.kind not in "iu" or array.dtype.kind not in "fc" or bool((converted == array).all())
    if not exact:
        reason = f"the reference of '{spec.name}' has type {array.dtype}, and the buffer {wanted}"
        raise ExpectationError(reason, f"whole numbers, or .astype({wanted})")
    return converted
