"""What each generation of chips takes of an algorithm: split-K slices, modes and buffers.

`CUSPARSELT_MATMUL_SPLIT_K`, `_SPLIT_K_MODE` and `_SPLIT_K_BUFFERS`; those of sm_90 were measured, the others are
published.
"""

from __future__ import annotations

from dataclasses import dataclass

from isa.errors import IsaError
from isa.targets import Target, parse_target
from simulator.studies.sparselt.vocabulary import MEASURED, measured_status

MODES = ("one_kernel", "two_kernels", "heuristic", "dataparallel", "splitk", "streamk")
"""CUSPARSELT_SPLIT_K_MODE_ONE_KERNEL, ..._TWO_KERNELS, CUSPARSELT_HEURISTIC, _DATAPARALLEL, _SPLITK, _STREAMK."""


@dataclass(frozen=True)
class Algorithms:
    """What a generation of chips takes.

    Attributes:
        chips: targets' numbers.
        modes: split-K modes, that which holds without one first.
        segments: whether K is in one piece or in the library's segments; False: in any number of slices.
        buffers: whether there are buffers for partial sums.
        source: where that is from.
    """

    chips: tuple[int, ...]
    modes: tuple[str, ...]
    segments: bool
    buffers: bool
    source: str

    @property
    def legal_slices(self) -> str:
        """Numbers of slices that are taken, in words."""
        return "1, or -1 for segment-K" if self.segments else "1 to K"

    def takes(self, split_k: int) -> bool:
        """Whether the library takes that number of slices."""
        return split_k in (1, -1) if self.segments else split_k >= 1


_TEXT = "published: NVIDIA's text"
ALGORITHMS = (
    Algorithms((80, 86, 87, 88, 89), MODES[:2], False, True, _TEXT),
    Algorithms((MEASURED,), MODES[:2], True, False, measured_status(3, "algorithm")),
    Algorithms((100, 103, 110), MODES[2:], True, False, f"{_TEXT} of SM 10.0"),
    # the text gives two defaults, and restricts each set of modes by a footnote that is not known
    Algorithms((120, 121), MODES, True, False, f"{_TEXT} of SM 12.0"),
)
"""Of each chip; 10.3, 11.0 and 12.1 as their families."""


def algorithms_of(target: str | Target) -> Algorithms:
    """What a chip takes; IsaError for one that the library does not have."""
    number = parse_target(target).number
    for row in ALGORITHMS:
        if number in row.chips:
            return row
    raise IsaError(str(target), -1, f"no algorithms of cuSPARSELt on {target}", "sm_80 and later")


def slices_notes(split_k: int, target: Target) -> tuple[str, ...]:
    """What to tell the reader of a product in slices that the library would refuse on the chip."""
    row = algorithms_of(target)
    if row.takes(split_k):
        return ()
    what = f"split_k = {split_k}: cuSPARSELt takes {row.legal_slices} on {target} ({row.source})"
    return (f"{what}; values and time are those of such slices on this chip all the same",)
