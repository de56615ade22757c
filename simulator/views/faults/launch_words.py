"""Explains one fault of a launch in words."""

from __future__ import annotations

from typing import Any

from simulator.faults.targets.injection import FaultInjection
from simulator.faults.targets.launch import LaunchTarget
from simulator.faults.targets.launches.caches import CACHES
from simulator.faults.targets.register_sites import cell
from simulator.faults.unit.sites import UNIT_SITES
from simulator.views.faults.unit_words import struck


def explain_launch(target: LaunchTarget, fault: Any) -> dict[str, Any]:
    """What the fault changes and what comes of it, under the keys of `explain_program`."""
    ended, injection = target.alone(fault)
    was, becomes = injection.was, injection.target
    after = was if becomes is None else was & ~injection.mask | becomes & injection.mask
    return {
        "what": _what(target, injection),
        "when": _when(target, injection),
        "before": f"{was:#010x}",
        "after": f"{after:#010x}",
        "read_by": [],
        "unread": False,
        "error": ended.said,
        "got": target.stored.matrix(ended.arrays) if ended.arrays else None,
        "golden": target.stored.golden_matrix,
        "width": 8 if target.stored.element is None else target.stored.element.bits // 4,
        "place": target.stored.place,
        "accuracy": None,
    }


def _what(target: LaunchTarget, injection: FaultInjection) -> str:
    end = f", bits {injection.mask:#010x}: {injection.model}"
    if injection.site in ("global", *CACHES):
        name, index = target.buffer_of(injection.word)
        cache = f"L1 of CTA {injection.cta}, " * (injection.site == "l1")
        return f"{cache}buffer '{name}', bytes {4 * index} to {4 * index + 3}{end}"
    where = f"CTA {injection.cta}"
    if injection.site == "shared":
        return f"{where}, shared memory, bytes {4 * injection.word} to {4 * injection.word + 3}{end}"
    if injection.site in UNIT_SITES:
        warps = f"the sub-core of warp {injection.local}" if injection.lasting else f"warp {injection.local}"
        return f"CTA {injection.cta}, {warps}: {struck(injection.row, target.unit_sum)}"
    if injection.model == "doubled":
        end += f", to {_name(target, injection, injection.places[1].word)} too"
    return f"{where}, warp {injection.local}, lane {injection.lane}, {_name(target, injection, injection.word)}{end}"


def _name(target: LaunchTarget, injection: FaultInjection, word: int) -> str:
    """What the PTX calls a word of registers."""
    sort, number, low = cell(target.kernel.numbering, injection.site, word)
    name = f"{sort.prefix}{number}"
    half = f" bits {low} to {low + 31}" if sort.bits > 32 else ""
    return f"{target.kernel.names.get(name, (name,))[0]}{half}"


def _when(target: LaunchTarget, injection: FaultInjection) -> str:
    if injection.site == "global" and int(injection.row["at"]) < 0:
        return "before the launch"
    item, count = target.item(injection.warp, injection.first), target.instructions(injection.warp)
    if item is None:
        return f"behind the last dynamic instruction of warp {injection.local}"
    return f"before dynamic instruction {injection.first} of {count} of the warp, {item.where}: {item.opcode}"
