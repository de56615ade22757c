"""A group of faults of a campaign: what the keys of a [[faults]] table are, and what they may be."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from simulator.errors import ConfigError
from simulator.faults.patterns import Pattern
from simulator.faults.table import ALONG
from simulator.toml_tables import Between, Choice

KIND_NAMES = (
    "flip", "stuck0", "stuck1", "flips", "byte", "nibble", "code", "lane", "swap", "word", "selector", "align",
    "zero", "constant", "nan", "infinity", "random", "own", "pattern", "lost", "doubled",
)  # fmt: skip
CODES = ("undefined", "descending", "equal", "unordered", "all")
WHERE = ("live", "dead", "all")
TYPES = ("f16", "bf16", "tf32", "f32", "e4m3", "e5m2", "e3m2", "e2m3", "e2m1", "s8", "u8", "s4", "u4", "s32")
ENDLESS = ("word", "random", "pattern")  # kinds whose faults a seed decides, so that there are any number
WRITES = ("lost", "doubled")  # kinds of a word that an instruction writes
STUCK = ("stuck0", "stuck1")  # kinds that hold to the end where no `until` is given
HOLD = ("", "instruction", "warp", "kernel")
_Time = Annotated[int, Between(-1, 1 << 62)]
_Number = Annotated[float, Between(-1e308, 1e308)]


@dataclass(frozen=True)
class Group:
    """One [[faults]] table of a campaign.

    Attributes:
        name: the name of the group, for reports.
        site: the site that is struck, one of `SITES`; "" for the one that `where` names by its role.
        kind: the kind of fault, a key of `KINDS`.
        where: which bits: "live" (read), "dead" (not read) or "all"; or a selection (`simulator.faults.aim`), such as
            "op=mma.sp role=e lanes=0..1".
        bits: how many bits a multiple flip has.
        adjacent: whether these bits are neighbours.
        codes: which values of codes are written, see `code_values`.
        count: how many faults to draw; 0 takes every one.
        importance: draw faults with a probability in proportion to this expression (`simulator.faults.sampling`).
        strata: an expression; faults of equal values are a stratum, which has its part of the sample.
        margin, confidence: draw as many faults as an interval of this half width needs; with margin 0, `count` decides.
        at, until: when, for programs: dynamic instructions of the warp, or cycles if `clock` is "cycle"; -1 is the
            whole run. "any" stands for each of the warp's own; "intervals" for one in each interval between two uses of
            the word, weighted by its length.
        hold: until when, in a word: one "instruction", to the end of the "warp", or the whole "kernel".
        period, duty: of each `period` instructions the fault holds in the first `duty`; 0: always.
        clock: "instruction" or "cycle".
        warps: the warps that faults strike, for programs; all if empty.
        along, span: so many places in one fault, which follow each other along words, lanes, rows or columns.
        model: a model of one's own, for the kind "own": an expression or FILE.py:FUNCTION.
        patterns: a CSV file of patterns, for the kind "pattern".
        constant: what the kind "constant" writes: a number, or "0x..." for the bits.
        low, high: between which numbers the kind "random" draws.
        type: the type of elements where the site does not say it (registers, memory).
        listed, first_pattern: the patterns of the file, and the number of the first among those of all groups.
    """

    name: str
    site: str = ""
    kind: Annotated[str, Choice(KIND_NAMES)] = "flip"
    where: str = "live"
    bits: Annotated[int, Between(2, 4)] = 2
    adjacent: bool = False
    codes: Annotated[str, Choice(CODES)] = "undefined"
    count: Annotated[int, Between(0, 1 << 62)] = 0
    importance: str = ""
    strata: str = ""
    margin: Annotated[float, Between(0, 1, exclusive=True)] = 0.0
    confidence: Annotated[float, Between(0, 1, exclusive=True)] = 0.95
    at: _Time | tuple[_Time, ...] | Annotated[str, Choice(("any", "intervals"))] = -1
    until: _Time = -1
    hold: Annotated[str, Choice(HOLD)] = ""
    period: Annotated[int, Between(0, 1 << 62)] = 0
    duty: Annotated[int, Between(0, 1 << 62)] = 0
    clock: Annotated[str, Choice(("instruction", "cycle"))] = "instruction"
    warps: tuple[int, ...] = ()
    along: Annotated[str, Choice(ALONG[:-1])] = ""
    span: Annotated[int, Between(1, 1 << 12, "places")] = 1
    model: str = ""
    patterns: str = ""
    constant: float | str | None = None
    low: _Number = 0.0
    high: _Number = 1.0
    type: Annotated[str, Choice(("", *TYPES))] = ""
    listed: tuple[Pattern, ...] = field(default=(), metadata={"toml": False})
    first_pattern: int = field(default=0, metadata={"toml": False})

    @property
    def which(self) -> str:
        """Which bits: "live", "dead" or "all"."""
        return next((word for word in self.where.split() if word in WHERE), "live")


def need(group: Group, condition: bool, reason: str, legal: str) -> None:
    """Raises ConfigError about a key of the group unless the condition holds."""
    if not condition:
        raise ConfigError("campaign", f"faults.{group.name}", reason, legal)
