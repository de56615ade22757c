"""Many cases in one test: `over` takes the place of `pytest.mark.parametrize` where a test has tens or thousands of
cases.

A test of every form, or of every recorded row, costs more as thousands of tests than as a loop. `over` makes loops of
it: one test with all cases, or, where many cases cover the same thing (404 forms share 42 mappings), a test with one
case of each distinct thing and a second test, marked `exhaustive`, with the others: each tenth of more than 40, or all
with TCSIM_PROGRAMS=1000.

    @over("form", FORMS, ids=lambda form: form.opcode, distinct=lambda form: (form.shape, form.a_type.bits))
    def test_bijections(form: isa.MmaForm) -> None: ...

A failing loop goes on, then raises the first failure, with a note that names every case that failed. The cases of a
loop share the test's fixtures, but for `tmp_path`, `monkeypatch` and `capsys`, of which each case has its own.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

EXHAUSTIVE = "TCSIM_TESTS_EXHAUSTIVE"  # set in the environment while exhaustive tests are run
exhaustive = pytest.mark.exhaustive
PROGRAMS = int(os.environ.get("TCSIM_PROGRAMS", "50"))
"""Random programs in each exhaustive comparison of two ways to run them; with 1000, tests that take long try all."""
_MOST_NAMED = 20
_MOST_REST, _STEP = 40, 10  # of more cases than these that cover what another covers, each tenth is run


def examples(count: int, default: int = 0) -> int:
    """How many examples Hypothesis tries: all of them with the exhaustive tests (tests/conftest.py), else `default`, or
    a tenth, and at least ten."""
    return count if os.environ.get(EXHAUSTIVE) else default or min(count, max(10, count // 10))


def step(default: int) -> int:
    """Of how many cases of a kind one is tried: of `default`, or all of them with the exhaustive tests."""
    return 1 if os.environ.get(EXHAUSTIVE) else default


@dataclass(frozen=True)
class Case:
    """The arguments of one case, and what it is called when it fails."""

    label: str
    arguments: dict[str, Any]


def each(items: Iterable[Any], key: Callable[[Any], Hashable]) -> tuple[list[Any], list[Any]]:
    """The first item of every key, and the others."""
    seen: set[Hashable] = set()
    first: list[Any] = []
    others: list[Any] = []
    for item in items:
        value = key(item)
        (others if value in seen else first).append(item)
        seen.add(value)
    return first, others


def alike(*_: Any) -> Hashable:
    """A key for cases that differ in their random numbers alone: the first is run, the others if `-m exhaustive`."""
    return None


def _label(values: Sequence[Any], ids: Callable[[Any], object] | Sequence[object] | None, number: int) -> str:
    if ids is None:
        return ", ".join(str(value) for value in values)
    return "-".join(str(ids(value)) for value in values) if callable(ids) else str(ids[number])


@contextmanager
def case_of(*what: object) -> Iterator[None]:
    """Says in a failure inside which case of a loop it was, where a test writes the loop itself."""
    try:
        yield
    except (Exception, pytest.fail.Exception) as problem:
        problem.add_note("case: " + ", ".join(map(str, what)))
        raise


def _call(function: Callable[..., None], case: Case, number: int, arguments: dict[str, Any]) -> None:
    """Runs a case with a folder, patches and an output of its own, where the test asks for them."""
    own = dict(arguments)
    if "tmp_path" in own:
        own["tmp_path"] = own["tmp_path"] / f"case_{number}"
        own["tmp_path"].mkdir()
    if "capsys" in own:
        own["capsys"].readouterr()
    if "monkeypatch" in own:
        with pytest.MonkeyPatch.context() as own["monkeypatch"]:
            function(**own, **case.arguments)
    else:
        function(**own, **case.arguments)


def _run(function: Callable[..., None], cases: Sequence[Case], arguments: dict[str, Any]) -> None:
    """Runs every case; then raises the first failure, or skips if every case was skipped."""
    first: BaseException | None = None
    skipped: BaseException | None = None
    failed, skips = [], 0
    for number, case in enumerate(cases):
        try:
            _call(function, case, number, arguments)
        except pytest.skip.Exception as reason:
            skipped, skips = reason, skips + 1
        except (Exception, pytest.fail.Exception) as problem:
            first = first or problem
            failed.append(case.label)
    if first is not None:
        more = f" and {len(failed) - _MOST_NAMED} more" if len(failed) > _MOST_NAMED else ""
        first.add_note(f"{len(failed)} of {len(cases)} cases failed: {'; '.join(failed[:_MOST_NAMED])}{more}")
        raise first
    if skipped is not None and skips == len(cases):
        raise skipped


def over(
    names: str | Sequence[str],
    values: Iterable[Any],
    *,
    ids: Callable[[Any], object] | Iterable[object] | None = None,
    distinct: Callable[..., Hashable] | None = None,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Runs a test over all cases in a loop; with `distinct`, a key of a case, over the first of each key, and over the
    rest, or each third of it, if `-m exhaustive`.

    `names`, `values` and `ids` are those of `pytest.mark.parametrize`; `distinct` is called with the values of a case.
    """
    keys = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    labels = ids if ids is None or callable(ids) else list(ids)
    cases, of_key = [], []
    for number, value in enumerate(values):
        row = (value,) if len(keys) == 1 and isinstance(names, str) else tuple(value)
        cases.append(Case(_label(row, labels, number), dict(zip(keys, row, strict=True))))
        of_key.append(row)
    group = "cases_of_" + "_and_".join(keys)
    first, others = cases, []
    if distinct is not None:
        numbers, rest = each(range(len(cases)), lambda number: distinct(*of_key[number]))
        rest = rest[:: _STEP if len(rest) > _MOST_REST and PROGRAMS < 1000 else 1]
        first, others = [cases[number] for number in numbers], [cases[number] for number in rest]
    loops = [pytest.param(first, id="distinct" if others else "all")]
    loops += [pytest.param(others, id="rest", marks=exhaustive)] if others else []

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(function)
        def loop(**arguments: Any) -> None:
            _run(function, arguments.pop(group), arguments)

        for name in [name for name in loop.__dict__ if "hypothesis" in name]:  # the loop itself is no property
            del loop.__dict__[name]
        signature = inspect.signature(function)
        others_taken = [parameter for name, parameter in signature.parameters.items() if name not in keys]
        taken = inspect.Parameter(group, inspect.Parameter.KEYWORD_ONLY)
        others_taken = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in others_taken]
        loop.__signature__ = signature.replace(parameters=[*others_taken, taken])  # type: ignore[attr-defined]
        return pytest.mark.parametrize(group, loops)(loop)

    return decorate
