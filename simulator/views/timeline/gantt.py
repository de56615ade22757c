"""Draws a timeline as a Gantt chart: SVG text, or an HTML page with it. The rows are those of `tracks`; cycles run from
left to right.

Every bar is a `rect` with its cycles, not cut to the window, in `data-begin` and `data-end`. `data-what` is the
category of its slice; `data-kind` the unit that its instruction is issued to (tensor for every `mma`; for a wait its
cause, for a phase the sort of barrier); `data-warp` and `data-line` the warp and the line of the trace (line 0: none);
`data-issue` the number of the issue, in order. Rows are groups with `data-row` and `data-sm`. The page needs no other
file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from simulator.errors import ViewError
from simulator.files import complete
from simulator.views.timeline.gantt_style import CAUSES, KINDS, Fill, Palette, palette
from simulator.views.timeline.recorded import RecordedRun
from simulator.views.timeline.tracks import Slice, Track, tracks

LIMIT = 4_000  # cycles of a chart
WINDOW = (0, 400)  # cycles of a chart, unless told otherwise
FORMATS = (".svg", ".html")
_LEFT, _RIGHT, _PLOT = 146.0, 14.0, 840.0  # width of names, margin and plot, at least a pixel for each cycle
_OVER = 4.0  # what begins before the window or ends after it is drawn so far over its edge
_HEIGHTS = {"unit": 13.0, "mbarrier": 13.0, "barrier": 13.0, "state": 15.0, "instruction": 11.0, "head": 17.0}
_INSET = {"stall": 3.5, "issue": 0.5}  # of a bar from the edges of its row; 1 for others
_SMALL, _GLYPH = 8.0, 0.6  # size of what is written on bars, and the width of a letter as a share of its size
_FONT = "Helvetica, Arial, 'DejaVu Sans', sans-serif"


class Svg(str):
    """SVG text that a notebook shows as a picture."""

    __slots__ = ()

    def _repr_svg_(self) -> str:
        return str(self)


@dataclass(frozen=True)
class Row:
    """A row of the chart, or the head of rows that belong together (then `track` is None)."""

    label: str
    track: Track | None
    top: float
    height: float


@dataclass(frozen=True)
class Chart:
    """The positions of everything in the chart.

    Attributes:
        first, last: cycles, from `first` to before `last`.
        scale: pixels for a cycle.
        rows: the rows from top to bottom.
        numbers: the numbers of the issues in the timeline, by their identity.
    """

    timeline: RecordedRun
    style: Palette
    first: int
    last: int
    scale: float
    rows: tuple[Row, ...]
    numbers: dict[int, int]

    def x(self, cycle: int) -> float:
        """The x coordinate at which a cycle begins; cycles outside of the window lie a little beyond its edge."""
        if cycle < self.first or cycle > self.last:
            return _LEFT - _OVER if cycle < self.first else self.right + _OVER
        return _LEFT + (cycle - self.first) * self.scale

    @property
    def right(self) -> float:
        return _LEFT + (self.last - self.first) * self.scale

    @property
    def bottom(self) -> float:
        return max((row.top + row.height for row in self.rows), default=0.0)


def check_name(path: str | Path) -> None:
    """ViewError if the name does not say a format that a chart can have."""
    if Path(path).suffix.lower() not in FORMATS:
        raise ViewError(
            f"{path}: the name of a Gantt chart says its format",
            " or ".join(f"a name that ends in {suffix}" for suffix in FORMATS),
        )


def write(timeline: RecordedRun, path: str | Path, colours: str = "colour") -> None:
    """Writes the chart, as SVG or HTML as the name says.

    Raises:
        ViewError: see `check_name` and `draw`.
        OSError: it cannot be written.
    """
    check_name(path)
    text = page(timeline, colours) if Path(path).suffix.lower() == ".html" else draw(timeline, colours)
    with complete(path) as stream:
        stream.write(text.encode())


def draw(timeline: RecordedRun, colours: str = "colour") -> Svg:
    """The chart as SVG text.

    Raises:
        ViewError: no such palette, no cycle or too many cycles to draw.
    """
    return _draw(timeline, colours, titled=True)


def _draw(timeline: RecordedRun, colours: str, *, titled: bool) -> Svg:
    chart = _chart(timeline, palette(colours))
    body = [*_grid(chart), *(line for row in chart.rows for line in _row(chart, row))]
    legend, height = _legend(chart, titled)
    width, total = chart.right + _RIGHT, height + chart.bottom + 20
    fills = {fill.name: fill for fill in (*chart.style.kinds.values(), *chart.style.causes.values()) if fill.hatch}
    used = "\n".join((*body, *legend))
    patterns = "".join(fill.pattern() for name, fill in sorted(fills.items()) if f"url(#{name})" in used)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_n(width)}" height="{_n(total)}" '
        f'viewBox="0 0 {_n(width)} {_n(total)}" role="img" '
        f'font-family="{_FONT}" font-size="9.5" data-first="{chart.first}" data-last="{chart.last}">'
    )
    parts = [
        head,
        f"<title>{escape(heading(timeline))}</title>",
        f"<defs>{patterns}</defs>",
        f'<rect width="{_n(width)}" height="{_n(total)}" fill="#ffffff"/>',
        *legend,
        f'<g transform="translate(0 {_n(height)})">',
        *body,
        "</g>",
        "</svg>",
    ]
    return Svg("\n".join(parts) + "\n")


def page(timeline: RecordedRun, colours: str = "colour") -> str:
    """An HTML page with the chart, which shows an instruction everywhere when it is pointed at, and what is known of it
    when it is clicked.

    Raises:
        ViewError: see `draw`.
    """
    picture = _draw(timeline, colours, titled=False)
    template = files("simulator.views.timeline").joinpath("gantt.html").read_text(encoding="utf-8")
    values = {
        "title": escape(heading(timeline)),
        "picture": picture,
        "details": json.dumps(_details(timeline), separators=(",", ":")),
    }
    values["details"] = values["details"].replace("<", "\\u003c")
    return re.sub(r"\{\{(\w+)\}\}", lambda match: values[match[1]], template)


def heading(timeline: RecordedRun) -> str:
    """The trace, the config and the cycles."""
    end = min(timeline.last, timeline.timing.cycles)
    return (
        f"{timeline.trace} on {timeline.config.label}: cycles "
        f"{timeline.first:,} to before {end:,} of {timeline.timing.cycles:,}"
    )


def _details(timeline: RecordedRun) -> dict[int, dict[str, Any]]:
    """The facts about each issue that is drawn, by its number; `producer` is the number of the issue that it waited
    for."""
    numbers = {id(issue): number for number, issue in enumerate(timeline.recorder.issues)}
    details = {}
    for track in tracks(timeline):
        for part in track.slices:
            if part.category == "instruction":
                assert part.issue is not None
                producer = numbers.get(id(part.issue.producer))
                producer_field = {} if producer is None else {"producer": producer}
                details[numbers[id(part.issue)]] = {"warp": part.issue.warp, **part.details, **producer_field}
    return dict(sorted(details.items()))


def _chart(timeline: RecordedRun, style: Palette) -> Chart:
    first, last = timeline.first, min(timeline.last, timeline.timing.cycles)
    if first >= last:
        cycles = f"{timeline.timing.cycles:,}"
        raise ViewError(
            f"no cycle to draw: the run ends at cycle {cycles}, the chart begins at {first:,}",
            f"a first cycle below {cycles}",
        )
    if last - first > LIMIT:
        example = f"{first}:{first + WINDOW[1]}"
        raise ViewError(
            f"{last - first:,} cycles are too many for a Gantt chart", f"at most {LIMIT:,}, such as cycles {example}"
        )
    numbers = {id(issue): number for number, issue in enumerate(timeline.recorder.issues)}
    return Chart(timeline, style, first, last, max(_PLOT / (last - first), 1.0), tuple(_rows(timeline)), numbers)


def _rows(timeline: RecordedRun) -> Iterator[Row]:
    """The rows, with a head before those of an SM and before those of each of its sub-cores."""
    top, place = 18.0, None
    for track in tracks(timeline):
        cores = timeline.config.sm.sub_cores
        if place != (track.sm, track.core):
            place = (track.sm, track.core)
            sm = f"SM {track.sm}" if len(timeline.ctas) > 1 or track.core is None else ""
            core = "" if track.core is None else f"sub-core {track.core % cores}"
            yield Row(", ".join(filter(None, (sm, core))), None, top, _HEIGHTS["head"])
            top += _HEIGHTS["head"]
        category = track.slices[0].category
        yield Row(_label(track, cores), track, top, _HEIGHTS.get(category, _HEIGHTS["state"]))
        top += _HEIGHTS.get(category, _HEIGHTS["state"])


def _label(track: Track, cores: int) -> str:
    """The name of a row below its head."""
    name = track.name if track.core is None else track.name.removeprefix(f"sub-core {track.core % cores} ")
    if track.warp is None or " results" not in name:
        return name.removesuffix(f" of CTA {track.sm}").replace("mbarrier at ", "mbarrier ")
    return "in flight" if name.endswith(" results") else ""


# Bars


def _row(chart: Chart, row: Row) -> Iterator[str]:
    middle = _n(row.top + row.height / 2 + 3.2)
    if row.track is None:
        line = f'<path d="M6,{_n(row.top + 2.5)} H{_n(chart.right)}" stroke="#999999" stroke-width="0.8"/>'
        yield f'{line}<text x="6" y="{_n(row.top + 13)}" font-weight="bold">{escape(row.label)}</text>'
        return
    yield f'<g data-row="{escape(row.track.name)}" data-sm="{row.track.sm}">'
    weight = ' font-weight="bold"' if row.track.warp is not None and row.label.startswith("warp") else ' fill="#444444"'
    yield f'<text x="{_n(_LEFT - 8)}" y="{middle}" text-anchor="end"{weight}>{escape(row.label)}</text>'
    for part in row.track.slices:
        if part.end > chart.first and part.begin < chart.last:
            yield _bar(chart, row, part)
    yield "</g>"


def _bar(chart: Chart, row: Row, part: Slice) -> str:
    assert row.track is not None
    inset = _INSET.get(part.category, 1.0)
    x, width, height = chart.x(part.begin), chart.x(part.end) - chart.x(part.begin), row.height - 2 * inset
    kind, fill = _kind(chart, part)
    issue = part.issue
    warp = row.track.warp if issue is None else issue.warp
    line = chart.timeline.about(issue).line if issue is not None else 0
    number = chart.numbers.get(id(issue))
    attributes = {"what": part.category, "kind": kind, "warp": warp, "line": line if warp is not None else None}
    attributes |= {"begin": part.begin, "end": part.end, "issue": number}
    data = "".join(f' data-{name}="{value}"' for name, value in attributes.items() if value is not None)
    edge = f' stroke="{chart.style.edge(fill)}" stroke-width="0.5"' if width >= chart.style.edged else ""
    shape = f'x="{_n(x)}" y="{_n(row.top + inset)}" width="{_n(width)}" height="{_n(height)}" fill="{fill.paint}"{edge}'
    title = escape(_title(chart.timeline, row.track, part))
    return f"<rect {shape}{data}><title>{title}</title></rect>{_text(chart, row, part, fill, line)}"


def _kind(chart: Chart, part: Slice) -> tuple[str, Fill]:
    """The value of `data-kind`, and the fill for it."""
    if part.category == "stall":
        cause = str(part.details["cause"])
        return cause, chart.style.cause(cause)
    if part.issue is None:
        return part.category, chart.style.cause(part.category)
    matrix = chart.timeline.about(part.issue).matrix  # whatever unit a chip's sequence for it begins with
    kind = "tensor" if matrix else part.issue.unit.name.lower()
    return kind, chart.style.kind(kind)


def _text(chart: Chart, row: Row, part: Slice, fill: Fill, line: int) -> str:
    """The longest text that fits on the part of the bar that lies in the window."""
    begin, end = max(part.begin, chart.first), min(part.end, chart.last)
    room = (end - begin) * chart.scale - 4
    if part.category == "stall":
        cause = str(part.details["cause"])
        names = [CAUSES.get(cause, cause), cause]
    elif part.category in ("unit", "instruction"):
        assert part.issue is not None
        mark = f"w{part.issue.warp}" if part.category == "unit" else str(line)
        names = [f"{mark} {part.name}", f"{mark} {part.name.split()[0]}", mark]
    else:
        names = [part.name] if part.category != "issue" else []
    shown = next((name for name in names if len(name) * _SMALL * _GLYPH <= room), "")
    if not shown:
        return ""
    halo = (
        f' stroke="{fill.colour}" stroke-width="3" paint-order="stroke" stroke-linejoin="round"' if fill.hatch else ""
    )
    place = f'x="{_n(_LEFT + (begin - chart.first) * chart.scale + 2)}" y="{_n(row.top + row.height / 2 + 2.9)}"'
    return (
        f'<text {place} font-size="{_n(_SMALL)}" fill="{fill.ink}"{halo} pointer-events="none">{escape(shown)}</text>'
    )


def _title(timeline: RecordedRun, track: Track, part: Slice) -> str:
    """The text that is shown when a bar is pointed at."""
    cycles = part.end - part.begin
    when = f"cycles {part.begin:,} to before {part.end:,} ({cycles:,})"
    if part.issue is None:
        return f"{track.name}: {part.name}, {when}"
    about = timeline.about(part.issue)
    what = f"line {about.line}: {about.text}"
    if part.category == "stall":
        return f"{track.name}: {part.name}, {when}\nbefore {what}"
    if part.category == "unit":
        return f"{track.name}: taken by warp {part.issue.warp}, {when}\n{what}"
    if part.category == "issue":
        return f"{track.name}: issued in cycle {part.begin:,}\n{what}"
    waited = "".join(
        f"\nwaited {count:,} for {CAUSES.get(cause, cause)}" for cause, count in part.details.get("waited", {}).items()
    )
    started = f", started in {part.issue.started:,}" if part.issue.started > part.issue.cycle else ""
    return (
        f"warp {part.issue.warp}, {what}\nissued in cycle {part.begin:,}{started}, "
        f"result in {part.end:,} ({cycles:,} cycles){waited}"
    )


# Around the bars


def _grid(chart: Chart) -> Iterator[str]:
    """Lines and numbers of cycles, above and below the rows."""
    step = _step(chart.scale)
    marks = range(-(-chart.first // step) * step, chart.last + 1, step)
    lines = "".join(f"M{_n(chart.x(cycle))},14 V{_n(chart.bottom + 3)} " for cycle in marks)
    yield f'<path d="{lines.strip()}" stroke="#dddddd" stroke-width="0.7"/>'
    for y in (10.0, chart.bottom + 13):
        numbers = "".join(
            f'<text x="{_n(chart.x(cycle))}" y="{_n(y)}" text-anchor="middle">{cycle:,}</text>' for cycle in marks
        )
        yield f'<g fill="#444444">{numbers}<text x="{_n(_LEFT - 24)}" y="{_n(y)}" text-anchor="end">cycle</text></g>'


def _step(scale: float) -> int:
    """Cycles between marks: 1, 2 or 5 times a power of ten, at least 52 pixels."""
    power = 1
    while True:
        for factor in (1, 2, 5):
            if power * factor * scale >= 52:
                return power * factor
        power *= 10


def _legend(chart: Chart, titled: bool) -> tuple[list[str], float]:
    """The heading, and a legend of what occurs, with their height."""
    lines = (
        [f'<text x="6" y="17" font-size="13" font-weight="bold">{escape(heading(chart.timeline))}</text>']
        if titled
        else []
    )
    parts = [
        part
        for row in chart.rows
        if row.track is not None
        for part in row.track.slices
        if part.end > chart.first and part.begin < chart.last
    ]
    waits = {_kind(chart, part)[0] for part in parts if part.category == "stall" or part.issue is None}
    kinds = {_kind(chart, part)[0] for part in parts if part.category != "stall" and part.issue is not None}
    top = 26.0 if titled else 4.0
    for title, names, occurring, fills in (
        ("instructions", KINDS, kinds, chart.style.kind),
        ("a warp waits for", CAUSES, waits, chart.style.cause),
    ):
        order = [*(name for name in names if name in occurring), *sorted(occurring - set(names))]
        x = 116.0
        lines.append(f'<text x="6" y="{_n(top + 9)}" fill="#444444">{title}</text>')
        for name in order:
            text, fill = names.get(name, name), fills(name)
            width = 18 + len(text) * 9.5 * _GLYPH + 16
            if x + width > _LEFT + _PLOT:
                x, top = 116.0, top + 15
            lines.append(
                f'<rect x="{_n(x)}" y="{_n(top)}" width="14" height="10" fill="{fill.paint}" '
                f'stroke="#555555" stroke-width="0.5"/>'
            )
            lines.append(f'<text x="{_n(x + 18)}" y="{_n(top + 9)}">{escape(text)}</text>')
            x += width
        top += 15
    return lines, top + 6


def _n(value: float) -> str:
    """A number in as few letters as possible, to a hundredth of a pixel."""
    return f"{value:.2f}".rstrip("0").rstrip(".")
