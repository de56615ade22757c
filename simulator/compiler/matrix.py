"""The times of matrix instructions (mma and mma.sp), from their class in the config."""

from __future__ import annotations

from isa.forms.mma import MmaForm
from isa.forms.record import Unit
from isa.ptx.instruction import Register, Vector
from simulator.chip.config import Config
from simulator.chip.tables import kind_of
from simulator.compiler.operation_parts import Emulated, Matrix, Operand, ReadCycles
from simulator.compiler.register_banks import bits, set_banks
from simulator.compiler.timed_code import TimedOperation
from simulator.errors import ConfigError
from simulator.program.lowering import Operation
from simulator.state.registers import Numbering


def matrix_of_program(op: Operation, form: MmaForm, config: Config) -> TimedOperation:
    """The times of an mma in a program: one that the chip has, or one for which ptxas writes a sequence.

    Raises:
        ConfigError: the config has neither a class nor a sequence for the form.
    """
    if config.tensor_class(form) is not None:
        operation = matrix(form, config, op.reads, op.writes, op.line)
        if operation.read_cycles is not None:
            registers = _operand_registers(op)
            operation.operands = tuple(Operand(slot, registers[name]) for slot, name in enumerate(("a0", "b0")))
            set_banks(operation, registers["a0"], registers["b0"], registers.get("e", 0))
        return operation
    sequence = config.sequences.find(form) if config.sequences is not None else None
    if sequence is None:
        reason = f"line {op.line}: no [[tensor]] class matches '{form.opcode}'"
        raise ConfigError(config.path, "tensor", reason, _described(form))
    emulated = Emulated(sequence, _operand_registers(op))
    return TimedOperation(Unit.TENSOR, 1, 1, op.reads, op.writes, op.line, emulated=emulated)


def matrix(form: MmaForm, config: Config, reads: tuple[int, ...], writes: tuple[int, ...], line: int) -> TimedOperation:
    """The times of a matrix instruction that the chip has, with even registers for A, B and metadata."""
    tensor = config.tensor_class(form)
    assert tensor is not None
    interval = config.interval(tensor)
    faster = min(interval - tensor.interval, 0)  # with more ports than the chip has
    times = Matrix(
        sparse=tensor.sparse,
        integer=not form.d_type.is_float,
        large=tensor.large,
        result_from=tensor.result_from,
        result_until=tensor.result_until,
        file_ports=config.reading(tensor),
        shared_port=tensor.port,
        shortest_stall=max(tensor.stall + faster, 1),  # as ptxas would write it
        keeps=_registers_to_keep(form),
    )
    operation = TimedOperation(
        Unit.TENSOR, tensor.latency, interval, reads, writes, line, tensor.blocking, matrix=times
    )  # fmt: skip
    if tensor.even and config.reading_stages and config.reads_in_banks(tensor):
        operation.read_cycles = ReadCycles(
            bits(tensor.a),
            bits(tensor.b),
            bits(tensor.even),
            bits(tensor.odd),
            bits(cycle + config.reading_stages - 1 for cycle in tensor.late),
            0 if tensor.sparse else None,
        )
    return operation


def _registers_to_keep(form: MmaForm) -> tuple[int, int]:
    """How many registers A and B have. 0 for a B that ptxas never keeps for the next instruction: that of a sparse form
    with f32 accumulators, or of four registers."""
    count = {role.name: role.count for role in form.roles}
    kept = not form.sparse or (count["b"] <= 2 and str(form.d_type) != "f32")
    return count["a"], count["b"] * kept


def _operand_registers(op: Operation) -> dict[int | str, int]:
    """The register number of each operand word by its name in sequences: a0, b1, c2, d3, e."""
    registers: dict[int | str, int] = {}
    for role, given in zip(op.instruction.form.roles, op.instruction.operands, strict=False):
        elements = given.elements if isinstance(given, Vector) else (given,)
        for i, element in enumerate(elements):
            for number in Numbering().numbers((str(element),)) if isinstance(element, Register) else ():
                registers["e" if role.name == "e" else f"{role.name}{i}"] = number
    return registers


def _described(form: MmaForm) -> str:
    """The lines that a class for this form would have in a config, for an error."""
    kind = f'kinds with "{kind_of(form)}", ' if kind_of(form) else ""
    shape = (
        f"{kind}sparse = {str(form.sparse).lower()}, rows = {form.m}, "
        f"row_bytes = {form.k_stored * form.a_type.bits // 8}"
    )
    return f"{shape}, inputs with {form.a_type} and {form.b_type}, accumulators with {form.d_type}"
