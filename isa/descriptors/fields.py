"""The tables of the bit fields in the instruction descriptor of `tcgen05.mma`, one for each of its three families.

Sources: PTX ISA 9.0, 9.7.16.4.2 (tables 42 to 44); PTX ISA 9.4 (bits 12, 26 and 29, sm_107); CUTLASS
include/cute/arch/mma_sm100_desc.hpp.
"""

from __future__ import annotations

from collections.abc import Mapping

from isa.descriptors.bitfields import Field, Severity, Value, reserved

_F8: Mapping[int, Value] = {0: "e4m3", 1: "e5m2", 3: "e2m3", 4: "e3m2", 5: "e2m1"}
TYPES_OF_KIND: Mapping[str, Mapping[int, Value]] = {
    "f16": {0: "f16", 1: "bf16"}, "tf32": {2: "tf32"}, "f8f6f4": _F8, "i8": {0: "u8", 1: "s8"},
    "mxf8f6f4": _F8, "mxf4": {1: "e2m1"}, "mxf4nvf4": {1: "e2m1"},
}  # fmt: skip
_NEGATE, _MAJOR = {0: "as stored", 1: "negated"}, {0: "K-major", 1: "MN-major (transposed)"}
_SPARSE = Field("sparse", 2, 1, "must be 1 exactly with .sp", flag=True, words={0: "dense", 1: "sparse"})
_A_TYPE = Field("a_type", 7, 3, "type of A", names=TYPES_OF_KIND)
_MIDDLE = (
    Field("negate_a", 13, 1, "sign of A (not for i8)", flag=True, words=_NEGATE),
    Field("negate_b", 14, 1, "sign of B (not for i8)", flag=True, words=_NEGATE),
    Field(
        "transpose_a",
        15,
        1,
        "major-ness of A in shared memory (K-major only for mxf4, mxf4nvf4)",
        flag=True,
        words=_MAJOR,
    ),
    Field(
        "transpose_b",
        16,
        1,
        "major-ness of B in shared memory (K-major only for mxf4, mxf4nvf4)",
        flag=True,
        words=_MAJOR,
    ),
    Field("n", 17, 6, "N, without its three lowest bits", shift=3),
)
_PLAIN = (
    Field(
        "selector",
        0,
        2,
        "sparsity selector: the column of the pair at sp-meta that holds the metadata; 0 or 1 for f16 and "
        "tf32, 0 otherwise",
        words={0: "first column (8-bit kinds: both)", 1: "second column", 2: "no known meaning", 3: "no known meaning"},
    ),
    _SPARSE,
    Field("saturate", 3, 1, "of the s32 result; i8 only", flag=True, words={0: "wraps", 1: "saturates"}),
    Field("d_type", 4, 2, "type of D", names={"": {0: "f16", 1: "f32", 2: "s32"}}),
    reserved(6, 1),
    _A_TYPE,
    Field("b_type", 10, 3, "type of B", names=TYPES_OF_KIND),
    *_MIDDLE,
    reserved(23, 1),
    Field("m", 24, 5, "M, without its four lowest bits", shift=4),
    reserved(29, 1, "reserved (PTX ISA 9.4: selects K, sm_107 only)", right="0 below sm_107"),
    Field("max_shift", 30, 2, "largest column shift of B, for reuse in .ws", names={"": {0: 0, 1: 8, 2: 16, 3: 32}}),
)
_NO_SELECTOR = "reserved (no sparsity selector in the mx kinds: taken as 0)"  # PTX ISA 9.0, 9.7.16.10.8.4
_MX_HEAD = (reserved(0, 2, _NO_SELECTOR, severity=Severity.WARNING), _SPARSE, reserved(3, 1))
_MX_B_ID = Field(
    "b_scale_id", 4, 2, "first byte of B's scale factors in their column: 0-3 with 1X, 0 or 2 with 2X, 0 with 4X"
)
_MX_TAIL = (
    *_MIDDLE,
    Field(
        "scale_type",
        23,
        1,
        "type of both scale matrices; ue4m3 for mxf4nvf4 with 4X (block16) only",
        names={"": {0: "ue4m3", 1: "ue8m0"}},
    ),
    reserved(24, 3, "reserved (bit 26: PTX ISA 9.4, sm_107 only)", right="0 below sm_107"),
    Field("m", 27, 2, "M, without its seven lowest bits", shift=7),
    Field("a_scale_id", 29, 2, "first byte of A's scale factors, like b_scale_id"),
)
_MXF8 = (
    *_MX_HEAD,
    _MX_B_ID,
    reserved(6, 1),
    _A_TYPE,
    Field("b_type", 10, 3, "type of B", names=TYPES_OF_KIND),
    *_MX_TAIL,
    reserved(31, 1),
)
_MXF4 = (
    *_MX_HEAD,
    _MX_B_ID,
    reserved(6, 1),
    _A_TYPE,
    Field("b_type", 10, 2, "type of B", names=TYPES_OF_KIND),
    Field(
        "sparsity_version",
        12,
        1,
        "what a metadata code means; below sm_107 only pairs are defined (PTX ISA 9.4; reserved before)",
        words={0: "4:8 in pairs", 1: "2:4 by element"},
    ),
    *_MX_TAIL,
    Field("k96", 31, 1, "K; 96 is dense and sm_103a only", flag=True, words={0: "64 dense, 128 sparse", 1: "96 dense"}),
)
FAMILIES: Mapping[str, tuple[Field, ...]] = {
    "f16": _PLAIN, "tf32": _PLAIN, "f8f6f4": _PLAIN, "i8": _PLAIN, "mxf8f6f4": _MXF8, "mxf4": _MXF4, "mxf4nvf4": _MXF4,
}  # fmt: skip


def table_markdown(table: tuple[Field, ...]) -> str:
    """The table of one family as Markdown."""
    lines = ["| bits | field | meaning | values |", "| --- | --- | --- | --- |"]
    for item in table:
        if item.name == "reserved":
            values = item.demand
        elif item.names:
            own = {kind: names for kind, names in item.names.items() if not kind or FAMILIES[kind] is table}
            listed = {
                kind: ", ".join(f"{code} = {name}" for code, name in names.items()) for kind, names in own.items()
            }
            values = "; ".join(f"{kind}: {names}" if kind else names for kind, names in listed.items())
        elif item.words:
            values = "; ".join(f"{code} = {word}" for code, word in item.words.items())
        else:
            values = f"code << {item.shift}" if item.shift else f"0 to {(1 << item.width) - 1}"
        lines.append(f"| {item.bits} | `{item.name}` | {item.meaning} | {values} |")
    return "\n".join(lines)
