"""The list of lessons, read from the notebooks themselves, their copies, and the recorded data that they read."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from simulator.errors import ReasonedError
from simulator.resources import folder

DATA = {
    "planted": "tests/golden/planted",
    "mma_sp.npz": "tests/golden/lessons/mma_sp.npz",
    "mma_dense.npz": "tests/golden/lessons/mma_dense.npz",
    "loop.csv": "measurements/results/loop.csv",
    "traces.csv": "measurements/results/traces.csv",
}
"""Recorded data of lessons: name to place in a checkout. A wheel has them in `data/lessons` (pyproject.toml)."""

_HEAD = re.compile(
    r"# (?P<number>\d+)\. (?P<title>.+)\n\n\*\*(?P<question>[^*]+\?)\*\*\n\n"
    r"(?P<minutes>\d+) minutes\. Builds on: (?P<builds_on>[^.]+)\.\s+You will be able to\n\n"
    r"(?P<goals>(?:\* .+\n(?:  .+\n)*)+)"
)


class LessonError(ReasonedError):
    """A lesson, its data or a copy of it that cannot be had."""


@dataclass(frozen=True)
class Lesson:
    """One lesson: what its first cell says of it, and its notebook."""

    number: int
    title: str
    question: str
    minutes: int
    builds_on: str
    goals: tuple[str, ...]
    notebook: Path


def lessons() -> list[Lesson]:
    """All lessons, in the order of their numbers.

    Raises:
        LessonError: a notebook does not begin with title, question, minutes and goals.
    """
    return sorted((_read(path) for path in folder("notebooks").glob("[0-9]*_*.ipynb")), key=lambda one: one.number)


def _read(path: Path) -> Lesson:
    """The lesson of a notebook."""
    first = "".join(json.loads(path.read_text(encoding="utf-8"))["cells"][0]["source"])
    found = _HEAD.match(f"{first}\n")
    if not found:
        raise LessonError(f"{path}: the first cell is no head of a lesson", "title, question, minutes and goals")
    goals = re.split(r"^\* ", found["goals"], flags=re.MULTILINE)[1:]
    return Lesson(
        number=int(found["number"]),
        title=found["title"],
        question=" ".join(found["question"].split()),
        minutes=int(found["minutes"]),
        builds_on=" ".join(found["builds_on"].split()),
        goals=tuple(" ".join(goal.split()).rstrip(";.").removesuffix("; and") for goal in goals),
        notebook=path,
    )


def copy(target: Path, *, force: bool = False) -> list[Path]:
    """Copies the notebooks of all lessons into a folder, which is made if it is not there.

    Args:
        target: the folder.
        force: whether notebooks of these names that are there already are replaced.

    Returns:
        The copies, in the order of the lessons.

    Raises:
        LessonError: a notebook is there already and `force` is not set (nothing is copied then), or `target` is a file.
    """
    sources = [lesson.notebook for lesson in lessons()]
    there = [source.name for source in sources if (target / source.name).exists()]
    if target.exists() and not target.is_dir():
        raise LessonError(f"{target} is a file", "a folder, there or not")
    if there and not force:
        more = f" and {len(there) - 1} more" if len(there) > 1 else ""
        raise LessonError(f"{target / there[0]}{more} would be overwritten", "another folder, or --force")
    target.mkdir(parents=True, exist_ok=True)
    return [Path(shutil.copyfile(source, target / source.name)) for source in sources]


def data(name: str) -> Path:
    """Where the recorded data of this name lie: a file, or a folder.

    Raises:
        LessonError: no lesson has data of this name.
    """
    if name not in DATA:
        raise LessonError(f"no lesson has data called '{name}'", ", ".join(DATA))
    installed = folder("lessons") / name
    return installed if installed.exists() else folder(DATA[name])
