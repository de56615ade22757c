"""Compares an access with those before it: which pairs nothing orders."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.check.memory_model.clocks import Clocks
from simulator.check.memory_model.ledger import Ledger
from simulator.check.memory_model.pieces import Threads, Touched
from simulator.check.memory_model.races import Apart, Party, Race, groups
from simulator.check.memory_model.semantics import Scope, Semantics
from simulator.check.memory_model.shadow import ATOMIC, NOBODY, SCOPE_MASK, SCOPE_SHIFT, SILENT, STRONG, WHOLE
from simulator.state.registers import WARP_SIZE

Ints = NDArray[Any]


class Judge:
    """Judges the accesses of a batch whose first warp is `first_row` of all that are followed."""

    def __init__(self, ledger: Ledger, clocks: Clocks, first_row: int) -> None:
        self.ledger, self.clocks, self.first_row = ledger, clocks, first_row

    def after_write(
        self,
        space: str,
        touched: Touched,
        place: int,
        means: Semantics,
        access: str,
        *,
        silent: NDArray[np.bool_] | None = None,
        whole: bool = False,
    ) -> None:
        """Judges accesses against the last writes of their pieces.

        Args:
            silent: bool [n]: the pieces that this access writes without a change.
            whole: whether whole warps read together.
        """
        last = touched.shadow.writers(touched.pieces)
        mine = self.number(space, touched.threads)
        chosen = np.flatnonzero((last.thread != NOBODY) & (last.thread != mine))
        if whole:  # what one lane has written others of the warp read
            chosen = np.flatnonzero(last.thread != NOBODY)
        if not chosen.size:
            return
        threads = Threads(touched.threads.row[chosen], touched.threads.lane[chosen])
        other, stamp = last.thread[chosen], last.stamp[chosen]
        if whole:
            own = (other >= 0) & (other // WARP_SIZE == threads.row)
            threads = Threads(threads.row, np.where(own, (other + 1) % WARP_SIZE, threads.lane))
        apart = self._unordered(space, threads, other, stamp)
        flags = last.flags[chosen]
        if touched.shadow.observers and apart.any():
            apart &= ~self._observed(space, touched, threads, chosen, apart & (flags & STRONG != 0))
        bad, narrow = self._racing(apart, flags, means, space, threads, other)
        if not bad.size:
            return
        kept = chosen[bad]
        benign = flags[bad] & SILENT != 0 if silent is None else silent[kept]
        updates = flags[bad] & ATOMIC != 0
        self._add(
            space, touched, kept, other[bad], last.place[kept], place, np.where(updates, 2, 1), access, narrow, benign
        )

    def after_reads(
        self,
        space: str,
        touched: Touched,
        place: int,
        means: Semantics,
        access: str,
        *,
        silent: NDArray[np.bool_] | None = None,
    ) -> None:
        """Judges writes against the last reads of their pieces."""
        read = touched.shadow.read_pieces(touched.pieces)
        if not read.size:
            return
        last = touched.shadow.readers(touched.pieces[read])
        which, slot = np.nonzero(last.thread != NOBODY)
        last, which = last.of((which, slot)), read[which]
        threads = Threads(touched.threads.row[which], touched.threads.lane[which])
        mine = self.number(space, threads)
        whole = (last.first == WHOLE) & (last.thread >= 0)
        others = (last.thread != mine) | (last.first != mine % WARP_SIZE)
        away = np.where(whole, last.thread // WARP_SIZE != mine // WARP_SIZE, others)
        if not away.any():
            return
        keep = np.flatnonzero(away)
        last, which = last.of(keep), which[keep]
        other, stamps = last.thread, last.stamp
        threads, whole = Threads(threads.row[keep], threads.lane[keep]), whole[keep]
        apart = self._unordered(space, threads, other, stamps)
        apart |= ~whole & (other >= 0) & self._unordered(space, threads, _with_lane(other, last.first), stamps)
        apart &= ~(whole & ~self._nobody_knows(space, threads, other, stamps, apart & whole))
        bad, narrow = self._racing(apart, last.flags, means, space, threads, other)
        if not bad.size:
            return
        kept = which[bad]
        benign = np.zeros(len(bad), np.bool_) if silent is None else silent[kept]
        how = np.zeros(len(bad), np.int64)
        self._add(space, touched, kept, other[bad], last.place[bad], place, how, access, narrow, benign)

    def within_instruction(
        self, space: str, touched: Touched, place: int, lost: NDArray[np.bool_], data: NDArray[np.uint8]
    ) -> None:
        """Judges threads that write the same piece in one instruction, of which `lost` [n] do not have the last word;
        data: uint8 [n, byte]."""
        pieces = touched.pieces
        order = np.argsort(pieces, kind="stable")
        final = order[np.searchsorted(pieces[order], pieces[lost], side="right") - 1]
        differs = (data[lost] != data[final]).any(axis=1)
        kept = np.flatnonzero(lost)
        other = self.number(space, touched.threads)[final]
        places = np.full(len(kept), place)
        self._add(
            space, touched, kept, other, places, place, np.ones(len(kept), np.int64), "writes",
            np.zeros(len(kept), np.bool_), ~differs, one=True,
        )  # fmt: skip

    # Order

    def number(self, space: str, threads: Threads) -> Ints:
        """Threads as a shadow knows them: of global memory, whose shadow outlives the batch, among all that are
        followed."""
        return threads.number if space == "shared" else threads.number + self.first_row * WARP_SIZE

    def _local(self, space: str, other: Ints) -> Ints:
        """Threads as those of the batch; earlier ones become negative."""
        return other if space == "shared" else np.where(other >= 0, other - self.first_row * WARP_SIZE, other)

    def _near(self, space: str, threads: Threads, other: Ints) -> NDArray[np.bool_]:
        """bool [n]: whether the other is of the same cluster, or one of its units."""
        warps = self.clocks.warps
        if space == "shared":
            return np.ones(len(other), np.bool_)
        near: NDArray[np.bool_] = (other // WARP_SIZE) // warps == (threads.row + self.first_row) // warps
        return near

    def _unordered(self, space: str, threads: Threads, other: Ints, stamp: Ints) -> NDArray[np.bool_]:
        """bool [n]: whether threads do not know accesses of others with these stamps."""
        near = self._near(space, threads, other)
        local = np.where(near, self._local(space, other), 0)
        known = self.clocks.known(threads.row, threads.lane, local)
        unordered: NDArray[np.bool_] = known < stamp
        far = np.flatnonzero(~near)
        if far.size:
            unordered[far] = True
            aware = self.clocks.elsewhere[threads.row[far], threads.lane[far]] > 0
            for index in far[aware].tolist():
                row = int(other[index]) // WARP_SIZE
                column = row % self.clocks.warps * WARP_SIZE + int(other[index]) % WARP_SIZE
                seen = self.clocks.known_elsewhere(
                    int(threads.row[index]), int(threads.lane[index]), row // self.clocks.warps, column
                )
                unordered[index] = seen < stamp[index]
        return unordered

    def _observed(
        self, space: str, touched: Touched, threads: Threads, chosen: Ints, asked: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """bool [n]: of those that are asked for, whether a thread that has read the last write of the piece comes
        before."""
        seen = np.zeros(len(chosen), np.bool_)
        for index in np.flatnonzero(asked).tolist():
            observer = touched.shadow.observers.get(int(touched.pieces[chosen[index]]))
            if observer is not None:
                one = Threads(threads.row[index : index + 1], threads.lane[index : index + 1])
                same = int(self.number(space, one)[0]) == observer[0]
                other = np.array([observer[0]]), np.array([observer[1]])
                seen[index] = same or not self._unordered(space, one, *other)[0]
        return seen

    def _nobody_knows(
        self, space: str, threads: Threads, other: Ints, stamp: Ints, asked: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """bool [n]: of those that are asked for, whether what a warp has read together is known of none of its lanes;
        one that hands it on is enough."""
        nobody = np.ones(len(other), np.bool_)
        for index in np.flatnonzero(asked).tolist():
            lanes = other[index] // WARP_SIZE * WARP_SIZE + np.arange(WARP_SIZE)
            row, lane = (np.full(WARP_SIZE, each[index]) for each in threads)
            nobody[index] = self._unordered(space, Threads(row, lane), lanes, np.full(WARP_SIZE, stamp[index])).all()
        return nobody

    def _racing(
        self, apart: NDArray[np.bool_], flags: Ints, means: Semantics, space: str, threads: Threads, other: Ints
    ) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """Which of the pairs race, and whether these are strong operations whose scope is too narrow; `flags`: of the
        others."""
        if not apart.any():
            return np.zeros(0, np.intp), np.zeros(0, np.bool_)
        strong = (flags & STRONG != 0) & means.counts
        least = np.minimum(flags >> SCOPE_SHIFT & SCOPE_MASK, int(means.scope))
        same_cta, same_cluster = self._distance(space, threads, other)[1:]
        reach = np.where(same_cta, True, np.where(same_cluster, least >= Scope.CLUSTER, least >= Scope.GPU))
        bad = np.flatnonzero(apart & ~(strong & reach))
        return bad, np.asarray(strong & ~reach)[bad]

    def _distance(self, space: str, threads: Threads, other: Ints) -> tuple[Any, Any, Any]:
        """Whether threads and others are of the same warp, CTA and cluster, bool [n]."""
        mine = threads.row + (0 if space == "shared" else self.first_row)
        row = np.where(other >= 0, other // WARP_SIZE, -1)
        each = self.ledger.warps
        unit = other < 0
        same_cta = unit | (row // each == mine // each)
        same_cluster = unit | (row // self.clocks.warps == mine // self.clocks.warps)
        return row == mine, same_cta, same_cluster

    # What is found

    def _add(
        self, space: str, touched: Touched, kept: Ints, other: Ints, places: Ints, place: int, how: Ints, access: str,
        narrow: Ints, benign: Ints, *, one: bool = False,
    ) -> None:  # fmt: skip
        if not len(kept):
            return
        threads = Threads(touched.threads.row[kept], touched.threads.lane[kept])
        warp, cta, cluster = self._distance(space, threads, other)
        for group in groups(places, warp, cta, cluster, narrow, benign, how):
            index = group[0]
            race = Race(
                self._party(space, int(other[index]), int(places[index]), ("reads", "writes", "updates")[how[index]]),
                self._party(space, int(self.number(space, threads)[index]), place, access),
                space,
                touched.base + (int(touched.pieces[kept[index]]) << touched.shadow.shift),
                1 << touched.shadow.shift,
                Apart(bool(warp[index]), bool(cta[index]), bool(cluster[index])),
                narrow=bool(narrow[index]),
                one_instruction=one,
            )
            self.ledger.races.add(race, len(group), benign=bool(benign[index]))

    def _party(self, space: str, thread: int, place: int, access: str) -> Party:
        if thread < 0:
            return Party(place, -1, -1, -1, access)
        row, lane = divmod(thread, WARP_SIZE)
        row += self.first_row if space == "shared" else 0
        return self.ledger.party(row, lane, place, access)


def _with_lane(thread: Ints, lane: Ints) -> Ints:
    """Threads of the same warps with other lanes."""
    return np.where(thread >= 0, thread // WARP_SIZE * WARP_SIZE + lane, thread)
