"""The table of what kernels have besides loads, stores and arithmetic: atomic operations, generic addresses, shuffles,
votes, matches and reductions of a warp, barriers of some of its threads, hints for caches."""

from __future__ import annotations

from dataclasses import replace

from isa.forms.record import Access, Role, Shape, Space, Time
from isa.forms.rows import (
    Qualifiers,
    Roles,
    Row,
    address_widths,
    constants_of,
    instruction,
    matrix_address,
    operands,
    policy,
    type_bits,
)  # fmt: skip
from isa.fragments.registers import Fragment, matrix_rows_fragment
from isa.types import ELEMENT_TYPES

_SCOPE = "{.cta,.cluster,.gpu,.sys}"
_SPACES = ("{.global}", ".{shared,shared::cta,shared::cluster}")
_HINT = "{.L2::cache_hint}"


def elements_of(qualifiers: Qualifiers) -> int:
    """How many elements, one after the other in memory, an atomic operation changes."""
    return next((int(q[1:]) for q in qualifiers if q in ("v2", "v4", "v8")), 1)


def _source(name: str, kind: str) -> Role:
    bits, constants = type_bits(kind), constants_of(kind)
    shape = Shape.VALUE if constants else Shape.REGISTER
    return Role(name, shape, width=bits, widths=(bits,), constants=constants, type=kind)


def _target(qualifiers: Qualifiers) -> Role:
    return Role("address", Shape.ADDRESS, widths=address_widths(qualifiers), variables=True)


def _atomic(returns: bool, sources: str) -> Roles:
    """The operands of atom (which returns the old value) and red."""

    def roles(qualifiers: Qualifiers) -> tuple[Role, ...]:
        kind = qualifiers[-1]
        bits, count = type_bits(kind), elements_of(qualifiers)
        sink = "" if kind.startswith("bf16") else "may"
        d = Role("d", Shape.REGISTER, output=True, width=bits, widths=(bits,), type=kind, sink=sink)
        given = [_source(name, kind) for name in sources]
        if kind == "b128" and len(given) > 1:
            given[1] = replace(given[1], shape=Shape.REGISTER, constants=())
        if count > 1:
            d = replace(d, shape=Shape.VECTOR, count=count, sink="part")
            given = [replace(source, shape=Shape.VECTOR, count=count) for source in given]
        spared = returns and kind in ("b32", "b128") and sources == "b" and "L2::cache_hint" not in qualifiers
        spare = (replace(_SPARE, widths=(bits,)),) if spared else ()
        return (*((d,) if returns else ()), _target(qualifiers), *given, *policy(qualifiers), *spare)

    return roles


# A register that ptxas 13.0 takes behind the operands of atom.and, or, xor and exch of b32 and b128, and that does
# nothing
_SPARE = Role("spare", Shape.REGISTER, optional=True, widths=(32,), dropped=True)


def _atomic_access(qualifiers: Qualifiers) -> Access:
    size = type_bits(qualifiers[-1]) // 8 * elements_of(qualifiers)
    shared = any(q.startswith("shared") for q in qualifiers)
    return Access(Space.SHARED if shared else Space.GLOBAL, size, write=True, row_bytes=size)


def _atomics(name: str, section: str) -> tuple[Row, ...]:
    """The rows of atom, which returns the old value, or red; `red` cannot acquire, and what compares takes no hint."""
    returns = name == "atom"
    operations = (
        (".{and,or,xor}", ".{b32,b64}", "1.1", "70+"),
        (".{inc,dec}", ".u32", "1.1", "70+"),
        (".{min,max}", ".{u32,s32,u64,s64}", "1.1", "70+"),
        (".add", ".{u32,s32,u64,f32,f64}", "1.1", "70+"),
        (".add.noftz", ".{f16,f16x2}", "6.2", "70+"),
        (".add.noftz", ".{bf16,bf16x2}", "7.8", "90+"),
    )
    exchange = ((".exch", ".{b32,b64}", "1.1", "70+"), (".exch", ".b128", "8.3", "90+"))
    vectors = (
        (".add", ".{v2,v4}.f32"), (".{add,min,max}.noftz", ".{v2,v4}.{f16,f16x2,bf16,bf16x2}"),
        (".{add,min,max}.noftz", ".v8.{f16,bf16}"),
    )  # fmt: skip
    order = "{.relaxed,.acquire,.release,.acq_rel}" if returns else "{.relaxed,.release}"
    times = (Time.LOAD_GLOBAL, Time.LOAD) if returns else (Time.STORE_GLOBAL, Time.STORE)

    def row(space: str, rest: str, sources: str, since: str, targets: str, time: Time) -> Row:
        return instruction(
            f"{name}{order}{_SCOPE}{space}{rest}", _atomic(returns, sources), any_order=True,
            since=since, targets=targets, section=section, time=time, access=_atomic_access,
        )  # fmt: skip

    spaces = tuple(zip(_SPACES, (_HINT, ""), times, strict=True))
    found = [
        row(space, f"{operation}{hint}{kinds}", "b", since, targets, time)
        for operation, kinds, since, targets in (*operations, *(exchange if returns else ()))
        for space, hint, time in spaces
    ]
    found += [
        row(_SPACES[0], f"{operation}{_HINT}{kinds}", "b", "8.1", "90+", times[0]) for operation, kinds in vectors
    ]
    if returns:
        found += [row(space, ".cas.{b16,b32,b64}", "bc", "1.1", "70+", time) for space, _, time in spaces]
        found += [row(space, ".cas.b128", "bc", "8.3", "90+", time) for space, _, time in spaces]
    return tuple(found)


def _mask(_: Qualifiers = ()) -> Role:
    return Role("membermask", Shape.VALUE, constants=("integer",), widths=(32,))


def _predicate(name: str, output: bool = False) -> Role:
    if output:
        return Role(name, Shape.REGISTER, output=True, width=1, widths=(1,))
    return Role(name, Shape.PREDICATE, constants=("integer",), width=1, widths=(1,))


def _vote(qualifiers: Qualifiers) -> tuple[Role, ...]:
    ballot = "ballot" in qualifiers
    d = Role("d", Shape.REGISTER, output=True, widths=(32,), type="b32") if ballot else _predicate("d", output=True)
    return d, _predicate("a"), _mask()


def _match(qualifiers: Qualifiers) -> tuple[Role, ...]:
    shape = Shape.REGISTER_OR_PAIR if "all" in qualifiers else Shape.REGISTER
    d = Role("d", shape, output=True, widths=(32,))
    return d, _source("a", qualifiers[-1]), _mask()


def _redux(qualifiers: Qualifiers) -> tuple[Role, ...]:
    kind = "u32" if qualifiers[-1] == "b32" else qualifiers[-1]  # ptxas 13.0 takes no 0f3F800000 here
    return Role("d", Shape.REGISTER, output=True, widths=(32,)), replace(_source("a", kind), type=""), _mask()


def _shuffle(_: Qualifiers) -> tuple[Role, ...]:
    return operands("d:register or pair, a:bits, b:bits, c:bits, membermask:u32")(("b32",))


def _convert_address(qualifiers: Qualifiers) -> tuple[Role, ...]:
    bits = type_bits(qualifiers[-1])
    a = Role("a", Shape.VALUE, width=bits, widths=(bits,), constants=("integer",), variables=True)
    return Role("d", Shape.REGISTER, output=True, width=bits, widths=(bits,)), a


def _inquire(_: Qualifiers) -> tuple[Role, ...]:
    return _predicate("d", output=True), Role(
        "a", Shape.VALUE, width=64, widths=(32, 64), constants=("integer",), variables=True
    )


def _address(_: Qualifiers) -> tuple[Role, ...]:
    return (Role("address", Shape.ADDRESS, widths=(16, 32, 64), variables=True),)


def _wide_address(_: Qualifiers) -> tuple[Role, ...]:
    return (Role("address", Shape.ADDRESS, widths=(16, 64), variables=True, wide_from=100),)


def _line(qualifiers: Qualifiers) -> tuple[Role, ...]:
    return replace(_wide_address(())[0], wide_from=100 if "L2::evict_normal" in qualifiers else 0), Role(
        "size", Shape.IMMEDIATE, constants=("integer",), choices=((128,),)
    )


def _new_policy(_: Qualifiers) -> tuple[Role, ...]:
    d = Role("d", Shape.REGISTER, output=True, width=64, widths=(64,))
    return d, Role("fraction", Shape.VALUE, optional=True, constants=("bits", "float"), widths=(32,), type="f32")


def _range_policy(_: Qualifiers) -> tuple[Role, ...]:
    sizes = (Role(name, Shape.VALUE, constants=("integer",), widths=(32,)) for name in ("first", "total"))
    address = Role("address", Shape.ADDRESS, widths=(32, 64), variables=True, special=True)
    return Role("d", Shape.REGISTER, output=True, width=64, widths=(64,)), address, *sizes


def _moved_matrix(_: Qualifiers) -> tuple[Role, ...]:
    """ptxas 13.0 takes 0f3F800000 for the source, and no integer; and predicates for both."""
    d, a = operands("d:bits, a:bits")(("b32",))
    return replace(d, predicates=True), replace(a, constants=("bits",), predicates=True)


def _stored_matrices(qualifiers: Qualifiers) -> tuple[Role, ...]:
    constants = ("bits",) if _matrices(qualifiers) == 1 else ("integer", "bits", "low word")
    return matrix_address(qualifiers), Role(
        "a", Shape.VECTOR, _matrices(qualifiers), widths=(32,), type="b32", constants=constants
    )


def _matrices(qualifiers: Qualifiers) -> int:
    return next(int(q[1:]) for q in qualifiers if q in ("x1", "x2", "x4"))


def _stored_rows(qualifiers: Qualifiers) -> Access:
    count = _matrices(qualifiers)
    return Access(Space.SHARED, 4 * count, write=True, row_bytes=16, addresses=8 * count)


def _stored_fragment(qualifiers: Qualifiers) -> Fragment:
    return matrix_rows_fragment(_matrices(qualifiers), "trans" in qualifiers, ELEMENT_TYPES["f16"])


def _registers(_: Qualifiers) -> tuple[Role, ...]:
    """How many registers each thread of the warp is to have from now on."""
    return (Role("registers", Shape.IMMEDIATE, constants=("integer",), choices=(tuple(range(24, 257, 8)),)),)


def _row(
    syntax: str, roles: str | Roles, section: str, time: Time = Time.INTEGER, since: str = "1.0", targets: str = "70+",
    name: str = "", leading: int = 0,
) -> Row:  # fmt: skip
    row = instruction(
        syntax, roles, since=since, targets=targets, section=section, time=time, any_order=True, name=name
    )
    return replace(row, leading=leading)


WARP_ROWS: tuple[Row, ...] = (
    *_atomics("atom", "9.7.13.5"),
    *_atomics("red", "9.7.13.7"),
    _row("shfl.sync.{up,down,idx}.b32", _shuffle, "9.7.9.6", Time.SHUFFLE, "6.0"),
    _row("vote.sync.{all,any,uni}.pred", _vote, "9.7.13.9", Time.SHUFFLE, "6.0"),
    _row("vote.sync.ballot.b32", _vote, "9.7.13.9", Time.SHUFFLE, "6.0"),
    _row("match.{any,all}.sync.{b32,b64}", _match, "9.7.13.10", Time.SHUFFLE, "6.0"),
    _row("redux.sync.{add,min,max}.{u32,s32}", _redux, "9.7.13.12", Time.SHUFFLE, "7.0", "80+"),
    _row("redux.sync.{and,or,xor}.b32", _redux, "9.7.13.12", Time.SHUFFLE, "7.0", "80+"),
    _row(
        "activemask.b32", lambda _: (Role("d", Shape.REGISTER, output=True, widths=(32,), type="b32"),), "9.7.13.11",
        since="6.2",
    ),
    _row("bar.warp.sync", lambda _: (_mask(),), "9.7.13.2", Time.SHUFFLE, "6.0", name="bar.warp"),
    instruction(
        "movmatrix.sync.aligned.m8n8.trans.b16", _moved_matrix, any_order=True,
        since="7.8", targets="75+", section="9.7.14.5.17", time=Time.SHUFFLE,
    ),
    instruction(
        "stmatrix.sync.aligned.m8n8.{x1,x2,x4}{.trans}{.shared,.shared::cta}.b16", _stored_matrices, any_order=True,
        since="7.8", targets="90+", section="9.7.14.5.16", time=Time.STORE, access=_stored_rows,
        fragment=_stored_fragment,
    ),
    _row(
        "cvta{.to}.{global,shared,local,const,param,param::entry}.u64", _convert_address, "9.7.9.20", Time.EITHER,
        "2.0", leading=1,
    ),
    _row(
        "isspacep.{global,shared,shared::cta,shared::cluster,local,const,param,param::entry}", _inquire, "9.7.9.19",
        since="2.0",
    ),
    _row("prefetch.local.{L1,L2}", _address, "9.7.9.15", Time.INTEGER, "2.0"),
    _row("prefetch{.global}.{L1,L2}", _wide_address, "9.7.9.15", Time.INTEGER, "2.0"),
    _row("prefetch{.global}.{L2::evict_last,L2::evict_normal}", _wide_address, "9.7.9.15", Time.INTEGER, "7.4", "80+"),
    _row("prefetchu.L1", _wide_address, "9.7.9.15", Time.INTEGER, "2.0"),
    _row("applypriority{.global}.L2::evict_normal", _line, "9.7.9.16", Time.INTEGER, "7.4", "80+"),
    _row("discard{.global}.L2", _line, "9.7.9.17", Time.INTEGER, "7.4", "80+"),
    _row(
        "createpolicy.fractional.{L2::evict_last,L2::evict_normal,L2::evict_first,L2::evict_unchanged}"
        "{.L2::evict_first,.L2::evict_unchanged}.b64",
        _new_policy, "9.7.9.18", since="7.4", targets="80+", leading=1,
    ),
    _row(
        "createpolicy.range{.global}.{L2::evict_last,L2::evict_normal,L2::evict_first,L2::evict_unchanged}"
        "{.L2::evict_first,.L2::evict_unchanged}.b64",
        _range_policy, "9.7.9.18", since="7.4", targets="80+", leading=1,
    ),
    _row("membar.{cta,gl,sys}", "", "9.7.13.4", Time.FENCE, "1.4"),
    _row("membar.proxy.alias", "", "9.7.13.4", Time.FENCE, "7.5", name="membar.proxy"),
    *(
        _row(
            f"setmaxnreg.{change}.sync.aligned.u32", _registers, "9.7.19.5", since="8.0",
            targets="90a 100a 100f 101a 101f 103a 103f 110a 110f 120a 120f 121a 121f", name=f"setmaxnreg.{change}",
        )
        for change in ("inc", "dec")
    ),
    _row("nanosleep.u32", "a:32", "9.7.19.3", since="6.3"),
    _row("griddepcontrol.{launch_dependents,wait}", "", "9.7.13.13", since="7.8", targets="90+"),
    _row("pmevent", "a:imm4", "9.7.19.2", since="1.4"),
)  # fmt: skip
