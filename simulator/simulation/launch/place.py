"""Checks the numbers of a launch: CTAs, threads, shared memory."""

from __future__ import annotations

from collections.abc import Sequence

from simulator.execute.launch_state import Dim, Geometry
from simulator.program.kernel import Kernel
from simulator.simulation.launch.errors import LaunchError

GRID_LIMIT: Dim = (2**31 - 1, 65535, 65535)  # CUDA programming guide, "Compute Capabilities", all of 7.5 to 12.0
BLOCK_LIMIT: Dim = (1024, 1024, 64)
THREADS = 1024
SHARED_BYTES = 232_448  # of a CTA: the most of any chip, that of compute capability 9.0 and 10.0
MOST_CTAS = 1 << 24  # of a launch that is executed; more would take days
CLUSTER = 16  # CTAs, of which more than 8 are not portable


def dim(given: int | Sequence[int], what: str) -> Dim:
    """One to three numbers as (x, y, z)."""
    numbers = [given] if isinstance(given, int) else list(given)
    if not 1 <= len(numbers) <= 3 or any(not isinstance(n, int) or n < 1 for n in (int(n) for n in numbers)):
        raise LaunchError(f"{what} {tuple(numbers)}", "one to three numbers above 0, x first", rule="launch-geometry")
    x, y, z = [*map(int, numbers), 1, 1][:3]
    return x, y, z


def checked(
    kernel: Kernel, grid: Dim, block: Dim, cluster: Dim, dynamic_shared: int, most_shared: int = SHARED_BYTES
) -> Geometry:
    """The geometry of a launch; LaunchError for what the chip does not take (`most_shared` bytes of shared memory a
    CTA), or what the kernel says that it does not take."""
    for what, numbers, limit in (("grid", grid, GRID_LIMIT), ("block", block, BLOCK_LIMIT)):
        if any(number > most for number, most in zip(numbers, limit, strict=True)):
            raise LaunchError(f"{what} {numbers}", f"at most {limit}", rule="launch-geometry")
    geometry = Geometry(grid, block, cluster)
    if geometry.ctas > MOST_CTAS:
        reason = f"grid {grid} has {geometry.ctas:,} CTAs, all of which would be executed"
        raise LaunchError(reason, f"at most {MOST_CTAS:,}: a part of the problem", rule="launch-geometry")
    if geometry.threads > THREADS:
        raise LaunchError(f"{geometry.threads} threads a CTA", f"at most {THREADS}", rule="launch-geometry")
    if any(size % part for size, part in zip(grid, cluster, strict=True)):
        reason = f"grid {grid} is not whole clusters of {cluster}"
        raise LaunchError(reason, "a multiple of the cluster in each direction", rule="launch-geometry")
    if kernel.reqntid and (demanded := dim(kernel.reqntid, ".reqntid")) != block:
        reason = f"block {block}, but '{kernel.name}' demands {demanded} (.reqntid)"
        raise LaunchError(reason, str(demanded), rule="launch-geometry")
    if kernel.maxntid:
        most = 1
        for number in kernel.maxntid:
            most *= number
        if geometry.threads > most:
            reason = f"{geometry.threads} threads a CTA, but '{kernel.name}' is compiled for {most} (.maxntid)"
            raise LaunchError(reason, f"at most {most}", rule="launch-geometry")
    if dynamic_shared < 0:
        raise LaunchError(f"{dynamic_shared} bytes of dynamic shared memory", "0 or more", rule="launch-geometry")
    whole = kernel.dynamic_offset + dynamic_shared if dynamic_shared else kernel.shared_bytes
    if whole > most_shared:
        reason = f"{whole} bytes of shared memory a CTA ({dynamic_shared} of them dynamic)"
        raise LaunchError(reason, f"at most {most_shared}", rule="launch-geometry")
    return geometry
