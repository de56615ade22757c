"""Disturbs one thing inside the simulator while a host program runs: one bit of a metadata register, the selector or
one bit of a matrix descriptor at one execution of `wgmma`, or one field of one tensor map. A program that checks its
result must find each of them, but for those that this module can show to be without effect:

* metadata and selectors: the products are computed again in float64 from A, B and the codes, before and after;
* descriptors: bits that are no field, and the leading offset of K-major matrices with a swizzle (PTX ISA 9.0,
  9.7.15.5.1);
* tensor maps: the promotion in L2 is a hint; a dimension of one element has no stride.

The hooks are for tests alone: they replace functions of the executor of wgmma and of the server, in this process and in
those that it forks.
"""

from __future__ import annotations

import contextlib
import hashlib
import multiprocessing
import os
import random
import signal
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from isa.descriptors.tensor_map import TensorMap
from isa.descriptors.tensor_map_fields import SWIZZLES
from isa.fragments.metadata import Metadata
from isa.types import Bits
from simulator.arithmetic import Operands
from simulator.chip.config import load_config
from simulator.execute import wgmma
from simulator.host import kernels, launches, run
from simulator.simulation.launch.report import LaunchReport

SECONDS = 300  # after which a program counts as one that does not end
NO_FIELDS = (*range(14, 16), *range(30, 32), *range(46, 49), *range(52, 62))
LEADING_OFFSET = range(16, 30)
READ = tuple(bit for bit in range(64) if bit not in NO_FIELDS and bit not in LEADING_OFFSET)
PRODUCT = "GemmUniversal"  # in the names of CUTLASS's kernels of products


@dataclass(frozen=True)
class Mutant:
    """One disturbance.

    Attributes:
        kind: "metadata", "selector", "descriptor of a", "descriptor of b" or "tensor map"; "" for none.
        turn: at which execution of such an instruction, or in which map, in the order of encoding.
        bit: of the register or the descriptor.
        lane: of the warpgroup, for metadata.
        field: of the map, and what becomes of it.
    """

    kind: str = ""
    turn: int = 0
    bit: int = 0
    lane: int = 0
    field: str = ""

    def __str__(self) -> str:
        if self.kind == "tensor map":
            return f"tensor map {self.turn}: {self.field}"
        lane = f" of lane {self.lane}" if self.kind == "metadata" else ""
        return f"{self.kind}, execution {self.turn}{'' if self.kind == 'selector' else f': bit {self.bit}{lane}'}"

    @property
    def stated(self) -> str:
        """Why PTX says that it is without effect; "" if it does not say so."""
        if self.kind.startswith("descriptor"):
            if self.bit in NO_FIELDS:
                return "no field of the descriptor"
            if self.bit in LEADING_OFFSET:
                return "the leading offset of a K-major matrix with a swizzle is not used"
        return "a hint for L2" if self.field == "l2_promotion" else ""


@dataclass(frozen=True)
class Verdict:
    """What a program said of a mutant.

    Attributes:
        outcome: "Failed", "Passed", or "error: ..." where a launch was refused or did not end.
        same: whether products were the same, computed apart from the simulator; None where that was not computed.
        idle: why the map never uses the field that was disturbed; "" if it may.
        digest: of the device memory after each product.
        counts: how many executions and maps there were.
    """

    outcome: str
    same: bool | None
    idle: str
    digest: str
    counts: dict[str, int]


@dataclass
class _Active:
    """What the hooks do, and have counted."""

    mutant: Mutant
    counts: dict[str, int]
    operand: str = ""
    codes: Bits | None = None
    same: bool | None = None
    digest: Any = None
    idle: str = ""
    products: int = 0

    def due(self, kind: str) -> bool:
        """Counts an execution; whether it is the one to disturb."""
        turn = self.counts[kind] = self.counts.get(kind, 0) + 1
        return self.mutant.kind == kind and self.mutant.turn == turn - 1


_active = _Active(Mutant(), {})
_parsed: dict[int, Any] = {}
_texts: dict[int, str] = {}
_kernels: dict[tuple[int, str], Any] = {}
_recorded: dict[int, tuple[LaunchReport, dict[str, Any]]] = {}
"""Launches before the first product, by number, and the bytes of all buffers behind them: they need not run again."""


def disturbed(tensor: TensorMap, field: str) -> TensorMap:
    """A map of which one field is another."""
    name, _, how = field.partition(" ")
    now = getattr(tensor, name)
    if name == "address":
        return replace(tensor, address=now ^ int(how), checked=False)
    if name == "swizzle":
        return replace(tensor, swizzle=SWIZZLES[(SWIZZLES.index(now) + int(how)) % 4], checked=False)
    if name == "l2_promotion":
        return replace(tensor, l2_promotion=256 if now != 256 else 128, checked=False)
    index, change = (int(part) for part in how.split())
    changed = list(now)
    changed[index] = changed[index] // 2 if change == 0 else changed[index] + change
    lists: dict[str, Any] = {name: tuple(changed)}
    return replace(tensor, checked=False, **lists)


def idle(tensor: TensorMap, field: str) -> str:
    """Why a map never uses a field: the dimension has one element, or the box one; "" if it may use it."""
    name, _, how = field.partition(" ")
    index = int(how.split()[0]) if how else 0
    one = tensor.size[index + 1] == 1 if name == "stride_bytes" else tensor.box[index] == 1
    return "the dimension has one element" if name in ("stride_bytes", "element_stride") and one else ""


FIELDS = (
    "swizzle 1", "swizzle 2", "swizzle 3", "address 16", "address 64", "address 1024", "size 0 0",
    "size 1 0", "stride_bytes 0 16", "stride_bytes 0 0", "box 0 0", "box 1 0", "element_stride 1 1", "l2_promotion",
)  # fmt: skip
"""Fields of a map: how many modes of swizzle further, a bit of the address; of lists the index, and what is added (0:
the half of it)."""


def _products(a: Bits, codes: Bits, b: Bits) -> Any:
    """A * B in float64 of stored f16 A and its 2:4 codes, each of two indices: [m, n]."""
    stored, right = (part.astype(np.uint16).view(np.float16).astype(np.float64) for part in (a, b))
    rows, chunks = codes.shape
    dense = np.zeros((rows, chunks * 4))
    for row in range(rows):
        for chunk in range(chunks):
            for place in range(2):
                index = int(codes[row, chunk]) >> 2 * place & 3
                dense[row, chunk * 4 + index] += stored[row, chunk * 2 + place]
    return dense @ right


def install() -> None:
    """Puts the hooks where they belong; once, before anything runs."""
    executor: Any = wgmma
    gather, shared, places, add = Metadata.gather, executor._shared, executor.unit_addresses_of, executor.add
    encode, product, begin = TensorMap.encode, launches.Launcher._run, kernels.Modules.__init__

    def gathered(self: Metadata, registers: Bits, selector: int) -> Bits:
        codes = gather(self, registers, selector)
        if registers.ndim != 2 or registers.shape[1] != 128:  # no warpgroups
            return codes
        changed, other = registers, selector
        due = [_active.due(kind) for kind in ("metadata", "selector")]
        if due[0]:
            changed = registers.copy()
            changed[0, _active.mutant.lane] ^= np.uint32(1 << _active.mutant.bit)
        if due[1]:
            other = selector ^ 1
        if any(due):
            _active.codes = codes
            return gather(self, changed, other)
        return codes

    def added(how: Any, operands: Operands) -> Bits:
        before, _active.codes = _active.codes, None
        if before is not None and operands.codes is not None:
            pairs = zip(operands.a, before, operands.codes, operands.b, strict=True)
            _active.same = all(
                np.array_equal(old, new) or np.array_equal(_products(a, old, b), _products(a, new, b))
                for a, old, new, b in pairs
            )
        return add(how, operands)

    def of_shared(instruction: Any, form: Any, name: str, *rest: Any) -> Any:
        read = shared(instruction, form, name, *rest)

        def named(machine: Any, warps: Any) -> Bits:
            kind = f"descriptor of {name}"
            _active.operand = kind if _active.due(kind) else ""
            return read(machine, warps)

        return named

    def addresses(word: int, *rest: Any) -> Any:
        return places(word ^ (1 << _active.mutant.bit) if _active.operand else word, *rest)

    def encoded(self: TensorMap, *address: Any) -> bytes:
        if not _active.due("tensor map"):
            return encode(self, *address)
        _active.idle = idle(self, _active.mutant.field)
        return encode(disturbed(self, _active.mutant.field), *address)

    def launched(self: launches.Launcher, kernel: Any, memory: Any, request: launches.Request) -> LaunchReport:
        number = len(self.done)
        if number in _recorded:  # it comes before all that is disturbed
            report, after = _recorded[number]
            for buffer in memory.buffers:
                buffer.data[:] = after[buffer.name]
            return report
        report = product(self, kernel, memory, request)
        if PRODUCT in request.name:
            _active.products += 1
            for buffer in memory.buffers:
                _active.digest.update(buffer.data.tobytes())
        if _active.mutant == Mutant() and not _active.products:
            _recorded[number] = report, {buffer.name: buffer.data.copy() for buffer in memory.buffers}
        return report

    def made(self: kernels.Modules, config: Any) -> None:
        begin(self, config)
        self.texts, self._parsed, self._kernels = _texts, _parsed, _kernels  # a program has the same modules each time

    hooks = {
        (Metadata, "gather"): gathered, (wgmma, "_shared"): of_shared, (wgmma, "unit_addresses_of"): addresses,
        (wgmma, "add"): added, (TensorMap, "encode"): encoded, (launches.Launcher, "_run"): launched,
        (kernels.Modules, "__init__"): made,
    }  # fmt: skip
    for (owner, name), hook in hooks.items():
        setattr(owner, name, hook)


@contextlib.contextmanager
def _said(into: Path) -> Iterator[None]:
    """Sends what this process and its children print to a file."""
    sys.stdout.flush()
    kept = os.dup(1), os.dup(2)
    with into.open("w") as file:
        for number in (1, 2):
            os.dup2(file.fileno(), number)
        try:
            yield
        finally:
            for number, old in zip((1, 2), kept, strict=True):
                os.dup2(old, number)
                os.close(old)


def judged(command: list[str], sms: int, mutant: Mutant) -> Verdict:
    """Runs a program on a chip of so many SMs, with a mutant, in this process."""
    global _active  # noqa: PLW0603  # what the hooks look at
    _active = _Active(mutant, {}, digest=hashlib.sha256())
    with tempfile.TemporaryDirectory() as folder:
        said = Path(folder) / "said"
        with _said(said):
            signal.signal(signal.SIGALRM, signal.default_int_handler)
            signal.alarm(SECONDS)
            try:
                result = run(command, config=load_config("h100_sxm", [f"chip.sms={sms}"]), workers=1)
                status = next((each for each in result.launches if each.status), None)
                stopped = f"error: {status.status.name.lower()}: {status.message[:160]}" if status else ""
            except KeyboardInterrupt:
                stopped = "error: it does not end"
            finally:
                signal.alarm(0)
        text = said.read_text(errors="replace")
    if stopped:
        outcome = stopped
    elif "Disposition: Passed" in text:
        outcome = "Passed"
    else:
        outcome = "Failed" if "Disposition: Failed" in text else f"error: {text.strip()[-160:]}"
    return Verdict(outcome, _active.same, _active.idle, _active.digest.hexdigest(), _active.counts)


def drawn(counts: dict[str, int], many: int, seed: int) -> list[Mutant]:
    """Mutants for a program with so many executions and maps, shared out evenly among the kinds that it has."""
    generator, found = random.Random(seed), dict[Mutant, None]()
    kinds = sorted(counts)
    while len(found) < many:
        kind = kinds[len(found) % len(kinds)]
        turn = generator.randrange(counts[kind])
        match kind:
            case "metadata":
                mutant = Mutant(kind, turn, bit=generator.randrange(32), lane=generator.randrange(128))
            case "selector":
                mutant = Mutant(kind, turn)
            case "tensor map":
                mutant = Mutant(kind, turn, field=generator.choice(FIELDS))
            case _:
                mutant = Mutant(kind, turn, bit=generator.choice(READ if generator.random() < 0.8 else range(64)))
        if mutant in found:
            kinds = kinds[1:] + kinds[:1]
        found[mutant] = None
    return list(found)


def score(command: list[str], sms: int, many: int, seed: int = 1, workers: int = 2) -> int:
    """Runs a program with many mutants, prints the score and each mutant that it did not find; returns how many of
    these should have been found. Needs `install` before."""
    for each in (_texts, _parsed, _kernels, _recorded):
        each.clear()
    plain = judged(command, sms, Mutant())
    assert plain.outcome == "Passed", plain
    mutants = drawn(plain.counts, many, seed)
    context = multiprocessing.get_context("fork")
    with context.Pool(workers, maxtasksperchild=1) as pool:
        verdicts = pool.starmap(judged, [(command, sms, mutant) for mutant in mutants], chunksize=1)
    failed = sum(verdict.outcome == "Failed" for verdict in verdicts)
    errors = sum(verdict.outcome.startswith("error") for verdict in verdicts)
    wrong = without = 0
    for mutant, verdict in zip(mutants, verdicts, strict=True):
        if verdict.outcome != "Passed":
            continue
        why = mutant.stated or verdict.idle or ("the products are the same" if verdict.same else "")
        if why and verdict.digest == plain.digest:
            without += 1
            print(f"  without effect: {mutant}: {why}")
        else:
            wrong += 1
            results = "the same bytes" if verdict.digest == plain.digest else "other bytes"
            print(f"  NOT FOUND: {mutant}: {results} after the products")
    print(
        f"  {many} mutants: {failed} Failed, {errors} stopped by an error, {without} without effect, "
        f"{wrong} not found: score {failed + errors} of {many - without}"
    )
    return wrong
