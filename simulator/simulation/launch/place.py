"""Checks the numbers of a launch: CTAs, clusters, threads, shared memory. What a kernel demands of its launches, it
says in directives (PTX ISA 9.0, 11.4, performance tuning; 11.7, cluster dimensions)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from isa.targets import Target
from simulator.execute.geometry import Dim, Geometry
from simulator.program.kernel import Kernel
from simulator.simulation.launch.errors import LaunchError

GRID_LIMIT: Dim = (2**31 - 1, 65535, 65535)  # CUDA programming guide, "Compute Capabilities", all of 7.5 to 12.0
BLOCK_LIMIT: Dim = (1024, 1024, 64)
THREADS = 1024
SHARED_BYTES = 232_448  # of a CTA: the most of any chip, that of compute capability 9.0 and 10.0
PORTABLE_CLUSTER = 8  # CTAs: published: CUDA programming guide, "Thread Block Clusters", for all that have clusters
LARGE_CLUSTER = 16  # published: tuning guides of Hopper and of Blackwell, "non-portable cluster size"
LARGE_CLUSTERS = (90, 100, 103)  # sm_: those of data centres; that no other takes more than 8 is assumed
MOST_CTAS = 1 << 24  # of a launch that is executed; more would take days


def dim(given: int | Sequence[int], what: str) -> Dim:
    """One to three numbers as (x, y, z)."""
    numbers: list[Any] = list(given) if isinstance(given, (list, tuple, np.ndarray)) else [given]
    whole = all(isinstance(n, int | np.integer) and not isinstance(n, bool) and n > 0 for n in numbers)
    if not 1 <= len(numbers) <= 3 or not whole:
        raise LaunchError(f"{what} {given!r:.60}", "one to three numbers above 0, x first", rule="launch-geometry")
    x, y, z = [*(int(number) for number in numbers), 1, 1][:3]
    return x, y, z


def largest_cluster(target: Target) -> int:
    """How many CTAs a cluster has at most on a chip."""
    if target.number < 90:
        return 1
    return LARGE_CLUSTER if target.number in LARGE_CLUSTERS else PORTABLE_CLUSTER


def cluster_of(kernel: Kernel, given: Dim | None, target: Target) -> tuple[Dim, bool]:
    """CTAs of a cluster, and whether that is said anywhere: by the launch (None: it does not say) or the kernel.

    Raises:
        LaunchError: launch and kernel disagree, or the chip has no such clusters.
    """
    says, name = kernel.directives, f"'{kernel.name}'"
    demanded = dim(says["reqnctapercluster"], ".reqnctapercluster") if says.get("reqnctapercluster") else None
    if demanded is not None and given is not None and demanded != given:
        raise _no_cluster(
            f"cluster {given}, but {name} demands {demanded} (.reqnctapercluster)", f"{demanded}, or none"
        )
    cluster = demanded or given or (1, 1, 1)
    if "explicitcluster" in says and demanded is None and given is None:
        raise _no_cluster(
            f"no cluster, but {name} demands one (.explicitcluster)", "--cluster X,Y,Z, or cluster=(x, y, z)"
        )
    size, most = prod(cluster), largest_cluster(target)
    if size > most:
        chip = f"{target} has none" if most == 1 else f"{target} has at most {most}"
        raise _no_cluster(f"{size} CTAs a cluster: {chip}", f"at most {most}")
    if says.get("maxclusterrank") and size > (limit := says["maxclusterrank"][0]):
        reason = f"{size} CTAs a cluster, but {name} is compiled for {limit} (.maxclusterrank)"
        raise _no_cluster(reason, f"at most {limit}")
    return cluster, demanded is not None or given is not None


def _refused(reason: str, legal: str, rule: str = "launch-geometry") -> LaunchError:
    return LaunchError(reason, legal, rule=rule)


def _no_cluster(reason: str, legal: str) -> LaunchError:
    """What a launch is refused for that has no such clusters: an H200 has an error of its own for it."""
    return _refused(reason, legal, "launch-cluster")


def grid_of(kernel: Kernel, grid: Dim, cluster: Dim) -> Dim:
    """The CTAs of a grid: where the kernel says that its grids are of clusters, those of all clusters."""
    if "blocksareclusters" not in kernel.directives:
        return grid
    if not (kernel.directives.get("reqntid") and kernel.directives.get("reqnctapercluster")):
        reason = (
            f"'{kernel.name}' counts its grid in clusters (.blocksareclusters), and does not say how large they are"
        )
        raise _refused(reason, ".reqntid and .reqnctapercluster beside it")
    x, y, z = (number * part for number, part in zip(grid, cluster, strict=True))
    return x, y, z


def _check_threads(kernel: Kernel, geometry: Geometry) -> None:
    """LaunchError for a CTA that the kernel does not take."""
    block, says = geometry.block, kernel.directives
    if geometry.threads > THREADS:
        raise _refused(f"{geometry.threads} threads a CTA", f"at most {THREADS}")
    if says.get("reqntid") and (demanded := dim(says["reqntid"], ".reqntid")) != block:
        raise _refused(f"block {block}, but '{kernel.name}' demands {demanded} (.reqntid)", str(demanded))
    if says.get("maxntid") and geometry.threads > (most := prod(says["maxntid"])):
        reason = f"{geometry.threads} threads a CTA, but '{kernel.name}' is compiled for {most} (.maxntid)"
        raise _refused(reason, f"at most {most}")


def checked(
    kernel: Kernel,
    grid: Dim,
    block: Dim,
    cluster: Dim | None,
    target: Target,
    dynamic_shared: int,
    most_shared: int = SHARED_BYTES,
) -> Geometry:
    """The geometry of a launch; LaunchError for what the chip does not take (`most_shared` bytes of shared memory a
    CTA), or what the kernel says that it does not take."""
    size, explicit = cluster_of(kernel, cluster, target)
    grid = grid_of(kernel, grid, size)
    for what, numbers, limit in (("grid", grid, GRID_LIMIT), ("block", block, BLOCK_LIMIT)):
        if any(not 1 <= number <= most for number, most in zip(numbers, limit, strict=True)):
            raise _refused(f"{what} {numbers}", f"(1, 1, 1) to {limit}")
    geometry = Geometry(grid, block, size, explicit)
    if geometry.ctas > MOST_CTAS:
        reason = f"grid {grid} has {geometry.ctas:,} CTAs, all of which would be executed"
        raise _refused(reason, f"at most {MOST_CTAS:,}: a part of the problem")
    if any(ctas % part for ctas, part in zip(grid, size, strict=True)):
        reason = f"grid {grid} is not whole clusters of {size}"
        raise _no_cluster(reason, "a multiple of the cluster in each direction")
    _check_threads(kernel, geometry)
    if dynamic_shared < 0:
        raise _refused(f"{dynamic_shared} bytes of dynamic shared memory", "0 or more")
    whole = kernel.dynamic_offset + dynamic_shared if dynamic_shared else kernel.shared_bytes
    if whole > most_shared:
        raise _refused(
            f"{whole} bytes of shared memory a CTA ({dynamic_shared} of them dynamic)", f"at most {most_shared}"
        )
    return geometry
