"""How many faults a campaign has, in words: by group, and of a program what its instructions read and write."""

from __future__ import annotations

from simulator.faults.aim.executed import covered
from simulator.faults.campaign import Campaign
from simulator.faults.moments import registers_that_weigh
from simulator.faults.targets.launch import LaunchTarget
from simulator.faults.targets.program import ProgramTarget
from simulator.faults.targets.register_sites import REGISTER_SITES
from simulator.faults.targets.running import RunningTarget
from simulator.state.registers import WARP_SIZE
from simulator.tables import Table

_NO_SITES = ("instruction words",)
_VIRTUAL = "registers are PTX's virtual ones, of which a kernel has more than ptxas gives a chip"
_PHYSICAL = "of {}, PTX's registers are struck, and weights stand for {} registers of a thread, as the chip has them"


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
        weighed = {group.name: registers_that_weigh(subject, group) for group in campaign.groups}
        if any(weighed.values()):
            lines += [_PHYSICAL.format(name, count) for name, count in weighed.items() if count]
        elif isinstance(subject, LaunchTarget):
            lines[-1] += f"; {_VIRTUAL}"
    return "\n".join([*lines, ""])


def _instructions(subject: RunningTarget) -> list[str]:
    """By group of instructions, which bits of registers there are to strike before them and behind them."""
    sites = [subject.sites[name] for name in REGISTER_SITES if name in subject.sites]
    by_site = [(site.size * WARP_SIZE, covered(subject, subject.numbers, site.name)) for site in sites]
    rows = []
    for group, (times, *_) in by_site[0][1].items():
        read, written = (sum(bits * groups[group][side] for bits, groups in by_site) for side in (1, 2))
        rows.append((group, f"{times:,}", f"{read:,}", f"{written:,}"))
    table = Table(("op", "executed by warps", "bits read (role=source)", "bits written (role=destination)"), rows)
    lacking = ("64-bit registers", "caches") if isinstance(subject, ProgramTarget) else ("tags of caches",)
    said = f"not covered, since no site has them: {', '.join((*lacking, *_NO_SITES))}"
    return [*table.text("<>>>").splitlines(), said]
