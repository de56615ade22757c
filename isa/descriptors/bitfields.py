"""Defines words that are made of bit fields. Each kind of word has one table of `Field`; encoding, decoding,
explanation and checks all read that table.

`isa.descriptors.instruction`, `isa.shared_memory.descriptor` and `isa.descriptors.zero_column_mask` hold the tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from operator import index
from typing import Any, ClassVar, Self

from isa.errors import IsaError

Value = str | int


class Severity(Enum):
    """What a finding means: PTX forbids it, PTX says nothing about what happens, or some source is stricter than
    PTX."""

    ILLEGAL = "illegal"
    UNDEFINED = "undefined"
    WARNING = "warning"


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong with a descriptor: the field, its bits ("" for the kind, which is not part of the word),
    the rule that is broken, what would be right, the source of the rule, and how severe it is."""

    field: str
    bits: str
    rule: str
    right: str
    source: str
    severity: Severity

    def __str__(self) -> str:
        return f"{self.severity.value}: {self.place}: {self.rule}; right: {self.right} ({self.source})"

    @property
    def place(self) -> str:
        """The field with its bits, if it has any."""
        return self.field + (f" (bit{'s' * ('-' in self.bits)} {self.bits})" if self.bits else "")


@dataclass(frozen=True)
class Field:
    """A run of bits of a descriptor.

    Attributes:
        name: the attribute of the descriptor that holds it; "reserved" for bits that must be zero.
        low, width: where it is.
        meaning: what it says, in words.
        names: by variant (a kind, or "" for all): code -> value. A code without a name stands for itself.
        words: code -> explanation.
        shift: the attribute is the code shifted left by this much (byte offsets without their four lowest bits, N
            without three).
        flag: the attribute is a bool.
        severity: of the finding if a reserved field is not zero.
        right: what a reserved field must be, where the reason is worth saying.
    """

    name: str
    low: int
    width: int
    meaning: str
    names: Mapping[str, Mapping[int, Value]] = field(default_factory=dict)
    words: Mapping[int, str] = field(default_factory=dict)
    shift: int = 0
    flag: bool = False
    severity: Severity = Severity.ILLEGAL
    right: str = "0"

    @property
    def bits(self) -> str:
        """The position of the field in the word, e.g. "4" or "7-9"."""
        return str(self.low) if self.width == 1 else f"{self.low}-{self.low + self.width - 1}"

    @property
    def mask(self) -> int:
        """The mask of the field's bits, at their position in the word."""
        return ((1 << self.width) - 1) << self.low

    def named(self, variant: str) -> Mapping[int, Value]:
        """The named codes of a variant: code -> value."""
        return self.names.get(variant, self.names.get("", {}))

    def value(self, code: int, variant: str) -> Value:
        """The value of the attribute that a code stands for."""
        if self.flag:
            return bool(code)
        return self.named(variant).get(code, code << self.shift)

    def code(self, value: Value, variant: str, rule: str = "") -> int:
        """The code that stands for a value of the attribute; raises IsaError, with the given rule, if the field cannot
        hold the value."""
        names = self.named(variant)
        for code, name in names.items():
            if name == value and isinstance(name, str) == isinstance(value, str):
                return code
        number = _whole(value)
        if number is not None and (not names or all(isinstance(name, str) for name in names.values())):
            code = number >> self.shift
            if code << self.shift == number and 0 <= code < 1 << self.width:
                return code
        raise self._refusal(value, number, names, rule)

    def _refusal(self, value: Value, number: int | None, names: Mapping[int, Value], rule: str) -> IsaError:
        """Why no code stands for a value; `number` is the value if it is a whole number."""
        legal = ", ".join(str(name) for name in names.values())
        if number is None or any(not isinstance(name, str) for name in names.values()):
            reason, right = f"{self.name} cannot be {value!r}", legal or "a whole number"
        elif number % (1 << self.shift):
            reason = f"{self.name} = {number} is not a multiple of {1 << self.shift}"
            right = f"a multiple of {1 << self.shift}"
        else:
            top = ((1 << self.width) - 1) << self.shift
            reason = f"{self.name} = {number} does not fit bits {self.bits}"
            right = f"0 to {top}" + f" or {legal}" * bool(legal)
        return IsaError(str(value), -1, reason, right, rule=rule, operand=self.name)

    @property
    def demand(self) -> str:
        """What a field of reserved bits is to hold, and how strictly."""
        return (
            f"must be {self.right}" if self.severity is Severity.ILLEGAL else f"should be {self.right} (else a warning)"
        )

    def explain(self, code: int, variant: str) -> str:
        """A code explained in words."""
        value = self.value(code, variant)
        unnamed = bool(self.named(variant)) and code not in self.named(variant)
        return self.words.get(code, f"code {code} has no meaning here" if unnamed else str(value))


def reserved(
    low: int, width: int, meaning: str = "reserved", severity: Severity = Severity.ILLEGAL, right: str = "0"
) -> Field:
    """A field of bits that must be zero. Bits that are set all the same are kept by decoding and reported by the
    checks."""
    return Field("reserved", low, width, meaning, severity=severity, right=right)


@dataclass(frozen=True)
class Descriptor:
    """A word of bit fields, held as named attributes; `encode` and `decode` convert between the attributes and the
    word."""

    TITLE: ClassVar[str] = ""
    TABLE: ClassVar[tuple[Field, ...]] = ()
    WIDTH: ClassVar[int] = 32
    SOURCE: ClassVar[str] = ""
    RULE: ClassVar[str] = ""  # `Error.rule` of what is wrong with such a word
    RULE_OF_FIELD: ClassVar[Mapping[str, str]] = {}  # where a field has a rule of its own

    reserved: int = field(default=0, kw_only=True)

    @property
    def variant(self) -> str:
        """The variant that selects among the names of a field; for instruction descriptors this is the kind."""
        return ""

    @property
    def table(self) -> tuple[Field, ...]:
        """The fields, lowest bits first; they cover the whole word."""
        return self.TABLE

    def __post_init__(self) -> None:
        for item in self._named():
            code = item.code(getattr(self, item.name), self.variant, self.rule_of(item.name))
            object.__setattr__(self, item.name, item.value(code, self.variant))
        allowed = sum(item.mask for item in self.table if item.name == "reserved")
        if not isinstance(self.reserved, int) or self.reserved & ~allowed:
            raise IsaError(
                hex(self.reserved),
                -1,
                "reserved bits outside the reserved fields",
                f"bits of 0x{allowed:x}",
                rule=self.RULE,
            )

    def encode(self) -> int:
        """The word that the attributes make."""
        return self.reserved | sum(
            item.code(getattr(self, item.name), self.variant) << item.low for item in self._named()
        )

    def __int__(self) -> int:
        return self.encode()

    def __str__(self) -> str:
        word = self.encode()
        lines = [f"{self.TITLE} 0x{word:0{self.WIDTH // 4}x}" + (f", .kind::{self.variant}" if self.variant else "")]
        for item in self.table:
            code = (word & item.mask) >> item.low
            said = (
                ("zero" if not code else f"0x{code:x}, {item.demand}")
                if item.name == "reserved"
                else item.explain(code, self.variant)
            )
            lines.append(f"  bits {item.bits:<6}{item.name:<18}{said}: {item.meaning}")
        return "\n".join(lines)

    def finding(self, name: str, severity: Severity, rule: str, right: str, source: str = "") -> Finding:
        """Makes a `Finding` about one field."""
        item = next(item for item in self._named() if item.name == name)
        return Finding(name, item.bits, rule, right, source or self.SOURCE, severity)

    def reserved_findings(self) -> list[Finding]:
        """One finding for each reserved field that is not zero."""
        return [
            Finding(
                "reserved",
                item.bits,
                f"{item.meaning}: 0x{(self.reserved & item.mask) >> item.low:x}",
                item.right,
                self.SOURCE,
                item.severity,
            )
            for item in self.table
            if item.name == "reserved" and self.reserved & item.mask
        ]

    def refuse(self, findings: Iterable[Finding]) -> None:
        """Raises IsaError with all findings that are more than warnings, if there are any."""
        bad = [finding for finding in findings if finding.severity is not Severity.WARNING]
        if bad:
            rights = "; ".join(f"{finding.place}: {finding.right}" for finding in bad)
            word, reason = f"0x{self.encode():0{self.WIDTH // 4}x}", "; ".join(map(str, bad))
            first = next((finding for finding in bad if finding.field in self.RULE_OF_FIELD), bad[0])
            raise IsaError(word, -1, reason, rights, rule=self.rule_of(first.field), operand=first.field)

    @classmethod
    def rule_of(cls, field_name: str) -> str:
        """The rule (`Error.rule`) to name when a field is wrong."""
        return cls.RULE_OF_FIELD.get(field_name, cls.RULE)

    def _named(self) -> list[Field]:
        return [item for item in self.table if item.name != "reserved"]


def _whole(value: object) -> int | None:
    """The value as an int if it is a whole number, else None."""
    try:
        return index(value)  # type: ignore[arg-type] # anything: what is no number raises
    except TypeError:
        return None


def unpack_word(table: Iterable[Field], word: int, width: int, variant: str = "") -> dict[str, Any]:
    """The attributes that a word stands for, reserved bits included. Raises IsaError if the word has more than `width`
    bits."""
    bits = _whole(word)
    if bits is None or not 0 <= bits < 1 << width:
        raise IsaError(str(word), -1, f"not a word of {width} bits", f"0 to 0x{(1 << width) - 1:x}")
    values: dict[str, Any] = {"reserved": 0}
    for item in table:
        if item.name == "reserved":
            values["reserved"] |= bits & item.mask
        else:
            values[item.name] = item.value((bits & item.mask) >> item.low, variant)
    return values


# The three families


@dataclass(frozen=True)
class SingleTableDescriptor(Descriptor):
    """A descriptor whose fields do not depend on anything outside the word."""

    @classmethod
    def decode(cls, word: int) -> Self:
        """Decodes a word into a descriptor."""
        return cls(**unpack_word(cls.TABLE, word, cls.WIDTH))
