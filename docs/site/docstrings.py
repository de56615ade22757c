"""The project's docstrings as reStructuredText.

They are plain sentences: code stands between backticks, sections such as `Args:` are Google's, examples are doctests.
Nothing else in them is markup, so what reStructuredText would take for some is escaped.
"""

from __future__ import annotations

import re
from typing import Any

_CODE = re.compile(r"(`+)(.+?)\1", re.DOTALL)
_MARKUP = re.compile(r"[*|\\]|(?<=\w)_(?=\W|$)|(?<=\bfile)(?=:\w)")  # emphasis, substitutions, references, addresses
_NAMES = re.compile(r"^( {4,})(\w+(?:, \w+)+)(?=: )", re.MULTILINE)  # several attributes with one description
_DOCTEST = re.compile(r"\s*(>>>|\.\.\.) ?")


def as_restructured_text(app: Any, what: str, name: str, thing: object, options: Any, lines: list[str]) -> None:
    """Replaces the lines of a docstring in place, as autodoc's event wants it."""
    written: list[str] = []
    plain: list[str] = []
    example = False
    for line in [*lines, None]:
        example = line is not None and (bool(_DOCTEST.match(line)) or (example and bool(line.strip())))
        if line is not None and not example:
            plain.append(line)
            continue
        written += escaped("\n".join(plain)).split("\n") if plain else []
        plain = []
        if line is not None:
            written.append(line)
    lines[:] = written


def without_annotations(
    app: Any, what: str, name: str, thing: object, options: Any, signature: str | None, returned: str | None
) -> tuple[str | None, str | None] | None:
    """A signature with `int` in place of `Annotated[int, Between(...)]`, as autodoc's event wants it: what values are
    legal is said elsewhere."""
    return None if signature is None else (plain_types(signature), returned)


def plain_types(signature: str) -> str:
    """The signature with the first argument of each `Annotated[...]` in its place."""
    while found := re.search(r"~?(?:typing\.)?Annotated\[", signature):
        depth, comma = 1, 0
        for place in range(found.end(), len(signature)):
            depth += {"[": 1, "(": 1, "]": -1, ")": -1}.get(signature[place], 0)
            if signature[place] == "," and depth == 1 and not comma:
                comma = place
            if not depth:
                break
        signature = signature[: found.start()] + signature[found.end() : comma or place] + signature[place + 1 :]
    return signature


def escaped(text: str) -> str:
    """Plain text with code between backticks, as reStructuredText."""
    text = _NAMES.sub(lambda names: names[1] + names[2].replace(", ", ","), text)  # Sphinx would take "a, b" for a type
    parts: list[str] = []
    last = 0
    for code in _CODE.finditer(text):
        parts.append(_MARKUP.sub(r"\\\g<0>", text[last : code.start()]))
        words = " ".join(code[2].split())
        after = text[code.end() : code.end() + 1]
        parts.append(f"``{words}``" + ("\\ " if after.isalnum() else ""))
        parts.append("\n" * code[2].count("\n"))
        last = code.end()
    return "".join([*parts, _MARKUP.sub(r"\\\g<0>", text[last:])])
