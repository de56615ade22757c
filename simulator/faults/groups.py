"""Reads the groups of a campaign, and gives a target what the models of its groups need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from isa import IsaError
from simulator.errors import ConfigError, Error
from simulator.faults.aim.executed import has
from simulator.faults.aim.selection import OF_INSTRUCTIONS, OF_PROGRAMS, Selection, begins, read_selection
from simulator.faults.group import ENDLESS, STUCK, WRITES, Group
from simulator.faults.moments import need_config
from simulator.faults.own import OwnModel
from simulator.faults.patterns import Pattern, listed, read_patterns
from simulator.faults.targets.register_sites import REGISTER_SITES
from simulator.faults.targets.running import RunningTarget
from simulator.faults.targets.target import FaultTarget
from simulator.faults.unit.sites import UNIT_SITES
from simulator.resources import folder
from simulator.toml_tables import Tables

_OPCODES = ("mma", "tcgen05.mma")
DRAWN = ("importance", "strata")  # keys that say how a sample is drawn
_END = 1 << 62  # behind every instruction: until when a fault is held that would else strike once
_KIND_OF = {"model": "own", "patterns": "pattern", "constant": "constant", "low": "random", "high": "random"}
"""Keys that mean something for one kind alone."""


def read_groups(tables: Tables, target: FaultTarget) -> tuple[Group, ...]:
    """The [[faults]] tables of a campaign. ConfigError for keys or values that do not fit the target."""
    groups: list[Group] = []
    patterns = 0
    for place, row in tables.rows("faults"):
        group = _group(tables, place, row, target)
        if group.patterns:
            found = read_patterns(group.patterns, tables.path)
            group = replace(group, listed=found, first_pattern=patterns)
            patterns += len(found)
        groups.append(group)
    return tuple(groups)


def plain(group: Group, path: str) -> dict[str, Any]:
    """What the model of a group needs beside the rows of a list, as plain values: `equip` reads them."""
    found: dict[str, Any] = {key: value for key in DRAWN if (value := getattr(group, key))}
    if found and group.at == "intervals":
        found["at"] = group.at  # weights that are times, too: they do not add up to the population
    if group.kind == "own":
        found |= OwnModel(group.model, path).plain()
    if group.listed:
        found["patterns"] = [pattern.plain() for pattern in group.listed]
    return found


def equip(target: FaultTarget, groups: Sequence[Mapping[str, Any]], path: str) -> None:
    """Gives a target the models and the patterns of these groups, which `plain` or the head of a list describes.

    Raises:
        ConfigError: values that describe none.
    """
    own: dict[int, OwnModel] = {}
    patterns: list[Pattern] = []
    try:
        for number, group in enumerate(groups):
            if "model" in group:
                own[number] = OwnModel(str(group["model"]), path, str(group.get("model_sha256", "")))
                own[number].check()
            patterns += listed(group.get("patterns", ()))
    except Error:
        raise
    except (TypeError, ValueError) as error:
        legal = "those of a list that 'tcsim faults list' wrote"
        raise ConfigError(path, "groups", f"are none ({error})", legal) from None
    target.take(own, tuple(patterns))


def subject_tables(given: str | Path) -> Tables | None:
    """A campaign of one group for an opcode, a trace or a capture; None for what is none of them."""
    text = str(given)
    subject = {}
    if any(begins(text, name) for name in _OPCODES):
        subject = {"opcode": text}
    elif text.endswith(".json"):
        subject = {"launch": Path(text).name}
    elif text.endswith(".trace"):
        subject = {"trace": Path(text).name}
    elif "/" in text and (folder("traces") / f"{text}.trace").is_file():
        subject = {"trace": text}
    return Tables(text, {"subject": subject, "faults": [{"name": "faults"}]}) if subject else None


def with_keys(tables: Tables, keys: Mapping[str, Any], seed: int | None) -> Tables:
    """The tables of a campaign with these keys in each of its groups; a campaign without groups gets one."""
    values, keys = dict(tables.values), dict(keys)
    for table, key, value in (("subject", "target", keys.pop("target", None)), ("campaign", "seed", seed)):
        if value is not None and isinstance(values.get(table, {}), Mapping):
            values[table] = {**values.get(table, {}), key: value}
    rows = values.get("faults", [{"name": "faults"}] if keys else None)
    if keys and isinstance(rows, list):
        values["faults"] = [{**row, **keys} if isinstance(row, Mapping) else row for row in rows]
    return Tables(tables.path, values, tables.named)


def _group(tables: Tables, place: str, row: Mapping[str, Any], target: FaultTarget) -> Group:
    """A [[faults]] table as a `Group`."""
    kind = row.get("kind", "own" if "model" in row else "pattern" if "patterns" in row else "flip")
    group = tables.record(Group, place, {"name": f"{row.get('site')} {kind}", "kind": kind, **row})
    selection = read_selection(group.where, f"{place}.where", tables.path)
    if not group.site:
        group = replace(group, site=_site(tables, place, selection, target))
    if group.name == f"None {kind}":
        group = replace(group, name=f"{group.site} {kind}")
    _check_kind(tables, place, row, group)
    runs = isinstance(target, RunningTarget)
    given = [key for key in ("at", "until", "clock", "warps", "hold", "period", "duty") if key in row]
    if not runs:
        if given:
            tables.fail(f"{place}.{given[0]}", "is of traces and launches alone", "leave it out")
        _check_instruction(tables, place, selection, target)
        return group
    if group.hold:
        tables.known(place, {key: 1 for key in row if key == "until"}, ())
        lasts = group.hold != "instruction" and group.kind not in (*STUCK, *WRITES, "selector")
        group = replace(group, until=_END if lasts and group.site not in ("global", *UNIT_SITES) else -1)
    if group.clock == "cycle":
        need_config(tables.path, target)
    every = tuple(target.numbers)
    if not set(group.warps) <= set(every):
        legal = f"warps with a program: {', '.join(map(str, every))}"
        tables.fail(f"{place}.warps", f"{list(group.warps)}", legal)
    return group


def _check_kind(tables: Tables, place: str, row: Mapping[str, Any], group: Group) -> None:
    """ConfigError for keys of a group that do not go together."""
    if group.kind == "selector" and group.site != "selector":
        tables.fail(f"{place}.site", f"'{group.site}' with kind selector", "selector")
    if group.count and group.margin:
        legal = "a count, or margin and confidence, or neither for every fault"
        tables.fail(f"{place}.count", "is given with a margin", legal)
    for key in DRAWN:
        if getattr(group, key) and not group.count and not group.margin:
            tables.fail(f"{place}.{key}", "of a group that injects every fault", "beside count")
    if group.kind == "word" and not group.count:
        tables.fail(f"{place}.count", "is missing: random words have no end", "how many")
    if group.kind in ENDLESS and not group.count:
        tables.fail(f"{place}.count", f"is missing: kind {group.kind} has no end", "how many")
    for key, kind in _KIND_OF.items():
        if key in row and group.kind != kind:
            tables.fail(f"{place}.{key}", f"beside kind {group.kind}", f"kind {kind}")
    if (group.span > 1) != bool(group.along):
        tables.fail(f"{place}.span", f"{group.span} along '{group.along}'", "both: span = 4, along = 'lanes'")
    if not 0 <= group.duty <= group.period or (group.period > 0) != (group.duty > 0):
        tables.fail(f"{place}.duty", f"{group.duty} of a period of {group.period}", "1 to the period")


def _site(tables: Tables, place: str, selection: Selection, target: FaultTarget) -> str:
    """The site that a selection names by its role; of programs, the first site of registers that has what it
    selects."""
    roles = [value for term in selection.of("role") if not term.unequal for value in term.values]
    if isinstance(target, RunningTarget):
        if roles == ["selector"] and "selector" in target.sites:
            return "selector"
        there = (site for site in REGISTER_SITES if site in target.sites and has(selection, target, site))
        return next(there, "registers") if selection.uses(OF_INSTRUCTIONS) else "registers"
    sites = [site for role in roles for site in target.sites if site == role or site.startswith(f"{role}_")]
    if len(sites) != 1:
        reason = f"is missing, and role={','.join(roles)} is {' and '.join(sites) or 'none'}" if roles else "is missing"
        tables.fail(f"{place}.site", reason, f"one of {', '.join(target.sites)}")
    return sites[0]


def _check_instruction(tables: Tables, place: str, selection: Selection, target: FaultTarget) -> None:
    """ConfigError for a selection that means nothing for a single instruction, or selects another one."""
    wrong = selection.uses((*OF_PROGRAMS, "buffer"))
    if wrong:
        tables.fail(f"{place}.where", f"{wrong[0]} of a single instruction", "op, role, words, lanes, bits")
    try:
        opcode = target.layout.form.opcode
    except IsaError as error:
        tables.fail(f"{place}.where", str(error))
    if not selection.matches("op", lambda part: begins(opcode, part)):
        tables.fail(f"{place}.where", f"selects no {opcode}", "op=mma.sp, or without op")
