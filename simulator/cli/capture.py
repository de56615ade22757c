"""The verb `tcsim capture`, which says how a launch on a GPU becomes a capture, and what a capture holds."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from simulator.cli.answer import UnreadableError, answer

if TYPE_CHECKING:
    from simulator.program.capture import Capture

DESCRIPTION = """\
Shows what a captured launch holds, or writes the C++ header with which a host program makes captures.

A launch becomes a capture in three steps, on a machine with a GPU:

  1. tcsim capture --header --output tcsim_capture.h
  2. in the host program, in place of spmm<<<grid, block, shared>>>(a, e, b, d, m, n, k):

       #include "tcsim_capture.h"
       tcsim::Capture capture("captures/spmm", "spmm.ptx");   // writes captures/spmm.json and captures/spmm.npz
       capture.buffer("A", a, "float16", {m, k / 2});         // every buffer that the kernel reads or writes:
       capture.buffer("D", d, "float32", {m, n});             // name, device pointer, type, shape
       capture.launch(spmm, grid, block, shared, a, e, b, d, m, n, k);

  3. nvcc -ptx -lineinfo -arch=sm_80 -o spmm.ptx spmm.cu, then nvcc as ever, and run the program

`tcsim launch captures/spmm.json` then runs the kernel without a GPU, and compares every byte with the GPU's;
`tcsim check` looks for mistakes, and `tcsim stalls` says where the time goes. In Python,
`simulator.program.capture.write_capture` writes a capture from numpy arrays. The format is in docs/kernels.md.
"""
EPILOG = """\
examples:
  tcsim capture captures/spmm.json
  tcsim capture --header > tcsim_capture.h
"""
HEADER = "tcsim_capture.h"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `tcsim capture` to its parser."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("source", metavar="NAME.json", nargs="?", help="a captured launch")
    parser.add_argument("--header", action="store_true", help=f"write {HEADER}")
    parser.add_argument("--output", metavar="FILE", help="write to a file")


def execute(options: argparse.Namespace) -> int:
    """Runs `tcsim capture` with parsed options; returns the exit code."""
    return answer(lambda: _capture(options), output=options.output, data=options.header)


def _capture(options: argparse.Namespace) -> str:
    if options.header == (options.source is not None):
        raise UnreadableError("what to show is not said", "tcsim capture NAME.json, or tcsim capture --header")
    if options.header:
        from simulator import program

        return (Path(program.__file__).parent / HEADER).read_text(encoding="utf-8")
    from simulator.program.capture import read_capture

    return shown(read_capture(options.source))


def shown(capture: Capture) -> str:
    """What a capture holds, as text."""
    grid, block = (" x ".join(map(str, sizes)) for sizes in (capture.grid, capture.block))
    lines = [
        f"kernel   {capture.entry}",
        f"from     {capture.ptx}, {capture.target}",
        f"launch   {grid} CTAs of {block} threads, {capture.dynamic_shared:,} bytes of dynamic shared memory",
    ]
    for number, (kind, value) in enumerate(capture.params):
        text = f"{len(value)} bytes" if kind == "bytes" else str(value)
        lines.append(f"{'params' if number == 0 else '':8} {number}: {kind} {text}")
    for number, buffer in enumerate(capture.buffers.values()):
        shape = " x ".join(map(str, buffer.shape))
        notes = [text for text, holds in (("begins with zeros", buffer.zero), ("written", buffer.output)) if holds]
        said = f": {', '.join(notes)}" if notes else ""
        lines.append(f"{'buffers' if number == 0 else '':8} {buffer.name}: {buffer.type} {shape}{said}")
    for number, (name, count) in enumerate(capture.counters.items()):
        lines.append(f"{'counted' if number == 0 else '':8} {name} {count:,}")
    return "\n".join(lines) + "\n"
