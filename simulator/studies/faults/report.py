"""Reports the results of a fault campaign: tables, heat maps of corruption by lane and bit, and one HTML page. Pictures
are SVG text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from html import escape
from typing import NamedTuple

import numpy as np

from simulator.faults.corrections import CORRECTORS, HOW
from simulator.faults.outcomes import DETECTORS, OUTCOMES, PATTERNS
from simulator.faults.targets.subjects import title
from simulator.studies.faults.rates import Rate, rates
from simulator.studies.faults.summary import Counts, Summary
from simulator.tables import Table, aligned
from simulator.views.drawing.elements import data, text
from simulator.views.drawing.svg import Cell, Panel, Picture, figure

_COLOURS = {"masked": "#bfdcec", "sdc": "#d55e00", "detected": "#009e73", "due": "#cc79a7", "hang": "#000000"}
_SAID = {
    "tolerate": "tolerable if", "judge": "critical by", "until": "injected until every interval has",
    "injected": "injected of the list",
}  # fmt: skip
_LANES = 128
_BAR, _HIGH = 520.0, 16.0


class Asked(NamedTuple):
    """What a report was asked for.

    Attributes:
        confidence: of the intervals.
        by_case: whether intervals are for operands in general, of which the sets are a sample.
        fit_per_bit: failures of one bit in 10^9 hours; None for no rates.
    """

    confidence: float = 0.95
    by_case: bool = False
    fit_per_bit: float | None = None


PLAIN = Asked()


def _shown(summary: Summary) -> list[Counts]:
    """The groups to show, and all of them together where it is known how many faults each has."""
    return [*summary.groups, *([summary.total] if len(summary.groups) > 1 and summary.together else [])]


def _name(counts: Counts) -> str:
    """The name of a group; of all together, if they are samples, that they count by their populations."""
    return counts.name if len(counts.tallies) == 1 or counts.exhaustive else f"{counts.name}, by population"


def outcome_table(summary: Summary, asked: Asked = PLAIN) -> list[list[str]]:
    """The faults of each group, shares of outcomes with intervals (none where every fault was injected), and how large
    corruption is."""
    used = [name for name in _COLOURS if name in ("masked", "sdc") or summary.total[name]]
    judged = "tolerate" in summary.about or "judge" in summary.about
    classes, sets = summary.total["classified"] > 0, asked.by_case
    head = [
        "faults of", "injected", "of", *used, *["critical"] * judged, *["operand sets", "design effect"] * sets,
        "elements", "bits", "ulp", "NaN, Inf", "one row", *["class changed", "images right"] * classes,
    ]  # fmt: skip
    lines = [head]
    for counts in _shown(summary):
        shares = [_share(counts, name, asked) for name in [*used, *["critical"] * judged]]
        if sets:
            found = counts.estimate("sdc", asked.confidence, by_case=True)
            varies = all(tally.sets > 1 for tally in counts.tallies) and 0 < found.share < 1
            shares += [str(counts.sets or ""), f"{found.design_effect:.2f}" if varies else "-"]
        mixed = len(counts.tallies) > 1 and not counts.exhaustive  # of samples, whose pooled shares say nothing
        one_row = f"{counts['one_row'] / counts['sdc']:.0%}" if counts["sdc"] and not mixed else "-"
        bits = f"{counts['bits']:,}" if counts["bits"] or not counts["sdc"] else "-"
        sizes = [str(counts["elements"]), bits, f"{counts['max_ulp']:,}", f"{counts['nonfinite']:,}", one_row]
        if classes:
            known = counts["classified"] and not mixed
            sizes.append(f"{counts['reclassified'] / counts['classified']:.2%}" if known else "-")
            sizes.append(f"{counts['right'] / counts['classified']:.1f}" if known and counts["right"] else "-")
        population = f"{counts.population:,}" if counts.population else "any"
        lines.append([_name(counts), f"{counts.faults:,}", population, *shares, *sizes])
    return lines


def _share(counts: Counts, outcome: str, asked: Asked) -> str:
    found = counts.estimate(outcome, asked.confidence, by_case=asked.by_case)
    exact = found.low == found.high == found.share
    return f"{found.share:.2%}" if exact else f"{found.share:.2%} ({found.low:.2%} to {found.high:.2%})"


def pattern_table(summary: Summary) -> list[list[str]]:
    """Where the wrong elements of corruptions lie, by group; only the names of the columns where no result says it."""
    lines = [["corruptions of", *PATTERNS[1:]]]
    for counts in summary.groups:
        found = [counts[f"pattern_{name}"] for name in PATTERNS[1:]]
        if any(found):
            lines.append([counts.name, *(f"{count / sum(found):.1%}" for count in found)])
    return lines


def rate_table(found: Sequence[Rate]) -> list[list[str]]:
    """Failures in 10^9 hours, by group and outcome."""
    outcomes = list(dict.fromkeys(rate.outcome for rate in found))
    lines = [["FIT of", "bits", *outcomes]]
    for name in dict.fromkeys(rate.group for rate in found):
        mine = [rate for rate in found if rate.group == name]
        cells = [f"{rate.fit:.4g}" + f" ({rate.low:.4g} to {rate.high:.4g})" * (rate.low < rate.high) for rate in mine]
        lines.append([name, f"{mine[0].bits:,}", *cells])
    return lines


def _rates(summary: Summary, asked: Asked) -> list[Rate]:
    """The rates that were asked for, of each outcome that is seen and is no masked one."""
    if asked.fit_per_bit is None:
        return []
    seen = [name for name in (*OUTCOMES[1:], "critical") if summary.total[name]]
    return rates(summary, asked.fit_per_bit, (*seen, "harmful"), asked.confidence)


def detector_table(summary: Summary) -> list[list[str]]:
    """For each detector, the share that it sees of the faults that are not masked, and the share of the masked ones
    (false alarms); no rows where none saw anything."""
    used = [name for name in DETECTORS if summary.total[f"seen_{name}"] or summary.total[f"alarm_{name}"]]
    if not used:
        return []
    lines = [["faults of", *used]]
    for counts in summary.groups:
        (tally,) = counts.tallies
        shares = [[tally.coverage(name), tally.alarms(name)] for name in used]
        cells = [" / ".join(f"{part.share:.1%}" if part else "-" for part in pair) for pair in shares]
        lines.append([counts.name, *cells])
    if len(summary.groups) > 1 and summary.total.exhaustive:
        total, cells = summary.total, []
        for name in used:
            parts = (("seen", total.harmful), ("alarm", total["masked"]))
            cells.append(" / ".join(f"{total[f'{what}_{name}'] / of:.1%}" if of else "-" for what, of in parts))
        lines.append([total.name, *cells])
    return lines


def correction_table(summary: Summary) -> list[list[str]]:
    """For each detector that corrects, the shares of the faults that are not masked which it corrects exactly, nearly
    (with the largest distance that is left) and wrongly, and the share of the masked ones that it makes wrong; only the
    names of the columns where nothing is corrected."""
    lines = [["faults of", "by", "corrected", "exactly", "left at most", "wrongly", "of masked, wrongly"]]
    for counts in summary.groups:
        (tally,) = counts.tallies
        for name in CORRECTORS:
            if not any(counts[f"{how}_{name}"] for how in (*HOW[1:], "spoilt")):
                continue
            found = [tally.corrected(f"{how}_{name}") for how in (*HOW[1:], "spoilt")]
            exact, near, wrong, spoilt = (each.share if each else None for each in found)
            both = None if exact is None or near is None else exact + near
            left = f"{counts['left_ulp']:,} ulp, {counts['left_abs']:.3g}" if counts[f"near_{name}"] else "-"
            cells = ["-" if share is None else f"{share:.1%}" for share in (both, exact, wrong, spoilt)]
            lines.append([counts.name, name, *cells[:2], left, *cells[2:]])
    return lines


def _notes(summary: Summary, asked: Asked) -> list[str]:
    about = summary.about
    subject = json.loads(about["subject"])
    policy = f"policy {about['policy']}; arithmetic {about['rule']}; operands {about['operands']}"
    versions = f"list {about['list_sha256']}; tcsim {about['tcsim']}"
    notes = [f"{about['campaign']}: {title(subject)}, seed {about['seed']}", f"{policy}; {versions}"]
    for name in DETECTORS:
        if f"{name}_false_alarms" in about:
            failed, products = map(int, about[f"{name}_false_alarms"].split(" of "))
            share = f"{failed / products:.1%}"
            notes.append(f"{name} fails {failed} of {products} products that have no fault ({share}): its false alarms")
    groups = json.loads(about["groups"])
    if "launch" in subject and any(group["site"] == "registers" and "registers" not in group for group in groups):
        notes.append("registers are PTX's virtual ones, not those that ptxas gives a chip")
    notes += [
        f"{group['name']}: weights stand for {group['registers']} registers of a thread, as the chip has them; each "
        "value that PTX still needs takes one (assumed)"
        for group in groups
        if "registers" in group
    ]
    notes += [f"{name}: {about[key]}" for key, name in _SAID.items() if key in about]
    if not summary.total.uniform:
        notes.append("shares are estimated with the weights of the faults (Hajek)")
    if asked.by_case:
        notes.append("intervals are for operands in general: each set of operands is a cluster of faults")
    if asked.fit_per_bit is not None:
        notes.append(f"FIT at {asked.fit_per_bit:g} a bit, which is given; harmful is all that is not masked")
    if summary.left_out:
        every = summary.left_out + summary.total.faults
        part = f"a part of the campaign: {summary.total.faults:,} of its {every:,} faults"
        notes.append(part + ("" if "injected" in about else "; intervals hold if these were chosen at random"))
    return notes


def as_text(summary: Summary, asked: Asked = PLAIN) -> str:
    """The tables as text."""
    found = _rates(summary, asked)
    parts = [*_notes(summary, asked), "", *aligned(outcome_table(summary, asked), "<>")]
    if summary.total["sdc"] and len(where := pattern_table(summary)) > 1:
        parts += ["", "where the wrong elements lie", "", *aligned(where, "<>")]
    if found:
        parts += ["", "failures in 10^9 hours", "", *aligned(rate_table(found), "<>")]
    if seen := detector_table(summary):
        parts += ["", "seen by a detector: of faults that are not masked / of masked ones", "", *aligned(seen, "<>")]
    if len(mended := correction_table(summary)) > 1:
        parts += ["", "what detectors would have corrected, of faults that are not masked", ""]
        parts += aligned(mended, "<<>")
    return "\n".join([*parts, ""])


def _tables(summary: Summary, asked: Asked) -> list[list[list[str]]]:
    """The tables, but for those without a row."""
    found = _rates(summary, asked)
    tables = [outcome_table(summary, asked), pattern_table(summary), *([rate_table(found)] if found else [])]
    tables += [correction_table(summary), detector_table(summary)]
    return [table for table in tables if len(table) > 1]


def as_markdown(summary: Summary, asked: Asked = PLAIN) -> str:
    """The tables as Markdown."""
    parts = [*_notes(summary, asked), ""]
    for head, *rows in _tables(summary, asked):
        parts += Table(tuple(head), rows).markdown().split("\n")
    return "\n".join(parts)


def as_json(summary: Summary, asked: Asked = PLAIN) -> str:
    """The whole summary as a JSON object."""
    content = {"about": summary.about, "groups": summary.records(asked.confidence)}
    if asked.fit_per_bit is not None:
        content["fit"] = [asdict(rate) for rate in _rates(summary, asked)]
    return json.dumps(content, indent=1) + "\n"


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
            share = counts.share(name)[0]
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


def as_html(summary: Summary, asked: Asked = PLAIN) -> str:
    """One self-contained page: what was done, tables, bars and heat maps."""
    outcomes, *others = _tables(summary, asked)
    detectors = [others.pop()] if detector_table(summary) else []
    title = escape(summary.about["campaign"])
    head = f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
    parts = [
        f"{head}<style>{_STYLE}</style></head><body><h1>{title}</h1>",
        *(f"<p>{escape(line)}</p>" for line in _notes(summary, asked)),
        f"<h2>Outcomes</h2><figure>{outcome_bars(summary).svg}</figure>",
        *map(_html_table, [outcomes, *others]),
        f"<p>Intervals are Wilson's at {asked.confidence * 100:g} %; without one, every fault was injected.</p>",
        *["<h2>Detectors</h2>", "<p>Seen of the faults that are not masked / of the masked ones.</p>"] * len(detectors),
        *map(_html_table, detectors),
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
