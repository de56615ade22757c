"""The `[energy]` table of a config: the energy of instructions, of bytes that move, and of the chip at rest.

Every pair is [zeros, random]: the energy with operands that are all zero, and with independent normal random numbers.
`simulator.simulation.energy_values` interpolates between the two. Energies hold at `clock_mhz` and grow with a power of
the clock, since a faster chip needs a higher voltage.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from isa import MmaForm
from simulator.chip.tables import ElementTypes
from simulator.toml_tables import Between, fields_of

Nanojoules = Annotated[float, Between(0, 1_000_000, "nJ")]
Picojoules = Annotated[float, Between(0, 1_000_000, "pJ")]
Watts = Annotated[float, Between(0, 100_000, "W")]
Share = Annotated[float, Between(0, 1)]
Pair = tuple[Nanojoules, Nanojoules]
BytePair = tuple[Picojoules, Picojoules]


@dataclass(frozen=True)
class TensorEnergy:
    """`[[energy.tensor]]`: nanojoules of one matrix instruction of a warp, with all that goes with it.

    Attributes:
        name: reports and keys use it.
        sparse, row_bytes, inputs, accumulators: which instructions, as in `[[tensor]]`; M is 16.
        nj: with zeros, with random operands.
    """

    name: str
    sparse: bool
    row_bytes: Annotated[int, Between(1, 256, "bytes")]
    inputs: ElementTypes
    accumulators: ElementTypes
    nj: Pair

    def alike(self, form: MmaForm) -> tuple[bool, ...]:
        """How well the class fits a form, the most important first; all true: it is the form's own."""
        return (
            self.sparse == form.sparse,
            form.a_type.name in self.inputs,
            form.d_type.name in self.accumulators,
            form.m == 16 and self.row_bytes == form.k_stored * form.a_type.bits // 8,
        )

    def performed_fma(self, bits: int) -> int:
        """Multiply-adds that an instruction of the class performs, for elements of so many bits."""
        return 16 * 8 * (8 * self.row_bytes // bits)


@dataclass(frozen=True)
class WgmmaEnergy:
    """`[[energy.wgmma]]`: nanojoules of one wgmma of a warpgroup: 64 rows of A, of which each, as stored, has 32 bytes.

    Attributes:
        name: reports and keys use it.
        sparse, inputs: which instructions.
        columns: for 8 columns of D, B from shared memory and A from registers.
        shared_a: what an instruction with A from shared memory takes more, whatever its columns.
    """

    name: str
    sparse: bool
    inputs: ElementTypes
    columns: Pair
    shared_a: Pair

    def of(self, n: int, *, a_in_registers: bool = False) -> Pair:
        """Of an instruction with n columns: with zeros, with random operands."""
        extra = (0.0, 0.0) if a_in_registers else self.shared_a
        return self.columns[0] * n / 8 + extra[0], self.columns[1] * n / 8 + extra[1]


@dataclass(frozen=True)
class Energy:
    """`[energy]`, for the whole chip or for one instruction of a warp (32 lanes).

    Attributes:
        clock_mhz: the clock at which all of this holds.
        exponent: the energy of an operation grows as (clock / clock_mhz) ** exponent.
        static_w: the chip at rest at this clock, W.
        limit_w: the power limit, at which a chip lowers its clock, W.
        integer, multiply, floating, move: arithmetic and moves, nJ.
        barrier: one warp at a barrier, nJ.
        load, store: an access to shared memory without its bytes, nJ.
        load_byte, store_byte: a byte of it, registers included, pJ.
        conflict: a wavefront that a bank conflict adds, nJ.
        l2_load_byte, l2_store_byte: a byte between L2 and registers, or shared memory (cp.async), pJ.
        hbm_load_byte, hbm_store_byte: a byte between device memory and L2, pJ.
        weights: the parts of what random operands of a matrix instruction take more than zeros: changing bits of A,
            changing bits of B, changing partial products, products that are not zero. They sum to 1.
        tcgen05: what a multiply-add of tcgen05.mma takes, as a multiple of one of mma.
        l2_copy_byte: a byte that a bulk copy brings from L2 to shared memory, pJ; as `l2_load_byte` if not given.
        l2_shared_byte: the same of lines that several SMs ask for, for each of them; as `l2_copy_byte` if not given.
        tensor: matrix instructions; wgmma: those of warpgroups.
    """

    clock_mhz: Annotated[float, Between(0, 10_000, "MHz", exclusive=True)]
    exponent: Annotated[float, Between(0, 4)]
    static_w: Watts
    limit_w: Watts
    integer: Pair
    multiply: Pair
    floating: Pair
    move: Pair
    barrier: Nanojoules
    load: Pair
    store: Pair
    load_byte: BytePair
    store_byte: BytePair
    conflict: Pair
    l2_load_byte: BytePair
    l2_store_byte: BytePair
    hbm_load_byte: BytePair
    hbm_store_byte: BytePair
    weights: tuple[Share, Share, Share, Share]
    tcgen05: Annotated[float, Between(0.01, 100)] = 1.0
    l2_copy_byte: BytePair | None = None
    l2_shared_byte: BytePair | None = None
    tensor: tuple[TensorEnergy, ...] = field(default=(), metadata={"toml": False})
    wgmma: tuple[WgmmaEnergy, ...] = field(default=(), metadata={"toml": False})

    @property
    def copied_byte(self) -> BytePair:
        """A byte that a bulk copy brings from L2 to shared memory, pJ."""
        return self.l2_load_byte if self.l2_copy_byte is None else self.l2_copy_byte

    @property
    def shared_byte(self) -> BytePair:
        """The same of lines that several SMs ask for, for each of them."""
        return self.copied_byte if self.l2_shared_byte is None else self.l2_shared_byte

    def scale(self, clock_mhz: float) -> float:
        """By what the energy of an operation is multiplied at another clock."""
        factor: float = (clock_mhz / self.clock_mhz) ** self.exponent
        return factor

    def find(self, form: MmaForm) -> tuple[TensorEnergy, float]:
        """The class whose energy is taken for a form, and the factor for it: 1 for the form's own class, else the
        ratio of the multiply-adds performed."""
        best = max(self.tensor, key=lambda one: one.alike(form))
        if all(best.alike(form)):
            return best, 1.0
        bits = form.a_type.bits if form.a_type.name in best.inputs else 16
        return best, form.performed_fma / best.performed_fma(bits)

    def find_wgmma(self, inputs: str, sparse: bool) -> WgmmaEnergy | None:
        """The class of a wgmma with A and B of a type; None if there is none."""
        return next((one for one in self.wgmma if one.sparse == sparse and inputs in one.inputs), None)

    def like(self, own: EnergyLike) -> Energy:
        """The table of another chip, whose operations take `own.factor` times as much."""

        def times(pair: tuple[float, float]) -> tuple[float, float]:
            return pair[0] * own.factor, pair[1] * own.factor

        changed: dict[str, Any] = {
            name: times(getattr(self, name)) for name, hint in fields_of(Energy).items() if hint in (Pair, BytePair)
        }
        changed |= {name: value for name, value in vars(own).items() if name not in ("like", "factor")}
        changed |= {"l2_copy_byte": times(self.copied_byte), "l2_shared_byte": times(self.shared_byte)}
        tensor = tuple(replace(one, nj=times(one.nj)) for one in self.tensor)
        wgmma = tuple(replace(one, columns=times(one.columns), shared_a=times(one.shared_a)) for one in self.wgmma)
        return replace(self, tensor=tensor, wgmma=wgmma, barrier=self.barrier * own.factor, **changed)


@dataclass(frozen=True)
class EnergyLike:
    """`[energy]` of a chip that nobody measured: that of another config, scaled.

    Attributes:
        like: the config whose table is taken.
        factor: what an operation takes, as a multiple of that chip's.
        clock_mhz, static_w, limit_w, tcgen05: as in `Energy`.
    """

    like: str
    factor: Annotated[float, Between(0.01, 100)]
    clock_mhz: Annotated[float, Between(0, 10_000, "MHz", exclusive=True)]
    static_w: Watts
    limit_w: Watts
    tcgen05: Annotated[float, Between(0.01, 100)] = 1.0
