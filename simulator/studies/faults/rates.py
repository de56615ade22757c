"""Failure rates: how many failures in 10^9 hours follow from a rate of upsets per bit and the shares of a campaign.

FIT = rate per bit x bits x share of an outcome. The rate per bit (a cross-section times a flux, or a published FIT per
bit) is the user's; the bits are the physical ones of the group's population, each once: not once for each set of
operands, or for each moment. Only faults of single bits have such a rate.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from simulator.errors import ViewError
from simulator.faults.targets.launch import LaunchTarget
from simulator.faults.targets.program import ProgramTarget
from simulator.faults.targets.subjects import listed, make
from simulator.faults.targets.target import FaultTarget
from simulator.statistics.designs import Estimate
from simulator.studies.faults.summary import Summary

SINGLE_BITS = ("flip", "stuck0", "stuck1")  # kinds of fault with one fault for each bit
_SHARED = ("shared", "tmem", "l1")  # sites that a CTA has once
_OF_BUFFERS = ("global", "l2")  # that the launch has once


@dataclass(frozen=True)
class Rate:
    """Failures in 10^9 hours.

    Attributes:
        group: the name of the group.
        bits: how many bits an upset can strike.
        outcome: of which outcome.
        fit, low, high: the rate, with its interval.
    """

    group: str
    bits: int
    outcome: str
    fit: float
    low: float
    high: float


def rates(summary: Summary, fit_per_bit: float, outcomes: tuple[str, ...], confidence: float = 0.95) -> list[Rate]:
    """The rates of a campaign, for each group of single bits and each of these outcomes.

    Raises:
        ViewError: a rate that is no positive number; no group of single bits.
        ConfigError: the target of the results cannot be made: its trace or capture is not there.
    """
    if not 0 < fit_per_bit < float("inf"):
        raise ViewError(f"--fit-per-bit {fit_per_bit:g}", "failures in 10^9 hours of one bit: a number above 0")
    about = summary.about
    described = {group["name"]: group for group in json.loads(about["groups"])}
    single = [counts for counts in summary.groups if described[counts.name]["kind"] in SINGLE_BITS]
    if not single:
        raise ViewError("no group of single bits, which a rate per bit is of", f"kinds {', '.join(SINGLE_BITS)}")
    target = make(about.get("list", "results"), listed(about["subject"]), about["policy"])
    found = []
    for counts in single:
        bits = bits_of(described[counts.name], target)
        for outcome in outcomes:
            share: Estimate = counts.estimate(outcome, confidence)
            ends = (bits * fit_per_bit * end for end in (share.share, share.low, share.high))
            found.append(Rate(counts.name, bits, outcome, *ends))
    return found


def bits_of(group: Mapping[str, Any], target: FaultTarget) -> int:
    """How many physical bits the population of a group has: what the head of the list says, or the bits of the site;
    of programs those of every warp (registers) or CTA (shared memory, Tensor Memory), as if the group left out none."""
    if isinstance(group.get("bits"), int):
        return int(group["bits"])
    one = len(target.sites[group["site"]].bits(group["where"]))
    if not isinstance(target, ProgramTarget | LaunchTarget) or group["site"] in _OF_BUFFERS:
        return one
    warps = len(target.numbers)
    return one * (max(1, warps // target.warps_of_a_cta) if group["site"] in _SHARED else warps)
