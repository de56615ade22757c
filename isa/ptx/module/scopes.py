"""Names of a function: registers, variables and labels, in nested scopes. Inner names hide outer ones.

Registers get canonical names by their width (%r, %rd, %p, %rs and a number), so that whoever decodes the instructions
needs no declarations. One of 128 bits is two of 64: %rq4 is %rd4, which holds its low half, and %rd5.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from isa.ptx.module.declarations import PREFIX_OF_BYTES, Declared
from isa.ptx.module.pieces import malformed

SORTS = ("%r", "%rd", "%p", "%rs")
_NUMBERED = re.compile(r"(.*?)(0|[1-9]\d*)", re.DOTALL)
_IDENTIFIER = re.compile(r"(?<![\w$.%])[A-Za-z_$%][\w$]*(?:\.[xyzw](?![\w$]))?")
_AXES = "xyzw"
_CANONICAL = re.compile(r"%(?:r|rd|p|rs|rq)\d+")
_HALVES = {"%rq": ("%rd", 2)}  # what registers of 128 bits consist of, and how many
UNDECLARED = "$undeclared"
"""Stands behind a name that nothing declares, where it would be the canonical name of another register."""
MOST_REGISTERS = 1 << 20


@dataclass
class Scope:
    """The names that one pair of braces declares.

    Attributes:
        number: unique in the function; 0 for its body.
        parent: the scope around it.
        registers: name -> canonical name (several for a vector register).
        ranges: prefix -> (count, canonical prefix, number of the first, type).
        variables: name -> unique name.
        labels: name -> unique name.
    """

    number: int
    parent: Scope | None
    registers: dict[str, tuple[str, ...]] = field(default_factory=dict)
    ranges: dict[str, tuple[int, str, int, str]] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)

    def chain(self) -> list[Scope]:
        """This scope and those around it, from the inside."""
        scopes, scope = [], self
        while True:
            scopes.append(scope)
            if scope.parent is None:
                return scopes
            scope = scope.parent


class Names:
    """All names of one function.

    Attributes:
        scope: the innermost scope that is open.
        counts: registers by canonical prefix.
        original: canonical name of a register -> the name in the text.
        types: canonical name of a register -> the type that it is declared with.
        line: of the statement that is read.
    """

    def __init__(self) -> None:
        self.scope = Scope(0, None)
        self._scopes = 1
        self.line = 0
        self.counts = dict.fromkeys(SORTS, 0)
        self.original: dict[str, str] = {}
        self.types: dict[str, str] = {}
        self._known: dict[tuple[int, str], str] = {}

    def open(self) -> None:
        """Enters a scope."""
        self.scope = Scope(self._scopes, self.scope)
        self._scopes += 1

    def close(self) -> bool:
        """Leaves a scope; returns whether that was the function's body."""
        if self.scope.parent is None:
            return True
        self.scope = self.scope.parent
        return False

    def declare(self, declared: Declared) -> None:
        """Declares registers."""
        prefix = PREFIX_OF_BYTES[declared.size]
        for name, elements, count, _ in declared.items:
            if elements >= 0:
                raise malformed(declared.line, f"an array of registers '{name}'", f"{name}<{elements}>")
            if count:
                self.scope.ranges[name] = count, prefix, self._take(prefix, count, declared.line), declared.type
                continue
            first = self._take(prefix, declared.vector, declared.line)
            step = _HALVES.get(prefix, ("", 1))[1]
            canonical = tuple(f"{prefix}{first + step * axis}" for axis in range(declared.vector))
            self.scope.registers[name] = canonical
            self.types |= dict.fromkeys(canonical, declared.type)
            for axis, each in enumerate(canonical):
                self.original[each] = name if declared.vector == 1 else f"{name}.{_AXES[axis % 4]}"
        self._known.clear()

    def _take(self, prefix: str, count: int, line: int) -> int:
        prefix, step = _HALVES.get(prefix, (prefix, 1))
        first = self.counts[prefix]
        self.counts[prefix] += step * count
        if self.counts[prefix] > MOST_REGISTERS:
            raise malformed(line, f"{self.counts[prefix]} registers", f"at most {MOST_REGISTERS}")
        return first

    def variable(self, name: str) -> str:
        """Declares a variable in the innermost scope; returns its unique name."""
        unique = name if self.scope.number == 0 else f"{name}@{self.scope.number}"
        self.scope.variables[name] = unique
        self._known.clear()
        return unique

    def label(self, name: str) -> str:
        """Declares a label; returns its unique name."""
        unique = name if self.scope.number == 0 else f"{name}@{self.scope.number}"
        self.scope.labels[name] = unique
        return unique

    def renamed(self, operands: str) -> str:
        """The text of operands with canonical registers and unique variables; other names as they are."""
        return _IDENTIFIER.sub(lambda match: self._name(match[0]), operands)

    def _name(self, name: str) -> str:
        key = self.scope.number, name
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._resolved(name)
        return known

    def _resolved(self, name: str) -> str:
        numbered = _NUMBERED.fullmatch(name)
        for scope in self.scope.chain():
            if name in scope.registers:
                canonical = scope.registers[name]
                return canonical[0] if len(canonical) == 1 else "{" + ", ".join(canonical) + "}"
            if name[-2:-1] == "." and name[:-2] in scope.registers:
                canonical = scope.registers[name[:-2]]
                axis = _AXES.index(name[-1])
                return canonical[axis] if axis < len(canonical) else name
            if name in scope.variables:
                return scope.variables[name]
            if numbered and numbered[1] in scope.ranges:
                count, prefix, first, kind = scope.ranges[numbered[1]]
                if int(numbered[2]) < count:
                    step = _HALVES.get(prefix, ("", 1))[1]
                    canonical_name = f"{prefix}{first + step * int(numbered[2])}"
                    self.original[canonical_name], self.types[canonical_name] = name, kind
                    return canonical_name
        return f"{name}{UNDECLARED}" if _CANONICAL.fullmatch(name) else name


def resolved_label(name: str, scope: Scope) -> str | None:
    """The unique name of a label as seen from a scope; None if there is none."""
    for each in scope.chain():
        if name in each.labels:
            return each.labels[name]
    return None
