"""Campaign files: TOML files that say which faults to inject into what. This module reads them and makes the lists of
faults. docs/faults.md lists the tables, keys and kinds of fault."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, NoReturn, get_args

import numpy as np

from isa.errors import FAULT_POLICIES
from simulator.errors import ConfigError
from simulator.execute.mma import Arithmetic
from simulator.faults.aim.selection import read_selection
from simulator.faults.element_kinds import Population
from simulator.faults.group import ENDLESS, Group
from simulator.faults.groups import equip, plain, read_groups, subject_tables, with_keys
from simulator.faults.models import OWN, own_bits
from simulator.faults.moments import aims, blocks_of, registers_that_weigh, resident_bits
from simulator.faults.population import drawn, population
from simulator.faults.sampling import sample, wanted
from simulator.faults.spread import Site
from simulator.faults.table import BLOCK, CHECK, COLUMNS, DEFAULTS, Faults
from simulator.faults.targets.launches.caches import CACHES
from simulator.faults.targets.program import ProgramTarget
from simulator.faults.targets.running import RunningTarget
from simulator.faults.targets.subjects import PROGRAMS, make
from simulator.faults.targets.target import FaultTarget
from simulator.resources import folder
from simulator.state.registers import WARP_SIZE
from simulator.toml_tables import Between, Choice, read_toml
from simulator.version import __version__


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

    @cached_property
    def populations(self) -> list[Population]:
        """For each group, the population of every fault that it could have. ConfigError for a site that the target does
        not have."""
        populations = []
        for number, group in enumerate(self.groups):
            site = self.subject.sites.get(group.site)
            if site is None:
                reason = f"'{group.site}' is not a site of this subject"
                self._fail(f"{group.name}.site", reason, ", ".join(self.subject.sites))
            try:
                runs = self.subject if isinstance(self.subject, RunningTarget) else None
                blocks = None if runs is None else blocks_of(runs, group, self.path)
                one = population(group, site, self.subject.layout, len(self.subject.numbers), blocks)
            except ConfigError as error:
                raise ConfigError(self.path, error.key, error.reason, error.legal) from None
            if not one.size:
                self._fail_empty(group, site)
            ends = one.make(np.array([0, one.size - 1]))
            ends["group"] = number
            self._check(group, ends)
            populations.append(one)
        return populations

    def _fail_empty(self, group: Group, site: Site) -> NoReturn:
        """Raises ConfigError for a group without faults."""
        used = read_selection(group.where).uses(("words", "lanes", "bits"))
        if not used:
            self._fail(group.name, "there is no such fault", "another site, kind, where or time")
        words, lanes = (f"0..{count - 1}" for count in site.live.shape)
        reason = f"selects no {group.which} bit of site {site.name} by {' and '.join(used)}"
        self._fail(f"{group.name}.where", reason, f"words {words}, lanes {lanes}, bits 0..31")

    def _check(self, group: Group, rows: Faults) -> None:
        """ConfigError for faults that a run would refuse."""
        try:
            self.subject.check(rows)
            mine = rows[rows["model"] == OWN]
            own_bits(mine, mine["mask"], mine["value"], self.subject.own)
        except ConfigError as error:
            self._fail(f"{group.name}.{error.key}", error.reason, error.legal)

    def counts(self) -> list[tuple[int, int]]:
        """For each group, how many faults are injected and how many there are to choose from."""
        sizes = [one.size for one in self.populations]
        return [(self._named(wanted, group, size), size) for group, size in zip(self.groups, sizes, strict=True)]

    def _named(self, function: Callable[..., Any], group: Group, *arguments: Any) -> Any:
        """What a function gives for a group; its ConfigError names the file."""
        try:
            return function(group, *arguments)
        except ConfigError as error:
            self._fail(error.key, error.reason, error.legal)

    def faults(self) -> Iterator[Faults]:
        """The faults of the campaign, in blocks: group after group, each in the order of its population."""
        first = 0
        for number, (group, one) in enumerate(zip(self.groups, self.populations, strict=True)):
            injected = self._named(wanted, group, one.size)
            index, factors = self._named(sample, group, one, number, self.seed)
            for start in range(0, injected, BLOCK):
                part = np.arange(start, min(start + BLOCK, injected)) if index is None else index[start : start + BLOCK]
                rows = one.make(part)
                rows["weight"] *= 1.0 if factors is None else factors[start : start + BLOCK]
                rows["id"] = first + start + np.arange(len(part))
                rows["group"] = number
                if group.clock == "cycle" and isinstance(self.subject, ProgramTarget) and not aims(group):
                    rows = self.subject.at_cycles(rows)
                rows = drawn(rows, self.seed, one)
                self._check(group, rows)
                yield rows
            first += injected

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the campaign's list: those that its groups need, and the check of each row."""
        needed = {
            "along": any(group.along or group.kind == "pattern" for group in self.groups),
            "span": any(group.along or group.kind == "pattern" for group in self.groups),
            "period": any(group.period for group in self.groups),
            "duty": any(group.period for group in self.groups),
            "weight": any(group.at == "intervals" or group.importance or group.strata for group in self.groups),
        }
        return (*COLUMNS, *(name for name in DEFAULTS if needed[name]), CHECK)

    def about(self) -> dict[str, object]:
        """The head of the campaign's list of faults. It holds enough to inject each fault again without the campaign
        file."""
        subject = self.subject
        counts = self.counts()
        groups = [
            {name: getattr(group, name) for name in ("name", "site", "kind", "where")}
            | {"faults": injected, "population": 0 if group.kind in ENDLESS else size}
            | plain(group, self.path)
            | self._weighed(group)
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

    def _weighed(self, group: Group) -> dict[str, int]:
        """How many bits the weights of a group stand for, where these are not those of its site: of the registers of a
        chip, with how many a thread has, or of what is in a cache."""
        subject = self.subject
        if group.site in CACHES and isinstance(subject, RunningTarget):
            return {"bits": resident_bits(subject, group, self.path)}
        count = registers_that_weigh(subject, group) if isinstance(subject, RunningTarget) else 0
        return {"registers": count, "bits": count * 32 * WARP_SIZE * len(subject.numbers)} if count else {}

    def _fail(self, group: str, reason: str, legal: str) -> NoReturn:
        """Raises ConfigError about a key of the campaign file."""
        raise ConfigError(self.path, f"faults.{group}", reason, legal)


# Reading


def read_campaign(path: str | Path, group: Mapping[str, Any] | None = None, seed: int | None = None) -> Campaign:
    """A campaign from its file, or by the name of one that comes with tcsim; or one of a single group for a subject.

    Args:
        path: the file or the name; or an opcode, a trace, or a capture (a path that ends with .json).
        group: keys of [[faults]] that go before those of every group of the file; of a subject, those of its group.
        seed: in place of the campaign's.

    Raises:
        ConfigError: a file that cannot be read, unknown or missing keys, values that mean nothing; says which and what
            would be right.
    """
    tables = subject_tables(path) or read_toml(path, folder("campaigns"), "campaign", "docs/faults.md")
    tables = with_keys(tables, group or {}, seed)
    tables.known("", tables.values, ("campaign", "subject", "faults"))
    head = tables.record(_Head, "campaign", tables.values.get("campaign", {}))
    subject = tables.values.get("subject", {})
    if not isinstance(subject, dict) or {"seed", "arithmetic"} & subject.keys():
        tables.fail("subject", "is no table, or has what [campaign] says", "[subject] with an opcode or a trace")
    values = subject | {"arithmetic": head.arithmetic} | ({} if set(PROGRAMS) & subject.keys() else {"seed": head.seed})
    target = make(tables.path, values, head.policy)
    groups = read_groups(tables, target)
    equip(target, [plain(group, tables.path) for group in groups], tables.path)
    return Campaign(tables.path, head.name or Path(path).stem, head.seed, target, groups)
