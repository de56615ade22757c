"""How many faults a campaign has, in words: by group, and of a program what its instructions read and write."""

from __future__ import annotations

from simulator.faults.aim.executed import covered
from simulator.faults.campaign import Campaign
from simulator.faults.targets.launch import LaunchTarget
from simulator.faults.targets.running import RunningTarget
from simulator.tables import Table

_BITS = 32 * 32  # of a register of a warp
_NO_SITES = "not covered, since no site has them: predicates, 16-bit registers, instruction words, caches"
_VIRTUAL = "; registers are PTX's virtual ones, of which a kernel has more than ptxas gives a chip"


def counted(campaign: Campaign) -> str:
    """The population of each group, and of all; of a program what its instructions read and write."""
    counts = campaign.counts()
    lines = [
        f"{group.name}: {injected:,} of {size:,} faults"
        for group, (injected, size) in zip(campaign.groups, counts, strict=True)
    ]
    lines.append(f"{sum(injected for injected, _ in counts):,} in all")
    subject = campaign.subject
    if isinstance(subject, RunningTarget):
        lines += ["", *_instructions(subject)]
    return "\n".join([*lines, ""])


def _instructions(subject: RunningTarget) -> list[str]:
    """By group of instructions, which bits of registers there are to strike before them and behind them."""
    rows = [
        (group, f"{times:,}", f"{read * _BITS:,}", f"{written * _BITS:,}")
        for group, (times, read, written) in covered(subject, subject.numbers).items()
    ]
    table = Table(("op", "executed by warps", "bits read (role=source)", "bits written (role=destination)"), rows)
    return [*table.text("<>>>").splitlines(), _NO_SITES + _VIRTUAL * isinstance(subject, LaunchTarget)]
