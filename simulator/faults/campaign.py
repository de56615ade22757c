"""Campaign files: TOML files that say which faults to inject into what. This module reads them and makes the lists of
faults. docs/faults.md lists the tables, keys and kinds of fault."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NoReturn, get_args

import numpy as np
from numpy.typing import NDArray

from isa.errors import FAULT_POLICIES
from simulator.errors import ConfigError
from simulator.execute.mma import Arithmetic
from simulator.faults.kinds import Group, Moments, Population, drawn, population
from simulator.faults.table import BLOCK, Faults, seeds
from simulator.faults.targets.launch import LaunchTarget
from simulator.faults.targets.program import ProgramTarget
from simulator.faults.targets.subjects import PROGRAMS, make
from simulator.faults.targets.target import FaultTarget
from simulator.resources import folder
from simulator.statistics import sample_size
from simulator.toml_tables import Between, Choice, Tables, read_toml
from simulator.version import __version__

SHARED_SITES = ("shared", "tmem", "global")  # words that all warps of a CTA, or of the launch, share


@dataclass(frozen=True)
class _Head:
    """The keys of the table `[campaign]`; `Campaign` says what they mean."""

    name: str = ""
    seed: Annotated[int, Between(0, (1 << 63) - 1)] = 0
    policy: Annotated[str, Choice(FAULT_POLICIES)] = "hardware"
    arithmetic: Annotated[str, Choice(get_args(Arithmetic))] = "chip"


@dataclass(frozen=True)
class Campaign:
    """A campaign file that was read: a target and the groups of faults to inject into it.

    Attributes:
        path: the file, for error messages.
        name: the name of the campaign, for reports.
        seed: the seed from which everything random is drawn.
        subject: the target that the faults are injected into.
        groups: the groups of faults, one for each [[faults]] table.
    """

    path: str
    name: str
    seed: int
    subject: FaultTarget
    groups: tuple[Group, ...]

    def populations(self) -> list[Population]:
        """For each group, the population of every fault that it could have. ConfigError for a site that the target does
        not have."""
        populations = []
        for group in self.groups:
            site = self.subject.sites.get(group.site)
            if site is None:
                reason = f"'{group.site}' is not a site of this subject"
                self._fail(f"{group.name}.site", reason, ", ".join(self.subject.sites))
            try:
                moments = self._moments(group)
                one = population(group, site, self.subject.layout, len(self.subject.numbers), moments)
            except ConfigError as error:
                raise ConfigError(self.path, error.key, error.reason, error.legal) from None
            if not one.size:
                self._fail(group.name, "there is no such fault", "another site, kind, where or time")
            self._check(group, one.make(np.array([0, one.size - 1])))
            populations.append(one)
        return populations

    def _moments(self, group: Group) -> Moments | None:
        """By warp, when the faults of a group strike: only while the warp runs, a word that warps share once for each
        CTA, and a selector where there is one. None for a subject without time."""
        subject = self.subject
        if not isinstance(subject, ProgramTarget | LaunchTarget):
            return None
        if group.site in SHARED_SITES:
            warps, per_cta = group.warps or subject.numbers, subject.warps_of_a_cta
            owners = [warp if group.site != "global" else 0 for warp in warps]
            by_cta = {warp // per_cta: warp for warp in reversed(owners)}
            if group.warps and len(by_cta) < len(group.warps):
                legal = "one warp of a CTA, whose instructions are counted"
                self._fail(f"{group.name}.warps", f"several warps of a CTA, which share site {group.site}", legal)
            warps = sorted(by_cta.values())
        else:
            warps = list(group.warps or subject.numbers)
        return [(warp, self._times(group, warp)) for warp in warps]

    def _times(self, group: Group, warp: int) -> NDArray[np.int64]:
        """The times at which a fault of a group can strike a warp, in its instructions or in cycles."""
        subject = self.subject
        assert isinstance(subject, ProgramTarget | LaunchTarget)
        end = subject.instructions(warp)
        if group.clock == "cycle" and isinstance(subject, ProgramTarget):
            _need_config(self.path, subject)
            issued = subject.session.issue_cycles.get(warp)
            end = 1 + int(issued[-1]) if issued is not None and len(issued) else 0
        times = np.arange(end) if group.at == "any" else np.atleast_1d(np.array(group.at, np.int64))
        times = times[times <= end]  # the end itself: before what is stored there
        if group.site == "selector" and isinstance(subject, ProgramTarget) and group.clock != "cycle":
            there = [subject.selects(warp, index) for index in range(subject.instructions(warp))]
            has = np.array([*there, False, any(there)])  # -1: all of the warp's
            times = times[has[times]]
        return times

    def _check(self, group: Group, rows: Faults) -> None:
        """ConfigError for faults that a run would refuse."""
        try:
            self.subject.check(rows)
        except ConfigError as error:
            self._fail(f"{group.name}.{error.key}", error.reason, error.legal)

    def counts(self) -> list[tuple[int, int]]:
        """For each group, how many faults are injected and how many there are to choose from."""
        sizes = [one.size for one in self.populations()]
        return [(self._wanted(group, size), size) for group, size in zip(self.groups, sizes, strict=True)]

    def _wanted(self, group: Group, size: int) -> int:
        """How many faults of a group are injected, of the `size` that there are."""
        if group.margin:
            return sample_size(size, group.margin, group.confidence)
        if group.count > size:
            legal = f"at most {size:,}, or no count for all"
            self._fail(f"{group.name}.count", f"{group.count:,} of {size:,} faults", legal)
        return group.count or size

    def faults(self) -> Iterator[Faults]:
        """The faults of the campaign, in blocks: group after group, each in the order of its population."""
        first = 0
        for number, (group, one) in enumerate(zip(self.groups, self.populations(), strict=True)):
            injected = self._wanted(group, one.size)
            index = self._sample(number, one.size, injected)
            for start in range(0, injected, BLOCK):
                part = np.arange(start, min(start + BLOCK, injected)) if index is None else index[start : start + BLOCK]
                rows = one.make(part)
                rows["id"] = first + start + np.arange(len(part))
                rows["group"] = number
                if group.clock == "cycle" and isinstance(self.subject, ProgramTarget):
                    _need_config(self.path, self.subject)
                    rows = self.subject.at_cycles(rows)
                rows = drawn(rows, self.seed)
                self._check(group, rows)
                yield rows
            first += injected

    def _sample(self, number: int, size: int, injected: int) -> Any:
        """Indices into a population, drawn without repetition, in ascending order; None if every fault is taken."""
        if injected == size:
            return None
        entropy = int(seeds(self.seed, np.array([-1 - number]))[0])
        chosen = np.random.Generator(np.random.Philox(entropy)).choice(size, injected, replace=False, shuffle=False)
        return np.sort(chosen)

    def about(self) -> dict[str, object]:
        """The head of the campaign's list of faults. It holds enough to inject each fault again without the campaign
        file."""
        subject = self.subject
        counts = self.counts()
        groups = [
            {name: getattr(group, name) for name in ("name", "site", "kind", "where")}
            | {"faults": injected, "population": 0 if group.kind == "word" else size}
            for group, (injected, size) in zip(self.groups, counts, strict=True)
        ]
        return {
            "tcsim": __version__,
            "campaign": self.name,
            "seed": self.seed,
            "subject": json.dumps(subject.describe()),
            "policy": subject.policy,
            "rule": subject.rule,
            "operands": subject.digest,
            "groups": json.dumps(groups),
            "faults": sum(injected for injected, _ in counts),
        }

    def _fail(self, group: str, reason: str, legal: str) -> NoReturn:
        """Raises ConfigError about a key of the campaign file."""
        raise ConfigError(self.path, f"faults.{group}", reason, legal)


# Reading


def read_campaign(path: str | Path) -> Campaign:
    """A campaign from its file, or by the name of one that comes with tcsim.

    Raises:
        ConfigError: a file that cannot be read, unknown or missing keys, values that mean nothing; says which and what
            would be right.
    """
    tables = read_toml(path, folder("campaigns"), "campaign", "docs/faults.md")
    tables.known("", tables.values, ("campaign", "subject", "faults"))
    head = tables.record(_Head, "campaign", tables.values.get("campaign", {}))
    subject = tables.values.get("subject", {})
    if not isinstance(subject, dict) or {"seed", "arithmetic"} & subject.keys():
        tables.fail("subject", "is no table, or has what [campaign] says", "[subject] with an opcode or a trace")
    values = subject | {"arithmetic": head.arithmetic} | ({} if set(PROGRAMS) & subject.keys() else {"seed": head.seed})
    target = make(tables.path, values, head.policy)
    groups = [_group(tables, place, row, target) for place, row in tables.rows("faults")]
    return Campaign(tables.path, head.name or Path(path).stem, head.seed, target, tuple(groups))


def _group(tables: Tables, place: str, row: Mapping[str, Any], target: FaultTarget) -> Group:
    """A [[faults]] table as a `Group`; ConfigError for keys or values that do not fit the target."""
    name = f"{row.get('site')} {row.get('kind')}"
    group = tables.record(Group, place, {"name": name, **row})
    if group.kind == "selector" and group.site != "selector":
        tables.fail(f"{place}.site", f"'{group.site}' with kind selector", "selector")
    if group.count and group.margin:
        legal = "a count, or margin and confidence, or neither for every fault"
        tables.fail(f"{place}.count", "is given with a margin", legal)
    if group.kind == "word" and not group.count:
        tables.fail(f"{place}.count", "is missing: random words have no end", "how many")
    given = [key for key in ("at", "until", "clock", "warps") if key in row]
    if not isinstance(target, ProgramTarget | LaunchTarget):
        if given:
            tables.fail(f"{place}.{given[0]}", "is of traces and launches alone", "leave it out")
        return group
    if group.clock == "cycle" and isinstance(target, LaunchTarget):
        tables.fail(f"{place}.clock", "cycles of a launch", "instruction")
    every = tuple(target.numbers)
    if not set(group.warps) <= set(every):
        legal = f"warps with a program: {', '.join(map(str, every))}"
        tables.fail(f"{place}.warps", f"{list(group.warps)}", legal)
    if group.clock == "cycle" and isinstance(target, ProgramTarget):
        _need_config(tables.path, target)
    return group


def _need_config(path: str, target: ProgramTarget) -> None:
    """ConfigError if a program has no config, which faults at a cycle need."""
    if target.config is None:
        legal = "the name of a config, such as h100_sxm"
        raise ConfigError(path, "subject.config", "is missing: faults at a cycle need a chip's times", legal)
