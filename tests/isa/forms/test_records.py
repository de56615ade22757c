"""Every row says everything: what executes it, its time, its targets, its section, and a text that decodes back."""

from __future__ import annotations

import random
from collections import Counter
from itertools import product

import isa
from isa.forms.record import Form, Shape, Space, Time, Unit
from isa.forms.rows import Row, instruction, row_form
from isa.forms.synchronisation import is_arrival, is_reduction
from isa.forms.table import FAMILY_ROWS, KERNEL_ROWS, PLAIN_ROWS, opcodes, plain_forms
from isa.ptx.opcodes import find_form
from simulator.execute import dispatch, registry
from simulator.views.forms import table
from tests.golden.make_ptxas_tcgen05 import legal_text as family_text
from tests.support.cases import over
from tests.support.row_texts import legal_text

ROWS: tuple[Row, ...] = (*PLAIN_ROWS, *FAMILY_ROWS)
NOT_EXECUTED: set[str] = set()  # what is decoded and not executed

assert dispatch.FAMILIES


def forms_of(row: Row) -> list[Form]:
    """Two forms of a row: the first choice of every slot, and the last."""
    return [row_form(row, tuple(slot[place] for slot in row.slots)) for place in (0, -1)]


@over("row", ROWS, ids=lambda row: f"{row.name}-{row.section}")
def test_a_row_says_everything(row: Row) -> None:
    for form in forms_of(row):
        assert form.section.startswith("PTX ISA 9.0, 9.7.")
        assert isinstance(form.time, Time)
        assert form.unit is form.time.unit
        assert isinstance(form.unit, Unit)
        assert form.time.table
        assert form.targets.lowest >= 70
        assert len({role.name for role in form.roles}) == len(form.roles)
        assert (registry.find(form) is None) == (form.name in NOT_EXECUTED)
        assert find_form(form.opcode).opcode == form.opcode


@over("row", ROWS, ids=lambda row: f"{row.name}-{row.section}")
def test_its_text_decodes_back(row: Row) -> None:
    generator = random.Random(row.name)
    for form in forms_of(row):
        text = family_text(form.opcode, generator) if form.asynchronous else legal_text(form, generator.randrange)
        decoded = isa.decode(text, ptx="99.0")
        assert decoded.form.opcode == form.opcode
        assert isa.decode(str(decoded), ptx="99.0") == decoded
        assert all(
            decoded[role.name] is operand for role, operand in zip(decoded.form.roles, decoded.operands, strict=False)
        )


def test_rows_do_not_overlap() -> None:
    """No opcode is a form of two rows. mma's rows overlap where one has more targets: there the first counts."""
    spelled = Counter(opcode for row in ROWS for opcode in row.spellings())
    assert [opcode for opcode, count in spelled.items() if count > 1] == []


def test_every_opcode_is_in_the_table_of_the_documentation() -> None:
    warpgroups = {str(row[0]) for row in table("wgmma").rows}
    assert {row[0] for row in table("all").rows} == set(opcodes()) | warpgroups
    assert len(warpgroups) == (1092 + 1056) // 2 + 3


def test_matrix_forms_are_executed_and_timed() -> None:
    for opcode in (*isa.mma_forms(), "tcgen05.mma.cta_group::1.kind::f16", "tcgen05.mma.ws.cta_group::1.kind::i8"):
        form = find_form(opcode)
        assert form.is_matrix
        assert registry.find(form) is not None
        assert form.unit in (Unit.TENSOR, Unit.TCGEN05)


def test_what_is_loaded_late_registers_itself() -> None:
    for first, module in registry.LAZY_MODULES.items():
        names = {form.name for row in FAMILY_ROWS if row.name.split(".")[0] == first for form in forms_of(row)}
        assert names, module
        assert {name for name in names if registry.find(find_form(_opcode(name))) is None} == NOT_EXECUTED & names


def _opcode(name: str) -> str:
    return next(next(row.spellings()) for row in FAMILY_ROWS if row.name == name)


def test_accesses_say_how_wide_they_are() -> None:
    """ld and st by the type and the vector; ldmatrix reads rows of 16 bytes, 8 for each matrix."""
    forms = plain_forms()
    load = forms["ld.shared.v4.u16"].access
    store = forms["st.global.v2.b64"].access
    matrices = forms["ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16"].access
    assert load is not None
    assert store is not None
    assert matrices is not None
    assert (load.space, load.bytes, load.write) == (Space.SHARED, 8, False)
    assert (store.space, store.bytes, store.write) == (Space.GLOBAL, 16, True)
    assert (matrices.bytes, matrices.row_bytes, matrices.addresses) == (8, 16, 16)


def test_syntax_of_a_row() -> None:
    row = instruction(
        "foo.{a,b}{.c,.d}.e{::f}.u32", "d, a, b:64, c:pred, table:imm8",
        since="1.0", targets="70+", section="9.7.1.1", time=Time.INTEGER,
    )  # fmt: skip
    assert row.slots == (("a", "b"), ("", "c", "d"), ("e", "e::f"), ("u32",))
    assert len(list(product(*row.slots))) == len(list(row.spellings())) == 12
    roles = next(row.forms()).roles
    assert [(role.name, role.width, role.shape) for role in roles] == [
        ("d", 32, Shape.REGISTER), ("a", 32, Shape.VALUE), ("b", 64, Shape.VALUE), ("c", 1, Shape.PREDICATE),
        ("table", 32, Shape.IMMEDIATE),
    ]  # fmt: skip
    assert (roles[0].output, roles[4].limit) == (True, 256)


def test_what_kernels_have_is_executed() -> None:
    """Every row of the tables that kernels alone have has a function; a launch itself executes barriers that some
    threads arrive at or that reduce, and of what needs several GPUs an error says so."""
    forms = [form for row in KERNEL_ROWS for form in forms_of(row)]
    lacking = [form for form in forms if registry.find(form) is None]
    several = [form for form in lacking if form.name.split(".")[0] in registry.NOT_EXECUTED]
    assert all(is_arrival(form) or is_reduction(form) or form in several for form in lacking)
