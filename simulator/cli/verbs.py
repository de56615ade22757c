"""The verbs of the command line, and the parser that finds the one that was asked for."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, NoReturn

from simulator.cli import BAD, drop
from simulator.cli.answer import text_width
from simulator.errors import did_you_mean, one_line
from simulator.folding import fold, lines_within
from simulator.version import __version__

VERBS = {
    "run": "run a trace on one SM: cycles, throughput, results",
    "launch": "run a real PTX kernel on arrays, or a captured launch: values, instructions, what is undefined",
    "exec": "run a CUDA program against a simulated GPU: its kernels, and its calls of the CUDA runtime",
    "capture": "how a launch on a GPU becomes a capture, and what a capture holds",
    "stalls": "where the cycles of a trace went: by line of the trace, warp or sub-core, and by cause",
    "config": "list configs, their values and what may be set: key, value, legal values, meaning, source",
    "tmem": "what Tensor Memory holds at each moment of a run: D, A, metadata, scale factors; map, table, picture",
    "roofline": "how far traces are from the limits of the tensor cores and of memory: table and plot",
    "check": "report races, missing waits and fences, and undefined cases of a trace or a kernel, with the fix",
    "verify": "whether two PTX kernels do the same in one launch: results and findings; for tests of compilers",
    "decode": "explain a PTX instruction or judge a PTX file, and say what is wrong",
    "forms": "list the matrix instructions: operands, metadata, PTX versions, targets",
    "layout": "show which bits of which lane's register hold each element of an operand: tables, pictures",
    "where": "which lane, register and bits hold an element, and who holds its metadata",
    "what": "what a lane's register, or a cell of Tensor Memory, holds",
    "explain": "where one element of D comes from: every product, its lanes, the metadata bits that chose it",
    "explore": "write a page that shows fragments and metadata of every form, to click through",
    "lessons": "list the lessons with goals and minutes, or copy them to a folder and open the first",
    "accuracy": "what tensor-core arithmetic means for your numbers: errors of chips' sums against the exact result",
    "prune": "prune a matrix as cuSPARSELt or PyTorch does, and say what was lost",
    "compress": "compress a pruned matrix to the bytes of cuSPARSELt or PyTorch",
    "convert": "sparse matrices and metadata from one format to another",
    "gemm": "what a sparse or dense GEMM costs on a chip, and what bounds it",
    "design": "sparse cores that nobody sells: speed-ups beside published ones, and what they would need",
    "sweep": "ask one question at many points of a design space: configs, their keys, GEMMs, layers, traces",
    "faults": "inject faults into sparse instructions: lists, campaigns, outcomes, detectors",
    "validate": "compare the timing model with everything that was measured or published",
}

_TEXTS = (None, "table")  # formats of texts for people
_TEACH = """\
examples:
  tcsim run digits/f16                                    the layer of a real network on an H100
  tcsim run my.trace --config a100 --format json          your own trace, machine-readable
  tcsim run digits/f16 --timeline f16.json                what happens when, to open in Perfetto
  tcsim launch capture.json                               a kernel as it was launched on a GPU, bit for bit
  tcsim stalls digits/f16 --worst 10                      the lines that lose most time
  tcsim decode "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r0, %r1, %r2, %r3}, [%r4];"
  tcsim layout mma.sp.m16n8k32.f32.f16.f16.f32 --operand e   who holds the metadata
  tcsim where mma.sp.m16n8k32.f32.f16.f16.f32 --operand a --row 5 --col 12
  tcsim explore                                           a page to click through all of it
  tcsim lessons my-lessons                                copies of the lessons to work in
  tcsim gemm --tile 128x256x64 --type f16                 a GEMM of 4096 x 4096 x 4096 on the whole chip
  tcsim validate                                          how far the model is from silicon

Data goes to stdout, words to stderr. Texts fit the terminal, or COLUMNS=60 if that is set. Exit codes: 0 done, 1 the
answer is no (illegal, undefined), 2 bad use or unreadable input, 3 a bug of tcsim. `tcsim VERB --help` explains a
verb."""


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, which says what was meant and where to read on, and whose help fits the
    terminal."""

    def error(self, message: str) -> NoReturn:
        """Ends the program with one line about the error."""
        said = one_line(f"{self.prog}: {message}; see '{self.prog} --help'")
        self.exit(BAD, f"{said}\n")

    def format_help(self) -> str:
        """The help."""
        text, width = super().format_help(), text_width()
        return fold(text, width) if width else text

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[argparse.Namespace, list[str]]:  # type: ignore[override] # one for its overloads
        """As in argparse, but an option that there is not is an error of its own, with the nearest that there is."""
        found, more = super().parse_known_args(args, namespace)
        unknown = next((word.partition("=")[0] for word in more if word.startswith("--") and word != "--"), None)
        if unknown is not None:
            self.error(f"no option '{unknown}'{did_you_mean(unknown, self._option_string_actions)}")
        return found, more

    def _print_message(self, message: str, file: Any = None) -> None:
        """Writes the help, the version or an error. That standard output cannot be written gets out, which argparse
        keeps to itself."""
        if file is sys.stdout and file is not None:
            file.write(message)
        elif file is not None:
            try:
                file.write(message)
                file.flush()
            except OSError:
                drop(file)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """ArgumentError for a value that is none of the choices, with the nearest of them."""
        if action.choices is not None and value not in action.choices:
            legal = [str(choice) for choice in action.choices]
            near = did_you_mean(str(value).lower(), legal)
            raise argparse.ArgumentError(action, f"no '{value}'{near}; legal: {', '.join(legal)}")


def run_verb(arguments: list[str]) -> int:
    """Runs the verb that the arguments name; returns its exit code."""
    parser = Parser(
        prog="tcsim",
        description="Simulates NVIDIA's sparse tensor cores: values bit for bit, layouts, cycles.",
        epilog=_TEACH,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"tcsim {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=Parser)
    requested = next((a for a in arguments if not a.startswith("-")), None)
    if requested is not None and requested not in VERBS:
        near = did_you_mean(requested.lower(), VERBS) or f"; legal: {', '.join(VERBS)}"
        parser.error(f"no verb '{requested}'{near}")
    runners: dict[str, Callable[[argparse.Namespace], int]] = {}
    alone = requested is not None and arguments[0] == requested  # then nobody asks for the help of all verbs
    for verb, summary in VERBS.items():
        if alone and verb != requested:
            continue
        added = verbs.add_parser(verb, help=summary, formatter_class=argparse.RawDescriptionHelpFormatter)
        if verb == requested:  # the others stay unloaded: a verb starts as fast as it can
            module = import_module(f"simulator.cli.{verb}")
            module.configure(added)
            runners[verb] = module.execute
    options = parser.parse_args(arguments)
    with lines_within(text_width() if getattr(options, "format", None) in _TEXTS else 0):
        return runners[options.verb](options)


def positive(text: str) -> int:
    """An option's value as a number of at least 1."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"'{text}' is no number of them; legal: 1 or more")
    return int(text)
