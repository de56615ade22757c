"""Makes fault targets from the keys of a campaign file or of a list: one `mma.sp`, one `tcgen05.mma`, or a whole trace.
Also gives the title of a target for reports."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, get_args

from isa import IsaError, parse_target
from simulator.errors import ConfigError
from simulator.execute.mma import Arithmetic
from simulator.faults.targets.launch import LaunchTarget
from simulator.faults.targets.launches.registers import MOST
from simulator.faults.targets.mma import MmaTarget
from simulator.faults.targets.program import ProgramTarget
from simulator.faults.targets.target import MOST_CASES, OTHERS, FaultTarget
from simulator.faults.targets.tcgen05 import MISALIGNED, Tcgen05Target
from simulator.layout import Choice as Choices
from simulator.toml_tables import Between, Choice, Tables

PROGRAMS = ("trace", "launch")  # keys of subjects that run, so that a fault has a time
_ARITHMETIC = Annotated[str, Choice(get_args(Arithmetic))]
_COMMON: dict[str, Any] = {
    "opcode": str, "target": str, "cases": Annotated[int, Between(1, MOST_CASES, "sets of operands")], "seed": int,
    "arithmetic": _ARITHMETIC, "selector": int, "others": Annotated[str, Choice(OTHERS)],
}  # fmt: skip
_ELEMENTS = ("", "f16", "bf16", "tf32", "e4m3", "e5m2", "e3m2", "e2m3", "e2m1", "s8", "u8")
KEYS: Mapping[str, Mapping[str, Any]] = {
    "mma": _COMMON | {"scale_a": tuple[int, int], "scale_b": tuple[int, int]},
    "tcgen05": _COMMON
    | {"m": int, "n": int, "base_lane": int, "a_in_tmem": bool, "element": Annotated[str, Choice(_ELEMENTS)]}
    | {"d_type": Annotated[str, Choice(("", "f16", "f32", "s32"))], "misaligned": Annotated[str, Choice(MISALIGNED)]},
    "trace": {"trace": str, "config": str, "target": str, "arithmetic": _ARITHMETIC},
    "launch": {
        "launch": str,
        "target": str,
        "arithmetic": _ARITHMETIC,
        "machine_code": str,
        "registers": Annotated[int, Between(1, MOST, "registers of a thread")],
    },
}  # of each sort of subject: its keys, and what their values may be


def sort_of(values: Mapping[str, Any]) -> str:
    """Which sort of target, a key of `KEYS`, these values describe."""
    tcgen05 = str(values.get("opcode", "")).startswith("tcgen05")
    programs = [sort for sort in PROGRAMS if sort in values]
    return programs[0] if programs else "tcgen05" if tcgen05 else "mma"


def make(path: str, values: Mapping[str, Any], policy: str) -> FaultTarget:
    """The target that these values describe.

    Raises:
        ConfigError: values that are not valid, an opcode that is no form, a chip without it; `path` is the file that is
            named.
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
    sort, tables = sort_of(values), Tables(path, {})
    if not {"opcode", *PROGRAMS} & values.keys():
        legal = "an opcode, such as mma.sp.m16n8k32.f32.f16.f16.f32, a trace, or a captured launch"
        raise ConfigError(path, "subject.opcode", "is missing", legal)
    tables.known("subject", values, KEYS[sort])
    given = {key: tables.value("subject", values, key, KEYS[sort][key]) for key in values}
    if sort == "trace":
        name = given.pop("trace")
        beside = Path(path).parent / name
        return ProgramTarget(str(beside) if beside.is_file() else name, policy=policy, **given)
    if sort == "launch":
        name = given.pop("launch")
        beside = Path(path).parent / name
        code = Path(path).parent / given.get("machine_code", "")
        given |= {"machine_code": str(code)} if code.is_file() else {}
        launch = LaunchTarget(str(beside) if beside.is_file() else name, policy=policy, **given)
        _ = launch.registers_of_a_thread  # machine code that cannot be read is an error here
        return launch
    if sort == "tcgen05":
        return Tcgen05Target(policy=policy, **given)
    choice = Choices(**{key: given.pop(key) for key in ("selector", "scale_a", "scale_b") if key in given})
    target = MmaTarget(given.pop("opcode"), choice=choice, policy=policy, **given)
    chip = parse_target(target.target)
    if not target.form.supports(chip):
        raise ConfigError(path, "subject.target", f"{chip} has no '{target.form.opcode}'", str(target.form.targets))
    return target


def listed(text: str) -> dict[str, Any]:
    """The values of a target from the head of a list. Lists that do not say what other lanes hold were made when those
    held random words. ValueError for a text that is no JSON object."""
    values = dict(json.loads(text))
    return values | ({} if "opcode" not in values or "others" in values else {"others": "random"})


def title(values: Mapping[str, Any]) -> str:
    """What a described target is, for reports."""
    if "launch" in values:
        return f"launch {values['launch']}"
    if "trace" in values:
        return f"trace {values['trace']}" + (f" on {values['config']}" if "config" in values else "")
    shape = f", M = {values['m']}, N = {values['n']}, base lane {values['base_lane']}" if "m" in values else ""
    return f"{values['opcode']}{shape} on {values['target']}, {values['cases']} sets of operands"
