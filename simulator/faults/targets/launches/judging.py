"""Judges what came of faults in launches: whole buffers, or the bytes that differ where many ran together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from isa.types import Bits
from simulator.applications.stored import ROW_BYTES, Stored, differing
from simulator.faults import outcomes
from simulator.faults.outcomes import Observed, Results, Whole, judge, reason
from simulator.faults.targets.differences import Changes, Look
from simulator.faults.targets.injection import FaultInjection
from simulator.faults.targets.launches.memory import AddressMap
from simulator.faults.targets.launches.outputs import OutputPlace, output_places, stored_bytes
from simulator.faults.targets.launches.single import Ended
from simulator.faults.targets.launches.together import Found

_NONE = np.zeros(0, np.int64), np.zeros(0, np.uint8)


@dataclass(frozen=True)
class Judging:
    """The judge of a launch.

    Attributes:
        stored: what it stores without a fault.
        policy: about undefined codes.
        places: where addresses lie; None where every fault has a launch of its own.
        look: lets checksums look at results, see `RunningTarget.look_at_product`.
    """

    stored: Stored
    policy: str
    places: AddressMap | None
    look: Look

    def ended(self, results: Results, injection: FaultInjection, ended: Ended) -> None:
        """Fills in the outcome of a launch."""
        stored, right = self.stored, self.stored.golden_matrix
        got = stored.matrix(ended.arrays)[None] if ended.arrays else right[None]
        seen = ended.refused, ended.illegal, ended.unordered, ended.summed
        found = Found(0, injection.changed, *_NONE, reason(ended.reason), *seen)
        rows = differing(got, right)
        self._fill(results, [found], got[:, rows], rows)

    def found(self, results: Results, found: list[Found]) -> None:
        """Fills in the outcomes of faults that had no launches of their own."""
        if not found:
            return
        width, golden = self.stored.width, self._golden_bytes
        parts = [stored_bytes(one, self._output_places) for one in found]
        rows = np.unique(np.concatenate([where // ROW_BYTES for where, _ in parts]))
        data = np.repeat(golden[rows][None], len(found), axis=0)
        for number, (where, values) in enumerate(parts):
            data[number, np.searchsorted(rows, where // ROW_BYTES), where % ROW_BYTES] = values
        got = data.view(f"<u{width}").astype(np.uint32).reshape(len(found), len(rows), ROW_BYTES // width)
        numbers = [one.fault for one in found]
        part = results[numbers]
        self._fill(part, found, got, rows)
        results[numbers] = part

    @cached_property
    def _golden_bytes(self) -> NDArray[np.uint8]:
        """The stored arrays without a fault, as `Stored.matrix` has them, uint8 [row, byte]."""
        matrix = self.stored.golden_matrix.astype(f"<u{self.stored.width}")
        return np.ascontiguousarray(matrix).view(np.uint8).reshape(-1, ROW_BYTES)

    @cached_property
    def _output_places(self) -> list[OutputPlace]:
        assert self.places is not None
        return output_places(self.stored.golden, self.places)

    def _fill(self, results: Results, found: Sequence[Found], got: Bits, rows: NDArray[np.intp]) -> None:
        """Fills in outcomes from rows of what was stored, uint32 [fault, row, column]."""
        stopped = np.array([one.reason for one in found], np.uint8)
        of = {"legality": "illegal", "ordered": "unordered", "checksum": "summed"}
        seen = {name: _flags(getattr(one, field) for one in found) for name, field in of.items()}
        changed = _flags(one.changed for one in found)
        observed = Observed(got, seen, stopped, _flags(one.refused for one in found))
        golden = np.broadcast_to(self.stored.golden_matrix[rows], got.shape)
        whole = Whole(rows, self.stored.golden_matrix)
        read = Changes(changed, np.ones_like(changed))
        judge(results, read, observed, golden, self.stored.element, self.policy, whole)
        self.look(results, got, golden, whole)
        corrupt = results["outcome"] == outcomes.SDC
        results["first_row"][corrupt] = rows[results["first_row"][corrupt]]


def _flags(values: Iterable[bool]) -> NDArray[np.bool_]:
    return np.array(list(values), np.bool_)
