"""What a chip's config says of the device that a program asks for its properties."""

from __future__ import annotations

import os
import struct

from simulator.chip.config import Config
from simulator.simulation.launch.placement import RESERVED

_DEVICE = struct.Struct("<Q11I64s4x")  # runtime/server.h, Device


def described(config: Config) -> bytes:
    """The device for the runtime. Its memory is the host's: configs do not say how much a chip has."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    major, minor = divmod(config.target.number, 10)
    sm = config.sm
    shared = sm.shared_bytes + RESERVED
    l2 = min(config.l2.capacity, (1 << 31) - 1) if config.l2 is not None else 0
    name = f"{config.title[:40]} (tcsim)".encode()[:63]
    khz = int(config.chip.clock_mhz * 1000)
    numbers = config.chip.sms, major, minor, khz, sm.shared_bytes, shared, RESERVED, sm.registers, sm.warps, sm.ctas, l2
    return _DEVICE.pack(memory, *numbers, name)
