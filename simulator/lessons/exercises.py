"""The check of exercises: an answer is right or it is not, and what would be right stands nowhere in plain sight.

`notebooks/exercises.toml` has for every exercise the salted hash of its answer, and a hint.
`digest` makes the hash of a new one.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Iterable
from functools import cache
from numbers import Integral, Real

from simulator.lessons.catalogue import LessonError
from simulator.resources import folder

DIGITS = 6  # significant digits of a number that is no integer
_ROUNDS = 20_000  # of PBKDF2: slow enough that trying all small numbers is more work than the exercise


def check(name: str, answer: object) -> None:
    """Says whether an answer to an exercise is right, and gives a hint if it is not; None stands for no answer yet.

    Raises:
        LessonError: as of `is_right`.
    """
    if answer is None:
        print(f"{name}: your answer goes in place of None")
    elif is_right(name, answer):
        print(f"{name}: right")
    else:
        print(f"{name}: not yet. Hint: {_exercise(name)['hint']}")


def is_right(name: str, answer: object) -> bool:
    """Whether an answer to an exercise is right.

    Args:
        name: the exercise, "2.1" for the first of lesson 2.
        answer: a number, text or bool, or a tuple, list, set or array of such. Order counts, except in sets.
            Numbers are compared to six significant digits; 8 and 8.0 are the same.

    Raises:
        LessonError: there is no such exercise, or the answer is of no kind that could be right.
    """
    return digest(name, answer) == _exercise(name)["digest"]


def _exercise(name: str) -> dict[str, str]:
    """What is known of an exercise: `digest` and `hint`."""
    if name not in exercises():
        raise LessonError(f"there is no exercise '{name}'", f"one of {', '.join(exercises())}")
    return exercises()[name]


def digest(name: str, answer: object) -> str:
    """The salted hash of an answer, as `exercises.toml` has it."""
    return hashlib.pbkdf2_hmac("sha256", canonical(answer).encode(), f"tcsim {name}".encode(), _ROUNDS, 12).hex()


def canonical(answer: object) -> str:
    """An answer as text: the same for all spellings of the same answer, a list, a tuple and an array among them."""
    if hasattr(answer, "tolist"):  # arrays and scalars of numpy
        answer = answer.tolist()
    if isinstance(answer, str):
        return repr(answer.strip().lower())
    if isinstance(answer, Integral):  # bool, too: True is 1
        return str(int(answer))
    if isinstance(answer, Real):
        number = float(answer)
        return str(int(number)) if number.is_integer() else f"{number:.{DIGITS}g}"
    if isinstance(answer, (set, frozenset)):
        return f"[{', '.join(sorted(canonical(one) for one in answer))}]"
    if isinstance(answer, Iterable):
        return f"[{', '.join(canonical(one) for one in answer)}]"
    raise LessonError(f"{answer!r} is no answer", "a number or text, or a tuple, list, set or array of such")


@cache
def exercises() -> dict[str, dict[str, str]]:
    """Every exercise by its name."""
    with (folder("notebooks") / "exercises.toml").open("rb") as stream:
        return tomllib.load(stream)
