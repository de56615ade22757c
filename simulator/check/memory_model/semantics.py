"""What an instruction that accesses memory means for the order of threads: weak or strong, its scope, and whether it
acquires or releases. PTX ISA 9.0, 8.4 (operation types), 8.5 (scope), 9.7.13.5 (atom)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

from isa.forms.record import Form
from simulator.check.memory_model.shadow import ATOMIC, SCOPE_SHIFT, STRONG
from simulator.program.kernel import Branch, Item, Kernel, Operation, Switch

_ATOMIC = ("atom", "red", "multimem")
_SEMANTICS = ("relaxed", "acquire", "release", "acq_rel", "volatile", "mmio")


class Scope(IntEnum):
    """The threads among which a strong operation is one, from few to all."""

    CTA = 0
    CLUSTER = 1
    GPU = 2


@dataclass(frozen=True, slots=True)
class Semantics:
    """What an access or a fence means for the order of threads.

    Attributes:
        strong: whether it is a strong operation: two of these that reach each other do not race.
        scope: the scope of a strong one, or of a fence.
        acquires, releases: whether it does so by itself.
        atomic: whether it reads and writes at once.
        returns: whether an atomic one gives the old value: `red` does not, and so sees nothing.
        exchanges: whether an atomic one leaves nothing of the old value.
        data: whether it is `volatile`, and its value is used as data and decides no branch. Such accesses are strong,
            but nobody waits by them.
    """

    strong: bool = False
    scope: Scope = Scope.GPU
    acquires: bool = False
    releases: bool = False
    atomic: bool = False
    returns: bool = True
    exchanges: bool = False
    data: bool = False

    @property
    def counts(self) -> bool:
        """Whether it does not race with another one that counts and that it reaches."""
        return self.strong and not self.data

    @property
    def flags(self) -> int:
        """What a shadow keeps of it."""
        return (STRONG if self.counts else 0) | (ATOMIC if self.atomic else 0) | self.scope << SCOPE_SHIFT


WEAK = Semantics()


def scope_of(qualifiers: Sequence[str]) -> Scope:
    """The scope that an opcode names; that of the GPU without one."""
    if "cta" in qualifiers:
        return Scope.CTA
    return Scope.CLUSTER if "cluster" in qualifiers else Scope.GPU


def semantics(form: Form) -> Semantics:
    """What an access or a fence of a form means."""
    first, *rest = form.opcode.split(".")
    if form.name in ("fence", "membar"):
        scope = Scope.CLUSTER if "mbarrier_init" in rest else scope_of(rest)
        return Semantics(scope=scope, acquires="release" not in rest, releases="acquire" not in rest)
    kind = next((q for q in rest if q in _SEMANTICS), "")
    atomic = first in _ATOMIC or form.name in ("red.async", "cp.reduce.async.bulk", "cp.reduce.async.bulk.tensor")
    if not kind and not atomic:
        return WEAK
    return Semantics(
        strong=True,
        scope=Scope.GPU if kind in ("volatile", "mmio") else scope_of(rest),
        acquires=kind in ("acquire", "acq_rel"),
        releases=kind in ("release", "acq_rel"),
        atomic=atomic,
        returns=first != "red" and form.name != "red.async",
        exchanges="exch" in rest,
        data=kind == "volatile",
    )


def table(kernel: Kernel) -> list[Semantics]:
    """What each item of a kernel means for the order of threads, by place. Accesses that are `volatile` order nothing
    by themselves unless what one reads at the same addresses decides a branch: then threads wait by them."""
    found = [semantics(item.instruction.form) if isinstance(item, Operation) else WEAK for item in kernel.items]
    loads = [i for i in kernel.items if found[i.index].data and isinstance(i, Operation) and _is_load(i)]
    if not loads:
        return found
    deciding = _deciding(kernel.items)
    waits = {item.index for item in loads if deciding.intersection(item.writes)}
    for place, each in enumerate(found):
        if each.data and (place in waits or (waits and not _is_load(kernel.items[place]))):
            found[place] = replace(each, data=False)
    return found


def _is_load(item: Item) -> bool:
    return item.opcode.startswith("ld")


def _deciding(items: Sequence[Item]) -> set[str]:
    """The registers whose values decide branches, through any number of instructions between registers."""
    decided = {item.guard.predicate.name for item in items if isinstance(item, Branch | Switch) and item.guard}
    decided |= {item.register.name for item in items if isinstance(item, Switch)}
    grown = True
    while grown:
        grown = False
        for item in items:
            between = isinstance(item, Operation) and item.instruction.form.access is None
            if isinstance(item, Operation) and between and decided.intersection(item.writes):
                new = set(item.reads) - decided
                decided |= new
                grown |= bool(new)
    return decided
