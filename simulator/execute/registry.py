"""The registry of executors: which function executes which instruction. Each is registered beside its definition.

    @executes("lop3.b32")
    def lop3(a, b, c, table):
        ...

The function gets the operands of the roles that its parameters name, as arrays [warp, 1, lane] as wide as the role,
for all lanes of all given warps at once, and returns D. What needs more than that (memory, other lanes, other warps)
says `@prepares(...)` and makes the `Executor` itself, once for each instruction.

A registration names the first parts of the opcodes that it is for, at least the name of the form; the longest that fits
counts. Registrations of a type go before: "add*.f32" is every `add` whose last qualifier is f32, "div.full*.f32" every
`div.full` of f32, "cvt*.f32.s32" every `cvt` from s32 to f32.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, TypeVar

from numpy.typing import NDArray

from isa import IsaError
from isa.forms.record import Form
from isa.ptx.instruction import Instruction, Pair
from simulator.execute.cta_state import NOTHING, CtaState, Executor, Outcome
from simulator.execute.operands import Reader, reader, writer
from simulator.state.registers import Warps

Array = NDArray[Any]
Prepare = Callable[[Instruction, Form], Executor]
Operation = TypeVar("Operation", bound=Callable[..., Any])
Make = TypeVar("Make", bound=Callable[[Form], Callable[..., Any]])
Entry = TypeVar("Entry")

_prepared: dict[str, Prepare] = {}
_of_operands: set[str] = set()  # of these, the opcodes of functions of operands
# By the first part of an opcode, why it is not executed, and what would be
NOT_EXECUTED = {
    "multimem": (
        ": it works on the memories of several GPUs, and one is simulated",
        "ld, red or st of .global, on the memory of this GPU alone",
    ),
}
LAZY_MODULES = {"tcgen05": "simulator.execute.tcgen05"}  # by the first part of an opcode: loaded when one is executed


def prepares(*opcodes: str) -> Callable[[Prepare], Prepare]:
    """Registers a function that makes the executor of an instruction with one of these opcodes."""

    def register(prepare: Prepare) -> Prepare:
        for opcode in opcodes:
            assert opcode not in _prepared, opcode
            _prepared[opcode] = prepare
        return prepare

    return register


def executes(*opcodes: str) -> Callable[[Operation], Operation]:
    """Registers a function of operands that gives the result of an instruction with one of these opcodes."""

    def register(operation: Operation) -> Operation:
        prepares(*opcodes)(lambda instruction, _: of_operands(operation, instruction))
        _of_operands.update(opcodes)
        return operation

    return register


def prepares_operands(*opcodes: str) -> Callable[[Prepare], Prepare]:
    """As `prepares`, for instructions that do nothing but compute D from their operands, each thread for itself."""
    _of_operands.update(opcodes)
    return prepares(*opcodes)


def computes(*opcodes: str) -> Callable[[Make], Make]:
    """Registers a function that makes, from a form, the function of all its sources that gives its result."""

    def register(make: Make) -> Make:
        prepares(*opcodes)(lambda instruction, form: of_operands(make(form), instruction, _sources(instruction)))
        _of_operands.update(opcodes)
        return make

    return register


def _sources(instruction: Instruction) -> tuple[str, ...]:
    """The names of the operands that an instruction reads."""
    roles = instruction.form.roles
    return tuple(role.name for role in roles if not role.output and role.name in instruction.by_role)


def of_operands(
    operation: Callable[..., Any], instruction: Instruction, names: tuple[str, ...] | None = None
) -> Executor:
    """d = operation(operands), of these names or those of its parameters. For a D that is a register and a predicate
    the function gives both."""
    form = instruction.form
    if names is None:
        names = operation.__code__.co_varnames[: operation.__code__.co_argcount]
    sources = [_source(instruction, name) for name in names]
    d = instruction["d"]
    if not isinstance(d, Pair):
        write = writer(d, form.role("d").width)

        def run(machine: CtaState, warps: Warps) -> Outcome:
            write(machine, warps, operation(*[read(machine, warps) for read in sources]))
            return NOTHING

        return run
    write_register, write_predicate = writer(d.elements[0]), writer(d.elements[1], 1)

    def run_pair(machine: CtaState, warps: Warps) -> Outcome:
        value, predicate = operation(*[read(machine, warps) for read in sources])
        write_register(machine, warps, value)
        write_predicate(machine, warps, predicate)
        return NOTHING

    return run_pair


def _source(instruction: Instruction, name: str) -> Reader:
    """A function that reads a source: [warp, register, lane]."""
    return reader(instruction[name], instruction.form.role(name).width)


def find(form: Form) -> Prepare | None:
    """The function that makes the executor of a form; None if none is registered."""
    module = LAZY_MODULES.get(form.opcode.split(".", 1)[0])
    if module is not None:
        import_module(module)
    return longest(form, _prepared)


def longest(form: Form, table: Mapping[str, Entry]) -> Entry | None:
    """The entry of a table for the first parts of a form's opcode, at least its name: the longest that fits."""
    return table.get(_key(form, table))


def of_operands_alone(form: Form) -> bool:
    """Whether an instruction does nothing but compute D from its operands, each thread for itself."""
    return not form.collective and _key(form, _prepared) in _of_operands


def _key(form: Form, table: Mapping[str, Any]) -> str:
    types = [".".join(form.qualifiers[-count:]) for count in (2, 1)]
    beginnings = [form.opcode]
    while len(beginnings[-1]) > len(form.name):
        beginnings.append(beginnings[-1].rpartition(".")[0])
    keys = (f"{beginning}*.{kind}" for beginning in beginnings for kind in types)
    return next((key for key in (*keys, *beginnings) if key in table), form.name)


def prepare(instruction: Instruction) -> Executor:
    """The executor of an instruction without its guard; IsaError for the few that are decoded but not executed."""
    make = find(instruction.form)
    if make is None:
        opcode = instruction.form.opcode
        why, legal = NOT_EXECUTED.get(opcode.split(".", 1)[0], ("", ", ".join(sorted(_prepared))))
        raise IsaError(str(instruction), 0, f"'{opcode}' is decoded, but not executed{why}", legal)
    return make(instruction, instruction.form)
