"""The global memory of copies of CTAs: the same addresses for all, and bytes of its own for each where one writes.

Addresses become places in one array of all buffers, tagged with the copy (`placed`), so that an access says whose it
is. `SeenMemory` notes, in a launch without faults, which CTA reads and writes what; `CopiedMemory` keeps what the
copies write apart, in blocks of 16 bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.faults.targets.launches.casualties import ALONE, Casualties
from simulator.state.device_memory import DeviceMemory
from simulator.state.registers import Warps
from simulator.state.shared import Addresses
from simulator.state.typed_views import LONGEST, gather, scatter

Places = NDArray[np.int64]
Bytes = NDArray[np.uint8]
Mask = NDArray[np.bool_]
_TAG = 40  # bits of a place; above them is 1 + the number of its copy
_PLACE = (1 << _TAG) - 1
_APART = 32  # the widest access, in bytes: what addresses and places have in common below it
_OUTSIDE = 1 << 39  # the place of addresses in no buffer, whose lowest bits stay
NOBODY = -1
NEVER = (1 << 31) - 1
MOST_ACCESSES = 1 << 22  # of words whose times are kept
Access = tuple[NDArray[np.int64], int, int]
READ, PARTLY, WHOLE = range(3)  # how an access concerns words: it reads them, writes them in part, or whole
MOST_TOUCHED = 1 << 23  # CTAs times words whose first accesses are noted


class AddressMap:
    """Places of addresses: all buffers in one array, one after the other.

    Attributes:
        size: bytes of that array, a multiple of 32.
        first: int64 [buffer]: where each buffer begins in it.
        fits: whether every buffer has an address that such a place can stand for.
    """

    def __init__(self, memory: DeviceMemory) -> None:
        buffers = memory.buffers
        lengths = [-(-(len(buffer.storage) + 1) // _APART) * _APART for buffer in buffers]
        self.first = np.cumsum([0, *lengths])[:-1].astype(np.int64)
        self.size = int(sum(lengths))
        self.names = [buffer.name for buffer in buffers]
        self.fits = bool(buffers) and all(buffer.address % _APART == 0 for buffer in buffers) and self.size < _OUTSIDE
        self.starts = np.array([buffer.address for buffer in buffers], np.int64)
        self.ends = np.array([buffer.end for buffer in buffers], np.int64)
        self.last = self.first + (self.ends - self.starts)  # behind each buffer's last byte
        self.constant = np.array([buffer.constant for buffer in buffers], np.bool_)

    def words_of(self, buffers: Mapping[str, tuple[int, int]]) -> Places:
        """The places of the words of buffers (by name; the second number says how many words), one after the other."""
        each = [self.first[self.names.index(name)] + 4 * np.arange(count) for name, (_, count) in buffers.items()]
        return np.concatenate([np.zeros(0, np.int64), *each])

    def flattened(self, memory: DeviceMemory) -> Bytes:
        """The bytes of all buffers, uint8 [size]."""
        data = np.zeros(self.size, np.uint8)
        for first, buffer in zip(self.first.tolist(), memory.buffers, strict=True):
            data[first : first + len(buffer.storage)] = buffer.storage
        return data

    def place(self, addresses: Addresses) -> Places:
        """The places of addresses; those of no buffer are outside of every one."""
        low, high = int(addresses.min()), int(addresses.max())
        index = int(np.searchsorted(self.starts, low, side="right")) - 1
        if index >= 0 and high < self.ends[index]:
            return np.asarray(addresses + (self.first[index] - self.starts[index]))
        which = np.searchsorted(self.starts, addresses, side="right") - 1
        inside = (which >= 0) & (addresses < self.ends[which])
        return np.where(inside, addresses + (self.first - self.starts)[which], _OUTSIDE | addresses & (_APART - 1))

    def inside(self, places: Places, width: int) -> Mask | None:
        """bool: which accesses lie in one buffer; None: all."""
        low, high = int(places.min()), int(places.max())
        index = int(np.searchsorted(self.first, low, side="right")) - 1
        if high + width <= self.last[index]:
            return None
        return np.asarray(places + width <= self.last[np.searchsorted(self.first, places, side="right") - 1])


class TaggedMemory(DeviceMemory):
    """Global memory whose accesses say which of several CTAs they belong to.

    Attributes:
        places: where addresses lie.
        warps: warps of a CTA.
    """

    def __init__(self, places: AddressMap, warps: int) -> None:
        super().__init__()
        self.places, self.warps = places, warps

    def placed(self, addresses: Addresses, warps: Warps) -> Addresses:
        """As in `GlobalMemory`: places, with the number of their CTA."""
        if not addresses.size:
            return addresses
        tags: Addresses = (warps // self.warps + 1).astype(np.int64)[:, None] << _TAG
        return self.places.place(addresses) | tags

    @staticmethod
    def owners(tagged: Addresses) -> tuple[NDArray[np.int64], Places]:
        """Whose accesses these are, and their places."""
        owner = (tagged >> _TAG) - 1
        assert int(owner.min()) >= 0, "an access that nobody has placed"
        return owner, tagged & _PLACE


class SeenMemory(TaggedMemory):
    """The memory of a launch without faults, which notes who reads and writes.

    Attributes:
        data: uint8 [place].
        readers: bool [CTA, word]: whether a CTA reads some byte of a 32-bit word.
        writer: int32 [place]: the CTA that writes a byte; `NOBODY`.
        touched: int32 [CTA, word]: the number of the event at which a CTA accesses a word for the first time; `NEVER`.
            None where that is too much to note.
        event: of what is executed now.
        accesses: of the batch that runs: the words (`places` / 4) of an access, each for a CTA (CTA * words + word),
            the event, and `READ`, `PARTLY` or `WHOLE`; None if there were too many to keep.
        disputed: whether several CTAs write some byte, or anything was not as a launch without faults has it.
    """

    def __init__(self, places: AddressMap, warps: int, data: Bytes, ctas: int) -> None:
        super().__init__(places, warps)
        self.data = data
        self.readers = np.zeros((ctas, places.size // 4), np.bool_)
        self.writer = np.full(places.size, NOBODY, np.int32)
        few = self.readers.size <= MOST_TOUCHED
        self.touched = np.full(self.readers.shape, NEVER, np.int32) if few else None
        self.event: Callable[[], int] = lambda: 0
        self.disputed = False
        self.ctas = np.zeros(0, np.int64)
        self.accesses: list[Access] | None = []
        self._left = MOST_ACCESSES

    def read(self, addresses: Addresses, width: int) -> Bytes:
        """As in `DeviceMemory`."""
        if not addresses.size:
            return np.zeros((*addresses.shape, width), np.uint8)
        owner, places = self.owners(addresses)
        self.disputed |= self.places.inside(places, width) is not None
        self._note(self.ctas[owner], places, width, written=False)
        for offset in range(0, width, 4):
            words = np.minimum(places + offset, self.places.size - 1) // 4
            self.readers[self.ctas[owner], words] = True
            self._touch(self.ctas[owner], words)
        return gather(self.data, places, width)

    def write(self, addresses: Addresses, values: Bytes) -> None:
        """As in `DeviceMemory`."""
        if not addresses.size:
            return
        owner, places = self.owners(addresses)
        self.disputed |= self.places.inside(places, values.shape[-1]) is not None
        self._note(self.ctas[owner], places, values.shape[-1], written=True)
        cta = self.ctas[owner]
        for offset in range(values.shape[-1]):
            before = self.writer[places + offset]
            self.disputed |= bool(((before != NOBODY) & (before != cta)).any())
            self.writer[places + offset] = cta
            if offset % 4 == 0:
                self._touch(cta, (places + offset) // 4)
        scatter(self.data, places, values)

    def _note(self, ctas: NDArray[np.int64], places: Places, width: int, *, written: bool) -> None:
        if self.accesses is None:
            return
        words = (ctas * (self.places.size // 4) + places // 4)[..., None] + np.arange(max(width // 4, 1))
        words = np.unique(words)
        self.accesses.append((words, self.event(), (WHOLE if width >= 4 else PARTLY) if written else READ))
        self._left -= len(words)
        if self._left < 0:
            self.accesses = None

    def _touch(self, ctas: NDArray[np.int64], words: Places) -> None:
        if self.touched is not None:
            new = self.touched[ctas, words] == NEVER
            if new.any():
                self.touched[ctas[new], words[new]] = self.event()


class Footprint:
    """Which CTA of a launch without faults reads and writes what.

    Attributes:
        readers, writer, touched: as in `SeenMemory`.
        many: int32 [word]: how many CTAs read a word.
        blocks: int64 [block]: the blocks that CTAs write, of the first CTA first; `begins` int64 [CTA + 1] says where
            those of each begin.
        written: bool [block]: whether any CTA writes it.
    """

    def __init__(self, seen: SeenMemory, ctas: int) -> None:
        self.readers, self.writer, self.touched = seen.readers, seen.writer, seen.touched
        self.many = self.readers.sum(axis=0, dtype=np.int32)
        total = seen.places.size // LONGEST
        where = np.flatnonzero(self.writer != NOBODY)
        self.keys = np.unique(self.writer[where].astype(np.int64) * total + where // LONGEST)
        self.blocks = self.keys % total
        self.begins = np.searchsorted(self.keys, np.arange(ctas + 1, dtype=np.int64) * total)
        self.written = np.zeros(total, np.bool_)
        self.written[self.blocks] = True

    @property
    def independent(self) -> bool:
        """Whether no CTA reads a word that another writes."""
        words = self.writer.reshape(-1, 4)
        for byte in range(4):
            where = np.flatnonzero(words[:, byte] != NOBODY)
            own = self.readers[words[where, byte], where]
            if (self.many[where] - own > 0).any():
                return False
        return True


class CopiedMemory(TaggedMemory):
    """The memory of copies of CTAs, each as if the others were not there.

    Attributes:
        base: uint8 [place]: what all copies see where they have written nothing. It is not written to.
        ctas: int64 [copy]: the CTA of the grid that each copies.
        own: uint8 [byte]: the blocks of all copies.
    """

    def __init__(
        self, places: AddressMap, warps: int, base: Bytes, ctas: NDArray[np.int64], footprint: Footprint,
        casualties: Casualties,
    ) -> None:  # fmt: skip
        super().__init__(places, warps)
        self.base, self.ctas, self.footprint, self.casualties = base, ctas, footprint, casualties
        begins, ends = footprint.begins[ctas], footprint.begins[ctas + 1]
        self._chosen = np.concatenate([np.arange(a, b) for a, b in zip(begins, ends, strict=True)], dtype=np.int64)
        self._start = np.cumsum(np.concatenate([[0], ends - begins]))[:-1]
        self.own = base.reshape(-1, LONGEST)[footprint.blocks[self._chosen]].ravel()
        self._strays = np.zeros(0, np.int64)  # copy * blocks + block of those that a copy's CTA does not write, sorted
        self._stray_at = np.zeros(0, np.int64)  # where they lie in `own`, in blocks
        self._apart = footprint.written.copy()  # blocks of which some copy has its own
        self._blocks = len(self._apart)

    def _located(self, copies: NDArray[np.int64], places: Places) -> Places:
        """Where places lie among the copies' own blocks; -1: nowhere."""
        block, begins = places // LONGEST, self.footprint.begins
        cta = self.ctas[copies]
        found: Places = np.full(places.shape, -1, np.int64)
        if len(self.footprint.keys):
            index = np.minimum(
                np.searchsorted(self.footprint.keys, cta * self._blocks + block), len(self.footprint.keys) - 1
            )
            hit = self.footprint.keys[index] == cta * self._blocks + block
            found = np.where(hit, (self._start[copies] + index - begins[cta]) * LONGEST + places % LONGEST, found)
        if len(self._strays):
            key = copies * self._blocks + block
            index = np.minimum(np.searchsorted(self._strays, key), len(self._strays) - 1)
            stray = (self._strays[index] == key) & (found < 0)
            found = np.where(stray, self._stray_at[index] * LONGEST + places % LONGEST, found)
        return found

    def _stray(self, copies: NDArray[np.int64], places: Places) -> None:
        """Gives copies blocks that their CTAs do not write without a fault."""
        keys = np.unique(copies * self._blocks + places // LONGEST)
        blocks = keys % self._blocks
        at = len(self.own) // LONGEST + np.arange(len(keys))
        self.own = np.concatenate([self.own, self.base.reshape(-1, LONGEST)[blocks].ravel()])
        every = np.concatenate([self._strays, keys])
        order = np.argsort(every)
        self._strays, self._stray_at = every[order], np.concatenate([self._stray_at, at])[order]
        self._apart[blocks] = True

    def word_at(self, copy: int, place: int) -> int:
        """Where the word at a place lies as a copy sees it, among the words of `own`; made if it has none."""
        copies, places = np.array([copy]), np.array([place])
        if self._located(copies, places)[0] < 0:
            self._stray(copies, places)
        return int(self._located(copies, places)[0]) // 4

    def word(self, copy: int, place: int) -> NDArray[np.uint32]:
        """The word at a place as a copy sees it, uint32 [1], to be written to."""
        at = self.word_at(copy, place)
        word: NDArray[np.uint32] = self.own.view(np.uint32)[at : at + 1]
        return word

    def _sound(self, addresses: Addresses, width: int) -> tuple[NDArray[np.int64], Places, Mask | None]:
        """Whose accesses these are, their places, and which of them (None: all) are legal; the copies of the others
        stop."""
        owner, places = self.owners(addresses)
        sound = self.places.inside(places, width)
        uneven = bool(int(np.bitwise_or.reduce(places, axis=None)) & (width - 1))
        if sound is None and not uneven:
            return owner, places, None
        aligned = places & (width - 1) == 0
        if not aligned.all():
            self.casualties.stop(owner[~aligned], "misaligned-address")
        sound = aligned if sound is None else sound & aligned
        self.casualties.stop(owner[aligned & ~sound], "out-of-bounds")
        return owner, places, sound

    def read(self, addresses: Addresses, width: int) -> Bytes:
        """As in `DeviceMemory`; zeros where a copy stops."""
        if not addresses.size:
            return np.zeros((*addresses.shape, width), np.uint8)
        owner, places, sound = self._sound(addresses, width)
        if sound is not None:
            data = np.zeros((*places.shape, width), np.uint8)
            data[sound] = self._read(owner[sound], places[sound], width)
            return data
        return self._read(owner, places, width)

    def _read(self, owner: NDArray[np.int64], places: Places, width: int) -> Bytes:
        data = gather(self.base, places, width)
        for first in range(0, width, LONGEST):
            there = places + first
            apart = self._apart[there // LONGEST]
            if apart.any():
                piece = slice(first, min(first + LONGEST, width))
                data = np.ascontiguousarray(data)
                data[apart, piece] = self._read_apart(owner[apart], there[apart], piece.stop - first)
        return data

    def _read_apart(self, owner: NDArray[np.int64], places: Places, width: int) -> Bytes:
        writer = self.footprint.writer
        foreign = np.zeros(places.shape, np.bool_)
        for byte in range(width):
            by = writer[places + byte]
            foreign |= (by != NOBODY) & (by != self.ctas[owner])
        self.casualties.end(owner[foreign], ALONE)
        at = self._located(owner, places)
        own = gather(self.own, np.maximum(at, 0), width) if len(self.own) else np.zeros((*at.shape, width), np.uint8)
        return np.where((at >= 0)[..., None], own, gather(self.base, places, width))

    def write(self, addresses: Addresses, values: Bytes) -> None:
        """As in `DeviceMemory`; nothing where a copy stops."""
        width = values.shape[-1]
        if not addresses.size:
            return
        owner, places, sound = self._sound(addresses, width)
        if sound is not None:
            owner, places, values = owner[sound], places[sound], values[sound]
        if not places.size:
            return
        if self.places.constant.any():
            constant = self.places.constant[np.searchsorted(self.places.first, places, side="right") - 1]
            self.casualties.stop(owner[constant], "")
        for first in range(0, width, LONGEST):
            self._write(owner, places + first, values[..., first : first + LONGEST])

    def _write(self, owner: NDArray[np.int64], places: Places, values: Bytes) -> None:
        width, cta = values.shape[-1], self.ctas[owner]
        at = self._located(owner, places)
        lost = at < 0
        if lost.any():
            self._stray(owner[lost], places[lost])
            at = self._located(owner, places)
        foreign = np.zeros(places.shape, np.bool_)
        for byte in range(width):
            by = self.footprint.writer[places + byte]
            foreign |= (by != NOBODY) & (by != cta)
        for first in range(0, width, 4):
            word = (places + first) // 4
            foreign |= self.footprint.many[word] > self.footprint.readers[cta, word]
        if foreign.any():
            self.casualties.end(owner[foreign], ALONE)
        scatter(self.own, at, values)

    def changes(self, final: Bytes) -> tuple[NDArray[np.int64], Places, Bytes]:
        """What differs at the end from what is there without a fault, `final` uint8 [place]: the copy, the place, and
        the byte, one entry for each byte. Bytes that other CTAs write are as they leave them."""
        copies = np.repeat(np.arange(len(self.ctas)), self.footprint.begins[self.ctas + 1] - self._begins)
        blocks = self.footprint.blocks[self._chosen]
        if len(self._strays):
            order = np.argsort(self._stray_at)
            copies = np.concatenate([copies, (self._strays // self._blocks)[order]])
            blocks = np.concatenate([blocks, (self._strays % self._blocks)[order]])
        now, was = self.own.reshape(-1, LONGEST), final.reshape(-1, LONGEST)[blocks]
        by = self.footprint.writer.reshape(-1, LONGEST)[blocks]
        mine = (by == NOBODY) | (by == self.ctas[copies][:, None])
        row, byte = np.nonzero((now != was) & mine)
        return copies[row], blocks[row] * LONGEST + byte, now[row, byte]

    @property
    def _begins(self) -> Any:
        return self.footprint.begins[self.ctas]
