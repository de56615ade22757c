"""A fault target that is one `tcgen05.mma`: its sites and operands (`target`), one execution (`execution`), and many
faults at once (`places`, `operands`, `together`)."""

from simulator.faults.targets.tcgen05.target import MISALIGNED, Tcgen05Target

__all__ = ["MISALIGNED", "Tcgen05Target"]
