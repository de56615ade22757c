"""The instruction descriptor of `tcgen05.mma`: the 32-bit word that gives its shape, its element types and its options.
Here it is encoded, decoded and checked.

ptxas never looks into a descriptor, constant or not, so what is checked here is checked nowhere else. A family is one
table of `Field`; encoding, decoding, `str()`, the check of reserved bits and the page docs/descriptors.md (`python -m
isa.descriptors.page`) all come from it.

Sources: PTX ISA 9.0, 9.7.16.4.2 (tables 42 to 44), 9.7.16.2.1 (shapes), 9.7.16.10.8 (sparsity); PTX ISA 9.4 (bits 12,
26 and 29, sm_107); CUTLASS include/cute/arch/mma_sm100_desc.hpp. Rules that rest on less say so: "one source" or
"inferred".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Self

from isa.descriptors.bitfields import Descriptor, Field, Finding, Severity, Value, unpack_word
from isa.descriptors.fields import FAMILIES, TYPES_OF_KIND
from isa.errors import IsaError
from isa.fragments.metadata import stored_k
from isa.targets import Availability, Target, parse_target

PTX_IDESC = "PTX ISA 9.0, 9.7.16.4.2"
PTX_SHAPES = "PTX ISA 9.0, 9.7.16.2.1"
PTX_SELECTOR = "PTX ISA 9.0, 9.7.16.10.8.4"
PTX_TRANSPOSE = "PTX ISA 9.0, 9.7.16.10, tables 49, 50 and 52"

KINDS = tuple(FAMILIES)
_D_TYPES = {"f16": ("f16", "f32"), "tf32": ("f32",), "f8f6f4": ("f16", "f32"), "i8": ("s32",)}
_BYTES_OF_K = {"f16": 16, "tf32": 8, "f8f6f4": 32, "i8": 32, "mxf8f6f4": 32, "mxf4": 64, "mxf4nvf4": 64}
_ALL = Availability("100a 103a 110a 100f 103f 110f")
_ONLY_A = Availability("100a 103a 110a")
_I8 = Availability("100a 110a")
_VECTORS = {"mxf8f6f4": {"": 1, "1X": 1, "block32": 1}, "mxf4": {"": 2, "2X": 2, "block32": 2},
            "mxf4nvf4": {"": 2, "2X": 2, "block32": 2, "4X": 4, "block16": 4}}  # fmt: skip


def legal_m(kind: str, *, cta_group: int = 1, sparse: bool = False, ws: bool = False) -> tuple[int, ...]:
    """The legal values of M for a kind; empty if there is no such form. PTX ISA 9.0, 9.7.16.2.1."""
    if kind.startswith("mx"):
        return () if ws else (128,) if cta_group == 1 else (256,) if sparse else (128, 256)
    if ws:
        return (32, 64, 128) if cta_group == 1 else ()
    return (64, 128) if cta_group == 1 else (128, 256)


def legal_n(kind: str, *, cta_group: int = 1, sparse: bool = False, ws: bool = False) -> tuple[int, ...]:
    """The legal values of N for a kind by PTX's table; for f8f6f4 the wider of its two readings. PTX ISA 9.0,
    9.7.16.2.1."""
    if ws:
        return () if kind.startswith("mx") or cta_group == 2 else (64, 128) if sparse else (64, 128, 256)
    if kind == "i8":
        return (8, 16, 24, 32, *range(48, 257, 16)) if cta_group == 1 else tuple(range(32, 257, 32))
    step = 8 * cta_group
    return tuple(range(step, 257, step))


def strict_n(kind: str, m: int, *, cta_group: int = 1, sparse: bool = False, ws: bool = False) -> tuple[int, str]:
    """A granularity of N that other sources ask for beyond PTX's table, and the name of that source; (1, "") if there
    is none. Each rests on one source."""
    if ws:
        return 1, ""
    if sparse and kind == "f8f6f4" and cta_group == 2:
        return 32, "CUTLASS"
    if sparse and kind == "f8f6f4" and m == 128:
        return 16, "CUTLASS"
    if sparse:
        return 16, "JAX"
    if m == 128 and cta_group == 1 and kind in ("f16", "tf32", "f8f6f4"):
        return 16, "CUTLASS"
    return 1, ""


@dataclass(frozen=True, repr=False)
class InstructionDescriptor(Descriptor):
    """The instruction descriptor of `tcgen05.mma`: 32 bits whose layout depends on the kind.

    Attributes of the wrong family must stay at their defaults. A code without a meaning is kept as its number, so that
    every word decodes. f16 and tf32 compile to the same machine code: only the type codes here tell them apart.

    >>> hex(InstructionDescriptor("f16", m=128, n=256, a_type="f16", b_type="f16", sparse=True).encode())
    '0x8400014'
    """

    TITLE: ClassVar[str] = "instruction descriptor"
    SOURCE: ClassVar[str] = PTX_IDESC
    RULE: ClassVar[str] = "idesc"
    RULE_OF_FIELD: ClassVar[Mapping[str, str]] = dict.fromkeys(("a_scale_id", "b_scale_id", "scale_type"), "scale-ids")

    kind: str
    m: int = field(kw_only=True)
    n: int = field(kw_only=True)
    a_type: Value = field(kw_only=True)
    b_type: Value = field(kw_only=True)
    d_type: Value = field(default="f32", kw_only=True)
    sparse: bool = field(default=False, kw_only=True)
    selector: int = field(default=0, kw_only=True)
    saturate: bool = field(default=False, kw_only=True)
    negate_a: bool = field(default=False, kw_only=True)
    negate_b: bool = field(default=False, kw_only=True)
    transpose_a: bool = field(default=False, kw_only=True)
    transpose_b: bool = field(default=False, kw_only=True)
    max_shift: int = field(default=0, kw_only=True)
    scale_type: Value = field(default="ue8m0", kw_only=True)
    a_scale_id: int = field(default=0, kw_only=True)
    b_scale_id: int = field(default=0, kw_only=True)
    sparsity_version: int = field(default=0, kw_only=True)
    k96: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        if self.kind not in FAMILIES:
            raise IsaError(str(self.kind), 0, f"unknown kind '{self.kind}'", ", ".join(KINDS))
        own = {item.name for item in self.table}
        for attribute in fields(self):
            if attribute.name not in own | {"kind", "reserved"} and getattr(self, attribute.name) != attribute.default:
                raise IsaError(
                    self.kind,
                    -1,
                    f".kind::{self.kind} has no field '{attribute.name}'",
                    ", ".join(sorted(own - {"reserved"})),
                    rule="idesc",
                )
        super().__post_init__()

    @classmethod
    def decode(cls, word: int, kind: str) -> Self:
        """Decodes a word for an instruction of this kind; every word of 32 bits can be decoded."""
        if kind not in FAMILIES:
            raise IsaError(str(kind), 0, f"unknown kind '{kind}'", ", ".join(KINDS))
        return cls(kind, **unpack_word(FAMILIES[kind], word, cls.WIDTH, kind))

    @property
    def variant(self) -> str:
        """The kind, which selects among the names of the type codes."""
        return self.kind

    @property
    def table(self) -> tuple[Field, ...]:
        """The table of bit fields of the kind's family."""
        return FAMILIES[self.kind]

    @property
    def k(self) -> int:
        """Logical K of one instruction (twice the stored columns of A if sparse)."""
        return 96 if self.k96 else _BYTES_OF_K[self.kind] * (2 if self.sparse else 1)

    @property
    def k_stored(self) -> int:
        """The number of columns of A that are stored."""
        return stored_k(self.k, self.sparse)

    @property
    def result_type(self) -> str:
        """The type of D: from the field, or from the kind where that leaves no choice."""
        types = _D_TYPES.get(self.kind, ("f32",))
        return str(self.d_type) if len(types) > 1 else types[0]

    def __repr__(self) -> str:
        values = [f"{item.name}={getattr(self, item.name)!r}" for item in self._named()]
        return (
            f"InstructionDescriptor({self.kind!r}, {', '.join(values)}"
            + f", reserved=0x{self.reserved:x}" * bool(self.reserved)
            + ")"
        )

    def validate(
        self,
        *,
        kind: str | None = None,
        cta_group: int = 1,
        sparse: bool | None = None,
        ws: bool = False,
        target: str | Target = "sm_100a",
        ashift: bool = False,
        scale_vec: str = "",
        a_in_tmem: bool = False,
    ) -> list[Finding]:
        """Everything that is wrong with the descriptor in an instruction; empty if nothing is.

        Args:
            kind: the instruction's kind, if not the one that the word was decoded for: the word is then read again.
            cta_group: 1 or 2.
            sparse: whether the instruction says `.sp`; None takes the descriptor's word.
            ws: whether it says `.ws`.
            target: what it is compiled for.
            ashift: whether it says `.ashift`.
            scale_vec: "", "1X", "2X", "4X", "block16" or "block32".
            a_in_tmem: whether A comes from Tensor Memory.
        """
        if kind is not None and kind != self.kind:
            again = InstructionDescriptor.decode(self.encode(), kind)
            return again.validate(
                cta_group=cta_group,
                sparse=sparse,
                ws=ws,
                target=target,
                ashift=ashift,
                scale_vec=scale_vec,
                a_in_tmem=a_in_tmem,
            )
        if cta_group not in (1, 2):
            raise IsaError(str(cta_group), -1, f"unknown cta_group {cta_group}", "1 or 2")
        if scale_vec not in _VECTORS.get(self.kind, {"": 1}):
            legal = ", ".join(name or "none" for name in _VECTORS.get(self.kind, {"": 1}))
            raise IsaError(scale_vec, -1, f".kind::{self.kind} has no vector size '{scale_vec}'", legal, rule="idesc")
        chip = parse_target(target)
        findings = [
            *self.reserved_findings(),
            *self._sparsity(sparse, chip),
            *self._types(),
            *self._majors(cta_group, a_in_tmem),
        ]
        findings += self._shape(cta_group, self.sparse if sparse is None else sparse, ws, ashift)
        if not ws and self.max_shift:
            findings.append(self.finding("max_shift", Severity.UNDEFINED, "a maximum shift without .ws", "0"))
        if self.kind.startswith("mx"):
            findings += self._scales(scale_vec)
        if self.k96:
            if self.sparse:
                findings.append(self.finding("k96", Severity.ILLEGAL, "K = 96 is dense only", "0 with .sp"))
            if str(chip) != "sm_103a":
                findings.append(self.finding("k96", Severity.ILLEGAL, f"{chip} has no K = 96", "0, or sm_103a"))
        return findings

    def check(self, **how: Any) -> None:
        """Raises IsaError with everything that `validate(**how)` reports as illegal or undefined."""
        self.refuse(self.validate(**how))

    def _sparsity(self, sp: bool | None, chip: Target) -> list[Finding]:
        findings = []
        here = _I8 if self.kind == "i8" else _ONLY_A if self.kind in ("mxf4", "mxf4nvf4") and self.sparse else _ALL
        if chip not in here:
            rule = f"{chip} has no .kind::{self.kind}" + ", sparse" * self.sparse
            findings.append(
                Finding("kind", "", rule, str(here), "PTX ISA 9.0, 9.7.16 and ptxas 13.0", Severity.ILLEGAL)
            )
        if sp is not None and sp != self.sparse:
            rule = f"the sparsity bit is {int(self.sparse)} in an instruction {'with' if sp else 'without'} .sp"
            findings.append(self.finding("sparse", Severity.ILLEGAL, rule, str(int(sp))))
        if self.selector:
            if not self.sparse:
                findings.append(self.finding("selector", Severity.WARNING, "a sparsity selector without sparsity", "0"))
            elif self.kind in ("f8f6f4", "i8"):
                rule = f"the sparsity selector of .kind::{self.kind} must be 0, not {self.selector}"
                findings.append(self.finding("selector", Severity.ILLEGAL, rule, "0", PTX_SELECTOR))
            elif self.selector > 1:
                rule = f"sparsity selector {self.selector} has no known meaning (inferred: PTX's table says 0-3)"
                findings.append(self.finding("selector", Severity.UNDEFINED, rule, "0 or 1", PTX_SELECTOR))
        if self.sparsity_version and self.sparse:
            rule = "sparsity version 1 (2:4 by element) exists on sm_107 only"
            findings.append(
                self.finding(
                    "sparsity_version", Severity.UNDEFINED, rule, f"0 on {chip}", "PTX ISA 9.4, instruction descriptor"
                )
            )
        elif self.sparsity_version:
            findings.append(
                self.finding("sparsity_version", Severity.ILLEGAL, "a sparsity version without sparsity: reserved", "0")
            )
        return findings

    def _types(self) -> list[Finding]:
        findings = []
        for name in ("a_type", "b_type"):
            if isinstance(value := getattr(self, name), int):
                legal = ", ".join(f"{code} ({name_of_code})" for code, name_of_code in TYPES_OF_KIND[self.kind].items())
                findings.append(
                    self.finding(name, Severity.ILLEGAL, f"code {value} is no type of .kind::{self.kind}", legal)
                )
        if self.kind in _D_TYPES:
            legal = ", ".join(_D_TYPES[self.kind])
            if self.d_type not in _D_TYPES[self.kind]:
                findings.append(
                    self.finding("d_type", Severity.ILLEGAL, f"D of .kind::{self.kind} cannot be {self.d_type}", legal)
                )
            elif self.kind == "f16" and self.d_type == "f16" and "bf16" in (self.a_type, self.b_type):
                findings.append(self.finding("d_type", Severity.ILLEGAL, "D in f16 needs A and B in f16", "f32"))
        if self.kind == "f16" and self.a_type != self.b_type:
            rule = "A and B of different types: PTX does not say that they may be; CUTLASS never does it (inferred)"
            findings.append(self.finding("b_type", Severity.WARNING, rule, str(self.a_type), "CUTLASS"))
        if self.saturate and self.kind != "i8":
            findings.append(self.finding("saturate", Severity.ILLEGAL, f".kind::{self.kind} cannot saturate", "0"))
        for name in ("negate_a", "negate_b"):
            if self.kind == "i8" and getattr(self, name):
                findings.append(self.finding(name, Severity.ILLEGAL, ".kind::i8 cannot negate", "0"))
        return findings

    def _majors(self, cta_group: int, a_in_tmem: bool) -> list[Finding]:
        findings = []
        for name, element in (("transpose_a", self.a_type), ("transpose_b", self.b_type)):
            if getattr(self, name) and self.kind in ("mxf4", "mxf4nvf4"):
                findings.append(
                    self.finding(name, Severity.ILLEGAL, f".kind::{self.kind} cannot transpose", "0", PTX_TRANSPOSE)
                )
            elif getattr(self, name) and element in ("e2m3", "e3m2", "e2m1"):
                rule = f"{element} transposed: only 8-, 16- and 32-bit types are listed (inferred)"
                findings.append(self.finding(name, Severity.WARNING, rule, "0", f"{PTX_TRANSPOSE}; CUTLASS"))
        if self.transpose_a and a_in_tmem:
            findings.append(
                self.finding(
                    "transpose_a",
                    Severity.ILLEGAL,
                    "A in Tensor Memory cannot be transposed",
                    "0",
                    "CUTLASS (one source)",
                )
            )
        step = 16 * cta_group
        if (
            self.transpose_b
            and self.b_type in ("e4m3", "e5m2", "u8", "s8")
            and (self.n % step or not step <= self.n <= 256)
        ):
            rule = f"N = {self.n} with 8-bit B transposed and cta_group::{cta_group}"
            findings.append(
                self.finding("n", Severity.ILLEGAL, rule, f"{step} to 256 in steps of {step}", PTX_TRANSPOSE)
            )
        return findings

    def _shape(self, cta_group: int, sparse: bool, ws: bool, ashift: bool) -> list[Finding]:
        how: dict[str, Any] = {"cta_group": cta_group, "sparse": sparse, "ws": ws}
        form = f".kind::{self.kind}, cta_group::{cta_group}" + ", .sp" * sparse + ", .ws" * ws
        findings = []
        for name, legal in (("m", legal_m(self.kind, **how)), ("n", legal_n(self.kind, **how))):
            if (value := getattr(self, name)) not in legal:
                right = steps(legal) or "no such form"
                findings.append(
                    self.finding(name, Severity.ILLEGAL, f"{name.upper()} = {value} with {form}", right, PTX_SHAPES)
                )
            elif name == "n":
                step, who = strict_n(self.kind, self.m, **how)
                if value % step:
                    rule = (
                        f"N = {value} with M = {self.m}, {form}: legal in PTX's table, {who} wants a "
                        f"multiple of {step} (one source)"
                    )
                    findings.append(self.finding("n", Severity.WARNING, rule, f"a multiple of {step}", who))
                elif self.kind == "i8" and value == 24:
                    rule = (
                        "N = 24 with .kind::i8: legal in PTX's table, CUTLASS takes 8 or multiples of 16 (one source)"
                    )
                    findings.append(self.finding("n", Severity.WARNING, rule, "16 or 32", "CUTLASS"))
        if ashift and self.m not in (128, 256):
            findings.append(
                self.finding(
                    "m",
                    Severity.ILLEGAL,
                    f"M = {self.m} with .ashift",
                    "128 or 256",
                    "PTX ISA 9.0, 9.7.16.10 (tcgen05.mma)",
                )
            )
        return findings

    def _scales(self, scale_vec: str) -> list[Finding]:
        findings = []
        count = _VECTORS[self.kind][scale_vec]
        legal = {1: (0, 1, 2, 3), 2: (0, 2), 4: (0,)}[count]
        for name in ("a_scale_id", "b_scale_id"):
            if (value := getattr(self, name)) not in legal:
                rule = f"scale factor id {value} with {count} factors a row (scale_vec::{count}X)"
                findings.append(self.finding(name, Severity.ILLEGAL, rule, " or ".join(map(str, legal))))
        if self.scale_type == "ue4m3" and (self.kind != "mxf4nvf4" or scale_vec in ("2X", "block32")):
            rule = f"ue4m3 scales with .kind::{self.kind}" + (f" {scale_vec}" if self.kind == "mxf4nvf4" else "")
            findings.append(
                self.finding(
                    "scale_type",
                    Severity.UNDEFINED,
                    rule,
                    "ue8m0 (code 1)",
                    f"{PTX_IDESC}; PTX ISA 9.4 (undefined below sm_107)",
                )
            )
        return findings


def steps(numbers: tuple[int, ...]) -> str:
    """Writes numbers as a list in which the evenly spaced run at the end is shortened."""
    if len(numbers) < 4:
        return " ".join(map(str, numbers))
    step = numbers[-1] - numbers[-2]
    start = next(i for i in range(len(numbers)) if numbers[i:] == tuple(range(numbers[i], numbers[-1] + 1, step)))
    return " ".join([*map(str, numbers[:start]), f"{numbers[start]} to {numbers[-1]} step {step}"])
