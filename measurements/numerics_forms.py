"""The instructions whose arithmetic `numerics.py` measures, as data, and the PTX kernels that run them on given
register contents.

Register contents are uint32 [case, word, lane]: the words of A, B, C and, for sparse forms, the metadata register, in
this order. An f64 register is two words, the low one first. A case is one warp; of a `wgmma`, four cases in a row are
the four warps of a warp group, which share B. Fragments of `wgmma` (n = 8) are those of the `mma` of the same k and
types: A and C in registers, B stored to shared memory as core matrices.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

BITS = {
    "f16": 16,
    "bf16": 16,
    "tf32": 32,
    "f32": 32,
    "f64": 64,
    "e4m3": 8,
    "e5m2": 8,
    "s8": 8,
    "u8": 8,
    "s4": 4,
    "u4": 4,
    "b1": 1,
    "s32": 32,
}

HEADER = ".version {version}\n.target sm_90a\n.address_size 64\n"


@dataclass(frozen=True)
class Form:
    """One instruction.

    Attributes:
        opcode: without operands.
        group: what it is measured with (see `FORMS`).
        shape: m, n, k of one warp's part.
        a, b, c, d: element types.
        layouts: of A and B.
        sparse: takes a metadata register.
    """

    opcode: str
    group: str
    shape: tuple[int, int, int]
    a: str
    b: str
    c: str
    d: str
    layouts: tuple[str, str] = ("row", "col")
    sparse: bool = False

    @property
    def quads(self) -> bool:
        """Four independent products, one for each pair of quads (m8n8k4 f16)."""
        return self.shape == (8, 8, 4) and self.a == "f16"

    @property
    def wgmma(self) -> bool:
        return self.opcode.startswith("wgmma")

    @property
    def words(self) -> tuple[int, int, int, int]:
        """32-bit words of a lane in A, B, C and D."""
        m, n, k = self.shape
        copies = 4 if self.quads else 1
        stored = k // 2 if self.sparse else k
        return tuple(
            copies * x // 1024
            for x in (m * stored * BITS[self.a], n * k * BITS[self.b], m * n * BITS[self.c], m * n * BITS[self.d])
        )  # type: ignore[return-value]

    @property
    def inputs(self) -> int:
        """Words of a lane that a case starts from."""
        return sum(self.words[:3]) + self.sparse


Layouts = tuple[str, str]


def _mma(
    group: str,
    shape: tuple[int, int, int],
    types: str,
    *,
    qualifiers: str = "",
    layouts: Layouts = ("row", "col"),
    name: str = "mma",
    operation: str = "",
) -> Form:
    d, a, b, c = types.split(".")
    m, n, k = shape
    opcode = f"{name}.sync.aligned.m{m}n{n}k{k}.{layouts[0]}.{layouts[1]}{qualifiers}.{types}{operation}"
    return Form(opcode, group, shape, a, b, c, d, layouts, ".sp" in name)


def _wgmma(k: int, types: str, *, sparse: bool, saturate: bool = False) -> Form:
    d, a, b = types.split(".")
    spelling = ".sp" if sparse else ""
    opcode = f"wgmma.mma_async{spelling}.sync.aligned.m64n8k{k}.{types}{'.satfinite' if saturate else ''}"
    return Form(opcode, "wgmma", (16, 8, k), a, b, d, d, ("row", "col"), sparse)


def _forms() -> list[Form]:
    fp8, four, eight = ("e4m3", "e5m2"), ("s4", "u4"), ("s8", "u8")
    ordered = "mma.sp::ordered_metadata"
    forms = [
        _mma("dense", (16, 8, k), t)
        for t in ("f16.f16.f16.f16", "f32.f16.f16.f32", "f32.bf16.bf16.f32")
        for k in (8, 16)
    ]
    forms += [_mma("dense", (16, 8, k), "f32.tf32.tf32.f32") for k in (4, 8)]
    forms += [_mma("fp8", (16, 8, k), f"{d}.{a}.{b}.{d}") for k, d, a, b in product((16, 32), ("f32", "f16"), fp8, fp8)]
    forms += [_mma("sparse_fp8", (16, 8, 64), f"f32.{a}.{b}.f32", name=ordered) for a, b in product(fp8, fp8)]
    shapes = ((8, 8, 4), (16, 8, 4), (16, 8, 8), (16, 8, 16))
    forms += [
        _mma("f64", shape, "f64.f64.f64.f64", qualifiers=rounding)
        for shape, rounding in product(shapes, ("", ".rn", ".rz", ".rm", ".rp"))
    ]
    layouts = tuple(product(("row", "col"), repeat=2))
    forms += [
        _mma("m8n8k4", (8, 8, 4), t, layouts=both)
        for t, both in product(("f32.f16.f16.f32", "f32.f16.f16.f16", "f16.f16.f16.f16"), layouts)
    ]
    clamp = ("", ".satfinite")
    shapes = ((8, 8, 32), (16, 8, 32), (16, 8, 64))  # type: ignore[assignment]
    forms += [
        _mma("int4", shape, f"s32.{a}.{b}.s32", qualifiers=q) for shape, a, b, q in product(shapes, four, four, clamp)
    ]
    forms += [
        _mma("int4", (16, 8, k), f"s32.{a}.{b}.s32", qualifiers=q, name=ordered)
        for k, a, b, q in product((64, 128), four, four, clamp)
    ]
    shapes = ((8, 8, 16), (16, 8, 16), (16, 8, 32))  # type: ignore[assignment]
    forms += [
        _mma("int8", shape, f"s32.{a}.{b}.s32", qualifiers=q) for shape, a, b, q in product(shapes, eight, eight, clamp)
    ]
    shapes = ((8, 8, 128), (16, 8, 128), (16, 8, 256))  # type: ignore[assignment]
    forms += [
        _mma("b1", shape, "s32.b1.b1.s32", operation=operation)
        for shape, operation in product(shapes, (".xor.popc", ".and.popc"))
    ]
    forms += [
        _mma("plain_sp", (16, 8, k), t, name="mma.sp")
        for k, t in (
            (32, "f32.f16.f16.f32"),
            (32, "f32.bf16.bf16.f32"),
            (16, "f32.tf32.tf32.f32"),
            (64, "s32.s8.u8.s32"),
        )
    ]
    for sparse in (False, True):
        times = 2 if sparse else 1
        forms += [_wgmma(16 * times, t, sparse=sparse) for t in ("f32.f16.f16", "f16.f16.f16", "f32.bf16.bf16")]
        forms.append(_wgmma(8 * times, "f32.tf32.tf32", sparse=sparse))
        forms += [_wgmma(32 * times, f"{d}.{a}.{b}", sparse=sparse) for d, a, b in product(("f32", "f16"), fp8, fp8)]
        forms += [
            _wgmma(32 * times, f"s32.{a}.{b}", sparse=sparse, saturate=s)
            for a, b, s in product(eight, eight, (False, True))
        ]
    return forms


FORMS: dict[str, Form] = {form.opcode: form for form in _forms()}

BLOCKS = (
    (1, 32, 1),
    (2, 16, 1),
    (3, 32, 1),
    (4, 8, 1),
    (5, 32, 1),
    (6, 16, 1),
    (8, 4, 1),
    (16, 2, 1),
    (1, 1, 32),
    (2, 4, 4),
    (1, 4, 16),
    (2, 32, 2),
    (4, 2, 8),
    (96, 1, 1),
)
"""Blocks of threads, x, y, z, that forms lowered to more than one instruction run in besides 128 x 1 x 1."""


def in_blocks(form: Form) -> bool:
    """Whether the form is measured in every block of `BLOCKS`."""
    return (
        form.group in ("fp8", "sparse_fp8", "plain_sp")
        or (form.group == "int4" and form.a != form.b)
        or (form.group == "m8n8k4" and form.layouts == ("col", "row"))
    )


# ----------------------------------------------------------------------------------------------------------------
# kernels


def module(forms: dict[int, Form], version: str) -> str:
    """A kernel `form_N` for form number N: (uint32 *inputs, uint32 *outputs, uint32 cases), any block of whole warps
    (wgmma: 128 threads)."""
    return HEADER.format(version=version) + "\n".join(_kernel(i, form) for i, form in forms.items())


def _declaration(letter: str, element: str, words: int) -> str:
    kind = {"f32": ".f32", "f64": ".f64"}.get(element, ".b32")
    return f".reg {kind} %{letter}<{words // 2 if element == 'f64' else words}>;\n"


def _vector(letter: str, element: str, words: int) -> str:
    return "{" + ", ".join(f"%{letter}{i}" for i in range(words // 2 if element == "f64" else words)) + "}"


def _load(letter: str, element: str, words: int, first: int) -> str:
    if element == "f64":
        word = [f"ld.global.b32 %t{{half}}, [%in+{128 * (first + i)}];" for i in range(words)]
        pairs = [word[i].format(half=0) + word[i + 1].format(half=1) for i in range(0, words, 2)]
        lines = [f"{pair} mov.b64 %{letter}{i}, {{%t0, %t1}};" for i, pair in enumerate(pairs)]
    else:
        lines = [f"ld.global.b32 %{letter}{i}, [%in+{128 * (first + i)}];" for i in range(words)]
    return "\n".join(lines) + "\n"


def _store(element: str, words: int) -> str:
    if element == "f64":
        lines = [
            f"mov.b64 {{%t0, %t1}}, %d{i // 2};\nst.global.b32 [%out+{128 * i}], %t0;\nst.global.b32 "
            f"[%out+{128 * (i + 1)}], %t1;"
            for i in range(0, words, 2)
        ]
    else:
        lines = [f"st.global.b32 [%out+{128 * i}], %d{i};" for i in range(words)]
    return "\n".join(lines) + "\n"


def _kernel(number: int, form: Form) -> str:
    na, nb, nc, nd = form.words
    text = f""".visible .entry form_{number}(.param .u64 inputs, .param .u64 outputs, .param .u32 cases)
{{
.reg .b64 %in, %out, %wide, %desc;
.reg .b32 %lane, %warp, %case, %cases, %x, %y, %z, %n, %t0, %t1, %e;
.reg .pred %beyond, %first, %add;
{_declaration("a", form.a, na)}{_declaration("b", form.b, nb)}{_declaration("c", form.c, nc)}
{_declaration("d", form.d, nd)}
{".shared .align 128 .b8 tile_" + str(number) + "[2048];" if form.wgmma else ""}
ld.param.u64 %in, [inputs];
ld.param.u64 %out, [outputs];
ld.param.u32 %cases, [cases];
mov.u32 %x, %tid.x;
mov.u32 %y, %tid.y;
mov.u32 %z, %tid.z;
mov.u32 %n, %ntid.y;
mad.lo.u32 %y, %z, %n, %y;
mov.u32 %n, %ntid.x;
mad.lo.u32 %x, %y, %n, %x;
shr.u32 %warp, %x, 5;
mov.u32 %y, %ntid.y;
mul.lo.u32 %n, %n, %y;
mov.u32 %y, %ntid.z;
mul.lo.u32 %n, %n, %y;
shr.u32 %n, %n, 5;
mov.u32 %y, %ctaid.x;
mad.lo.u32 %case, %y, %n, %warp;
setp.ge.u32 %beyond, %case, %cases;
@%beyond ret;
mov.u32 %lane, %laneid;
mul.wide.u32 %wide, %lane, 4;
add.u64 %in, %in, %wide;
add.u64 %out, %out, %wide;
mul.wide.u32 %wide, %case, {128 * form.inputs};
add.u64 %in, %in, %wide;
mul.wide.u32 %wide, %case, {128 * nd};
add.u64 %out, %out, %wide;
"""
    text += _load("a", form.a, na, 0) + _load("b", form.b, nb, na) + _load("c", form.c, nc, na + nb)
    if form.sparse:
        text += f"ld.global.b32 %e, [%in+{128 * (na + nb + nc)}];\n"
    text += _wgmma_body(number, form) if form.wgmma else _mma_body(form)
    return text + _store(form.d, nd) + "ret;\n}\n"


def _mma_body(form: Form) -> str:
    na, nb, nc, nd = form.words
    operands = [_vector("d", form.d, nd), _vector("a", form.a, na), _vector("b", form.b, nb), _vector("c", form.c, nc)]
    return f"bar.warp.sync 0xffffffff;\n{form.opcode} {', '.join(operands)}{', %e, 0' if form.sparse else ''};\n"


def _wgmma_body(number: int, form: Form) -> str:
    """Register r of B's fragment is core matrix r: 8 columns n of 16 bytes, 128 bytes apart along k; no swizzle."""
    na, nb, _, nd = form.words
    lines = [f"mov.u32 %t0, tile_{number};", "mad.lo.u32 %t1, %lane, 4, %t0;", "setp.eq.u32 %first, %warp, 0;"]
    lines += [f"@%first st.shared.b32 [%t1+{128 * r}], %b{r};" for r in range(nb)]
    lines += [
        "fence.proxy.async.shared::cta;",
        "bar.sync 0;",
        "shr.u32 %t0, %t0, 4;",
        "cvt.u64.u32 %desc, %t0;",
        f"or.b64 %desc, %desc, {8 << 16 | 8 << 32};",
    ]
    kind = "f32" if form.d == "f32" else "b32"
    lines += [f"mov.{kind} %d{i}, %c{i};" for i in range(nd)]
    lines += ["setp.eq.u32 %add, 0, 0;", "wgmma.fence.sync.aligned;"]
    tail = {16: ", 1, 1, 0", 32: ", 1, 1", 8: ", 1, 1"}[BITS[form.a]] if form.a[0] not in "su" else ""
    metadata = ", %e, 0" if form.sparse else ""
    lines.append(f"{form.opcode} {_vector('d', form.d, nd)}, {_vector('a', form.a, na)}, %desc{metadata}, %add{tail};")
    lines += ["wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;"]
    return "\n".join(lines) + "\n"
