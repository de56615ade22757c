"""PTX modules: what the parser makes of declarations, scopes, calls and debug lines; and that only errors with a line
come out of it."""

from __future__ import annotations

import struct
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isa.errors import IsaError
from isa.ptx.module import Module, parse_module
from simulator.program.kernel import link
from tests.support.cases import examples, exhaustive
from tests.support.paths import GOLDEN

HEAD = ".version 9.0\n.target sm_90a\n.address_size 64\n"


def module(body: str, before: str = "") -> Module:
    return parse_module(f"{HEAD}{before}.visible .entry k(.param .u64 p) {{\n{body}\nret;\n}}\n")


def texts(parsed: Module) -> list[str]:
    return [each.text for each in parsed.functions["k"].statements if each.text]


def test_registers_are_renamed_by_width_and_inner_names_hide_outer_ones() -> None:
    parsed = module(
        ".reg .f32 %f<3>; .reg .b64 x; .reg .pred p; .reg .b16 h;\n"
        "mov.f32 %f2, 0f00000000; { .reg .b32 x; .reg .pred q; mov.b32 x, 1; @!q mov.b32 x, 2; } mov.b64 x, 3;\n"
        "@p mov.b16 h, 4; mov.u32 %f1, %tid.x;"
    )
    assert texts(parsed) == [
        "mov.f32 %r2, 0f00000000", "mov.b32 %r3, 1", "@!%p1 mov.b32 %r3, 2", "mov.b64 %rd0, 3", "@%p0 mov.b16 %rs0, 4",
        "mov.u32 %r1, %tid.x", "ret",
    ]  # fmt: skip
    assert parsed.functions["k"].registers == (4, 1, 2, 1)
    assert parsed.functions["k"].names["%r3"] == "x"


def test_labels_of_scopes_are_their_own() -> None:
    parsed = module("a: bra a; { a: bra b; b: bra a; } bra a;")
    labels = [each.label for each in parsed.functions["k"].statements if each.label]
    assert len(set(labels)) == 3
    assert [text.split()[1] for text in texts(parsed)[:-1]] == [labels[0], labels[2], labels[1], labels[0]]


def test_variables_and_initialisers() -> None:
    before = (
        ".global .align 8 .f32 t[4] = {1.5, 0f40000000, -2};\n.const .b8 s[3] = {65, 0x42, 067};\n"
        ".global .u64 where = generic(t) + 8;\n.extern .shared .align 128 .b8 dyn[];\n.shared .v4 .f32 v[2];\n"
    )
    t, s, where, dyn, v = module("", before).variables
    assert (t.bytes, t.alignment, t.image) == (16, 8, struct.pack("<3f", 1.5, 2.0, -2.0))
    assert (s.space, s.image) == ("const", b"AB7")
    assert where.addresses == {0: ("t", 8, True)}
    assert (dyn.bytes, dyn.alignment, dyn.external, v.bytes, v.alignment) == (0, 128, True, 32, 16)


def test_parameters_have_the_offsets_of_a_structure() -> None:
    declared = ".param .u8 a, .param .align 16 .b8 s[20], .param .u64 .ptr .global .align 8 d, .param .f32 f"
    parameters = parse_module(f"{HEAD}.entry k({declared}) {{ ret; }}").functions["k"].parameters
    assert [(each.offset, each.bytes, each.alignment) for each in parameters] == [
        (0, 1, 1), (16, 20, 16), (40, 8, 8), (48, 4, 4),
    ]  # fmt: skip


def test_lines_of_the_source() -> None:
    parsed = module(".loc 1 7 3\nnanosleep.u32 1;\n.loc 1 0 0\nnanosleep.u32 2;", "")
    assert parsed.functions["k"].statements[0].source == ("file 1", 7)
    assert parsed.functions["k"].statements[1].source is None
    parsed = parse_module((GOLDEN / "planted" / "bug0.ptx").read_text())
    assert {each.source[0] for each in parsed.functions["spmm"].statements if each.source} >= {"spmm.cu"}


@pytest.mark.parametrize(
    ("body", "line", "what"),
    [
        (".reg .b33 x;", 5, "type '.b33' is not known"),
        ("a: ret;\na: ret;", 6, "label 'a' stands here for the second time"),
        ("\n\nmov.u32 %r0", 7, "does not end"),
        (".foo 3;", 5, "directive '.foo' is not known here"),
        (".shared .align 3 .b8 x[4];", 5, "an alignment of 3"),
        (".global .u8 x = 1.5;", 5, "'1.5' does not initialise .u8"),
        ("@%p;", 5, "is no instruction"),
    ],
)
def test_errors_name_the_line(body: str, line: int, what: str) -> None:
    text = f"{HEAD}.entry k() {{\n{body}\nret;}}" if "end" not in what else f"{HEAD}.entry k() {{\n{body}"
    if "end" in what:
        with pytest.raises(IsaError, match="line") as caught:
            parse_module(text)
        error: IsaError | None = caught.value
    else:
        error = parse_module(text).functions["k"].error
    assert f"line {line}: " in str(error)
    assert what in str(error)


BROKEN = {
    "a register": (".reg .b256 x;", "line 7: type '.b256' is not known"),
    "a type": (".reg .b33 x;", "line 7: type '.b33' is not known"),
    "a scope": ("{ { .foo 3; } @%p; }", "line 7: directive '.foo' is not known here"),
    "two": ("@%p;\n.foo 3;\n{ a: a: }", "line 7: '@%p' is no instruction"),
    "a name": ("mov.u32 x, y;", "line 7: nothing declares"),
    "a label": ("bra nowhere;", "line 7: no label 'nowhere'"),
    "an initialiser": (".global .u8 x = 1.5;", "line 7: '1.5' does not initialise .u8"),
}
HEADERS = {
    "a directive": (".foo 3", "line 5: '.foo 3' is no directive of a function"),
    "words": (".reqntid 32 and more", "line 5: 'and more' is no directive"),
    "a number": (".reqntid 0x", "line 5: '0x' is no directive"),
}


@pytest.mark.parametrize("case", [*BROKEN, *HEADERS])
def test_what_cannot_be_read_refuses_its_function_alone(case: str) -> None:
    """A type that is not known refused every kernel of a module."""
    body, header = BROKEN[case][0] if case in BROKEN else "", HEADERS[case][0] if case in HEADERS else ""
    message = (BROKEN | HEADERS)[case][1]
    for kind in (".visible .entry", ".func"):
        parsed = parse_module(
            f"{HEAD}.entry first() {{ ret; }}\n{kind} k()\n{header} {{\n{body}\nret;\n}}\n"
            f".entry last() {{ .reg .b32 %r<2>; {{ mov.u32 %r1, 0; }} ret; }}\n"
            f".entry caller() {{ call k, (); ret; }}\n"
        )
        assert list(parsed.functions) == ["first", "k", "last", "caller"]
        for name in ("first", "last"):
            assert parsed.functions[name].error is None
            assert link(parsed, name).name == name
        for name in ("k",) if kind != ".func" else ("caller",):
            with pytest.raises(IsaError) as caught:
                link(parsed, name)
            assert message in str(caught.value)


def test_registers_of_128_bits_are_two_of_64() -> None:
    """Each takes two numbers of the registers of 64 bits; an inner scope hides it by one of 32."""
    parsed = module(
        ".reg .b128 %rq<3>, y; .reg .b64 a;\n{ .reg .b32 %rq<2>;\nmov.b32 %rq1, 0; }\nmov.b128 %rq1, y;\nmov.b64 a, 0;"
    )
    function = parsed.functions["k"]
    assert [statement.text for statement in function.statements] == [
        "mov.b32 %r1, 0",
        "mov.b128 %rq2, %rq6",
        "mov.b64 %rd8, 0",
        "ret",
    ]


@pytest.mark.parametrize(
    "text",
    [
        ".entry a() { ret }\n.entry b() { .reg .b32 %r<2>; ret; }\n",  # whose end is this?
        ".entry a() { ret; .entry b() { ret; }\n",
        ".entry a() { ret; }\n}\n.entry b() { ret; }\n",
        ".entry a() { ret; }\nmov.u32 %r1, %r2;\n.entry b() { ret; }\n",
        ".entry a() { ret; }\n.entry (\n) { ret; }\n",
        ".entry a() { ret; }\n.global .b33 x;\n.entry b() { ret; }\n",
    ],
)
def test_what_belongs_to_no_function_refuses_the_module(text: str) -> None:
    with pytest.raises(IsaError, match=r"line [45]: "):
        parse_module(HEAD + text)


def test_directives_of_launches() -> None:
    directives = ".maxntid 0x80, 1u\n.minnctapersm 2\n.reqnctapercluster 2, 2, 1\n.explicitcluster\n.noreturn"
    function = parse_module(f"{HEAD}.entry k(.param .u64 a) {directives} {{ ret; }}").functions["k"]
    assert function.error is None
    assert dict(function.directives) == {
        "maxntid": (128, 1), "minnctapersm": (2,), "reqnctapercluster": (2, 2, 1), "explicitcluster": (),
        "noreturn": (),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "begins with its version"),
        (".version 9.0\n", "names its target"),
        (HEAD + "mov.u32 a, b;", "outside of a function"),
        (HEAD + ".entry k() { ret;", "does not end"),
        (HEAD + "/* ", "a comment that does not end"),
        (HEAD.replace("64", "32"), ".address_size 64"),
    ],
)
def test_what_is_no_module(text: str, what: str) -> None:
    with pytest.raises(IsaError, match=r"line 1|line 3|line 4") as caught:
        parse_module(text)
    assert what in str(caught.value)


PIECES = [
    ".reg .b32 %r<4>;", "{", "}", "a:", "bra a;", "@%p mov.u32 %r1, 2;", ".loc 1 2 3\n", ".entry k(.param .u32 x)", ";",
    ".shared .b8 s[", "]", "= {1,", "//", "/*", "*/", '"', "call (r), f, (x);", ".func f", ".section .x {",
    "\n", "\x00",
]  # fmt: skip


@exhaustive
@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=6), max_size=30))
@settings(max_examples=examples(2000, 150), deadline=None)
def test_nothing_but_errors_comes_out(parts: list[str]) -> None:
    for text in (HEAD + "".join(parts), HEAD + ".entry k() {" + " ".join(parts) + "}"):
        with suppress(IsaError):
            parse_module(text)


def test_declarations_in_a_row() -> None:
    """As nvcc writes them for functions of its own: each is followed by another, and by a definition."""
    module = parse_module(
        ".version 8.0\n.target sm_80\n.address_size 64\n"
        ".func (.param .b32 r) one\n(\n.param .b64 one_0\n)\n;\n.func two\n(\n.param .b64 two_0\n)\n;\n"
        ".global .align 4 .b8 table[8] = {1, 2, 3, 4, 5, 6, 7, 8};\n"
        ".func (.param .b32 r) one(\n.param .b64 one_0\n)\n{\nret;\n}\n.visible .entry k() {\nret;\n}\n"
    )
    assert [name for name, function in module.functions.items() if function.entry] == ["k"]
    assert len(module.functions["one"].statements) == 1
    assert {"one", "two"} <= set(module.functions)
