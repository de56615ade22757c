"""Digests of fault targets that are programs."""

from __future__ import annotations

import hashlib

import numpy as np

from simulator.applications.stored import Stored
from simulator.faults.targets.target import DIGEST_CHARACTERS
from simulator.simulation.session import Session


def trace_digest(session: Session, arithmetic: str, stored: Stored) -> str:
    """A short SHA-256 of a trace's text, its data, the chip, and what is stored without faults."""
    hasher = hashlib.sha256(f"{session.target} {arithmetic}".encode())
    for code in session.program.codes:
        texts = [str(getattr(item, "instruction", item)) for item in code.items]
        hasher.update("\n".join([f"{code.cta} {code.warps}", *texts]).encode())
    for machine in session.initial:
        tmem = [machine.tmem.words] if "tmem" in vars(machine) else []
        for array in (*machine.registers.banks, machine.shared.data, *tmem):
            hasher.update(np.ascontiguousarray(array).tobytes())
    for name, array in sorted(stored.golden.items()):
        hasher.update(name.encode() + np.ascontiguousarray(array).tobytes())
    return hasher.hexdigest()[:DIGEST_CHARACTERS]
