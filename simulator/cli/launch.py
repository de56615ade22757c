"""The verb `tcsim launch`, which runs a PTX kernel on arrays, or a captured launch."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isa.errors import POLICIES
from simulator.cli import DONE, NO
from simulator.cli.answer import UnreadableError, answer
from simulator.cli.completion_option import add_completion
from simulator.cli.config_option import add_set, choose_config
from simulator.cli.kernel_options import ARGUMENTS, add_kernel, chosen_launch
from simulator.cli.timeline_option import add_timeline, asked_timeline, timeline_files, write_timeline
from simulator.cli.verbs import positive

if TYPE_CHECKING:
    from simulator.program.capture import Capture
    from simulator.simulation.launch.report import LaunchReport
    from simulator.simulation.launch.timing import LaunchTiming

DESCRIPTION = """\
Runs a kernel as the chip runs it, bit for bit: PTX as nvcc, Triton or CUTLASS print it (mma, mma.sp, ldmatrix,
cp.async and what goes with them, for sm_80 to sm_120).

SOURCE is a captured launch (NAME.json, docs/kernels.md), or a PTX file, which needs --grid, --block and one --arg for
each parameter.

Exit code 0 done, 1 the result is not that of the capture, or --completion found a difference or something missing,
2 what cannot be read or run: the line says which line of the PTX, CTA and warp met it, whatever the number of workers.
"""

EPILOG = f"""\
{ARGUMENTS}
examples:
  tcsim launch capture.json
  tcsim launch spmm.ptx --entry spmm_f16 --grid 16,32 --block 128 --shared 61440 \\
        --arg A=a.npy --arg E=e.npy --arg B=b.npy --arg D=out:float16:2048x2048 --arg 2048 --output d.npz
  tcsim launch spmm.ptx ... --save-capture captures    the same as a capture: captures/spmm.json, .ptx, .npz
  tcsim launch capture.json --completion latest
  tcsim launch capture.json --config h100_sxm --gantt gantt.svg --timeline-cycles 2000:2600
"""

MACHINE_CODE = "for the time: the kernel as ptxas wrote it: text of `nvdisasm -c -gp`, or a cubin made with -lineinfo"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `tcsim launch` to its parser."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("source", metavar="SOURCE")
    add_kernel(parser)
    parser.add_argument("--output", metavar="FILE.npz", help="write the arrays that the kernel may have written")
    parser.add_argument(
        "--save-capture", metavar="FOLDER", help="keep the launch and its results as a capture: a folder, or FILE.json"
    )
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


def execute(options: argparse.Namespace) -> int:
    """Runs `tcsim launch` with parsed options; returns the exit code."""
    written = [options.output, *_capture_files(options), *timeline_files(options)]
    return answer(lambda: _launch(options), written)


def _capture_files(options: argparse.Namespace) -> list[str | None]:
    """What --save-capture writes, as far as its name says it. The PTX beside a capture may be the one that runs."""
    path = options.save_capture
    return [path, str(Path(path).with_suffix(".npz"))] if path and path.endswith(".json") else [path]


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
    capture, report = _ran(options, how)
    if timeline is not None:
        write_timeline(options, timeline)
    _write(options, capture, report)
    text = json.dumps(_as_dict(report), indent=1) + "\n" if options.format == "json" else _text(report)
    wrong = report.differences or (report.completion is not None and not report.completion.clean)
    return text, NO if wrong else DONE


def _ran(options: argparse.Namespace, how: dict[str, Any]) -> tuple[Capture, LaunchReport]:
    """Runs the launch."""
    from simulator.simulation.launch.captured import launch

    capture = chosen_launch(options.source, options)
    if options.source.endswith(".json"):
        return capture, launch(capture, options.config, **how)
    report = launch(capture, options.config, target=None, **how)  # a config's chip, or the module's
    return capture, report.with_arrays(report.arrays)  # nothing says what they must hold


def _write(options: argparse.Namespace, capture: Capture, report: LaunchReport) -> None:
    """Writes the results, and the launch itself."""
    from simulator.files import write_arrays

    if options.output:
        write_arrays(options.output, report.arrays)
    if options.save_capture:
        from simulator.program.capture_writer import write_capture

        write_capture(replace(capture, after=report.arrays, target=report.target), options.save_capture)


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
