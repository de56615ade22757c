"""The runs whose Tensor Memory the explorer shows: what each cell holds, from which instruction to which."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from simulator.program.capture import read_capture
from simulator.program.reader import load
from simulator.program.statements import lines_of_file
from simulator.views.tensor_memory import Moment, memory_map
from simulator.views.tensor_memory.lives import ALLOCATION, ROLES
from simulator.views.tensor_memory.picture import ROLE_COLOURS, runs

Record = dict[str, Any]
EXAMPLE = "digits/mxf4nvf4_tcgen05"  # the run that the page shows if none is asked for
MOST = 2000  # intervals of a run that the page holds
_LETTERS = 120  # of the text of a line


def roles() -> list[Record]:
    """What cells can hold: a name, and the number of its colour in a palette; the last is an allocation, without."""
    shown = [{"name": role, "colour": colour} for role, colour in zip(ROLES, ROLE_COLOURS, strict=True)]
    return [*shown, {"name": ALLOCATION, "colour": None}]


def run_records(targets: Sequence[str]) -> list[Record]:
    """The runs of programs, or of the example; programs of one name have the texts that were given as names. Errors as
    of `run_record`."""
    runs = [run_record(target) for target in targets or (EXAMPLE,)]
    names = [run["name"] for run in runs]
    return [
        {**run, "name": target if names.count(run["name"]) > 1 else run["name"]}
        for run, target in zip(runs, targets or (EXAMPLE,), strict=True)
    ]


@lru_cache(maxsize=8)
def run_record(target: str) -> Record:
    """The run of a trace or of a captured launch.

    A run is `name`, `ctas`, `count` (instructions that touch Tensor Memory), `left_out` (intervals beyond `MOST`),
    `moments` ([number, line, opcode], places in which are what follows names), `changes` (moments at which what is held
    changes), `lines` (line -> text) and `intervals` ([CTA, role, [[first lane, last lane], ...],
    first column, column behind the last, place of the first moment, of the last]).

    Raises:
        ViewError: nothing is in Tensor Memory.
        TraceError, CaptureError, LaunchError, IsaError: what cannot be read or run.
    """
    memory = memory_map(target)
    held = memory.intervals[:MOST]
    numbers = {number for each in held for number in (each.first.number, each.last.number)}
    changes = [number for number in memory.changes if len(held) == len(memory.intervals) or number <= max(numbers)]
    moments = [memory.moments[number] for number in sorted(numbers | set(changes))]
    place = {moment.number: i for i, moment in enumerate(moments)}
    names = [*ROLES, ALLOCATION]
    return {
        "name": memory.name,
        "ctas": memory.ctas,
        "count": len(memory.moments) - 1,
        "left_out": len(memory.intervals) - len(held),
        "moments": [list(moment) for moment in moments],
        "changes": [place[number] for number in changes],
        "lines": _lines(target, moments),
        "intervals": [
            [
                each.cta, names.index(each.role), [list(run) for run in runs(each.lanes)], each.columns.start,
                each.columns.stop, place[each.first.number], place[each.last.number],
            ]
            for each in held
        ],
    }  # fmt: skip


def _lines(target: str, moments: list[Moment]) -> dict[int, str]:
    """The text of the lines of moments."""
    path = Path(read_capture(target).ptx) if target.endswith(".json") else load(target).path
    wanted = {moment.line for moment in moments}
    return {number: " ".join(text.split())[:_LETTERS] for number, text in lines_of_file(path) if number in wanted}
