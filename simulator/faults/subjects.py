"""Targets from the keys of a campaign file or of a list, and their titles: one `mma.sp`, one `tcgen05.mma`, or a
trace."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from isa import IsaError, parse_target
from simulator.errors import ConfigError
from simulator.faults.mma_target import MmaTarget
from simulator.faults.program_target import ProgramTarget
from simulator.faults.target import FaultTarget
from simulator.faults.tcgen05_target import Tcgen05Target
from simulator.layout import Choice

_COMMON: Mapping[str, type] = {
    "opcode": str, "target": str, "cases": int, "seed": int, "arithmetic": str, "selector": int,
}  # fmt: skip
MMA: Mapping[str, type] = MappingProxyType({**_COMMON, "scale_a": list, "scale_b": list})
TCGEN05: Mapping[str, type] = MappingProxyType(
    {
        **_COMMON, "m": int, "n": int, "base_lane": int, "a_in_tmem": bool, "element": str, "d_type": str,
        "misaligned": str,
    }
)  # fmt: skip
TRACE: Mapping[str, type] = MappingProxyType({"trace": str, "config": str, "target": str, "arithmetic": str})
MOST_CASES = 1 << 16


def keys_of(values: Mapping[str, Any]) -> Mapping[str, type]:
    """The keys that a subject with these may have."""
    if "trace" in values:
        return TRACE
    return TCGEN05 if str(values.get("opcode", "")).startswith("tcgen05") else MMA


def make(path: str, values: Mapping[str, Any], policy: str) -> FaultTarget:
    """The target.

    Raises:
        ConfigError: values that are none, a form that is none, a target without it; `path` is where they stand.
    """
    try:
        target = _make(path, values, policy)
        _ = target.layout, target.sites
    except ConfigError as error:
        raise ConfigError(path, error.key, error.reason, error.legal) from None
    except IsaError as error:
        raise ConfigError(path, "subject.opcode", str(error)) from None
    return target


def _make(path: str, values: Mapping[str, Any], policy: str) -> FaultTarget:
    if "trace" in values:
        given = {key: values[key] for key in ("config", "target", "arithmetic") if key in values}
        beside = Path(path).parent / values["trace"]
        return ProgramTarget(str(beside) if beside.is_file() else values["trace"], policy=policy, **given)
    if not 1 <= values.get("cases", 1) <= MOST_CASES:
        raise ConfigError(path, "subject.cases", f"{values['cases']} sets of operands", f"1 to {MOST_CASES}")
    if keys_of(values) is TCGEN05:
        return Tcgen05Target(policy=policy, **values)
    ids = {key: tuple(values.get(key, [0, 0])) for key in ("scale_a", "scale_b")}
    for key, pair in ids.items():
        if len(pair) != 2 or not all(isinstance(value, int) for value in pair):
            raise ConfigError(path, f"subject.{key}", f"{list(pair)}", "[byte-id, thread-id]")
    choice = Choice(selector=values.get("selector", 0), **ids)
    given = {key: values[key] for key in ("target", "cases", "seed", "arithmetic") if key in values}
    target = MmaTarget(values["opcode"], choice=choice, policy=policy, **given)
    chip = parse_target(target.target)
    if not target.form.supports(chip):
        raise ConfigError(path, "subject.target", f"{chip} has no '{target.form.opcode}'", str(target.form.targets))
    return target


def title(values: Mapping[str, Any]) -> str:
    """What a described target is, for reports."""
    if "trace" in values:
        return f"trace {values['trace']}" + (f" on {values['config']}" if "config" in values else "")
    shape = f", M = {values['m']}, N = {values['n']}, base lane {values['base_lane']}" if "m" in values else ""
    return f"{values['opcode']}{shape} on {values['target']}, {values['cases']} sets of operands"
