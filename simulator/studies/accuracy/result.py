"""The result of an accuracy comparison: one line for each chip and each reference, as a dictionary, JSON, CSV, a
DataFrame, or a table for a person."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from isa.types import ElementType
from simulator.studies.accuracy.chips import Problem
from simulator.studies.accuracy.errors import PERCENTILES, Errors, Mean, Worst, edges
from simulator.tables import Table, aligned

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True)
class Line:
    """One way of adding, and its errors.

    Attributes:
        name: for example "sm_90 wgmma" or "f32 FMA chain".
        targets, family, shape, k: those of the instruction, see `simulator.studies.accuracy.chips.Chip`; empty (k: 1)
            for a reference.
        rule: the name of the chip's rule.
        evidence: "measured here", "measured by others", "inferred"; "computed" for a reference, which is no chip's.
        source: on what the rule is based; for a reference, what it is.
        errors: the statistics.
        worst: the result with the largest error; None if all are right.
        group: a number; lines that agree in every single result have the same.
    """

    name: str
    targets: tuple[str, ...]
    family: str
    shape: str
    k: int
    rule: str
    evidence: str
    source: str
    errors: Errors
    worst: Worst | None
    group: int


@dataclass(frozen=True)
class Accuracy:
    """The result of `accuracy`.

    Attributes:
        what: the types, as text.
        problem: the types.
        k: how many products each dot product has.
        count: how many results are compared.
        about: facts about the operands: drawn or given, distribution, scale, seed.
        notes: what a user should know.
        lines: chips first, then references.
    """

    what: str
    problem: Problem
    k: int
    count: int
    about: dict[str, Any]
    notes: tuple[str, ...]
    lines: tuple[Line, ...]

    @property
    def edges(self) -> list[int]:
        """The upper bounds in ulp of the bins of all histograms; a shorter histogram has only the first of them."""
        return edges(max((len(line.errors.histogram) for line in self.lines), default=0))

    @property
    def groups(self) -> list[tuple[str, list[Line]]]:
        """The lines that agree in every result, under a common name, in the order of the first of them."""
        members: dict[int, list[Line]] = {}
        for line in self.lines:
            members.setdefault(line.group, []).append(line)
        return [
            (group[0].name + (f" and {len(group) - 1} more" if len(group) > 1 else ""), group)
            for group in members.values()
        ]

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON; patterns of operands are hex digits separated by blanks."""
        p = self.problem
        types = {"a_type": p.a_type.name, "b_type": p.b_type.name, "result_type": p.result.name, "sparse": p.sparse}
        lines = [self._line(line) for line in self.lines]
        return (
            types
            | {"k": self.k, "count": self.count}
            | self.about
            | {"notes": list(self.notes), "histogram_edges_ulp": self.edges, "lines": lines}
        )

    def _line(self, line: Line) -> dict[str, Any]:
        p, worst = self.problem, line.worst
        entry = {
            name: getattr(line, name)
            for name in ("name", "group", "targets", "family", "shape", "k", "rule", "evidence", "source")
        }
        entry |= {"targets": list(line.targets), "errors": line.errors.to_dict()}
        if worst is None:
            return entry | {"worst": None}
        fields: dict[str, Any] = worst.place | {
            "result": hexadecimal(worst.result, p.result),
            "exact": hexadecimal(worst.exact, p.result),
        }
        fields |= {"result_value": worst.result_value, "exact_value": worst.exact_value, "ulp": worst.ulp}
        fields |= {"a": _digits(worst.a, p.a_type), "b": _digits(worst.b, p.b_type)}
        return entry | {"worst": fields}

    def json(self) -> str:
        """Everything as JSON."""
        return json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n"

    def csv(self) -> str:
        """One row for each line; the worst case without its operands."""
        return self._lines().csv()

    def to_frame(self) -> DataFrame:
        """One row for each line as a pandas DataFrame; shares are 0 to 1, `ulp_...` are counts of the histogram."""
        return self._lines().frame()

    def _lines(self) -> Table:
        columns = [name for name, _ in _COLUMNS] + [f"ulp_{edge}" for edge in self.edges]
        rows = []
        for line in self.lines:
            bins = (*line.errors.histogram, *[0] * (len(self.edges) - len(line.errors.histogram)))
            rows.append([*(get(line, self.problem) for _, get in _COLUMNS), *bins])
        return Table(tuple(columns), rows)

    def table(self) -> str:
        """The comparison as text for a person."""
        drawn = self.about["operands"] == "drawn"
        how = "{distribution}, scale {scale:g}, seed {seed}".format(**self.about) if drawn else "given operands"
        lines = [f"{self.what}, K = {self.k:,}: {self.count:,} results of {how}", ""]
        lines += _grid(
            [_HEADER, *([str(line.group), *_cells(line)] for line in self.lines)], left=(1, 2, len(_HEADER) - 1)
        )
        alike, errors = "lines of one number agree in every result", "errors in ulp of the exact result"
        lines += ["", f"#: {alike}; {errors}; backward: mean |error| / sum |a||b|", ""]
        lines += ["bias: mean of signed errors, negative toward zero, +- standard error", *self._biases(), ""]
        lines += [
            "all results together, by the root of summed squares",
            *self._together(),
            "",
        ]
        lines += [
            "share of results in percent, by error in ulp: each column from the one before up to its own",
            *self._histogram(),
            "",
        ]
        lines += [
            "largest errors",
            *_grid(
                [[str(group[0].group), *_worst_cells(name, group[0], self.problem)] for name, group in self.groups],
                left=(1, 2, 3, 4),
            ),
        ]
        lines += self._left_out()
        return "\n".join(lines) + "\n"

    def _biases(self) -> list[str]:
        rows = [["#", "", "in ulp", "/ |exact|", "/ sum |a||b|"]]
        for name, group in self.groups:
            e = group[0].errors
            rows.append(
                [str(group[0].group), name, *(_interval(mean) for mean in (e.bias, e.relative_bias, e.backward_bias))]
            )
        return _grid(rows, left=(1,))

    def _together(self) -> list[str]:
        rows = [["#", "", "relative error", "SQNR in dB", "largest |error|"]]
        for name, group in self.groups:
            e = group[0].errors
            ratio = "-" if e.sqnr_db is None else f"{e.sqnr_db:.1f}"
            rows.append([str(group[0].group), name, _number(e.relative_error), ratio, _number(e.largest_error)])
        return _grid(rows, left=(1,))

    def _histogram(self) -> list[str]:
        """The shares of each bin; bins that are empty in front of and behind all others are left out."""
        bins = self.edges
        used = [
            i
            for i in range(len(bins))
            if any(len(x.errors.histogram) > i and x.errors.histogram[i] for x in self.lines)
        ]
        first, last = (used[0], used[-1] + 1) if used else (0, 0)
        rows = [["#", "", *(_edge(edge) for edge in bins[first:last])]]
        for name, group in self.groups:
            counts = [*group[0].errors.histogram, *[0] * len(bins)][first:last]
            rows.append([str(group[0].group), name, *(_share(count, group[0].errors.measured) for count in counts)])
        return _grid(rows, left=(1,))

    def _left_out(self) -> list[str]:
        lines = []
        for name, group in self.groups:
            e = group[0].errors
            if e.special:
                wrong = f"{e.special_wrong:,} of them wrong" if e.special_wrong else "all of them right"
                why = "they, or the exact ones, are infinite or NaN"
                lines.append(f"{name}: {e.special:,} results have no error in ulp: {why}; {wrong}")
            if e.nan:
                lines.append(f"{name}: {e.nan:,} of {e.count:,} exact results are NaN: nothing is right or wrong there")
            if e.zero_wrong:
                lines.append(
                    f"{name}: {e.zero_wrong:,} results have no error in ulp: the exact ones are zero, and they are not"
                )
        return ["", *lines] if lines else []


def hexadecimal(pattern: int, element: ElementType) -> str:
    """A pattern with all its hex digits, and 0x in front."""
    return f"0x{pattern:0{element.bits // 4}x}"


def _digits(patterns: tuple[int, ...], element: ElementType) -> str:
    return " ".join(f"{pattern:0{element.bits // 4}x}" for pattern in patterns)


def _mean(mean: Mean | None, part: str) -> float | None:
    return None if mean is None else getattr(mean, part)


def _percentile(name: str) -> Callable[[Line, Problem], Any]:
    return lambda line, _: line.errors.percentiles.get(name)


def _error(name: str) -> Callable[[Line, Problem], Any]:
    return lambda line, _: getattr(line.errors, name)


_COLUMNS: tuple[tuple[str, Callable[[Line, Problem], Any]], ...] = (
    ("name", lambda line, _: line.name),
    ("group", lambda line, _: line.group),
    ("targets", lambda line, _: " ".join(line.targets)),
    ("family", lambda line, _: line.family),
    ("shape", lambda line, _: line.shape),
    ("rule", lambda line, _: line.rule),
    ("evidence", lambda line, _: line.evidence),
    ("source", lambda line, _: line.source),
    *(
        (name, _error(name))
        for name in ("count", "measured", "special", "special_wrong", "nan", "zero_wrong", "right", "toward_zero")
    ),
    ("mean_ulp", _error("mean")),
    *((f"p{p:g}_ulp", _percentile(f"{p:g}")) for p in PERCENTILES),
    ("largest_ulp", _error("largest")),
    ("bias_ulp", lambda line, _: _mean(line.errors.bias, "value")),
    ("bias_ulp_error", lambda line, _: _mean(line.errors.bias, "error")),
    ("bias_relative", lambda line, _: _mean(line.errors.relative_bias, "value")),
    ("bias_relative_error", lambda line, _: _mean(line.errors.relative_bias, "error")),
    ("backward_mean", _error("backward_mean")),
    ("backward_largest", _error("backward_largest")),
    ("backward_bias", lambda line, _: _mean(line.errors.backward_bias, "value")),
    ("backward_bias_error", lambda line, _: _mean(line.errors.backward_bias, "error")),
    *((name, _error(name)) for name in ("relative_error", "sqnr_db", "largest_error")),
    ("worst_place", lambda line, _: " ".join(f"{k}={v}" for k, v in line.worst.place.items()) if line.worst else ""),
    ("worst_ulp", lambda line, _: line.worst.ulp if line.worst else None),
    ("worst_result", lambda line, p: hexadecimal(line.worst.result, p.result) if line.worst else ""),
    ("worst_exact", lambda line, p: hexadecimal(line.worst.exact, p.result) if line.worst else ""),
)

_HEADER = [
    "#",
    "",
    "instruction",
    "right",
    "toward 0",
    "mean",
    *(f"{p:g} %" for p in PERCENTILES),
    "largest",
    "backward",
    "evidence",
]


def _cells(line: Line) -> list[str]:
    e = line.errors
    ranked = [_number(e.percentiles.get(f"{p:g}")) for p in PERCENTILES]
    return [
        line.name,
        line.shape,
        "-" if e.right is None else _part(e.right),
        "-" if e.toward_zero is None else _part(e.toward_zero),
        _number(e.mean),
        *ranked,
        _number(e.largest),
        _number(e.backward_mean),
        line.evidence,
    ]


def _worst_cells(name: str, line: Line, problem: Problem) -> list[str]:
    worst = line.worst
    if worst is None:
        none = "none: every result is right" if line.errors.right == 1 else "none that has an error in ulp"
        return [name, "none: every exact result is NaN" if line.errors.right is None else none, "", "", ""]
    where = ", ".join(f"{part} {value}" for part, value in worst.place.items())
    got, want = (
        f"{hexadecimal(pattern, problem.result)} = {value:.9g}"
        for pattern, value in ((worst.result, worst.result_value), (worst.exact, worst.exact_value))
    )
    return [name, where, got, f"exact {want}", f"{_number(worst.ulp, sign='+')} ulp"]


def _number(value: float | None, sign: str = "") -> str:
    """A number with three digits."""
    if value is None:
        return "-"
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 1e7 or size < 1e-3:
        return f"{value:{sign}.1e}"
    return f"{value:{sign},.0f}" if size >= 100 else f"{value:{sign}.3g}"


def _part(share: float) -> str:
    """A share in per cent; 0 and 100 only where it is exactly that."""
    text = f"{share:.1%}"
    if text == "100.0%" and share < 1:
        return ">99.9%"
    return "<0.1%" if text == "0.0%" and share > 0 else text


def _interval(mean: Mean | None) -> str:
    if mean is None:
        return "-"
    return _number(mean.value, "+") + (f" +- {_number(mean.error)}" if mean.error is not None else "")


def _edge(edge: int) -> str:
    return f"{edge:,}" if edge < 1 << 14 else f"2^{edge.bit_length() - 1}"


def _share(count: int, total: int) -> str:
    share = 100 * count / total if total else 0.0
    return "." if not count else f"{share:.1f}" if share >= 0.05 else "<0.1"


def _grid(rows: list[list[str]], left: tuple[int, ...]) -> list[str]:
    """Cells in columns, with numbers aligned to the right."""
    return aligned(rows, "".join("<" if i in left else ">" for i in range(len(rows[0]))))
