"""The verb `tcsim launch`, which runs a PTX kernel on arrays, or a captured launch."""

from __future__ import annotations

import argparse
import json
import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isa.errors import POLICIES
from simulator.cli import DONE, NO
from simulator.cli.answer import UnreadableError, answer
from simulator.cli.completion_option import add_completion
from simulator.cli.config_option import add_set, choose_config
from simulator.cli.timeline_option import add_timeline, asked_timeline, timeline_files, write_timeline
from simulator.cli.verbs import positive

if TYPE_CHECKING:
    from simulator.simulation.launch.report import LaunchReport
    from simulator.simulation.launch.timing import LaunchTiming

_DIGITS = 16  # of an extent of an array that any memory could hold

DESCRIPTION = """\
Runs a kernel as the chip runs it, bit for bit: PTX as nvcc, Triton or CUTLASS print it (mma, mma.sp, ldmatrix,
cp.async and what goes with them, for sm_80 to sm_120).

SOURCE is a captured launch (NAME.json, docs/kernels.md), or a PTX file, which needs --grid, --block and one --arg for
each parameter.

Exit code 0 done, 1 the result is not that of the capture, or --completion found a difference or something missing,
2 what cannot be read or run: the line says which line of the PTX, CTA and warp met it, whatever the number of workers.
"""

EPILOG = """\
arguments of a kernel, in the order of its parameters; a name in front is optional (A=a.npy):
  a.npy                     the array of a file: its address is passed
  out:float16:2048x2048     an array of zeros; --output writes it
  0.125, 64, -1, 0x10       a number of the parameter's type
  bytes:00ff...             a structure by value, two digits a byte

examples:
  tcsim launch capture.json
  tcsim launch spmm.ptx --entry spmm_f16 --grid 16,32 --block 128 --shared 61440 \\
        --arg A=a.npy --arg E=e.npy --arg B=b.npy --arg D=out:float16:2048x2048 --arg 2048 --output d.npz
  tcsim launch capture.json --completion latest
  tcsim launch capture.json --config h100_sxm --gantt gantt.svg --timeline-cycles 2000:2600
"""

MACHINE_CODE = "for the time: the kernel as ptxas wrote it: text of `nvdisasm -c -gp`, or a cubin made with -lineinfo"
TYPES = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64")
_NAMED = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `tcsim launch` to its parser."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("source", metavar="SOURCE")
    parser.add_argument("--entry", help="the kernel's name, or a part of it (default: the only one)")
    parser.add_argument("--grid", type=_dim, metavar="X[,Y[,Z]]", help="CTAs")
    parser.add_argument("--block", type=_dim, metavar="X[,Y[,Z]]", help="threads of a CTA")
    parser.add_argument(
        "--cluster", type=_dim, metavar="X[,Y[,Z]]", help="CTAs of a cluster (default: as the kernel demands, or one)"
    )
    parser.add_argument("--shared", type=_bytes, default=0, metavar="BYTES", help="dynamic shared memory of a CTA")
    parser.add_argument(
        "--arg", action="append", default=[], metavar="VALUE", help="an argument of the kernel, see below"
    )
    parser.add_argument("--output", metavar="FILE.npz", help="write the arrays that the kernel may have written")
    parser.add_argument(
        "--config", help="the chip whose time is told and whose arithmetic is used (default: values alone)"
    )
    add_set(parser)
    parser.add_argument(
        "--arithmetic", choices=("chip", "exact", "none"), default="chip",
        help="chip: its own bits; exact: sums; none: time alone, of the CTAs of one SM",
    )  # fmt: skip
    parser.add_argument(
        "--undefined", choices=POLICIES, default="hardware", help="what to do about undefined behaviour"
    )
    add_completion(parser)
    parser.add_argument(
        "--fmad", action=argparse.BooleanOptionalAction, default=True,
        help="contract mul and add that have no rounding into fma, as ptxas does (default)",
    )  # fmt: skip
    parser.add_argument("--cold", action="store_true", help="for the time: data begin in device memory, not in L2")
    parser.add_argument(
        "--registers", type=positive, metavar="N", help="of a thread, as ptxas -v prints (default: estimated)"
    )
    parser.add_argument("--machine-code", metavar="FILE", help=MACHINE_CODE)
    parser.add_argument(
        "--budget", type=positive, metavar="N", help="warp instructions after which it is given up (default 2e10)"
    )
    parser.add_argument("--workers", type=positive, metavar="N", help="processes (default: one for each core)")
    parser.add_argument("--format", choices=("table", "json"), default="table")
    add_timeline(parser)


def _dim(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not 1 <= len(parts) <= 3 or not all(part.strip().isdecimal() and int(part) for part in parts):
        raise argparse.ArgumentTypeError(f"'{text}'; legal: one to three numbers above 0, such as 16,32")
    return tuple(map(int, parts))


def _bytes(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"'{text}' is no number of bytes; legal: 0 or more")
    return int(text)


def execute(options: argparse.Namespace) -> int:
    """Runs `tcsim launch` with parsed options; returns the exit code."""
    return answer(lambda: _launch(options), [options.output, *timeline_files(options)])


def _launch(options: argparse.Namespace) -> tuple[str, int]:
    if options.config is not None or options.overrides:
        choose_config(options)
    how = {"arithmetic": options.arithmetic, "undefined": options.undefined, "workers": options.workers or 0}
    how["completion"] = options.completion
    timeline = asked_timeline(options)
    how |= {"cold": options.cold, "registers": options.registers, "timeline": timeline}
    if options.machine_code is not None:
        if options.config is None:
            raise UnreadableError("--machine-code without --config", "--config h100_sxm")
        how["machine_code"] = options.machine_code
    if options.budget:
        how["budget"] = options.budget
    from simulator.files import write_arrays

    report = _captured(options, how) if options.source.endswith(".json") else _called(options, how)
    if timeline is not None:
        write_timeline(options, timeline)
    if options.output:
        write_arrays(options.output, report.arrays)
    text = json.dumps(_as_dict(report), indent=1) + "\n" if options.format == "json" else _text(report)
    wrong = report.differences or (report.completion is not None and not report.completion.clean)
    return text, NO if wrong else DONE


def _captured(options: argparse.Namespace, how: dict[str, Any]) -> LaunchReport:
    from simulator.simulation.launch.captured import launch

    given = [name for name in ("entry", "grid", "block", "cluster", "shared", "arg") if getattr(options, name)]
    if given:
        raise UnreadableError(f"--{given[0]} with a captured launch, which says that itself", "a capture alone")
    return launch(options.source, options.config, fmad=options.fmad, **how)


def _called(options: argparse.Namespace, how: dict[str, Any]) -> LaunchReport:
    from simulator.simulation.launch.module import Module

    for name in ("grid", "block"):
        if not getattr(options, name):
            raise UnreadableError(f"a PTX file without --{name}", f"--{name} X[,Y[,Z]], or a captured launch")
    function = Module(Path(options.source), fmad=options.fmad).get_function(options.entry)
    names = [parameter.name for parameter in function.kernel.parameters]
    values, outputs, called = [], {}, []
    for index, text in enumerate(options.arg):
        named = _NAMED.fullmatch(text)
        name, said = (named[1], named[2]) if named else (names[index] if index < len(names) else f"arg{index}", text)
        value, is_output = _value(said)
        values.append(value)
        called.append(name)
        if is_output:
            outputs[name] = value
    how |= {"shared_mem": options.shared, "cluster": options.cluster, "config": options.config, "names": called}
    report = function(options.grid, options.block, values, **how)
    return report.with_arrays(outputs or dict(report.arrays))


def _value(text: str) -> tuple[Any, bool]:
    """The value of an argument, and whether it is an array of results."""
    import numpy as np

    from simulator.inputs import ArrayFile
    from simulator.memory_room import check_room
    from simulator.program.capture import MOST_BYTES

    if text.startswith("out:"):
        kind, _, shape = text[4:].partition(":")
        if kind not in TYPES or not re.fullmatch(r"\d+(x\d+)*", shape):
            raise UnreadableError(f"argument '{text}'", "out:TYPE:SHAPE, such as out:float16:2048x2048")
        extents = [int(extent) for extent in shape.split("x") if len(extent) < _DIGITS]
        size = math.prod(extents) * np.dtype(kind).itemsize
        if len(extents) < shape.count("x") + 1 or size > MOST_BYTES:
            raise UnreadableError(f"argument '{text[:60]}' is too large", f"an array of at most {MOST_BYTES:,} bytes")
        check_room(size, f"argument '{text}'", times=2)  # the array, and the buffer of the launch
        return np.zeros(extents, kind), True
    if text.startswith("bytes:"):
        try:
            return bytes.fromhex(text[6:]), False
        except ValueError:
            raise UnreadableError(
                f"argument '{text[:40]}' is not hexadecimal", "bytes:00ff..., two digits a byte"
            ) from None
    if text.endswith(".npy"):
        return np.ascontiguousarray(ArrayFile(text, "a file written by numpy.save").read()), False
    for read in (lambda: int(text, 0), lambda: float(text)):
        try:
            return read(), False
        except ValueError:
            continue
    raise UnreadableError(f"argument '{text}'", "a number, a .npy file, out:TYPE:SHAPE, or bytes:HEX")


def _as_dict(report: LaunchReport) -> dict[str, Any]:
    return report.as_dict() | {"differences": [str(each) for each in report.differences or ()]}


def _time(timing: LaunchTiming) -> list[str]:
    """The lines about time."""
    placement, whole = timing.placement, max(sum(timing.stalls.values()), 1)
    lines = [
        (
            f"time on             {timing.config_label}: {timing.cycles:,} cycles, "
            f"{timing.time_us:.3f} us at the config's clock"
        ),
        (
            f"CTAs of an SM       {placement.resident} at a time, limited by {placement.limit} "
            f"({placement.registers} registers a thread); {timing.active_warps} warps"
        ),
        *_clusters(timing),
        f"throughput          {timing.throughput:.1f} FMA/clk/SM, tensor pipes busy {100 * timing.tensor_busy:.1f} %"
        + "".join(f", {name} unit taken {100 * share:.1f} %" for name, share in timing.units_busy.items()),
        f"machine code        about {timing.machine_instructions:,} warp instructions",
        f"order               {timing.order}{_lost(timing)}",
    ]
    worst = sorted(timing.stalls.items(), key=lambda pair: -pair[1])[:6]
    lines.append("cycles of warps     " + ", ".join(f"{cause} {100 * count / whole:.0f} %" for cause, count in worst))
    return lines + [f"assumed: {text}" for text in timing.assumed]


def _clusters(timing: LaunchTiming) -> list[str]:
    """What is said of clusters, where there are any."""
    placement = timing.placement
    if placement.size == 1:
        return []
    found = f"clusters            {placement.clusters} of {placement.size} CTAs at a time for each CTA on an SM"
    return [f"{found}; the SMs of one are timed together"]


def _lost(timing: LaunchTiming) -> str:
    """What is said where machine code does not serve all warps."""
    return f", but schedule of the PTX for {100 * timing.lost:.0f} % of the warps" if timing.lost else ""


def _text(report: LaunchReport) -> str:
    grid, block, cluster = (" x ".join(str(n) for n in dims) for dims in (report.grid, report.block, report.cluster))
    printed = report.printed.removesuffix("\n").split("\n") if report.printed else []
    lines = [
        *printed,
        f"kernel              {report.trace}",
        f"grid, block         {grid}, {block}",
        *([f"cluster             {cluster}"] if report.cluster != (1, 1, 1) else []),
        f"arithmetic of       {report.target}",
        f"warp instructions   {report.warp_instructions:,}",
    ]
    if report.tensor_instructions:
        lines.append(
            f"matrix instructions {report.tensor_instructions:,} ({report.fma:,} multiply-adds, pruned ones too)"
        )
    if report.timing is not None:
        lines += _time(report.timing)
    most = list(report.instructions.items())[:8]
    lines += [f"  {count:>14,}  {opcode}" for opcode, count in most]
    if len(report.instructions) > len(most):
        lines.append(f"  and {len(report.instructions) - len(most)} other opcodes")
    lines += [f"undefined: {name} {count:,} times" for name, count in report.undefined.items()]
    lines += report.completion.lines() if report.completion is not None else []
    if report.differences is not None:
        lines += [f"differs: {each}" for each in report.differences] or ["every byte as in the capture"]
    return "\n".join(lines) + "\n"
