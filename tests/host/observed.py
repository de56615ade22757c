"""What the `tcgen05.mma` of a host program were, read from their descriptors and addresses while they are executed.

The hooks are for tests alone: they replace functions of the executor in this process, while a program runs in it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from isa.shared_memory.descriptor import SharedMemoryDescriptor
from isa.targets import parse_target
from isa.tensor_memory.address import TmemAddress
from isa.tensor_memory.copies import Copy
from simulator.execute import tcgen05
from simulator.execute.tcgen05.fetch import Cta
from simulator.execute.tcgen05.plan import Call, Plan, plan_of


@dataclass
class Seen:
    """All values that a field had in the instructions of a program, in the order of the first.

    Attributes:
        instructions: how many tcgen05.mma there were.
        fields: name -> values. "kind", "sparse", "types" (A, B, D), "m", "n", "k", "cta_group", "layout" of the data
            path, "selector", "swizzle" and "major" of A and B, "metadata" and "factors": the shapes of the copies that
            brought them, "vector" and "ids" of scale factors.
    """

    instructions: int = 0
    fields: dict[str, list[Any]] = field(default_factory=dict)

    def add(self, **values: object) -> None:
        """Notes the values of one instruction."""
        for name, value in values.items():
            kept = self.fields.setdefault(name, [])
            if value not in kept:
                kept.append(value)

    def as_json(self) -> dict[str, Any]:
        """For a file."""
        return asdict(self)


def _note(seen: Seen, plan: Plan, copies: dict[tuple[int, int], str], tmem: int) -> None:
    """Notes one instruction.

    Args:
        copies: shapes of the copies that wrote last, by Tensor Memory and column.
        tmem: the Tensor Memory of the even CTA.
    """
    call, idesc = plan.call, plan.idesc
    seen.instructions += 1
    a, b, d = (element.name for element in plan.types)
    b_matrix = SharedMemoryDescriptor.decode(call.b)
    seen.add(
        kind=idesc.kind, sparse=idesc.sparse, types=f"{a} {b} {d}", m=idesc.m, n=idesc.n, k=idesc.k,
        cta_group=plan.group, layout=plan.layout.name, swizzle_b=str(b_matrix.swizzle),
        major="".join("m" if each else "k" for each in (idesc.transpose_a, idesc.transpose_b)),
        a="Tensor Memory" if call.form.a_in_tmem else str(SharedMemoryDescriptor.decode(call.a).swizzle),
    )  # fmt: skip
    if plan.metadata is not None and plan.sp_meta is not None:
        columns = range(plan.sp_meta.column, plan.sp_meta.column + 2)
        seen.add(selector=idesc.selector)
        for column in columns:
            seen.add(metadata=copies.get((tmem, column), "none"))
    if plan.scales is not None:
        seen.add(vector=call.form.vector.removeprefix("scale_vec::"), ids=(idesc.a_scale_id, idesc.b_scale_id))
        seen.add(scale_type=str(idesc.scale_type))
        for address, scales in zip((call.scale_a, call.scale_b), plan.scales, strict=True):
            first = TmemAddress.of_scales(address).column
            for column in range(first, first + scales.columns):
                seen.add(factors=copies.get((tmem, column), "none"))


@contextlib.contextmanager
def observed() -> Iterator[Seen]:
    """Notes all `tcgen05.mma` that this process executes."""
    package: Any = tcgen05
    multiply, copy_in, seen, copies = package.multiply, package.copy_in, Seen(), dict[tuple[int, int], str]()

    def multiplied(call: Call, ctas: Sequence[Cta], *, target: Any, **how: Any) -> Any:
        _note(seen, plan_of(call, parse_target(target), ctas), copies, id(ctas[0].tmem))
        return multiply(call, ctas, target=target, **how)

    def copied(ctas: Sequence[Cta], address: int, word: int, how: Copy, source: str = "") -> None:
        copy_in(ctas, address, word, how, source)
        base = TmemAddress.from_word(address).column
        name = ".".join(filter(None, (how.shape, how.multicast, source)))
        copies.update({(id(cta.tmem), base + column): name for cta in ctas for column in range(how.columns)})

    package.multiply, package.copy_in = multiplied, copied
    try:
        yield seen
    finally:
        package.multiply, package.copy_in = multiply, copy_in
