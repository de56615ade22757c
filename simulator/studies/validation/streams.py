"""Uniform streams: one matrix instruction that is repeated in independent chains, in some warps, without end. Several
groups of validation simulate such streams.

In measurements, publications and the simulation alike, the result is the cycles of a long stream less those of a
shorter one, so that start and end cancel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from isa import Instruction, MmaForm, decode
from isa.ptx.instruction import Immediate, Operand, Register, Vector
from simulator.chip.config import Config
from simulator.chip.tables import TensorClass
from simulator.compiler.compile import compile_code
from simulator.compiler.schedule import scheduled
from simulator.compiler.sequences.expand import expand
from simulator.compiler.timed_code import TimedCode
from simulator.errors import ConfigError
from simulator.machine.engine import Programs
from simulator.program.blocks import Block, Repeat, Step
from simulator.program.lowering import linearise
from simulator.timing.lengths import Known, lengths
from simulator.timing.run import simulate

BODY = 120  # instructions in the body of the loop, about: the loop's end costs nothing then
STAGGER = 20  # cycles by which warps of a sub-core begin a loop one after the other: behind a barrier they
# read a clock, and clocks of 8 and 16 warps are 20 to 40 cycles apart (measurements/results/warp_starts.csv)
COUNTS = (9, 25)  # runs of the loop, of the two streams
_FIRST = {"a": 0, "b": 8, "e": 16, "scale_a": 17, "scale_b": 18}
_COUNTER, _ACCUMULATORS = 19, 20


def stream(form: MmaForm, chains: int, length: int = BODY) -> tuple[Step, ...]:
    """`length` instructions that take turns in `chains` accumulators."""
    places = (_ACCUMULATORS + 4 * chain for chain in range(chains))
    steps = [Step(instruction(form, {**_FIRST, "c": place, "d": place}), 1) for place in places]
    return tuple(steps[number % chains] for number in range(length))


def instruction(form: MmaForm, first: Mapping[str, int]) -> Instruction:
    """An instruction of the form with operands from these registers on, by role. Selectors of metadata and ids of scale
    factors are 0."""
    operands: list[Operand] = []
    for role in form.roles:
        if role.name in "abcd":
            operands.append(Vector(tuple(Register(f"%r{first[role.name] + i}") for i in range(role.count))))
        elif role.name in first:
            operands.append(Register(f"%r{first[role.name]}"))
        else:
            operands.append(Immediate(0) if role.name == "f" else Vector((Immediate(0),) * role.count))
    return Instruction(form, tuple(operands))


@dataclass(frozen=True)
class Loop:
    """A loop that is compiled once, for any number of warps and of iterations.

    Attributes:
        code: its code, with sequences in the place of instructions that the chip does not have.
        programs, known: what its runs share.
    """

    config: Config
    code: TimedCode
    programs: Programs = field(default_factory=Programs)
    known: Known = field(default_factory=dict)

    @classmethod
    def of(cls, config: Config, body: tuple[Step, ...]) -> Loop:
        """The loop with this body; ConfigError for an instruction that the config has no time for."""
        every = tuple(range(config.sm.warps))  # sequences have entries for each warp
        code = compile_code(linearise(Block(every, (Repeat(1, body, 1),), 1)), config)
        return cls(config, scheduled(expand(code, config), config))

    def cycles(self, warps: int, count: int, starts: Sequence[int] = ()) -> int:
        """Cycles of `count` iterations in each of this many warps, of which warp w begins in cycle starts[w], or all in
        cycle 0."""
        code = repeated(self.code, range(warps), count)
        timing = simulate(self.config, [code], warps, starts=starts, programs=self.programs)
        return timing.cycles

    def difference(self, warps: int, counts: tuple[int, int], starts: Sequence[int] = ()) -> int:
        """How many cycles longer the loop takes with the second count of iterations than with the first."""
        code = replace(self.code, warps=tuple(range(warps)))
        few, many = lengths(self.config, code, counts, warps, starts=starts, programs=self.programs, known=self.known)
        return many - few

    def staggered(self, warps: int) -> list[int]:
        """Begins of this many warps, apart as behind a barrier: `STAGGER` cycles from warp to warp of a sub-core."""
        return [STAGGER * (warp // self.config.sm.sub_cores) for warp in range(warps)]


def repeated(code: TimedCode, warps: Sequence[int], count: int) -> TimedCode:
    """The code of one loop for other warps and another number of iterations. The operations are shared."""
    (end,) = code.ends.values()
    end.count = count
    return replace(code, warps=tuple(warps))


def brief(opcode: str) -> str:
    """An opcode without the parts that all of them share."""
    return opcode.replace(".sync.aligned", "").replace(".row.col", "")


class Streams:
    """Simulates streams on one config. Results are kept, as forms of one tensor class take the same time."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.known: dict[tuple[str, int, int, int], float] = {}
        self.loops: dict[tuple[str, int, int], Loop] = {}

    def tensor_class(self, form: MmaForm) -> TensorClass:
        """The config's class of a form; ConfigError if it has none."""
        tensor = self.config.tensor_class(form)
        if tensor is None:
            raise ConfigError(
                self.config.path,
                "tensor",
                f"no [[tensor]] class matches '{form.opcode}'",
                "a class for every measured form",
            )
        return tensor

    def tables(self, form: MmaForm, *, counted: bool = False) -> tuple[str, ...]:
        """The config's tables that the time of a stream comes from; `counted`: with a counter in each round."""
        return (f"tensor {self.tensor_class(form).name}", "issue", "loop", *(("alu",) if counted else ()))

    def round(self, form: MmaForm, chains: int, warps: int, length: int = BODY) -> float:
        """Cycles in which every one of the warps issues one instruction of each chain.

        Args:
            length: roughly how many instructions the loop's body has; 0 for one round and the loop's counter, as in a
                loop that is not unrolled.
        """
        length = length and max(length // chains, 1) * chains
        key = (self.tensor_class(form).name, chains, warps, length)
        if key not in self.known:
            self.known[key] = self._run(form, chains, warps, length)
        return self.known[key]

    def _run(self, form: MmaForm, chains: int, warps: int, length: int) -> float:
        key = (self.tensor_class(form).name, chains, length)
        if key not in self.loops:
            self.loops[key] = self._loop(form, chains, length)
        length = length or chains
        times = BODY // length  # a short body runs more often
        few, many = (count * times for count in COUNTS)
        return self.loops[key].difference(warps, (few, many)) * chains / ((many - few) * length)

    def _loop(self, form: MmaForm, chains: int, length: int) -> Loop:
        body = stream(form, chains, length or chains)
        if not length:
            body = (*body, Step(decode(f"add.s32 %r{_COUNTER}, %r{_COUNTER}, 1;"), 1))
        return Loop.of(self.config, body)
