"""A form with its operands, as everything that shows layouts gets it: what was chosen, and where each operand is."""

from __future__ import annotations

from dataclasses import dataclass, field

from isa import IsaError, Sparsity
from isa.forms.record import Form
from isa.tensor_memory.metadata import TmemMetadata
from simulator.layout.operand import Operand


@dataclass(frozen=True)
class Choice:
    """What an opcode leaves open and a user may choose: selectors, ids, sizes and addresses.

    Attributes:
        selector: sparsity selector.
        scale_a, scale_b: byte-id and thread-id of the scale factors (of `tcgen05` the first is a_scale_id, b_scale_id;
            the other is 0).
        m, n: of `tcgen05.mma`; 0: 128 (or what is legal), 64.
        base_lane: first lane of D, A and metadata in Tensor Memory: 0, or 16 in layouts C and F.
        half_split: immHalfSplitoff of tcgen05.ld and st .16x32bx2.
    """

    selector: int = 0
    scale_a: tuple[int, int] = (0, 0)
    scale_b: tuple[int, int] = (0, 0)
    m: int = 0
    n: int = 0
    base_lane: int = 0
    half_split: int | None = None


@dataclass(frozen=True)
class FormLayout:
    """A form and where its operands are.

    Attributes:
        opcode: canonical.
        form: its row.
        choice: what was chosen, defaults filled in.
        operands: by name, in the order in which they are shown.
        m, n, k: shape of the product as one CTA sees it (`m` its rows); of each of `blocks`; zero where nothing is
            multiplied.
        sparsity, codes: of a sparse form: the pattern, and the codes that are defined.
        metadata: of `tcgen05`: the operand.
        layout: of `tcgen05.mma`: the data path layout, "A" to "G".
        selectors: legal sparsity selectors.
        unknown: operands that are not shown, and why.
    """

    opcode: str
    form: Form
    choice: Choice
    operands: dict[str, Operand]
    m: int = 0
    n: int = 0
    k: int = 0
    blocks: int = 1
    sparsity: Sparsity | None = None
    codes: tuple[int, ...] = ()
    metadata: TmemMetadata | None = field(default=None, repr=False)
    layout: str = ""
    selectors: tuple[int, ...] = ()
    unknown: dict[str, str] = field(default_factory=dict)

    @property
    def multiplies(self) -> bool:
        """Whether the form multiplies matrices."""
        return self.k > 0

    @property
    def k_stored(self) -> int:
        """Columns of A that are stored."""
        return self.sparsity.columns(self.k) if self.sparsity else self.k

    @property
    def rows(self) -> int:
        """The number of rows of A, of all blocks together."""
        return self.m * self.blocks

    @property
    def factors(self) -> int:
        """Scale factors of a row of A; 0 without block scales."""
        return self.operands["scale_a"].shape[1] if "scale_a" in self.operands else 0

    def operand(self, name: str) -> Operand:
        """The operand of that name, in either case; raises IsaError with the names if there is none."""
        operand = self.operands.get(name.lower())
        if operand is None:
            why = self.unknown.get(
                name.lower(),
                f"a dense form has no operand {name}"
                if name.lower() == "e"
                else f"'{self.opcode}' has no operand {name}",
            )
            raise IsaError(name, -1, why, ", ".join(self.operands))
        return operand

    def b_column(self, row: int, column: int) -> int:
        """The column of B that D[row][column] takes: of `mma.m8n8k4` of f16, whose four products are stacked, that of
        the row's own product."""
        return column + self.n * (row // self.m) if self.blocks > 1 else column
