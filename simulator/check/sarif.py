"""The findings of a check as SARIF 2.1.0 (OASIS Standard, 27 March 2020), which GitHub and editors show at their lines.

A result's location is the line of the source where the module says it (`.loc`), else that of the PTX; the line of the
PTX and the other side of a race are related locations.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from isa.undefined import RULES as UNDEFINED
from simulator.check.findings import Finding
from simulator.check.launch_finding import LaunchCheck, LaunchFinding
from simulator.check.report import Report
from simulator.check.rules import CHECK_RULES, LAUNCH_RULES, UNDEFINED_FIXES, launch_rule
from simulator.version import __version__

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
Object = dict[str, Any]


@dataclass(frozen=True)
class _Result:
    """One finding as SARIF has it.

    Attributes:
        rule: its name.
        level: "error", or "note" for what no result depends on.
        message: what happens, and what to change.
        places: (file, line, snippet) of the finding: the first is its location, the others are related.
        related: (file, line, what it is) of other places.
        count: how often it happened.
    """

    rule: str
    level: str
    message: str
    places: Sequence[tuple[str, int, str]]
    related: Sequence[tuple[str, int, str]] = field(default=())
    count: int = 1


def launch_sarif(check: LaunchCheck, ptx: str, notes: bool = False) -> str:
    """The findings of a launch.

    Args:
        ptx: path of its module, or the text of one, which then has no place that could be shown.
        notes: whether notes are told that are no mistake.
    """
    module = ptx if "\n" not in ptx else f"{check.kernel}.ptx"
    rules = {each.rule: _launch_rule(each.rule) for each in check.findings}
    return _log([_of_launch(each, module) for each in check.shown(notes)], rules)


def trace_sarif(report: Report, path: str) -> str:
    """The findings of a trace; `path` is that of its file."""
    rules = {each.rule: _rule(each.rule, each.states, each.fix, each.section) for each in report.findings}
    return _log([_of_trace(each, path) for each in report.findings], rules)


def _of_launch(finding: LaunchFinding, module: str) -> _Result:
    own = [*_source(finding.source, ""), (module, max(finding.line, 1), finding.instruction)]
    related = [(module, line, "the same cause") for line in finding.also]
    if (other := finding.other) is not None:
        said = " ".join(filter(None, (other.thread, other.access, other.where))) + ", not ordered with the other access"
        place = (_source(other.source, "") or [(module, max(other.line, 1), "")])[0]
        related.insert(0, (place[0], place[1], said))
    parts = [finding.what, finding.thread and f"by {finding.thread}", finding.fix and f"fix: {finding.fix}"]
    level = "error" if finding.serious else "note"
    return _Result(finding.rule, level, ". ".join(filter(None, parts)), own, related, finding.count)


def _source(source: str, snippet: str) -> list[tuple[str, int, str]]:
    """The place that "file:line" names, if it names one."""
    file, _, line = source.rpartition(":")
    return [(file, int(line), snippet)] if file and line.isdecimal() and int(line) else []


def _of_trace(finding: Finding, path: str) -> _Result:
    other = [(path, finding.other, "the earlier instruction")] if finding.other else []
    message = f"{finding.what}. fix: {finding.fix}" if finding.fix else finding.what
    return _Result(finding.rule, "error", message, [(path, max(finding.line, 1), "")], other, finding.count)


def _launch_rule(name: str) -> Object:
    known = launch_rule(name)
    section = CHECK_RULES[name].section if name in CHECK_RULES else UNDEFINED[name].section if name in UNDEFINED else ""
    fix = known.fix or UNDEFINED_FIXES.get(name, "")
    states = known.rule if name in LAUNCH_RULES or name in UNDEFINED else "the launch runs without an error"
    return _rule(name, states, fix, section, is_note=not known.counts)


def _rule(name: str, states: str, fix: str, section: str, *, is_note: bool = False) -> Object:
    """A reportingDescriptor (3.49)."""
    told = ". ".join(filter(None, (states, fix and f"Fix: {fix}", section and f"Stated in {section}")))
    return {
        "id": name,
        "shortDescription": {"text": states or name},
        "fullDescription": {"text": told or name},
        "help": {"text": told or name},
        "defaultConfiguration": {"level": "note" if is_note else "error"},
    }


def _log(results: Iterable[_Result], rules: dict[str, Object]) -> str:
    """A sarifLog (3.13) of one run."""
    index = {name: number for number, name in enumerate(rules)}
    driver = {"name": "tcsim", "version": __version__, "semanticVersion": __version__, "rules": list(rules.values())}
    run = {
        "tool": {"driver": driver},
        "invocations": [{"executionSuccessful": True}],
        "columnKind": "unicodeCodePoints",
        "results": [_result(each, index) for each in results],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1) + "\n"


def _result(result: _Result, index: dict[str, int]) -> Object:
    """A result (3.27)."""
    (first, *others), related = result.places, list(result.related)
    more = [(file, line, "in the PTX") for file, line, _ in others] + related
    whole: Object = {
        "ruleId": result.rule,
        "ruleIndex": index[result.rule],
        "level": result.level,
        "message": {"text": result.message or result.rule},
        "locations": [{"physicalLocation": _physical(*first)}],
        "occurrenceCount": max(result.count, 1),
    }
    if more:
        whole["relatedLocations"] = [
            {"id": number, "physicalLocation": _physical(file, line), "message": {"text": said}}
            for number, (file, line, said) in enumerate(more, 1)
        ]
    return whole


def _physical(file: str, line: int, snippet: str = "") -> Object:
    """A physicalLocation (3.29)."""
    region: Object = {"startLine": line}
    if snippet:
        region["snippet"] = {"text": snippet}
    return {"artifactLocation": {"uri": _uri(file)}, "region": region}


def _uri(file: str) -> str:
    """The URI of a file: relative as its path is, or absolute."""
    path = Path(file)
    return path.as_uri() if path.is_absolute() else quote(path.as_posix())
