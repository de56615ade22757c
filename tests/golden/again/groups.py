"""The groups of faults that are drawn of each sort of target: every model, every kind, bursts and patterns."""

from __future__ import annotations

from typing import Any

Keys = dict[str, Any]
_OWN = (
    "bits ^ (1 << bit)", "bits + 1", "random", "where(bit == width - 1, ~bits, bits | (1 << bit))",
    "bits ^ (random & 3)", "(bits << 1) | (bits >> (width - 1))",
)  # fmt: skip


def of_instruction(selectors: int, scaled: bool, is_float: bool, nan: bool, infinity: bool, lost: bool) -> list[Keys]:
    """Groups of one `mma`.

    Args:
        selectors: how many it has, 0 of a dense one.
        scaled: whether it has scale factors.
        is_float, nan, infinity: what the type of A has.
        lost: whether C and D have one type.
    """
    found: list[Keys] = [{"site": site, "kind": "flip", "where": "all"} for site in "abcd"]
    found += [
        {"site": "b", "kind": "stuck1"}, {"site": "c", "kind": "stuck0"}, {"site": "a", "kind": "byte"},
        {"site": "b", "kind": "nibble"}, {"site": "a", "kind": "word"}, {"site": "b", "kind": "lane"},
        {"site": "a", "kind": "flips", "bits": 3}, {"site": "d", "kind": "flips", "bits": 2, "adjacent": True},
        {"site": "a", "kind": "zero"}, {"site": "d", "kind": "constant", "constant": 3.0},
        {"site": "c", "kind": "constant", "constant": "0x5a"}, {"site": "b", "kind": "random", "low": -2, "high": 5},
        {"site": "a", "kind": "flip", "along": "rows", "span": 3},
        {"site": "b", "kind": "constant", "constant": "0x3", "along": "columns", "span": 2},
        {"site": "b", "kind": "stuck0", "along": "lanes", "span": 5},
        {"site": "a", "kind": "random", "along": "words", "span": 2},
        {"site": "d", "kind": "zero", "along": "columns", "span": 8},
        {"site": "b", "kind": "pattern", "patterns": "patterns.csv"},
        {"site": "d", "kind": "pattern", "patterns": "patterns.csv"},
        {"site": "a", "model": _OWN[3], "along": "columns", "span": 2},
    ]  # fmt: skip
    found += [{"site": site, "model": model} for site, model in zip("abcdab", _OWN, strict=True)]
    if nan:
        found += [{"site": "b", "kind": "nan"}, {"site": "a", "kind": "nan", "along": "rows", "span": 2}]
    if infinity:
        found.append({"site": "a", "kind": "infinity"})
    if is_float:
        found.append({"site": "c", "kind": "nan"})
    if lost:
        found += [{"site": "d", "kind": "lost"}, {"site": "d", "kind": "lost", "along": "lanes", "span": 3},
                  {"site": "d", "kind": "doubled"}]  # fmt: skip
    if scaled:
        for site in ("scale_a", "scale_b"):
            found += [{"site": site, "kind": "flip"}, {"site": site, "kind": "word"}]
            found.append({"site": site, "model": "bits ^ (1 << (bit % 7))"})
    dead = [{"site": "e", "kind": "flip", "where": "dead"}] * (selectors > 1)  # with one every bit is read
    return found + (dead + _of_metadata() if selectors else [])


def _of_metadata() -> list[Keys]:
    found: list[Keys] = [{"site": "e", "kind": "flip"}]
    found += [{"site": "e", "kind": kind} for kind in ("stuck0", "stuck1", "byte", "nibble", "word", "lane", "swap")]
    found += [{"site": "e", "kind": "code", "codes": codes} for codes in ("undefined", "equal", "descending", "all")]
    found += [{"site": "e", "kind": "flips", "bits": bits, "where": "all"} for bits in (2, 3, 4)]
    found += [{"site": "e", "model": model} for model in (_OWN[0], _OWN[2], _OWN[5])]
    return [
        *found,
        {"site": "e", "kind": "flips", "bits": 4, "adjacent": True},
        {"site": "e", "kind": "flip", "along": "rows", "span": 4},
        {"site": "e", "kind": "code", "codes": "all", "along": "columns", "span": 2},
        {"site": "e", "kind": "flip", "along": "lanes", "span": 2},
        {"site": "e", "kind": "zero"},
        {"site": "e", "kind": "pattern", "patterns": "patterns.csv"},
        {"site": "selector", "kind": "selector"},
    ]


def of_tensor_instruction(sparse: bool, scaled: bool, a_in_tmem: bool, selector: bool, halves: bool) -> list[Keys]:
    """Groups of one `tcgen05.mma`.

    Args:
        sparse, scaled: whether it has metadata, and scale factors.
        a_in_tmem: whether A is in Tensor Memory.
        selector: whether it has a selector.
        halves: whether D, A and metadata lie in halves of the lanes.
    """
    found: list[Keys] = [
        {"site": "d", "kind": "flip", "where": "all"}, {"site": "d", "kind": "word"},
        {"site": "d", "kind": "flip", "along": "columns", "span": 4}, {"site": "d", "kind": "stuck1"},
        {"site": "d", "kind": "pattern", "patterns": "patterns.csv"}, {"site": "d", "model": _OWN[1]},
        {"site": "shared", "kind": "flip"}, {"site": "shared", "kind": "word"}, {"site": "shared", "kind": "byte"},
        {"site": "shared", "kind": "stuck0", "along": "words", "span": 4}, {"site": "shared", "model": _OWN[2]},
        {"site": "shared", "kind": "flip", "where": "dead"},
        {"site": "idesc", "kind": "flip"}, {"site": "idesc", "kind": "flips", "bits": 2},
        {"site": "idesc", "kind": "nibble"}, {"site": "b_desc", "kind": "flip"}, {"site": "b_desc", "kind": "stuck0"},
        {"site": "base_d", "kind": "flip"}, {"site": "base_d", "kind": "align", "where": "all"},
        {"site": "base_d", "kind": "byte"},
    ]  # fmt: skip
    bases = ["base_a"] * a_in_tmem + ["base_e"] * sparse
    found += [{"site": site, "kind": kind} for site in bases for kind in ("flip", "byte")]
    found += [{"site": site, "kind": "align", "where": "all" if halves else "dead"} for site in bases]
    if a_in_tmem:
        found += [
            {"site": "a", "kind": "flip", "where": "all"}, {"site": "a", "kind": "lane"}, {"site": "a", "kind": "zero"},
            {"site": "a", "kind": "byte"}, {"site": "a", "kind": "constant", "constant": "0x11", "along": "rows",
                                             "span": 3}, {"site": "a", "model": _OWN[3]},
            {"site": "a", "kind": "pattern", "patterns": "patterns.csv"},
        ]  # fmt: skip
    else:
        found.append({"site": "a_desc", "kind": "flip"})
    if scaled:
        found += [{"site": site, "kind": kind} for site in ("scale_a", "scale_b") for kind in ("flip", "word", "lane")]
    if sparse:
        found += [keys for keys in _of_metadata() if keys["site"] == "e"]
        found.append({"site": "e", "kind": "flip", "where": "all"})
    return found + [{"site": "selector", "kind": "selector"}] * selector


def of_trace() -> list[Keys]:
    """Groups of the trace of a sparse layer."""
    found: list[Keys] = [
        {"kind": "flip", "at": "any"}, {"kind": "flip", "at": "any", "clock": "cycle"}, {"kind": "stuck1", "at": "any"},
        {"kind": "flip", "at": 100, "until": 300}, {"kind": "word", "at": "any"}, {"kind": "byte", "at": "any"},
        {"kind": "flip", "where": "op=mma.sp role=e"}, {"kind": "flip", "where": "op=mma.sp role=destination"},
        {"kind": "nan", "at": "any", "type": "f16"}, {"kind": "stuck0", "at": "any", "hold": "instruction"},
        {"kind": "stuck1", "at": 40, "period": 7, "duty": 3},
        {"kind": "flip", "at": 60, "until": 400, "period": 50, "duty": 1},
    ]  # fmt: skip
    found = [{"site": "registers"} | keys for keys in found]
    return [
        *found,
        {"site": "shared", "kind": "flip"},
        {"site": "shared", "kind": "flip", "at": "any"},
        {"site": "shared", "kind": "stuck1", "at": "any"},
        {"site": "selector", "kind": "selector", "at": "any"},
        {"site": "selector", "kind": "selector"},
    ]


def of_launch(shared: bool) -> list[Keys]:
    """Groups of a captured launch; `shared`: whether it has shared memory."""
    found: list[Keys] = [keys for keys in of_trace() if keys["site"] == "registers" and "clock" not in keys]
    found += [{"site": "global", "kind": "flip"}, {"site": "global", "kind": "word"}]
    return found + [{"site": "shared", "kind": kind, "at": "any"} for kind in ("flip", "stuck1")] * shared
