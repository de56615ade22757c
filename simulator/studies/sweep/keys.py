"""The keys of a sweep: what a point is made of, and which values each may have.

A key with a dot in it is one of a config (`chip.clock_mhz`, `tensor.sparse_full_k.interval`); `config` names the chip;
all others are those of a subject, which is a trace or a GEMM. A list of numbers may be given as a range:

    {from = 1, to = 8}                          1, 2, ..., 8
    {from = 0, to = 100, step = 25}             0, 25, ..., 100
    {from = 64, to = 4096, count = 7, log = true}   equal ratios; whole numbers if both ends are
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, NoReturn

from simulator.errors import ConfigError, did_you_mean
from simulator.studies.gemm.choice import PATHS
from simulator.studies.gemm.tile import LARGEST, STAGES, types
from simulator.studies.gemm.wgmma.tile import STAGES as WGMMA_STAGES
from simulator.toml_tables import Between, Choice, WrongValueError, convert, legal_values

CONFIG = "config"
GEMM, TRACE = "gemm", "trace"
_Size = Annotated[int, Between(1, LARGEST)]
_Few = Annotated[int, Between(1, 65_536)]

_TYPES = Choice(tuple(dict.fromkeys((*types(True), *types(False), "f32"))))
KINDS: dict[str, dict[str, Any]] = {
    GEMM: {
        "tile": str,
        "warps": str,
        "stages": Annotated[int, Choice(tuple(range(STAGES[0], WGMMA_STAGES[-1] + 1)))],
        "type": Annotated[str, _TYPES],
        "kind": str,
        "path": Annotated[str, Choice(PATHS)],
        "accumulator": Annotated[str, Choice(("f32", "f16", "s32"))],
        "sparse": bool,
        "m": _Size,
        "n": _Size,
        "k": _Size,
        "batch": _Few,
        "batches": _Few,
        "split_k": _Few,
        "c_bits": Annotated[int, Between(0, 64, "bits")],
    },
    TRACE: {"trace": str},
}
"""For each kind of subject, its keys with their types."""

DEFAULTS: dict[str, dict[str, Any]] = {
    GEMM: {"tile": "128x128", "type": "f16", "sparse": True},
    TRACE: {},
}
BEST = "best"  # in place of a tile: the fastest of those that `tcsim gemm --tile best` tries
_LONGEST = 1_000_000  # values of a range
_SHOWN = 12


def is_override(key: str) -> bool:
    """Whether a key is one of a config."""
    return "." in key


def kinds_of(key: str) -> list[str]:
    """The kinds of subjects that have a key."""
    return [kind for kind, keys in KINDS.items() if key in keys]


def unknown(place: str, key: str, legal: list[str]) -> NoReturn:
    """Raises ConfigError for a key that does not exist; it names the nearest."""
    reason = f"unknown key{did_you_mean(key, legal)}"
    raise ConfigError(place, key, reason, f"{', '.join(legal)}, or a key of a config (with a dot)")


def check_value(place: str, key: str, value: Any) -> Any:
    """A value of a subject's key, or of `config`; ConfigError, with the bound, for one that it cannot have. Values of
    a config's keys are checked by the config."""
    if is_override(key):
        if not isinstance(value, bool | int | float | str | list):
            raise ConfigError(place, key, f"{value!r}", "a number, a text, true or false")
        return value
    hint = str if key == CONFIG else next(keys[key] for keys in KINDS.values() if key in keys)
    try:
        found = convert(value, hint)
    except WrongValueError:
        raise ConfigError(place, key, f"{value!r}", legal_values(hint)) from None
    if key == "tile" and found != BEST and not re.fullmatch(r"\d{1,4}x\d{1,4}(x\d{1,4})?", found):
        raise ConfigError(place, key, f"{value!r}", f"BMxBN or BMxBNxBK, e.g. 128x128x64, or '{BEST}'")
    if key == "warps" and not re.fullmatch(r"\d{1,2}x\d{1,2}", found):
        raise ConfigError(place, key, f"{value!r}", "WMxWN, e.g. 2x2")
    return found


def values_of(place: str, key: str, given: Any) -> tuple[Any, ...]:
    """The values of a key: of a list, of a range, or the one that it is given."""
    if isinstance(given, Mapping):
        found = _range(place, key, given)
    else:
        found = tuple(given) if isinstance(given, list | tuple) else (given,)
    if not found:
        raise ConfigError(place, key, "no value", "at least one value")
    checked = tuple(check_value(place, key, value) for value in found)
    texts = [repr(value) for value in checked]
    if len(set(texts)) < len(texts):
        twice = next(text for text in texts if texts.count(text) > 1)
        raise ConfigError(place, key, f"{twice} stands there twice", "each value once")
    return checked


def _range(place: str, key: str, given: Mapping[str, Any]) -> tuple[Any, ...]:
    """The numbers of a range, see the module."""
    legal = "{from = A, to = B} with step = S, or count = N (and log = true)"
    for name in given:
        if name not in ("from", "to", "step", "count", "log"):
            raise ConfigError(place, f"{key}.{name}", "unknown key of a range", legal)
    first, last = given.get("from"), given.get("to")
    numbers = [given[name] for name in ("from", "to", "step", "count") if name in given]
    if first is None or last is None or any(isinstance(x, bool) or not isinstance(x, int | float) for x in numbers):
        raise ConfigError(place, key, f"no range: {dict(given)}", legal)
    if "count" in given:
        return _counted(place, key, given)
    step = given.get("step", 1)
    if step == 0 or (last - first) / step < 0:
        raise ConfigError(place, key, f"from {first} to {last} by {step} has no end", "a step towards the end")
    count = int((last - first) / step + 1e-9) + 1
    if count > _LONGEST:
        raise ConfigError(place, key, f"a range of {count:,} values", f"at most {_LONGEST:,}")
    return tuple(first + i * step for i in range(count))


def _counted(place: str, key: str, given: Mapping[str, Any]) -> tuple[Any, ...]:
    """`count` numbers at equal distances, or at equal ratios; whole numbers once each if both ends are whole."""
    first, last, count = given["from"], given["to"], given["count"]
    if not isinstance(count, int) or not 2 <= count <= _LONGEST or "step" in given:
        raise ConfigError(place, f"{key}.count", f"{count}", f"2 to {_LONGEST:,}, without a step")
    if given.get("log"):
        if min(first, last) <= 0:
            raise ConfigError(place, key, f"equal ratios from {first} to {last}", "numbers above 0")
        found = [first * (last / first) ** (i / (count - 1)) for i in range(count)]
    else:
        found = [first + (last - first) * i / (count - 1) for i in range(count)]
    found[-1] = last
    if isinstance(first, int) and isinstance(last, int):
        return tuple(dict.fromkeys(round(value) for value in found))
    return tuple(float(value) for value in found)


def shown(values: tuple[Any, ...]) -> str:
    """Some values of an axis in words."""
    texts = [str(value) for value in values]
    return ", ".join(texts) if len(texts) <= _SHOWN else f"{texts[0]}, {texts[1]}, ..., {texts[-1]} ({len(texts):,})"
