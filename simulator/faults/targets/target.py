"""The base class of fault targets. A fault target is what faults are injected into: words that can be addressed, and
something that reads them.

A target has sites (the fragments of an instruction, its metadata, Tensor Memory, shared memory, registers, immediates,
descriptors), each an array of 32-bit words [word, lane] with the bits that are read. Which faults there are, what they
make of a word, whether a row of a list makes sense, and how its outcome is judged, is the same for all targets. A
target only says what its words hold without faults, and what results from changed words.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from isa.errors import FAULT_POLICIES
from isa.types import Bits, ElementType
from simulator.errors import ConfigError, did_you_mean
from simulator.execute.mma import Arithmetic
from simulator.faults.detectors.asked import Asked
from simulator.faults.detectors.checksums import FalseAlarms
from simulator.faults.models import DOUBLED, LOST, OWN, Edits, Mask, OwnModels, bits_of, edits, moves
from simulator.faults.outcomes import Results
from simulator.faults.patterns import Pattern
from simulator.faults.spread import PATTERN, WORD_MODELS, Site
from simulator.faults.table import ALONG, BLOCK, MODELS, SITES, Faults, as_dict
from simulator.faults.unit.sites import UNIT_SITES
from simulator.layout import FormLayout, Operand

DIGEST_CHARACTERS, OLD_DIGEST_CHARACTERS = 24, 16
"""How many hex digits the digest of a program or a `tcgen05.mma` has: 24, computed from PTX texts and data. Older lists
have 16, computed from how records were printed. That cannot be repeated, so such a digest is not compared."""
WHERE = ("live", "dead", "all")
MOST_CASES = 1 << 16  # sets of operands that a campaign can have
MOST_PLACES = 1 << 12  # of one fault
OTHERS = ("valid", "random")
"""What metadata that other selectors read can hold; lists that do not say which hold random words."""


def operand_site(name: str, operand: Operand, used: int, element: ElementType | None = None) -> Site:
    """The site of an operand. `used` is a mask of the bits of one element that count (a tf32 element has 13 bits that
    do not); `element` is the type of its elements."""
    live, table = np.zeros((operand.words, operand.lanes), np.uint32), operand.table
    bits = (np.uint32(used) << table["low"].astype(np.uint32)).astype(np.uint32)
    np.bitwise_or.at(live, (table["word"], table["lane"]), bits)
    if name != "e":
        return Site(name, live, operand=operand, element=element)
    places = np.stack([operand.grid[axis] for axis in ("word", "lane", "low")], axis=-1)
    return Site(name, live, places if places.ndim == 4 else places[:, :, None], operand=operand)


def word_site(name: str, words: int = 1, live: int = 0xFFFFFFFF, models: tuple[str, ...] = WORD_MODELS) -> Site:
    """A site of words that belong to no operand: an address, a descriptor, an immediate."""
    return Site(name, np.full((words, 1), live, np.uint32), models=models)


SELECTOR = word_site("selector", live=3, models=("selector",))


class FaultTarget(ABC):
    """What faults are injected into.

    Attributes:
        policy: about metadata codes that are not defined, see `simulator.faults.targets.policies`.
        arithmetic: "chip" or "exact".
    """

    policy: str
    arithmetic: str
    when: bool = False  # whether there is a time at which a fault strikes
    batch: int = 1  # how many faults are about as fast together as any number of them
    own: OwnModels = MappingProxyType({})  # models of one's own, by group
    patterns: tuple[Pattern, ...] = ()  # those of all groups, one after the other

    @property
    def most(self) -> int:
        """How many faults may become a part of a run, so that what is lost when the run is killed is a few seconds'."""
        return BLOCK

    def by_itself(self, faults: Faults) -> NDArray[np.bool_]:
        """Which faults are a run each, bool [fault]; the others are looked at together."""
        return np.zeros(len(faults), np.bool_)

    @property
    @abstractmethod
    def numbers(self) -> Sequence[int]:
        """The values that `case` can have: numbers of sets of operands, or of warps."""

    @property
    @abstractmethod
    def layout(self) -> FormLayout:
        """The layout of the matrix instruction; of a program, that of the first one."""

    @property
    @abstractmethod
    def sites(self) -> dict[str, Site]:
        """The sites where faults can be, by name."""

    @property
    @abstractmethod
    def digest(self) -> str:
        """A short SHA-256 of the inputs."""

    @property
    @abstractmethod
    def rule(self) -> str:
        """The arithmetic that the results rest on, with its evidence."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Plain values from which `simulator.faults.targets.subjects.make` makes the same target; the policy is not
        among them."""

    @abstractmethod
    def words(self, site: str, case: Any, word: Any, lane: Any) -> Bits:
        """The words of a site without faults, at arrays of places."""

    @abstractmethod
    def run(self, faults: Faults) -> Results:
        """The outcome of each fault, in the order given; ConfigError as `check`."""

    @property
    def largest(self) -> float | None:
        """The largest magnitude of the results of other fault-free products; None for a target that has none."""
        return None

    @abstractmethod
    def right(self, case: int) -> tuple[Bits, ElementType | None]:
        """The result of a case without faults, uint32 [row, column], and the type of its elements; None for words."""

    @abstractmethod
    def apart(self, faults: Faults) -> Mask:
        """Whether a second execution is free of each fault: bool [fault]. `detectors.asked` says what it shares."""

    def fresh(self) -> Any:
        """The results of fault-free products that no detector's bound is of, values [product, row, column]; None for a
        target that has none."""
        return None

    def prepared(self, detectors: Asked) -> Asked:
        """The detectors that a run is asked for, with what is measured of runs without faults; ConfigError for one that
        the target does not have."""
        return detectors

    def look_at_right(self, results: Results, masked: Mask) -> None:
        """Adds to results what checksums that a run is asked for say where the result is right; nothing where a target
        has none that can be asked for."""
        return

    def take(self, own: OwnModels, patterns: tuple[Pattern, ...]) -> None:
        """Takes the models of one's own and the patterns that rows of a list name by numbers."""
        vars(self).update(own=own, patterns=patterns)

    def former(self, site: str) -> str:
        """The site that holds what the words of another hold until they are written; "" for none."""
        return ""

    def false_alarms(self) -> FalseAlarms | None:
        """How often the checksums of the target fail products without a fault; None for one without checksums."""
        return None

    def check_choices(self, policies: Sequence[str] = FAULT_POLICIES, of: str = "", **more: tuple[str, ...]) -> None:
        """Raises ConfigError for a policy or an arithmetic that is none. `of` names the target where it has fewer
        policies than others; `more` are further fields, and what they may be."""
        for name, legal in {"policy": policies, "arithmetic": get_args(Arithmetic), **more}.items():
            given = str(getattr(self, name))
            if given not in legal:
                reason = f"{name} '{given}'{of * (name == 'policy')}{did_you_mean(given, legal)}"
                raise refuse(f"subject.{name}", reason, ", ".join(legal))

    def check(self, faults: Faults) -> None:
        """Raises ConfigError for the first row that names something the target does not have: a case, a site, a word, a
        lane, or a model that the site cannot have."""
        _refuse(faults, ~np.isin(faults["case"], self.numbers), "case", _span(self.numbers))
        _refuse(faults, ~np.isin(faults["site"], [SITES.index(name) for name in self.sites]), "site", self.sites)
        for name, site in self.sites.items():
            mine = faults["site"] == SITES.index(name)
            allowed = [MODELS.index(model) for model in site.models]
            _refuse(faults, mine & ~np.isin(faults["model"], allowed), "model", site.models)
            second = mine & moves(faults)
            for field, size, rows in zip(
                ("word", "lane", "word2", "lane2"), site.live.shape * 2, (mine, mine, second, second), strict=True
            ):
                wrong = (faults[field] < 0) | (faults[field] >= size)
                _refuse(faults, rows & wrong, field, _span(range(size)))
            lost, doubled = (mine & (faults["model"] == number) for number in (LOST, DOUBLED))
            absent = bits_of(faults) & ~np.uint32(site.mask) != 0
            _refuse(faults, mine & ~lost & ~doubled & absent, "mask", f"bits of {site.mask:#x}")
            if self.when:
                _refuse(
                    faults,
                    (lost | doubled) & (faults["at"] < 1),
                    "at",
                    "1 or later, behind the instruction that writes",
                )
            elif not self.former(name):
                _refuse(faults, lost, "model", [model for model in site.models if model != "lost"])
            pattern = mine & (faults["along"] == PATTERN)
            _refuse(faults, pattern & (faults["span"] >= len(self.patterns)), "span", _span(range(len(self.patterns))))
            axes = ["", "words", "lanes", *["rows", "columns"] * (site.operand is not None), "pattern"]
            axes = axes[:1] if name in UNIT_SITES else axes
            known = np.isin(faults["along"], [ALONG.index(axis) for axis in axes])
            _refuse(faults, mine & (~known | second & (faults["along"] > 0)), "along", axes)
            _refuse(faults, mine & ~pattern & ((faults["span"] < 1) | (faults["span"] > MOST_PLACES)), "span",
                    f"1 to {MOST_PLACES}")  # fmt: skip
            if name == "selector":
                _refuse(faults, mine & (faults["value"] > 3), "value", "0 to 3, two bits")
        own = (faults["model"] == OWN) & ~np.isin(faults["group"], list(self.own))
        _refuse(faults, own, "group", f"a group with a model of its own: {', '.join(map(str, self.own)) or 'none'}")

    def edits(self, faults: Faults) -> Edits:
        """What faults change. The faults have been checked already."""
        parts: list[Edits] = []
        for number in np.unique(faults["site"]).tolist():
            index = np.flatnonzero(faults["site"] == number)
            part, name = faults[index], SITES[number]

            def read(
                fault: Any, word: Any, lane: Any, former: bool = False, part: Faults = part, name: str = name
            ) -> Bits:
                return self.words(self.former(name) if former else name, part["case"][fault], word, lane)

            found = edits(part, read, self.sites[name], self.own, self.patterns)
            parts.append(found._replace(faults=len(faults), fault=index[found.fault]))
        if len(parts) == 1:
            return parts[0]
        columns = [np.concatenate(each) for each in zip(*(part[1:] for part in parts), strict=True)]
        order = np.argsort(columns[0], kind="stable")
        return Edits(len(faults), *(column[order] for column in columns))


def refuse(key: str, reason: str, legal: str) -> ConfigError:
    """The error about something that a fault, or its target, cannot be."""
    return ConfigError("campaign", key, reason, legal)


def _refuse(faults: Faults, wrong: Mask, field: str, legal: str | Sequence[str] | dict[str, Site]) -> None:
    """Raises ConfigError for the first fault that is wrong."""
    if wrong.any():
        row = faults[int(np.argmax(wrong))]
        fault = {field: row[field].item()} | as_dict(row)  # which leaves out what a list needs no column for
        text = legal if isinstance(legal, str) else ", ".join(name or "none" for name in legal)
        reason = f"{field} {fault[field]}" + f" of site {fault['site']}" * (field != "site")
        raise ConfigError(f"fault {fault['id']}", field, reason, text)


def _span(numbers: Sequence[int]) -> str:
    whole = isinstance(numbers, range) and len(numbers) > 1
    return f"{numbers[0]} to {numbers[-1]}" if whole else ", ".join(map(str, numbers))
