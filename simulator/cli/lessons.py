"""The verb `tcsim lessons [DIRECTORY]`, which lists the lessons, or copies them and opens the first."""

from __future__ import annotations

import argparse
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from textwrap import fill

from simulator.cli import DONE, say
from simulator.cli.answer import answer

DESCRIPTION = """\
Lists the lessons, notebooks of 20 to 40 minutes with exercises that check themselves: questions, goals, minutes.

With DIRECTORY copies them there (made if it is not there; nothing is overwritten without --force) and opens the first
in JupyterLab or the classic notebook, if one is installed. Nothing is opened when stdout is no terminal.
"""
EPILOG = """\
examples:
  tcsim lessons                   what there is to learn
  tcsim lessons ~/tcsim-lessons   copies of your own to work in
"""
SERVERS = {"jupyterlab": "lab", "notebook": "notebook"}
"""Packages that open notebooks, and the command of `jupyter` that starts them."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `tcsim lessons` to its parser."""
    parser.description = DESCRIPTION
    parser.epilog = EPILOG
    parser.add_argument("directory", metavar="DIRECTORY", nargs="?", help="folder to copy the lessons to")
    parser.add_argument("--force", action="store_true", help="replace lessons of the same names")
    parser.add_argument("--no-open", action="store_true", help="copy, and open nothing")


def execute(options: argparse.Namespace) -> int:
    """Runs `tcsim lessons` with parsed options; returns the exit code."""
    if options.directory is None:
        return answer(_list)
    from simulator.lessons.catalogue import copy

    copied: list[Path] = []

    def work() -> str:
        copied.extend(copy(Path(options.directory), force=options.force))
        return "".join(f"{path}\n" for path in copied)

    code = answer(work, [options.directory], data=True)
    if code == DONE and not options.no_open and sys.stdout.isatty():
        _open(copied[0])
    return code


def _list() -> str:
    """The lessons with question, minutes, what they build on, and goals."""
    from simulator.lessons.catalogue import lessons

    text = ""
    for one in lessons():
        text += f"{one.number:2}. {one.title} ({one.minutes} minutes; builds on {one.builds_on})\n"
        text += fill(one.question, 88, initial_indent="    ", subsequent_indent="    ") + "\n"
        for goal in one.goals:
            text += fill(goal, 88, initial_indent="    - ", subsequent_indent="      ") + "\n"
    return text


def _open(notebook: Path) -> None:
    """Starts the first server that is installed, which opens a browser, or says how to read the lessons."""
    for package, command in SERVERS.items():
        if find_spec(package) is not None:
            start = [sys.executable, "-m", "jupyter", command, notebook.name]
            say(f"starting: jupyter {command} {notebook} (Ctrl-C ends it)")
            try:
                subprocess.run(start, cwd=notebook.parent, check=False)
            except KeyboardInterrupt:
                say("ended")
            return
    say(f"to work in them: pip install jupyterlab ipykernel matplotlib, then jupyter lab {notebook}")
