"""What a host program cannot be run for, and what the CUDA runtime calls what goes wrong in a launch."""

from __future__ import annotations

from enum import IntEnum

from isa.errors import Error, IsaError
from simulator.errors import ReasonedError


class HostError(ReasonedError):
    """A program cannot be run against the simulated device; says what would work."""


class Status(IntEnum):
    """Codes of cudaError_t that the server answers (CUDA runtime API 13, "Data types used by CUDA Runtime")."""

    SUCCESS = 0
    INVALID_VALUE = 1
    INVALID_SYMBOL = 13
    INVALID_DEVICE_FUNCTION = 98
    NO_KERNEL_IMAGE = 209
    INVALID_PTX = 218
    ILLEGAL_ADDRESS = 700
    LAUNCH_TIMEOUT = 702
    ASSERT = 710
    MISALIGNED_ADDRESS = 716
    LAUNCH_FAILURE = 719
    COOPERATIVE_TOO_LARGE = 720
    NOT_SUPPORTED = 801
    INVALID_CLUSTER_SIZE = 912
    UNKNOWN = 999


STATUS_OF_RULE = {
    "launch-geometry": Status.INVALID_VALUE,
    "launch-cluster": Status.INVALID_CLUSTER_SIZE,
    "launch-arguments": Status.INVALID_VALUE,
    "out-of-bounds": Status.ILLEGAL_ADDRESS,
    "shared-memory-bounds": Status.ILLEGAL_ADDRESS,
    "misaligned-address": Status.MISALIGNED_ADDRESS,
    "instruction-budget": Status.LAUNCH_TIMEOUT,
    "endless-wait": Status.LAUNCH_TIMEOUT,
    "assertion": Status.ASSERT,
    "not-executable": Status.NOT_SUPPORTED,
    "cooperative-launch": Status.COOPERATIVE_TOO_LARGE,
}
"""By the rule of an error of a launch; others are LAUNCH_FAILURE."""


def status_of(error: Error) -> Status:
    """What the runtime calls an error of a launch; PTX that cannot be read or linked is not supported."""
    if isinstance(error, HostError):
        return Status.NO_KERNEL_IMAGE
    if isinstance(error, IsaError):
        return Status.NOT_SUPPORTED
    return STATUS_OF_RULE.get(getattr(error, "rule", ""), Status.LAUNCH_FAILURE)


def stays(status: Status) -> bool:
    """Whether all later calls fail, too: the kernel may have written anything, or nothing of what it should have. A
    configuration that the chip does not take leaves memory as it was, as it does there."""
    return status not in (
        Status.SUCCESS, Status.INVALID_VALUE, Status.INVALID_CLUSTER_SIZE, Status.COOPERATIVE_TOO_LARGE,
    )  # fmt: skip
