"""The subjects of campaigns: one `mma.sp`, one `tcgen05.mma`, or a trace; from the keys of a campaign file or of a
list, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from isa import IsaError, parse_target
from simulator.arithmetic.rows import sum_row
from simulator.errors import ConfigError
from simulator.faults.instruction import Instruction
from simulator.faults.space import KINDS
from simulator.faults.tcgen05 import Tcgen05Instruction
from simulator.faults.tcgen05_space import alignment
from simulator.faults.trace import TraceSubject
from simulator.layout import Choice

KINDS["align"] = alignment  # of addresses in Tensor Memory: the one kind that `space` does not know
Any_ = Instruction | Tcgen05Instruction | TraceSubject
COMMON: Mapping[str, type] = {"target": str, "cases": int, "seed": int, "arithmetic": str, "selector": int}
MMA: Mapping[str, type] = {"opcode": str, **COMMON, "scale_a": list, "scale_b": list}
TCGEN05: Mapping[str, type] = {
    "opcode": str,
    **COMMON,
    "m": int,
    "n": int,
    "base_lane": int,
    "a_in_tmem": bool,
    "element": str,
    "d_type": str,
    "misaligned": str,
}
TRACE: Mapping[str, type] = {"trace": str, "config": str, "target": str, "arithmetic": str}
MOST_CASES = 1 << 16


def keys_of(values: Mapping[str, Any]) -> Mapping[str, type]:
    """The keys that a subject with these may have."""
    if "trace" in values:
        return TRACE
    return TCGEN05 if str(values.get("opcode", "")).startswith("tcgen05") else MMA


def make(path: str, values: Mapping[str, Any], policy: str) -> Any_:
    """The subject.

    Raises:
        ConfigError: values that are none, a form that is none, a target without it; `path` is where they stand.
    """
    try:
        subject = _make(path, values, policy)
        _ = subject.layout, subject.sites
    except ConfigError as error:
        raise ConfigError(path, error.key, error.reason, error.legal) from None
    except IsaError as error:
        raise ConfigError(path, "subject.opcode", str(error)) from None
    return subject


def _make(path: str, values: Mapping[str, Any], policy: str) -> Any_:
    if "trace" in values:
        given = {key: values[key] for key in ("config", "target", "arithmetic") if key in values}
        beside = Path(path).parent / values["trace"]
        return TraceSubject(str(beside) if beside.is_file() else values["trace"], policy=policy, **given)
    if not 1 <= values.get("cases", 1) <= MOST_CASES:
        raise ConfigError(path, "subject.cases", f"{values['cases']} sets of operands", f"1 to {MOST_CASES}")
    if keys_of(values) is TCGEN05:
        return Tcgen05Instruction(policy=policy, **values)
    ids = [tuple(values.get(key, [0, 0])) for key in ("scale_a", "scale_b")]
    for key, pair in zip(("scale_a", "scale_b"), ids, strict=True):
        if len(pair) != 2 or not all(isinstance(value, int) for value in pair):
            raise ConfigError(path, f"subject.{key}", f"{list(pair)}", "[byte-id, thread-id]")
    choice = Choice(selector=values.get("selector", 0), scale_a=ids[0], scale_b=ids[1])
    given = {key: values[key] for key in ("target", "cases", "seed", "arithmetic") if key in values}
    subject = Instruction(values["opcode"], choice=choice, policy=policy, **given)
    target = parse_target(subject.target)
    if not subject.form.supports(target):
        raise ConfigError(path, "subject.target", f"{target} has no '{subject.form.opcode}'", str(subject.form.targets))
    return subject


def describe(subject: Any_) -> dict[str, Any]:
    """A subject as plain values, for `make`."""
    if isinstance(subject, TraceSubject):
        values = {
            "trace": str(subject.path),
            "config": subject.config,
            "target": subject.target,
            "arithmetic": subject.arithmetic,
        }
        return {key: value for key, value in values.items() if value is not None}
    if isinstance(subject, Tcgen05Instruction):
        return {key: value for key, value in subject.__getstate__().items() if key != "policy"}
    choice = subject.choice
    about = {
        "opcode": subject.opcode,
        "target": subject.target,
        "cases": subject.cases,
        "seed": subject.seed,
        "arithmetic": subject.arithmetic,
    }
    return about | {"selector": choice.selector, "scale_a": list(choice.scale_a), "scale_b": list(choice.scale_b)}


def title(values: Mapping[str, Any]) -> str:
    """What a described subject is, for reports."""
    if "trace" in values:
        return f"trace {values['trace']}" + (f" on {values['config']}" if "config" in values else "")
    shape = f", M = {values['m']}, N = {values['n']}, base lane {values['base_lane']}" if "m" in values else ""
    return f"{values['opcode']}{shape} on {values['target']}, {values['cases']} sets of operands"


def rule_of(subject: Any_) -> str:
    """The arithmetic that the results rest on, and its evidence."""
    if subject.arithmetic != "chip":
        return "exact"
    if isinstance(subject, TraceSubject):
        return "the chip's, see tcsim run"
    if isinstance(subject, Tcgen05Instruction):
        return f"tcgen05 of {subject.target}" + ", sparse: inferred" * subject.form.sparse
    if not subject.form.a_type.is_float:
        return "exact"
    row = sum_row(subject.form, parse_target(subject.target))
    return f"{row.family} sm_{'/'.join(map(str, row.targets))}, {row.inputs}{', sparse' * row.sparse}: {row.evidence}"


def under(subject: Any_, policy: str) -> Any_:
    """The same subject under another policy."""
    return replace(subject, policy=policy)
