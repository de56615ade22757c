"""A fault target that is a captured launch: faults in its buffers, in registers, and in shared memory.

In a row of a list, `case` is the warp (over all CTAs); `word` is the number of a 32-bit register, as the kernel's text
has them, and behind these of the halves of its 64-bit registers, the low half first; or of a 32-bit word of a CTA's
shared memory; or of the buffers, one buffer after the other in the order of the capture. `lane` is the lane of a
register. What counts as dynamic instruction `at` of a warp is each item that it executes but unconditional branches.

A launch for every fault is the reference (`launches.single`). Where CTAs are on their own, many faults are looked at
together (`launches.together`); the results are the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.errors import POLICIES
from isa.forms.record import Form
from isa.targets import Target, parse_target
from isa.types import Bits
from simulator.applications.stored import Stored
from simulator.faults import outcomes
from simulator.faults.aim.executed import Static
from simulator.faults.intervals import Accessed
from simulator.faults.outcomes import Results, reason
from simulator.faults.spread import Site
from simulator.faults.table import Faults
from simulator.faults.targets.injection import FaultInjection, simple
from simulator.faults.targets.launches.accessed import known, of_site
from simulator.faults.targets.launches.caches import CACHES, CacheUses, in_memory
from simulator.faults.targets.launches.golden import STEPS, TURNS, Golden, watched
from simulator.faults.targets.launches.judging import Judging
from simulator.faults.targets.launches.registers import allocated
from simulator.faults.targets.launches.single import LONGER, SPARE, Ended, launched, sequences
from simulator.faults.targets.launches.strikes import Codes, codes_read, read_registers, statics_of
from simulator.faults.targets.launches.together import Found, Together
from simulator.faults.targets.launches.watched_sums import LaunchSums, launch_sums
from simulator.faults.targets.launches.word_codes import check_words
from simulator.faults.targets.made import ELEMENTS, MadeLaunch
from simulator.faults.targets.register_sites import register_sites, words_of
from simulator.faults.targets.running import RunningTarget
from simulator.faults.targets.target import DIGEST_CHARACTERS, refuse, word_site
from simulator.layout import FormLayout, form_layout
from simulator.program.capture import Capture, read_capture
from simulator.program.kernel import Item, Kernel, Operation, link
from simulator.simulation.launch.arguments import parameter_bytes
from simulator.simulation.launch.batches import Setup
from simulator.simulation.launch.captured import place
from simulator.simulation.launch.interpreter import prepared
from simulator.simulation.launch.launching import Options, prepare
from simulator.simulation.launch.module import Module
from simulator.simulation.launch.run import Code
from simulator.state.device_memory import DeviceMemory

_JUDGED = 64  # faults whose results are compared at a time
_TOGETHER = 1024  # faults of a part, where many run together


@dataclass(frozen=True)
class LaunchTarget(RunningTarget):
    """A captured launch to inject faults into.

    Attributes:
        path: the capture, NAME.json.
        target: the chip whose arithmetic is used; None: the capture's.
        policy: "hardware" (undefined codes select what an H100 was measured to select) or "raise" (they stop the run:
            detected).
        arithmetic: "chip" or "exact".
        registers: how many registers ptxas gives a thread, as it prints; 0: not said.
        machine_code: in place of that the kernel's machine code, as nvdisasm prints it, or a cubin.
        together: whether the faults of many launches are looked at together where that is possible; the results are the
            same.
    """

    path: str | Path
    target: str | None = None
    policy: str = "hardware"
    arithmetic: str = "chip"
    together: bool = True
    registers: int = 0
    machine_code: str = ""

    def __post_init__(self) -> None:
        self.check_choices(POLICIES, " of a launch")

    def __getstate__(self) -> dict[str, Any]:
        """The fields alone: another process reads the capture itself."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def describe(self) -> dict[str, Any]:
        """The plain values from which the same target can be made, without the policy."""
        about = {"launch": str(self.path), "target": self.target, "arithmetic": self.arithmetic}
        given = {"registers": self.registers or None, "machine_code": self.machine_code or None}
        return {key: value for key, value in (about | given).items() if value is not None}

    @property
    def rule(self) -> str:
        """The arithmetic that the results rest on, with its evidence."""
        return "the chip's, see tcsim launch" if self.arithmetic == "chip" else "exact"

    @property
    def batch(self) -> int:  # type: ignore[override] # a constant of other targets
        """How many faults are about as fast together as any number of them."""
        return 1 if self.copies is None else _TOGETHER

    def by_itself(self, faults: Faults) -> NDArray[np.bool_]:
        """Which faults are a launch each."""
        return ~simple(faults) | (self.copies is None)

    # What there is

    @cached_property
    def capture(self) -> Capture:
        """The capture with its data. Raises the errors of `read_capture`."""
        capture = read_capture(self.path)
        if not capture.has_data:
            raise refuse("subject.launch", f"{self.path} has no data, so there is no result", "a capture with an npz")
        return capture

    @cached_property
    def kernel(self) -> Kernel:
        """The kernel, each register of whose text has a number of its own."""
        module = Module(self.capture.ptx)
        return link(module.parsed, module.find(self.capture.entry), allocate=False)

    @cached_property
    def _code(self) -> Code:
        return prepared(self.kernel)

    @cached_property
    def _codes_read(self) -> dict[int, Codes]:
        return codes_read(self.kernel)

    def setup(self) -> Setup:
        """The launch before its first instruction, with buffers of its own."""
        capture, placed = self.capture, place(self.capture)
        options = Options(
            dynamic_shared=capture.dynamic_shared, cluster=capture.cluster, target=self.target or capture.target,
            arithmetic=self.arithmetic, undefined=self.policy, cooperative=capture.cooperative,
        )  # fmt: skip
        params = parameter_bytes(self.kernel, placed.values)
        return prepare(self.kernel, capture.grid, capture.block, placed.memory, params, options)

    @cached_property
    def layout(self) -> FormLayout:
        """The layout of the first matrix instruction."""
        for item in self.kernel.items:
            if isinstance(item, Operation) and item.instruction.form.is_matrix:
                return form_layout(item.instruction.form.opcode)
        raise refuse("subject.launch", f"{self.path} has no matrix instruction", "a kernel with mma or mma.sp")

    @cached_property
    def buffers(self) -> dict[str, tuple[int, int]]:
        """For each buffer its first word among those of all buffers, and how many it has."""
        offsets, first = {}, 0
        for name, spec in self.capture.buffers.items():
            offsets[name] = first, spec.bytes // 4
            first += spec.bytes // 4
        return offsets

    def buffer_of(self, word: int) -> tuple[str, int]:
        """The buffer that a word of the site `global` lies in, and its number there."""
        name, (first, _) = next((n, o) for n, o in self.buffers.items() if o[0] <= word < o[0] + o[1])
        return name, word - first

    @cached_property
    def sites(self) -> dict[str, Site]:
        """The sites where faults can be: words of buffers, of registers (those that an item reads are live), and of
        shared memory, if the kernel has any."""
        sites = {
            "global": word_site("global", sum(count for _, count in self.buffers.values())),
            **register_sites(self.kernel.numbering, read_registers(self.kernel)),
        }
        words = self.setup().shared_bytes // 4
        sites |= {"shared": word_site("shared", words)} if words else {}
        sites |= {name: word_site(name, len(sites["global"].live)) for name in CACHES}
        return sites | self.unit_sites

    @property
    def chip(self) -> Target:
        """The chip whose arithmetic is used."""
        return parse_target(self.target or self.capture.target)

    @property
    def forms(self) -> Iterator[Form]:
        """The forms of the instructions of the text, in order."""
        return (item.instruction.form for item in self.kernel.items if isinstance(item, Operation))

    @property
    def numbers(self) -> Sequence[int]:
        """The numbers of the warps of all CTAs."""
        return range(len(self._counts))

    @property
    def warps_of_a_cta(self) -> int:
        """How many warps a CTA has."""
        return self.setup().geometry.warps

    @cached_property
    def _counts(self) -> NDArray[np.int64]:
        """How many dynamic instructions each warp executes, int64 [warp]."""
        assert self._golden.counts is not None
        return self._golden.counts

    def instructions(self, warp: int) -> int:
        """How many dynamic instructions a warp executes."""
        return int(self._counts[warp])

    def without_fault(self) -> Ended:
        """Launches without a fault."""
        return self._launched(None, 1 << 40)

    @cached_property
    def _golden(self) -> Ended:
        golden = self.without_fault()
        if golden.reason:
            raise refuse(
                "subject.launch", f"{self.path} does not end without a fault: {golden.reason}", "one that does"
            )
        return golden

    @cached_property
    def stored(self) -> Stored:
        """The comparison of buffers with those of the launch without faults."""
        types = {self.capture.buffers[name].type for name in self._golden.arrays}
        return Stored(self._golden.arrays, [ELEMENTS.get(str(each), "") for each in types], False)

    @cached_property
    def digest(self) -> str:
        """A short SHA-256 of the kernel's text, its data, the chip, and the result without faults."""
        hasher = hashlib.sha256(f"{self.target or self.capture.target} {self.arithmetic}".encode())
        hasher.update("\n".join(item.text for item in self.kernel.items).encode())
        arrays = (*self.capture.before.items(), *self._golden.arrays.items())
        for name, array in sorted(arrays, key=lambda pair: pair[0]):
            hasher.update(name.encode() + np.ascontiguousarray(array).tobytes())
        return hasher.hexdigest()[:DIGEST_CHARACTERS]

    @cached_property
    def _sequences(self) -> list[NDArray[np.int64]]:
        return sequences(self.setup(), self._code)

    def executed(self, warp: int) -> NDArray[np.int64]:
        """Of each dynamic instruction of a warp the number of its item, int64 [n]."""
        watched = self._watched
        return self._sequences[warp] if watched is None else watched.sequences[warp][0].astype(np.int64)

    def whole(self, warp: int) -> NDArray[np.bool_]:
        """Whether it is known that all threads of a warp execute each dynamic instruction, bool [n]."""
        watched = self._watched
        return super().whole(warp) if watched is None else watched.sequences[warp][1] == 0xFFFFFFFF

    @cached_property
    def registers_of_a_thread(self) -> int:
        """How many registers a chip gives a thread: those that are said, or that the machine code has, in the units in
        which they are given; 0 where neither is."""
        return allocated(self.registers, self.machine_code, self.capture.entry)

    def statics(self, warp: int) -> dict[int, Static]:
        """The instructions of the kernel by number of item; of branches and exits those with a guard."""
        return statics_of(self.kernel)

    def register_words(self, names: Iterable[str], site: str = "registers") -> tuple[int, ...]:
        """The words of a site of registers that these registers are; those of other sites are left out."""
        return words_of(self.kernel.numbering, names, site)

    def accessed(self, site: str, cta: int) -> Accessed:
        """When the words of the shared memory of a CTA, or of the buffers, are accessed."""
        golden = known(self._watched, site)
        return of_site(golden, site, cta, self._word_places, lambda: self._caches)

    @cached_property
    def _caches(self) -> CacheUses:
        """What L1 and L2 hold; ConfigError of a launch of which that is not known."""
        return CacheUses(known(self._watched, "l1"))

    @cached_property
    def _word_places(self) -> NDArray[np.int64]:
        """Where each word of the site `global` lies in the array of all buffers, in bytes."""
        assert self._watched is not None
        return self._watched.places.words_of(self.buffers)

    def names_of(self, register: str) -> tuple[str, ...]:
        """What the PTX calls a register."""
        return self.kernel.names.get(register, (register,))

    def words(self, site: str, case: Any, word: Any, lane: Any) -> Bits:
        """The words of a site before the first instruction, at arrays of places; registers hold zeros."""
        values = np.zeros(len(word), np.uint32)
        if site == "global":
            memory = self.setup().memory
            for row, number in enumerate(word.tolist()):
                name, index = self.buffer_of(number)
                values[row] = memory[name].data.view(np.uint32)[index]
        return values

    @cached_property
    def copies(self) -> Together | None:
        """What looks at many faults together; None if every fault needs a launch of its own."""
        golden = self._watched if self.together else None
        if golden is None:
            return None
        return Together(golden, self._code, self._codes_read, self.setup(), lambda: self._caches)

    @cached_property
    def _watched(self) -> Golden | None:
        ended = self._golden
        if ended.illegal or ended.unordered or ended.steps > STEPS or ended.turns > TURNS:
            return None
        arrays = {name: array.reshape(-1).view(np.uint8) for name, array in ended.arrays.items()}
        return watched(self.kernel, self._code, self.setup(), self._counts, arrays)

    # Faults

    def run(self, faults: Faults) -> Results:
        """The outcome of a launch with each fault."""
        self.check(faults)
        results = outcomes.empty(faults["id"])
        results["class_changed"] = -1
        struck: list[tuple[int, FaultInjection, int]] = []
        for number, injection in enumerate(FaultInjection.all_of(faults, self.warps_of_a_cta, self)):
            timed = injection.site != "global" or int(injection.row["at"]) >= 0
            if (timed and injection.first > self.instructions(injection.warp)) or (
                injection.site in CACHES and not self._caches.resident(injection, self._word_places)
            ):
                results["reason"][number] = reason("unread")
            else:
                struck.append((number, in_memory(injection), self._place(injection)))
        alone = [number for number, _, _ in struck]
        if self.copies is not None:
            found = self.copies.run([one for one in struck if one[1].simple], self.metadata_sums())
            alone = [number for number, injection, _ in struck if not injection.simple]
            while some := list(islice(found, _JUDGED)):
                alone += [one for one in some if isinstance(one, int)]
                self.judging.found(results, [one for one in some if isinstance(one, Found)])
        ran = {number: injection for number, injection, _ in struck}
        for number in alone:
            ended, ran[number] = self._alone(faults[number])
            self.judging.ended(results[number : number + 1], ran[number], ended)
        check_words(results, ran.items(), self._watched)
        return results

    def alone(self, fault: Any) -> tuple[Ended, FaultInjection]:
        """Launches with one fault, and returns what came of it."""
        return self._alone(fault)

    def _alone(self, fault: Any) -> tuple[Ended, FaultInjection]:
        injection = in_memory(FaultInjection.of(fault, self.setup().geometry.warps, self))
        return self._launched(injection, LONGER * int(self._counts.sum()) + SPARE), injection

    def item(self, warp: int, index: int) -> Item | None:
        """What a warp executes as dynamic instruction `index` without faults; None behind the last."""
        if index >= self.instructions(warp):
            return None
        return self.kernel.items[int(self.executed(warp)[index])]

    def _launched(self, injection: FaultInjection | None, budget: int) -> Ended:
        """Runs the launch, with a fault or without."""
        sums = None if injection is None else self.metadata_sums()
        how = injection, budget, self._word, self._outputs, sums
        return launched(self.setup(), self._code, self._codes_read, *how)

    def summed(self, bits: int) -> LaunchSums:
        """The checksums of metadata without faults."""
        return launch_sums(self.setup(), self._code, self._codes_read, bits)

    def _word(self, memory: DeviceMemory, word: int) -> tuple[NDArray[np.uint32], int]:
        name, index = self.buffer_of(word)
        return memory[name].storage.view(np.uint32)[index : index + 1], memory[name].address + 4 * index

    def _outputs(self, memory: DeviceMemory) -> dict[str, NDArray[Any]]:
        return {name: spec.array(memory[name].data).copy() for name, spec in self.capture.outputs.items()}

    def _place(self, injection: FaultInjection) -> int:
        """Where the word of a fault in a buffer lies in the array of all buffers; -1 for other faults."""
        if injection.site not in ("global", *CACHES) or self._watched is None:
            return -1
        return int(self._word_places[injection.word])

    @cached_property
    def judging(self) -> Judging:
        """What judges outcomes."""
        places = None if self._watched is None else self._watched.places
        return Judging(self.stored, self.policy, places, self.look_at_product)

    @property
    def maker(self) -> MadeLaunch:
        """What makes the stored results without faults."""
        return MadeLaunch(self)
