"""Reads declarations of variables, parameters and registers. PTX ISA 9.0, 5.4 (variables), 5.1 (spaces)."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field

from isa.ptx.module.module import Parameter, Variable
from isa.ptx.module.pieces import malformed

SIZES = {
    "b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2, "b32": 4, "u32": 4, "s32": 4,
    "f32": 4, "f16x2": 4, "bf16x2": 4, "tf32": 4, "b64": 8, "u64": 8, "s64": 8, "f64": 8, "f32x2": 8, "b128": 16,
    "pred": 0, "texref": 8, "samplerref": 8, "surfref": 8,
}  # fmt: skip
PREFIX_OF_BYTES = {0: "%p", 1: "%rs", 2: "%rs", 4: "%r", 8: "%rd", 16: "%rq"}
_NAME = r"[A-Za-z_$%][\w$]*"
_HEAD = re.compile(
    r"(?P<linkage>(?:\.(?:visible|extern|weak|common)\s+)*)\.(?P<space>reg|shared(?:::cta|::cluster)?|global|const|local|param)\b"
    r"(?P<attributes>(?:\s*\.attribute\s*\([^)]*\)|\s*\.align\s+\d+|\s*\.ptr(?:\s*\.\w+)*(?:\s*\.align\s+\d+)?)*)"
    r"\s*(?:\.v(?P<vector>[248])\s*)?\.(?P<type>\w+)"
    r"(?P<after>(?:\s*\.ptr(?:\s*\.(?!align)\w+)*(?:\s*\.align\s+\d+)?|\s*\.align\s+\d+)*)\s*(?P<rest>.*)",
    re.DOTALL,
)
_ALIGN = re.compile(r"\.align\s+(\d+)")
_DECLARATOR = re.compile(rf"\s*({_NAME})\s*((?:\[[^\]]*\]\s*)*)(?:<\s*(\d+)\s*>)?\s*")
_GENERIC = re.compile(rf"(generic\s*\(\s*)?({_NAME})\s*\)?\s*(?:\+\s*(\d+))?")
MOST_BYTES = 1 << 34


@dataclass(frozen=True)
class Declared:
    """A declaration: one space and type, several names.

    Attributes:
        space: "reg", "shared", ...
        type: of one element.
        vector: elements of a vector type, 1 for a scalar.
        alignment: in bytes.
        external: whether `.extern`.
        items: for each name: elements (0: unsized array, -1: no array), range of register names, initialiser text.
    """

    space: str
    type: str
    vector: int
    alignment: int
    external: bool
    items: tuple[tuple[str, int, int, str], ...]
    line: int = 0
    size: int = field(default=0)


def read_declaration(text: str, line: int) -> Declared | None:
    """A declaration; None if the text is something else. Raises IsaError for one that is malformed."""
    match = _HEAD.fullmatch(text.strip())
    if match is None:
        return None
    kind = match["type"]
    if kind not in SIZES:
        raise malformed(line, f"type '.{kind}' is not known", ", ".join(f".{name}" for name in SIZES))
    size, vector = SIZES[kind], int(match["vector"] or 1)
    stated = [int(n) for n in _ALIGN.findall(match["attributes"])]
    if not stated and match["space"] != "param":
        stated = [int(n) for n in _ALIGN.findall(match["after"])]
    alignment = max([*stated, 1]) if stated else max(size * vector, 1)
    if alignment & alignment - 1:
        raise malformed(line, f"an alignment of {alignment}", "a power of two")
    items = tuple(_items(match["rest"], line))
    space = match["space"].split("::")[0]
    return Declared(space, kind, vector, alignment, ".extern" in match["linkage"], items, line, size)


def _items(text: str, line: int) -> list[tuple[str, int, int, str]]:
    """Each declared name, its elements, its range and its initialiser."""
    items = []
    place = 0
    while place < len(text):
        match = _DECLARATOR.match(text, place)
        if match is None:
            raise malformed(line, f"a name was expected in a declaration, found '{text[place : place + 20]}'", "a name")
        elements = -1
        for extent in re.findall(r"\[([^\]]*)\]", match[2]):
            count = _count(extent, line)
            elements = count if elements < 0 else elements * count
        place, initialiser = match.end(), ""
        if text[place : place + 1] == "=":
            end = _end_of_initialiser(text, place + 1)
            initialiser, place = text[place + 1 : end].strip(), end
        items.append((match[1], elements, int(match[3] or 0), initialiser))
        rest = text[place:].lstrip()
        if rest and not rest.startswith(","):
            raise malformed(line, f"',' or ';' was expected in a declaration, found '{rest[:20]}'", "','")
        place = len(text) - len(rest) + 1 if rest else len(text)
    if not items:
        raise malformed(line, "a declaration without a name", "e.g. .reg .b32 %r<8>")
    return items


def _count(text: str, line: int) -> int:
    text = text.strip()
    if not text:
        return 0
    try:
        count = int(text.rstrip("uU"), 0)
    except ValueError:
        raise malformed(line, f"an array of '{text}' elements", "a number") from None
    if not 0 <= count <= MOST_BYTES:
        raise malformed(line, f"an array of {count} elements", f"0 to {MOST_BYTES}")
    return count


def _end_of_initialiser(text: str, place: int) -> int:
    depth = 0
    for index in range(place, len(text)):
        depth += (text[index] in "{(") - (text[index] in "})")
        if text[index] == "," and depth == 0:
            return index
    return len(text)


def variables_of(declared: Declared) -> list[Variable]:
    """The variables of a declaration outside of the registers."""
    variables = []
    for name, elements, _, initialiser in declared.items:
        each = declared.size * declared.vector
        values, addresses = _values(initialiser, declared) if initialiser else (b"", {})
        count = elements if elements > 0 else 1 if elements < 0 else len(values) // max(each, 1)
        size = each * count
        if size > MOST_BYTES or len(values) > size:
            raise malformed(
                declared.line, f"'{name}' has {size} bytes and an initialiser of {len(values)}", "one as large"
            )
        variables.append(
            Variable(
                name, declared.space, size, declared.alignment, values, addresses, declared.external, declared.line
            )
        )
    return variables


def parameters_of(text: str, line: int) -> tuple[Parameter, ...]:
    """A list of parameters `.param .u64 a, .param .align 8 .b8 b[16]` with their offsets."""
    parameters: list[Parameter] = []
    offset = 0
    for part in _split(text):
        if part.strip() in ("", "_"):
            continue
        declared = read_declaration(part, line)
        if declared is None or declared.space not in ("param", "reg"):
            raise malformed(line, f"'{part.strip()}' is no parameter", "e.g. .param .u64 name")
        name, elements, _, _ = declared.items[0]
        size = declared.size * declared.vector * (max(elements, 0) if elements >= 0 else 1)
        offset = -(-offset // declared.alignment) * declared.alignment
        parameters.append(Parameter(name, declared.type, size, declared.alignment, declared.space == "reg", offset))
        offset += size
    return tuple(parameters)


def _split(text: str) -> list[str]:
    """Splits at commas that stand before a new `.param` or `.reg`."""
    return re.split(r",(?=\s*(?:\.param|\.reg))", text)


# Initialisers


def _values(text: str, declared: Declared) -> tuple[bytes, dict[int, tuple[str, int, bool]]]:
    """The bytes of an initialiser, and the addresses of variables in it."""
    data, addresses = bytearray(), {}
    for token in (part.strip() for part in re.split(r"[{},]", text)):
        if not token:
            continue
        if (named := _GENERIC.fullmatch(token)) and not re.match(r"0[fFdDxX]|\d", token):
            addresses[len(data)] = (named[2], int(named[3] or 0), bool(named[1]))
            data += bytes(declared.size)
            continue
        data += _number(token, declared)
    return bytes(data), addresses


def _number(token: str, declared: Declared) -> bytes:
    kind, size = declared.type, declared.size
    try:
        if token[:2].lower() in ("0f", "0d") and len(token) in (10, 18):
            pattern = int(token[2:], 16)
            if kind == "f64" and len(token) == 10:
                return struct.pack("<d", struct.unpack("<f", pattern.to_bytes(4, "little"))[0])
            if kind == "f32" and len(token) == 18:
                return struct.pack("<f", struct.unpack("<d", pattern.to_bytes(8, "little"))[0])
            return pattern.to_bytes(size, "little")
        if kind in ("f32", "f64", "f16"):
            return struct.pack({"f32": "<f", "f64": "<d", "f16": "<e"}[kind], float(token))
        value = int(re.sub(r"[uU]$", "", token), 0) if not re.fullmatch(r"-?0[0-7]+", token) else int(token, 8)
        return (value & (1 << 8 * size) - 1).to_bytes(size, "little")
    except (ValueError, OverflowError, struct.error):
        raise malformed(declared.line, f"'{token}' does not initialise .{kind}", "a constant of that type") from None
