"""Reports the results of a fault campaign: tables, heat maps of corruption by lane and bit, and one HTML page. Pictures
are SVG text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape

import numpy as np

from simulator.faults.outcomes import DETECTORS
from simulator.faults.targets.subjects import title
from simulator.studies.faults.summary import Counts, Summary
from simulator.tables import Table, aligned
from simulator.views.drawing.elements import data, text
from simulator.views.drawing.svg import Cell, Panel, Picture, figure

_COLOURS = {"masked": "#bfdcec", "sdc": "#d55e00", "detected": "#009e73", "due": "#cc79a7", "hang": "#000000"}
_LANES = 128
_BAR, _HIGH = 520.0, 16.0


def _shown(summary: Summary) -> list[Counts]:
    """The groups to show, and all of them together where each was injected completely: the share in a mixture of
    samples says nothing."""
    return [*summary.groups, *([summary.total] if len(summary.groups) > 1 and summary.total.exhaustive else [])]


def outcome_table(summary: Summary) -> list[list[str]]:
    """The faults of each group, shares of outcomes with 95 % intervals (none where every fault was injected), and how
    large corruption is."""
    used = [name for name in _COLOURS if name in ("masked", "sdc") or summary.total[name]]
    classes = summary.total["classified"] > 0
    head = [
        "faults of",
        "injected",
        "of",
        *used,
        "elements",
        "ulp",
        "NaN, Inf",
        "one row",
        *["class changed"] * classes,
    ]
    lines = [head]
    for counts in _shown(summary):
        shares = [_share(counts, name) for name in used]
        one_row = f"{counts['one_row'] / counts['sdc']:.0%}" if counts["sdc"] else "-"
        sizes = [str(counts["elements"]), f"{counts['max_ulp']:,}", f"{counts['nonfinite']:,}", one_row]
        if classes:
            sizes.append(f"{counts['reclassified'] / counts['classified']:.2%}" if counts["classified"] else "-")
        lines.append(
            [
                counts.name,
                f"{counts.faults:,}",
                f"{counts.population:,}" if counts.population else "any",
                *shares,
                *sizes,
            ]
        )
    return lines


def _share(counts: Counts, outcome: str) -> str:
    share, low, high = counts.share(outcome)
    return f"{share:.2%}" if counts.exhaustive else f"{share:.2%} ({low:.2%} to {high:.2%})"


def detector_table(summary: Summary) -> list[list[str]]:
    """For each detector, the share that it sees of the faults that are not masked, and the share of the masked ones
    (false alarms)."""
    used = [name for name in DETECTORS if summary.total[f"seen_{name}"] or summary.total[f"alarm_{name}"]]
    lines = [["faults of", *(f"{name}" for name in used)]]
    for counts in _shown(summary):
        cells = []
        for name in used:
            caught, alarms = counts[f"seen_{name}"], counts[f"alarm_{name}"]
            masked = counts["masked"]
            seen = f"{caught / counts.harmful:.1%}" if counts.harmful else "-"
            cells.append(f"{seen} / {alarms / masked:.1%}" if masked else f"{seen} / -")
        lines.append([counts.name, *cells])
    return lines


def _notes(summary: Summary) -> list[str]:
    about = summary.about
    subject = json.loads(about["subject"])
    policy = f"policy {about['policy']}; arithmetic {about['rule']}; operands {about['operands']}"
    versions = f"list {about['list_sha256']}; tcsim {about['tcsim']}"
    notes = [f"{about['campaign']}: {title(subject)}, seed {about['seed']}", f"{policy}; {versions}"]
    if "abft_false_alarms" in about:
        failed, products = map(int, about["abft_false_alarms"].split(" of "))
        share = f"{failed / products:.1%}"
        notes.append(f"abft fails {failed} of {products} products that have no fault ({share}): its false alarms")
    if "launch" in subject and any(group["site"] == "registers" for group in json.loads(about["groups"])):
        notes.append("registers are PTX's virtual ones, not those that ptxas gives a chip")
    if summary.left_out:
        every = summary.left_out + summary.total.faults
        part = f"a part of the campaign: {summary.total.faults:,} of its {every:,} faults"
        notes.append(f"{part}; intervals hold if these were chosen at random")
    return notes


def as_text(summary: Summary) -> str:
    """Both tables as text."""
    parts = [
        *_notes(summary),
        "",
        *aligned(outcome_table(summary), "<>"),
        "",
        "seen by a detector: of faults that are not masked / of masked ones",
        "",
    ]
    return "\n".join([*parts, *aligned(detector_table(summary), "<>"), ""])


def as_markdown(summary: Summary) -> str:
    """Both tables as Markdown."""
    parts = [*_notes(summary), ""]
    for head, *rows in (outcome_table(summary), detector_table(summary)):
        parts += Table(tuple(head), rows).markdown().split("\n")
    return "\n".join(parts)


def as_json(summary: Summary) -> str:
    """The whole summary as a JSON object."""
    return json.dumps({"about": summary.about, "groups": summary.records()}, indent=1) + "\n"


# Pictures


def heat_map(counts: Counts) -> Picture:
    """A map of lanes and bits: the share of the faults at each bit that are not masked, from white to dark; hatched
    where there was no fault."""
    lanes = [lane for lane in range(min(len(counts.heat), _LANES)) if counts.heat[lane, :, 0].any()]
    cells: list[list[Cell | None]] = []
    for lane in lanes:
        row: list[Cell | None] = []
        for bit in range(31, -1, -1):
            faults, harmful = counts.heat[lane, bit].tolist()
            share = harmful / faults if faults else -1.0
            words = (f"{share:.0%}".removesuffix("%"),) if 0 < share < 1 else ()
            row.append(Cell(_shade(share), words, data(lane=lane, bit=bit, faults=faults, harmful=harmful)))
        cells.append(row)
    labels = [str(bit) if bit % 4 == 3 or bit == 0 else "" for bit in range(31, -1, -1)]
    title = f"{counts.name}: share of faults that are not masked, by lane and bit (white 0, dark 100 %)"
    return figure(
        title,
        [
            [
                Panel(
                    "",
                    cells or [[None]],
                    [f"T{lane}" for lane in lanes],
                    labels,
                    20.0,
                    11.0,
                    size=8,
                    corner="lane\\bit",
                    ticks=(0, 4),
                )
            ]
        ],
    )


def _shade(share: float) -> str:
    """A colour from white to orange; hatched for no fault."""
    if share < 0:
        return "#eeeeee"
    low, high = np.array([255, 255, 255]), np.array([213, 94, 0])
    red, green, blue = (low + (high - low) * share).round().astype(int).tolist()
    return f"#{red:02x}{green:02x}{blue:02x}"


def outcome_bars(summary: Summary) -> Picture:
    """A bar for each group, cut into outcomes; whiskers show the 95 % interval of the share that is not corrupted."""
    extra, y = [], 0.0
    for counts in _shown(summary):
        x = 0.0
        for name, colour in _COLOURS.items():
            share = counts[name] / counts.faults
            if share:
                about = data(group=counts.name, outcome=name, share=f"{share:.6f}")
                extra.append(
                    f'<rect x="{x:.2f}" y="{y:.1f}" width="{share * _BAR:.2f}" height="{_HIGH}"'
                    f' fill="{colour}"{about}/>'
                )
            x += share * _BAR
        if not counts.exhaustive:
            _, low, high = counts.share("masked")
            middle = y + _HIGH / 2
            extra.append(f'<path d="M{low * _BAR:.2f} {middle}H{high * _BAR:.2f}" stroke="#000" stroke-width="2"/>')
        extra.append(text(_BAR + 6, y + 12, f"{counts.name} ({counts.faults:,})", 9, anchor="start"))
        y += _HIGH + 6
    legend = 0.0
    for name, colour in _COLOURS.items():
        if summary.total[name]:
            extra.append(f'<rect x="{legend:.1f}" y="{y + 4:.1f}" width="10" height="10" fill="{colour}"/>')
            extra.append(text(legend + 14, y + 13, name, 9, anchor="start"))
            legend += 80
    rows = len(_shown(summary)) + 1
    return figure("Outcomes", [[Panel("", [[None]] * rows, (), (), _BAR + 260, _HIGH + 6, extra=extra)]])


_STYLE = """
body { font: 14px/1.5 system-ui, sans-serif; margin: 1.5rem; max-width: 1100px; color: #111; }
table { border-collapse: collapse; margin: 1rem 0; }
td, th { border: 1px solid #bbb; padding: .2rem .6rem; text-align: right; }
td:first-child, th:first-child { text-align: left; }
svg { max-width: 100%; height: auto; }
figure { margin: 1rem 0; }
"""


def as_html(summary: Summary) -> str:
    """One self-contained page: what was done, tables, bars and heat maps."""
    title = escape(summary.about["campaign"])
    head = f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
    parts = [
        f"{head}<style>{_STYLE}</style></head><body><h1>{title}</h1>",
        *(f"<p>{escape(line)}</p>" for line in _notes(summary)),
        f"<h2>Outcomes</h2><figure>{outcome_bars(summary).svg}</figure>",
        _html_table(outcome_table(summary)),
        "<p>Intervals are Wilson's at 95 %; without one, every fault was injected.</p><h2>Detectors</h2>",
        "<p>Seen of the faults that are not masked / of the masked ones.</p>",
        _html_table(detector_table(summary)),
        "<h2>Where</h2>",
        *(f"<figure>{heat_map(counts).svg}</figure>" for counts in summary.groups if len(counts.heat) > 1),
        "</body></html>",
    ]
    return "\n".join([*parts, ""])


def _html_table(lines: Sequence[Sequence[str]]) -> str:
    head, *body = lines
    cells = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    rows = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in body)
    return f"<table><tr>{cells}</tr>{rows}</table>"
