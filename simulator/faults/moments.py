"""When the faults of a group can strike a program: by warp the times, and the words that are struck then."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.errors import ConfigError
from simulator.faults.aim.executed import Block, blocks, chosen, selected_warps, selects_nothing
from simulator.faults.aim.selection import OF_INSTRUCTIONS, Selection, read_selection
from simulator.faults.group import STUCK, WRITES, Group
from simulator.faults.intervals import Accessed, blocks_of_intervals
from simulator.faults.register_intervals import of_registers
from simulator.faults.targets.launch import LaunchTarget
from simulator.faults.targets.launches.caches import CACHES
from simulator.faults.targets.program import ProgramTarget
from simulator.faults.targets.register_sites import REGISTER_SITES
from simulator.faults.targets.running import RunningTarget
from simulator.faults.unit.mapping import SUB_CORES
from simulator.faults.unit.sites import UNIT_SITES

SHARED_SITES = ("shared", "tmem", "global", *CACHES)  # words that all warps of a CTA, or of the launch, share

_OF_BUFFERS = ("global", *CACHES)  # whose words are those of buffers


def aims(group: Group) -> bool:
    """Whether the times of a group are those of selected instructions, or of intervals, and not those of `at`."""
    selection = read_selection(group.where)
    aimed = selection.uses(OF_INSTRUCTIONS) and group.site in REGISTER_SITES
    return bool(aimed) or group.at == "intervals"


def blocks_of(subject: RunningTarget, group: Group, path: str) -> list[Block]:
    """By warp, when the faults of a group strike: only while the warp runs, a word that warps share once for each CTA,
    a fault of a unit for the whole run once for each sub-core, and a selector where there is one.

    Raises:
        ConfigError: several warps for words that they share; faults at a cycle without a chip; keys that do not go
            together.
    """
    selection = read_selection(group.where)
    _check(group, path, selection)
    warps = _warps(subject, group, path, selection)
    if group.at == "intervals":
        return _intervals(subject, group, warps, path, selection)
    if group.site in _OF_BUFFERS and selection.uses(("buffer",)):
        words = _words_of_buffers(subject, group, path, selection)
        return [Block(warp, _times(subject, group, warp, path, selection), words) for warp in warps]
    if aims(group):
        _need(path, group, group.at in (-1, "any"), f"at = {group.at} beside instructions that `where` selects",
              "leave it out: they strike where these instructions are; time=FIRST..LAST narrows it")  # fmt: skip
        clocks = {warp: _cycles(subject, group, warp, path) for warp in warps} if group.clock == "cycle" else {}
        writes = group.kind in WRITES
        found = list(blocks(selection, subject, group.site, warps, clocks, only_written=writes))
        reads = writes and not found and any(blocks(selection, subject, group.site, warps, clocks))
        _need(path, group, not reads, f"kind {group.kind} of registers that the selected instructions read",
              "role=destination, or another that is written")  # fmt: skip
        if not found:
            reason = selects_nothing(selection, subject, group.site, subject.numbers)
            raise ConfigError(path, f"faults.{group.name}.where", *reason)
        return found
    found = [Block(warp, _times(subject, group, warp, path, selection)) for warp in warps]
    if not selection.uses(("time",)):
        _check_times(group, path, found, max(map(subject.instructions, warps), default=0))
    return found


def _check_times(group: Group, path: str, found: list[Block], end: int) -> None:
    """ConfigError for a given time at which nothing is struck."""
    given = np.atleast_1d(np.array(group.at))
    struck = [times for _, times, *_ in found]
    if given.dtype.kind != "i" or not struck:
        return
    left = given[~np.isin(given, np.concatenate(struck))].tolist()
    if not left:
        return
    behind = ", behind the end of every warp" if left[0] > end and group.clock != "cycle" else ""
    of_matrix = group.site == "selector" or group.site in UNIT_SITES
    legal = "any, or where a matrix instruction stands" if of_matrix else f"any, or -1 (the whole run) to {end}"
    raise ConfigError(path, f"faults.{group.name}.at", f"{left[0]} strikes nothing{behind}", legal)


def _check(group: Group, path: str, selection: Selection) -> None:
    """ConfigError for keys of a group that mean nothing for its site, or beside one another."""
    site, keys = group.site, (*OF_INSTRUCTIONS, "buffer")
    legal = {"selector": ("op", "role", "line", "source"), **dict.fromkeys(_OF_BUFFERS, ("buffer",))}
    legal |= dict.fromkeys(REGISTER_SITES, OF_INSTRUCTIONS)
    legal |= dict.fromkeys(UNIT_SITES, ("op", "line", "source"))
    wrong = [key for key in selection.uses(keys) if key not in legal.get(site, ())]
    shown = ", ".join((*legal.get(site, ()), "words, lanes, bits, warps, ctas, time"))
    _need(path, group, not wrong, f"where has {wrong and wrong[0]}, which site {site} does not", shown)
    _need(
        path,
        group,
        site not in CACHES or group.at == "intervals",
        f"site {site} with at = {group.at}",
        "at = 'intervals', while a word is there",
    )
    if group.at == "intervals":
        legal_sites = (*REGISTER_SITES, *SHARED_SITES)
        _need(path, group, site in legal_sites, f"at = 'intervals' of site {site}", ", ".join(legal_sites))
        wrong = selection.uses((*OF_INSTRUCTIONS, "time"))
        reason = f"at = 'intervals' beside {wrong and wrong[0]}, which selects times"
        _need(path, group, not wrong, reason, "words, lanes, bits, warps, ctas")
        _need(path, group, not group.period, "at = 'intervals' with a period", "one of them")
    times = [time for time in np.atleast_1d(np.array(group.at)).tolist() if isinstance(time, int)]
    ended = group.until >= 0 and any(time > group.until for time in times)
    _need(path, group, not ended, f"until = {group.until}, before at = {max(times, default=0)}", "until behind at")
    strikes_once = group.kind not in STUCK and group.until < 0 and not group.hold
    once = site in _OF_BUFFERS or group.kind in WRITES or strikes_once
    _need(path, group, not group.period or not once, "a period of a fault that strikes once",
          "stuck0 or stuck1, or until or hold; of registers, shared or tmem")  # fmt: skip


def _words_of_buffers(subject: RunningTarget, group: Group, path: str, selection: Selection) -> tuple[int, ...]:
    """The words of the buffers that a selection names."""
    assert isinstance(subject, LaunchTarget)
    chosen_words = [
        range(first, first + count)
        for name, (first, count) in subject.buffers.items()
        if selection.matches("buffer", name.__eq__)
    ]
    _need(path, group, bool(chosen_words), "where names no buffer of the launch", ", ".join(subject.buffers))
    return tuple(chain(*chosen_words))


def _warps(subject: RunningTarget, group: Group, path: str, selection: Selection) -> list[int]:
    """The warps that count the time of the faults."""
    every = selected_warps(selection, subject, group.warps or subject.numbers)
    if group.site in UNIT_SITES and not group.warps and group.at == -1:
        every = [warp for warp in every if warp % subject.warps_of_a_cta < SUB_CORES]  # one of each sub-core
    if group.site not in SHARED_SITES:
        return every
    owners = [warp if group.site not in ("global", "l2") else 0 for warp in every]
    by_cta = {warp // subject.warps_of_a_cta: warp for warp in reversed(owners)}
    if group.warps and len(by_cta) < len(group.warps):
        legal = "one warp of a CTA, whose instructions are counted"
        reason = f"several warps of a CTA, which share site {group.site}"
        raise ConfigError(path, f"faults.{group.name}.warps", reason, legal)
    return sorted(by_cta.values())


def _times(subject: RunningTarget, group: Group, warp: int, path: str, selection: Selection) -> NDArray[np.int64]:
    """The times at which a fault of a group can strike a warp, in its instructions or in cycles."""
    end = subject.instructions(warp)
    if group.clock == "cycle":
        issued = _cycles(subject, group, warp, path)
        end = 1 + int(issued[-1]) if len(issued) else 0
    times = np.arange(end) if group.at == "any" else np.atleast_1d(np.array(group.at, np.int64))
    times = times[times <= end]  # the end itself: before what is stored there
    times = times[selection.numbers("time", times)]
    of_instructions = group.site == "selector" or group.site in UNIT_SITES
    if of_instructions and group.clock != "cycle":
        picked = {item for item, static in subject.statics(warp).items() if chosen(selection, static)}
        strikes = (
            subject.selects if isinstance(subject, ProgramTarget) and group.site == "selector" else subject.multiplies
        )
        order = subject.executed(warp).tolist()
        there = [item in picked and strikes(warp, index) for index, item in enumerate(order)]
        has = np.array([*there, False, any(there)])  # -1: all of the warp's
        times = times[has[times]]
    return times


def _cycles(subject: RunningTarget, group: Group, warp: int, path: str) -> NDArray[np.int64]:
    """The cycle in which a warp issues each of its dynamic instructions."""
    need_config(path, subject)
    assert isinstance(subject, ProgramTarget)
    return subject.session.issue_cycles.get(warp, np.zeros(0, np.int64))


def _intervals(subject: RunningTarget, group: Group, warps: list[int], path: str, selection: Selection) -> list[Block]:
    """One time in each interval between two uses of a word: a change strikes there as anywhere in the interval. The
    weight is the length of the interval, in instructions or cycles."""
    site = subject.sites[group.site]
    if group.site in REGISTER_SITES:
        registers = registers_that_weigh(subject, group)
        return [
            block
            for warp in warps
            for block in of_registers(subject, group, warp, _clock_of(subject, group, warp, path), registers)
        ]
    found = []
    for warp in warps:  # one of each CTA
        accessed = subject.accessed(group.site, warp // subject.warps_of_a_cta)
        if group.clock == "cycle":
            accessed = accessed._replace(clock=_clock(subject, group, accessed, path))
        found += list(blocks_of_intervals(accessed, site))
    if group.site in _OF_BUFFERS and selection.uses(("buffer",)):
        named = set(_words_of_buffers(subject, group, path, selection))
        chosen_words = [(block, tuple(word for word in block.words or () if word in named)) for block in found]
        found = [block._replace(words=words) for block, words in chosen_words if words]
    return found


def _clock(subject: RunningTarget, group: Group, accessed: Accessed, path: str) -> NDArray[np.int64]:
    """The cycle of each position of the accesses of a trace: that in which it issues, none before an earlier one's."""
    positions = np.arange(len(accessed.clock) - 1)
    warps, times = accessed.strikes(positions - 1, positions)
    cycles = np.zeros(len(positions), np.int64)
    for warp in np.unique(warps).tolist():
        mine = warps == warp
        cycles[mine] = _cycles(subject, group, warp, path)[times[mine]]
    clock = np.maximum.accumulate(np.append(cycles, 0))
    clock[-1] += 1
    return np.asarray(clock)


def _clock_of(subject: RunningTarget, group: Group, warp: int, path: str) -> NDArray[np.int64]:
    """The time of each dynamic instruction of a warp, and of its end: in instructions or cycles."""
    if group.clock != "cycle":
        return np.arange(subject.instructions(warp) + 1)
    issued = _cycles(subject, group, warp, path)
    return np.append(issued, issued[-1:] + 1) if len(issued) else np.arange(subject.instructions(warp) + 1)


def resident_bits(subject: RunningTarget, group: Group, path: str) -> int:
    """How many bits of buffers are in L2, or in the L1 of all CTAs of a group together, on average over time."""
    words = 0.0
    for warp in _warps(subject, group, path, read_selection(group.where)):
        accessed = subject.accessed(group.site, warp // subject.warps_of_a_cta)
        end = len(accessed.clock) - 1
        first = np.full(subject.sites[group.site].live.size, end)
        np.minimum.at(first, accessed.cells, accessed.positions)
        words += float((accessed.clock[-1] - accessed.clock[first]).sum()) / max(int(accessed.clock[-1]), 1)
    return round(32 * words)


def registers_that_weigh(subject: RunningTarget, group: Group) -> int:
    """How many registers of a thread the weights of a group stand for; 0 where they stand for none of a chip."""
    narrowed = read_selection(group.where).uses(("words",)) or group.which == "dead"
    counts = group.at == "intervals" and group.site in ("registers", "registers16") and not narrowed
    return subject.registers_of_a_thread if counts else 0


def need_config(path: str, target: Any) -> None:
    """ConfigError if a program has no config, which faults at a cycle need."""
    if isinstance(target, LaunchTarget):
        raise ConfigError(path, "faults.clock", "cycles of a launch", "instruction")
    if target.config is None:
        legal = "the name of a config, such as h100_sxm"
        raise ConfigError(path, "subject.config", "is missing: faults at a cycle need a chip's times", legal)


def _need(path: str, group: Group, condition: bool, reason: str, legal: str) -> None:
    if not condition:
        raise ConfigError(path, f"faults.{group.name}", reason, legal)
