"""Campaign files: TOML that says what is injected where, and the lists of faults that they make.

    [campaign]
    name = "metadata of m16n8k32"
    seed = 1                       # of operands, samples and random words
    policy = "hardware"            # or raise, zero, saturate

    [subject]
    opcode = "mma.sp.m16n8k32.f32.f16.f16.f32"
    target = "sm_90a"
    cases = 4                      # sets of operands

    [[faults]]
    name = "every bit"
    site = "e"
    kind = "flip"                  # every one, unless count, or margin and confidence, are given
    where = "all"

docs/faults.md lists keys and kinds.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn, get_args

import numpy as np

from simulator.errors import ConfigError
from simulator.execute.mma import Arithmetic
from simulator.faults.kinds import KINDS, Group, Population, drawn, population
from simulator.faults.policies import POLICIES
from simulator.faults.program_target import ProgramTarget
from simulator.faults.statistics import sample_size
from simulator.faults.subjects import keys_of, make
from simulator.faults.table import BLOCK, Faults, seeds
from simulator.faults.target import WHERE, FaultTarget
from simulator.resources import folder
from simulator.version import __version__

_CAMPAIGN = {"name": str, "seed": int, "policy": str, "arithmetic": str}
_GROUP: dict[str, type | tuple[type, ...]] = {
    "name": str,
    "site": str,
    "kind": str,
    "where": str,
    "bits": int,
    "adjacent": bool,
    "codes": str,
    "count": int,
    "margin": (float, int),
    "confidence": (float, int),
    "at": (int, list, str),
    "until": int,
    "clock": str,
    "warps": list,
}
CLOCKS = ("instruction", "cycle")


@dataclass(frozen=True)
class Campaign:
    """A campaign.

    Attributes:
        path: the file, for errors.
        name: for reports.
        seed: of everything that is drawn.
        subject: what faults are injected into.
        groups: of faults.
    """

    path: str
    name: str
    seed: int
    subject: FaultTarget
    groups: tuple[Group, ...]

    def populations(self) -> list[Population]:
        """Of each group: every fault that it could have; ConfigError for a site that the subject has not."""
        found = []
        for group in self.groups:
            site = self.subject.sites.get(group.site)
            if site is None:
                self._fail(
                    f"faults.{group.name}.site",
                    f"'{group.site}' is not a site of this subject",
                    ", ".join(self.subject.sites),
                )
            try:
                one = population(group, site, self.subject.layout, len(self.subject.numbers))
            except ConfigError as error:
                raise ConfigError(self.path, error.key, error.reason, error.legal) from None
            if not one.size:
                self._fail(f"faults.{group.name}", "there is no such fault", "another site, kind or where")
            found.append(one)
        return found

    def counts(self) -> list[tuple[int, int]]:
        """For each group: faults that are injected, and faults that there are."""
        return [
            (self._wanted(group, one.size), one.size)
            for group, one in zip(self.groups, self.populations(), strict=True)
        ]

    def _wanted(self, group: Group, size: int) -> int:
        if group.margin:
            return sample_size(size, group.margin, group.confidence)
        if group.count > size:
            self._fail(
                f"faults.{group.name}.count",
                f"{group.count:,} of {size:,} faults",
                f"at most {size:,}, or no count for all",
            )
        return group.count or size

    def faults(self) -> Iterator[Faults]:
        """The list, in blocks: group after group, each in the order of its population."""
        first = 0
        for number, (group, one) in enumerate(zip(self.groups, self.populations(), strict=True)):
            wanted = self._wanted(group, one.size)
            index = self._sample(number, one.size, wanted)
            for start in range(0, wanted, BLOCK):
                part = np.arange(start, min(start + BLOCK, wanted)) if index is None else index[start : start + BLOCK]
                rows = one.make(part)
                rows["id"] = first + start + np.arange(len(part))
                rows["group"] = number
                if group.clock == "cycle" and isinstance(self.subject, ProgramTarget):
                    if self.subject.config is None:
                        self._fail(
                            "subject.config",
                            "is missing: faults at a cycle need a chip's times",
                            "the name of a config, such as h100_sxm",
                        )
                    rows = self.subject.at_cycles(rows)
                yield drawn(rows, self.seed)
            first += wanted

    def _sample(self, number: int, size: int, wanted: int) -> Any:
        """Indices without repetition, ascending; None for all."""
        if wanted == size:
            return None
        entropy = int(seeds(self.seed, np.array([-1 - number]))[0])
        chosen = np.random.Generator(np.random.Philox(entropy)).choice(size, wanted, replace=False, shuffle=False)
        return np.sort(chosen)

    def about(self) -> dict[str, object]:
        """The head of its list: enough to inject each fault again, without the campaign file."""
        subject = self.subject
        counts = self.counts()
        groups = [
            {
                "name": group.name,
                "site": group.site,
                "kind": group.kind,
                "where": group.where,
                "faults": wanted,
                "population": 0 if group.kind == "word" else size,
            }
            for group, (wanted, size) in zip(self.groups, counts, strict=True)
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
            "faults": sum(wanted for wanted, _ in counts),
        }

    def _fail(self, key: str, reason: str, legal: str) -> NoReturn:
        raise ConfigError(self.path, key, reason, legal)


# Reading


def read_campaign(path: str | Path) -> Campaign:
    """A campaign from its file, or by the name of one that comes with tcsim.

    Raises:
        ConfigError: a file that cannot be read, unknown or missing keys, values that mean nothing; says which and what
            would be right.
    """
    name = str(path)
    own = folder("campaigns") / f"{name}.toml"
    try:
        values = tomllib.loads(
            (own if not Path(path).is_file() and own.is_file() else Path(path)).read_text(encoding="utf-8")
        )
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        known = ", ".join(sorted(file.stem for file in folder("campaigns").glob("*.toml")))
        raise ConfigError(
            name,
            "",
            f"cannot be read ({reason})",
            f"a campaign in TOML (docs/faults.md), or one that comes with tcsim: {known}",
        ) from None
    _known(name, "", values, {"campaign": dict, "subject": dict, "faults": list})
    head, subject, groups = values.get("campaign", {}), values.get("subject", {}), values.get("faults", [])
    _known(name, "campaign", head, _CAMPAIGN)
    _known(
        name,
        "subject",
        subject,
        {key: kind for key, kind in keys_of(subject).items() if key not in ("seed", "arithmetic")},
    )
    if not {"opcode", "trace"} & subject.keys():
        raise ConfigError(
            name, "subject.opcode", "is missing", "an opcode, such as mma.sp.m16n8k32.f32.f16.f16.f32, or a trace"
        )
    if not groups:
        raise ConfigError(name, "faults", "no faults", "at least one [[faults]]")
    seed, policy, arithmetic = head.get("seed", 0), head.get("policy", "hardware"), head.get("arithmetic", "chip")
    _one_of(name, "campaign.policy", policy, POLICIES)
    _one_of(name, "campaign.arithmetic", arithmetic, get_args(Arithmetic))
    if not 0 <= seed < 1 << 63:
        raise ConfigError(name, "campaign.seed", f"{seed}", "0 to 2^63 - 1")
    more = {"arithmetic": arithmetic} | ({} if "trace" in subject else {"seed": seed})
    made = make(name, subject | more, policy)
    read = [_group(name, number, group, made) for number, group in enumerate(groups)]
    return Campaign(name, head.get("name", Path(path).stem), seed, made, tuple(read))


def _group(path: str, number: int, values: Any, subject: FaultTarget) -> Group:
    where = f"faults[{number}]"
    _known(path, where, values, _GROUP)
    for key in ("site", "kind"):
        if key not in values:
            raise ConfigError(
                path,
                f"{where}.{key}",
                "is missing",
                ", ".join(KINDS) if key == "kind" else "a site, such as e, a, b, c, d, selector",
            )
    _one_of(path, f"{where}.kind", values["kind"], tuple(KINDS))
    _one_of(path, f"{where}.where", values.get("where", "live"), WHERE)
    if values["kind"] == "selector" and values["site"] != "selector":
        raise ConfigError(path, f"{where}.site", f"'{values['site']}' with kind selector", "selector")
    if values.get("count", 0) < 0 or (values.get("count") and values.get("margin")):
        raise ConfigError(
            path,
            f"{where}.count",
            "negative, or with a margin",
            "a count, or margin and confidence, or neither for every fault",
        )
    if values["kind"] == "word" and not values.get("count"):
        raise ConfigError(path, f"{where}.count", "is missing: random words have no end", "how many")
    return Group(**{"name": f"{values['site']} {values['kind']}", **values, **_when(path, where, values, subject)})


def _when(path: str, where: str, values: Mapping[str, Any], subject: FaultTarget) -> dict[str, Any]:
    """When faults strike, and whom: of traces alone."""
    given = [key for key in ("at", "until", "clock", "warps") if key in values]
    if not isinstance(subject, ProgramTarget):
        if given:
            raise ConfigError(path, f"{where}.{given[0]}", "is of traces alone", "leave it out")
        return {}
    _one_of(path, f"{where}.clock", values.get("clock", CLOCKS[0]), CLOCKS)
    warps = tuple(values.get("warps", ()))
    every = sorted(subject.session.sequences)
    if not all(warp in every for warp in warps):
        raise ConfigError(
            path, f"{where}.warps", f"{list(warps)}", f"warps with a program: {', '.join(map(str, every))}"
        )
    at = values.get("at", -1)
    if isinstance(at, str):
        _one_of(path, f"{where}.at", at, ("any",))
        cycles = values.get("clock") == "cycle"
        last = (
            1 + max(int(issued[-1]) for issued in subject.session.issue_cycles.values())
            if cycles
            else max(map(subject.instructions, every))
        )
        return {"at": range(last), "warps": warps or tuple(every)}
    times = at if isinstance(at, list) else [at]
    if not times or not all(isinstance(time, int) and time >= -1 for time in times):
        raise ConfigError(
            path, f"{where}.at", f"{at}", 'a number from 0 on, a list of them, "any", or -1 for the start'
        )
    return {"at": times, "warps": warps or tuple(every)}


def _known(path: str, where: str, values: Any, keys: Mapping[str, type | tuple[type, ...]]) -> None:
    """ConfigError for a table that is none, for unknown keys and for values of another type."""
    if not isinstance(values, dict):
        raise ConfigError(path, where, "is no table", ", ".join(keys))
    for key, value in values.items():
        name = f"{where}.{key}" if where else key
        if key not in keys:
            near = get_close_matches(key, keys, 1)
            raise ConfigError(
                path, name, "unknown key" + (f", did you mean '{near[0]}'?" if near else ""), ", ".join(keys)
            )
        expected = keys[key]
        if not isinstance(value, expected) or (isinstance(value, bool) and expected is not bool):
            types = expected if isinstance(expected, tuple) else (expected,)
            raise ConfigError(path, name, f"{value!r}", " or ".join(kind.__name__ for kind in types))


def _one_of(path: str, key: str, value: str, legal: tuple[str, ...]) -> None:
    if value not in legal:
        raise ConfigError(path, key, f"'{value}'", ", ".join(legal))
