"""The table of the instructions that order threads and memory accesses: barriers of a CTA and of a cluster, mbarriers
and fences.

Numbers of sections are those of PTX ISA 9.0. Where ptxas 13.0 takes more than the text says (or less), the rows follow
ptxas.
"""

from __future__ import annotations

from dataclasses import replace

from isa.forms.record import Access, Form, Role, Shape, Space, Time
from isa.forms.rows import Qualifiers, Roles, Row, Slots, instruction, shared_address, word
from isa.targets import Availability

Narrowed = tuple[tuple[str, Availability], ...]  # operand -> targets that have the form with it

BARRIERS = 16  # named barriers of a CTA; PTX ISA 9.0, 9.7.13.1 (bar)

_LOCAL = ("", "shared", "shared::cta")
_CLUSTER = ("", "shared", "shared::cta", "shared::cluster")
_B64 = ("b64",)
_WAIT, _TX = "9.7.13.15.16", "9.7.13.15.11"
_FROM_80, _FROM_90, _FROM_70 = Availability("80+"), Availability("90+"), Availability("70+")


# bar, barrier


def _named(_: Qualifiers) -> tuple[Role, ...]:
    """The operands that name a barrier: its number, and how many threads it waits for (all of the CTA if left out)."""
    return (
        Role("a", Shape.VALUE, limit=BARRIERS, constants=("integer",), widths=(32,)),
        Role("b", Shape.VALUE, optional=True, constants=("integer",), multiple=32, widths=(32,)),
    )


def _reducing(qualifiers: Qualifiers) -> tuple[Role, ...]:
    """The operands of bar.red: what all threads get, the barrier, and the predicate that each thread gives."""
    bits = 1 if qualifiers[-1] == "pred" else 32
    d = Role("d", Shape.REGISTER, output=True, width=bits, widths=(bits,), type="pred" if bits == 1 else "u32")
    given = Role("c", Shape.PREDICATE, constants=("integer",), width=1, widths=(1,))
    return d, *_named(qualifiers), given


def _arriving(qualifiers: Qualifiers) -> tuple[Role, ...]:
    """The operands of bar.arrive, which must say how many threads the barrier waits for."""
    number, threads = _named(qualifiers)
    return number, replace(threads, optional=False, positive=True)


def is_aligned(form: Form) -> bool:
    """Whether all threads of a warp must execute a barrier together: `.aligned`, which `bar` means unsaid."""
    return "aligned" in form.qualifiers or form.opcode.startswith("bar.")


def is_arrival(form: Form) -> bool:
    """Whether threads arrive at a barrier of the CTA and go on: `bar.arrive`."""
    return form.time is Time.BARRIER and "arrive" in form.opcode.split(".")


def is_reduction(form: Form) -> bool:
    """Whether a barrier of the CTA gives every thread a result of the predicates of all: `bar.red`."""
    return form.time is Time.BARRIER and "red" in form.opcode.split(".")


def is_mbarrier_wait(form: Form) -> bool:
    """Whether an instruction tells if a phase of an mbarrier is complete: `mbarrier.test_wait`, `mbarrier.try_wait`."""
    return form.time is Time.MBARRIER and form.opcode.startswith(("mbarrier.test_wait", "mbarrier.try_wait"))


def is_atomic(form: Form) -> bool:
    """Whether an instruction reads and writes memory at once and gives what was there: `atom`."""
    return form.opcode.startswith("atom.")


def sees_as_load(form: Form) -> bool:
    """Whether an instruction with which a loop may wait for what other threads write does nothing but read memory."""
    return form.opcode.startswith("ld.") and sees_other_threads(form)


def sees_other_threads(form: Form) -> bool:
    """Whether a loop around this instruction may wait for what other threads write: a load or atomic operation that
    sees their writes, a look at an mbarrier, or a pause."""
    if is_mbarrier_wait(form):
        return True
    first, *rest = form.opcode.split(".")
    order = ("acquire", "relaxed", "volatile", "cv", "mmio")
    return first in ("atom", "nanosleep") or (first == "ld" and any(q in order for q in rest))


_WRITES = (
    "st", "stmatrix", "red", "cp", "mbarrier", "tcgen05", "wgmma", "multimem", "tensormap", "clusterlaunchcontrol",
    "wmma", "discard",
)  # fmt: skip


def writes_memory(form: Form) -> bool:
    """Whether an instruction may change memory or what others wait for, atomic operations (`is_atomic`) left out."""
    return form.opcode.split(".")[0] in _WRITES and not is_mbarrier_wait(form)


_WITH_OTHERS = (
    "atom", "red", "multimem", "tensormap", "mbarrier", "tcgen05", "wgmma", "clusterlaunchcontrol", "fence",
    "griddepcontrol", "discard", "wmma",
)  # fmt: skip


def acts_alone(form: Form) -> bool:
    """Whether what an instruction does to memory is a load, a store or a copy of its threads in their own CTA or in
    global memory, done when they execute it: nothing atomic, asynchronous beyond cp.async of threads, of a cluster, or
    that waits for what others write."""
    first, *rest = form.opcode.split(".")
    if form.time is Time.CLUSTER_BARRIER or form.warps > 1 or sees_other_threads(form) or first in _WITH_OTHERS:
        return False
    if first == "cp":
        return not {"bulk", "mbarrier", "reduce"} & set(rest)
    return first not in ("ld", "st") or not any("cluster" in qualifier for qualifier in rest)


def meets_order(form: Form) -> bool:
    """Whether threads of a warp that execute an instruction together are taken to see behind it what each of them did
    before. PTX promises it of `bar.warp.sync` alone; other instructions with .sync make threads wait for each other
    (assumed). What `elect.sync`, `ldmatrix` and `stmatrix` do is in no order with accesses of other lanes."""
    named = any(role.name == "membermask" for role in form.roles)
    return (named or form.collective) and form.name.split(".")[0] not in ("elect", "ldmatrix", "stmatrix")


def _cta_barrier(syntax: str, since: str, name: str = "", any_order: bool = False, roles: Roles = _named) -> Row:
    return instruction(
        syntax,
        roles,
        since=since,
        targets="70+",
        section="9.7.13.1",
        time=Time.BARRIER,
        name=name,
        any_order=any_order,
    )


def _cluster_barrier(syntax: str, since: str) -> Row:
    row = instruction(
        syntax, "", since=since, targets="90+", section="9.7.13.3", time=Time.CLUSTER_BARRIER, any_order=True
    )
    return replace(row, leading=2)


BARRIER_ROWS: tuple[Row, ...] = (
    _cta_barrier("bar.sync", "1.0"),
    _cta_barrier("bar.cta.sync", "7.8"),
    _cta_barrier("barrier.sync{.aligned}", "6.0", any_order=True),
    _cta_barrier("barrier.cta.sync{.aligned}", "6.0", "barrier.cta", any_order=True),
    _cluster_barrier("barrier.cluster.arrive{.aligned}", "7.8"),
    _cluster_barrier("barrier.cluster.arrive.{release,relaxed}{.aligned}", "8.0"),
    _cluster_barrier("barrier.cluster.wait{.aligned}", "7.8"),
    _cluster_barrier("barrier.cluster.wait.acquire{.aligned}", "8.0"),
)

# Those that kernels alone have: the interpreter of traces does not execute them
KERNEL_BARRIER_ROWS: tuple[Row, ...] = tuple(
    row
    for name, since, aligned in (
        ("bar", "2.0", ""), ("bar.cta", "7.8", ""),
        ("barrier", "6.0", "{.aligned}"), ("barrier.cta", "7.8", "{.aligned}"),
    )
    for row in (
        _cta_barrier(f"{name}.arrive{aligned}", since, f"{name}.arrive", True, _arriving),
        _cta_barrier(f"{name}.red{aligned}.popc.u32", since, f"{name}.red", True, _reducing),
        _cta_barrier(f"{name}.red{aligned}.{{and,or}}.pred", since, f"{name}.red", True, _reducing),
    )
)  # fmt: skip


# mbarrier, fence


def _object(_: Qualifiers) -> Access:
    """The access to an mbarrier, an object of 64 bits in shared memory."""
    return Access(Space.SHARED, 8, write=True, row_bytes=8)


def _sink(qualifiers: Qualifiers) -> Role:
    """The destination for the state that an arrival returns; an arrival at another CTA's barrier returns nothing."""
    return Role(
        "state", Shape.REGISTER, output=True, widths=(64,), sink="must" if "shared::cluster" in qualifiers else "may"
    )


def _generic(qualifiers: Qualifiers) -> bool:
    return not any(q.startswith("shared") for q in qualifiers)


def _mbarrier(*rest: Role, state: bool = False, waits: bool = False) -> Roles:
    def roles(qualifiers: Qualifiers) -> tuple[Role, ...]:
        first: tuple[Role, ...] = (_sink(qualifiers),) if state else ()
        first = (Role("done", Shape.REGISTER, output=True, widths=(1,)),) if waits else first
        return (*first, shared_address("address", generic=_generic(qualifiers)), *rest)

    return roles


def _row(
    name: str, slots: Slots, roles: Roles, since: str, targets: Availability, section: str, narrowed: Narrowed = ()
) -> Row:
    return Row(name, slots, roles, since, targets, Time.MBARRIER, section, narrowed=narrowed, access=_object)


def _ordered(
    name: str,
    order: str,
    spaces: tuple[str, ...],
    roles: Roles,
    section: str,
    early: bool,
    narrowed: Narrowed = (),
) -> tuple[Row, ...]:
    """A family of instructions that may name a memory order and a scope, both or neither. `early` says whether sm_80
    has the family in the scope of a CTA."""
    first, since = (_FROM_80, "7.1" if name.endswith("parity") else "7.0") if early else (_FROM_90, "7.8")
    local = tuple(space for space in spaces if space != "shared::cluster")
    rows = (
        _row(name, (local, _B64), roles, since, first, section, narrowed),
        _row(name, ((order,), ("cta",), local, _B64), roles, "8.0", first, section, narrowed),
        _row(name, ((order,), ("cluster",), spaces, _B64), roles, "8.0", _FROM_90, section),
        _row(name, (("relaxed",), ("cta", "cluster"), spaces, _B64), roles, "8.6", _FROM_90, section),
    )
    if spaces == local:
        return rows
    other = ("shared::cluster",)
    return (
        *rows,
        _row(name, (other, _B64), roles, "8.0", _FROM_90, section),
        _row(name, ((order,), ("cta",), other, _B64), roles, "8.0", _FROM_90, section),
    )


def _transactions(name: str) -> tuple[Row, ...]:
    roles = _mbarrier(word("tx_count"))
    return (
        _row(name, (_CLUSTER, _B64), roles, "8.0", _FROM_90, _TX),
        _row(name, (("relaxed",), ("cta", "cluster"), _CLUSTER, _B64), roles, "8.0", _FROM_90, _TX),
    )


def _arrivals(name: str, section: str) -> tuple[Row, ...]:
    """Arrivals: plain, with a transaction count, and those that must not complete the phase, whose count is not
    optional."""
    bare = _mbarrier(word("count", positive=True), state=True)
    counted = _mbarrier(word("count", optional=True, positive=True), state=True)
    announced = _mbarrier(word("tx_count"), state=True)
    return (
        *_ordered(name, "release", _CLUSTER, counted, section, True, (("count", _FROM_90),)),
        *_ordered(f"{name}.expect_tx", "release", _CLUSTER, announced, section, False),
        _row(name, (("noComplete",), _LOCAL, _B64), bare, "7.0", _FROM_80, section),
        _row(name, (("noComplete",), ("release",), ("cta",), _LOCAL, _B64), bare, "8.0", _FROM_80, section),
    )


def _pending(_: Qualifiers) -> tuple[Role, ...]:
    return Role("count", Shape.REGISTER, output=True, widths=(32,)), word("state", bits=64)


_STATE, _PARITY, _HINT = word("state", bits=64), word("parity", limit=2), word("hint", optional=True)

MBARRIER_ROWS: tuple[Row, ...] = (
    _row("mbarrier.init", (_LOCAL, _B64), _mbarrier(word("count")), "7.0", _FROM_80, "9.7.13.15.9"),
    _row("mbarrier.inval", (_LOCAL, _B64), _mbarrier(), "7.0", _FROM_80, "9.7.13.15.10"),
    *_transactions("mbarrier.expect_tx"),
    *_transactions("mbarrier.complete_tx"),
    *_arrivals("mbarrier.arrive", "9.7.13.15.13"),
    *_arrivals("mbarrier.arrive_drop", "9.7.13.15.14"),
    _row("mbarrier.pending_count", (_B64,), _pending, "7.0", _FROM_80, "9.7.13.15.17"),
    *_ordered("mbarrier.test_wait", "acquire", _LOCAL, _mbarrier(_STATE, waits=True), _WAIT, True),
    *_ordered("mbarrier.test_wait.parity", "acquire", _LOCAL, _mbarrier(_PARITY, waits=True), _WAIT, True),
    *_ordered("mbarrier.try_wait", "acquire", _LOCAL, _mbarrier(_STATE, _HINT, waits=True), _WAIT, False),
    *_ordered("mbarrier.try_wait.parity", "acquire", _LOCAL, _mbarrier(_PARITY, _HINT, waits=True), _WAIT, False),
)


def _arrival_of_copies(qualifiers: Qualifiers) -> tuple[Role, ...]:
    """The mbarrier; of a generic address ptxas 13.0 takes 32 and 64 bits, of one in shared memory 16, too."""
    widths = (32, 64) if _generic(qualifiers) else (16, 32, 64)
    return (replace(shared_address("address"), widths=widths),)


# Those that kernels alone have
KERNEL_MBARRIER_ROWS: tuple[Row, ...] = (
    Row(
        "cp.async.mbarrier.arrive", (("", "noinc"), _LOCAL, _B64), _arrival_of_copies, "7.0", _FROM_80,
        Time.COPY_ARRIVAL,
        "9.7.13.15.15", access=_object,
    ),
)  # fmt: skip


def _fence(name: str, slots: Slots, since: str, targets: Availability, roles: Roles = lambda _: ()) -> Row:
    return Row(name, slots, roles, since, targets, Time.FENCE, "9.7.13.4")


def _map_of_fence(_: Qualifiers) -> tuple[Role, ...]:
    """The tensor map that the proxy of tensor maps is to read anew, and its bytes; ptxas 13.0 takes a register of any
    type in its address."""
    return (
        Role("address", Shape.ADDRESS, variables=True, special=True),
        Role("size", Shape.IMMEDIATE, constants=("integer",), choices=((128,),)),
    )


_SIDES = ("sync_restrict::shared::cluster", "sync_restrict::shared::cta")
_PASSED_OVER = (
    "",
    "global",
    "shared",
    "shared::cta",
    "shared::cluster",
)  # by ptxas 13.0, as `_SIDES` where PTX has none
_SCOPES = ("cta", "cluster", "gpu", "sys")
# What an acquire waits for, or a release covers: copies to or from shared memory alone
_RESTRICTED = (
    (("acquire",), ("sync_restrict::shared::cluster",), ("cluster",)),
    (("release",), ("sync_restrict::shared::cta",), ("cluster",)),
)
_FENCES = ("", "sc", "acq_rel", "acquire", "release")

FENCE_ROWS: tuple[Row, ...] = (
    _fence("fence", (_FENCES, ("cta", "gpu", "sys")), "6.0", _FROM_70),
    _fence("fence", (_FENCES, ("cluster",)), "7.8", _FROM_90),
    _fence("fence", (("mbarrier_init",), ("release",), ("cluster",)), "8.0", _FROM_90),
    _fence("fence.proxy", (("async",), ("", "global", "shared::cta", "shared::cluster")), "8.0", _FROM_90),
    _fence("fence.proxy", (("alias",),), "7.5", _FROM_70),
    _fence("fence.proxy", (("tensormap::generic",), ("release",), _SCOPES, _PASSED_OVER), "8.3", _FROM_90),
    _fence("fence.proxy", (("tensormap::generic",), ("acquire",), _SCOPES), "8.3", _FROM_90, _map_of_fence),
    *(
        row
        for slots in _RESTRICTED
        for row in (
            _fence("fence", slots, "8.6", _FROM_90),
            _fence("fence.proxy", (("async::generic",), *slots, _PASSED_OVER), "8.6", _FROM_90),
        )
    ),
    _fence("fence", (("mbarrier_init",), ("release",), ("cluster",), _SIDES), "8.6", _FROM_90),
    _fence("fence.proxy", (("async",), ("", "global", "shared::cta", "shared::cluster"), _SIDES), "8.6", _FROM_90),
    _fence("fence.proxy", (("alias",), _SIDES), "8.6", _FROM_90),
    _fence("fence.proxy", (("tensormap::generic",), ("release",), _SCOPES, _PASSED_OVER, _SIDES), "8.6", _FROM_90),
)
