"""Disturbs one thing inside the simulator while a host program runs: metadata, a selector, a scale id or a bit of a
descriptor at one execution of `wgmma` or `tcgen05.mma`, or one field of one tensor map. A program that checks its
result must find each of them, but for those that this package can show to be without effect:

* operands: the products of the instruction are computed again in float64 from A, B, the codes and the scale factors,
  with the disturbance and without;
* descriptors: bits that are no field, the leading offset of K-major matrices with a swizzle (PTX ISA 9.0, 9.7.15.5.1
  and 9.7.16.3.1), the selector of kinds for which it is taken as 0 (9.7.16.10.8.4);
* tensor maps: the promotion in L2 is a hint; a dimension of one element has no stride; no copy uses the map.

The hooks are for tests alone: they replace functions of the executors and of the server, in this process and in those
that it forks.
"""

from __future__ import annotations

import multiprocessing
import random
import signal
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simulator.chip.config import load_config
from simulator.host import kernels, launches, run
from simulator.simulation.launch.report import LaunchReport
from tests.host.mutants import tcgen05, tensor_maps, wgmma
from tests.host.mutants.state import Active, Mutant, active
from tests.host.said import said

SECONDS = 300  # after which a program counts as one that does not end
PRODUCT = "GemmUniversal"  # in the names of CUTLASS's kernels of products
_FAMILIES = (tcgen05, tensor_maps, wgmma)


@dataclass(frozen=True)
class Verdict:
    """What a program said of a mutant.

    Attributes:
        outcome: "Failed", "Passed", or "error: ..." where a launch was refused or did not end.
        same, idle, counts: as `Active`.
        digest: of the device memory after each product.
    """

    outcome: str
    same: bool | None
    idle: str
    digest: str
    counts: dict[str, int]


_parsed: dict[int, Any] = {}
_texts: dict[int, str] = {}
_kernels: dict[tuple[int, str], Any] = {}
_recorded: dict[int, tuple[LaunchReport, dict[str, Any]]] = {}
"""Launches before the first product, by number, and the bytes of all buffers behind them: they need not run again."""


def install() -> None:
    """Puts the hooks where they belong; once, before anything runs."""
    product, begin = launches.Launcher._run, kernels.Modules.__init__
    for family in _FAMILIES:
        family.install()

    def launched(self: launches.Launcher, kernel: Any, memory: Any, request: launches.Request) -> LaunchReport:
        number, now = len(self.done), active[0]
        if number in _recorded:  # it comes before all that is disturbed
            report, after = _recorded[number]
            for buffer in memory.buffers:
                buffer.data[:] = after[buffer.name]
            return report
        report = product(self, kernel, memory, request)
        if PRODUCT in request.name:
            now.products += 1
            for buffer in memory.buffers:
                now.digest.update(buffer.data.tobytes())
        if now.mutant == Mutant() and not now.products:
            _recorded[number] = report, {buffer.name: buffer.data.copy() for buffer in memory.buffers}
        return report

    def made(self: kernels.Modules, config: Any) -> None:
        begin(self, config)
        self.texts, self._parsed, self._kernels = _texts, _parsed, _kernels  # a program has the same modules each time

    hooks = {(launches.Launcher, "_run"): launched, (kernels.Modules, "__init__"): made}
    for (owner, name), hook in hooks.items():
        setattr(owner, name, hook)


def judged(command: list[str], config: str, sms: int, mutant: Mutant) -> Verdict:
    """Runs a program on a chip of so many SMs, with a mutant, in this process."""
    now = active[0] = Active(mutant)
    with tempfile.TemporaryDirectory() as folder:
        words = Path(folder) / "said"
        with said(words):
            signal.signal(signal.SIGALRM, signal.default_int_handler)
            signal.alarm(SECONDS)
            try:
                result = run(command, config=load_config(config, [f"chip.sms={sms}"]), workers=1)
                status = next((each for each in result.launches if each.status), None)
                stopped = f"error: {status.status.name.lower()}: {status.message[-300:]}" if status else ""
            except KeyboardInterrupt:
                stopped = "error: it does not end"
            finally:
                signal.alarm(0)
        text = words.read_text(errors="replace")
    if stopped:
        outcome = stopped
    elif "Disposition: Passed" in text:
        outcome = "Passed"
    else:
        outcome = "Failed" if "Disposition: Failed" in text else f"error: {text.strip()[-160:]}"
    return Verdict(outcome, now.same, now.idle or tensor_maps.unused(), now.digest.hexdigest(), now.counts)


def drawn(counts: dict[str, int], many: int, seed: int) -> list[Mutant]:
    """Mutants for a program with so many executions and maps, shared out evenly among the kinds that it has."""
    generator, found = random.Random(seed), dict[Mutant, None]()
    families = {kind: family for family in _FAMILIES for kind in family.KINDS if kind in counts}
    kinds = sorted(families)
    while len(found) < many:
        kind = kinds[len(found) % len(kinds)]
        mutant = families[kind].drawn(kind, generator.randrange(counts[kind]), generator)
        if mutant in found:
            kinds = kinds[1:] + kinds[:1]
        found[mutant] = None
    return list(found)


def score(command: list[str], config: str, sms: int, many: int, seed: int = 1, workers: int = 2) -> int:
    """Runs a program with many mutants, prints the score and each mutant that it did not find; returns how many of
    these should have been found. Needs `install` before."""
    for each in (_texts, _parsed, _kernels, _recorded):
        each.clear()
    plain = judged(command, config, sms, Mutant())
    assert plain.outcome == "Passed", plain
    mutants = drawn(plain.counts, many, seed)
    context = multiprocessing.get_context("fork")
    with context.Pool(workers, maxtasksperchild=1) as pool:
        verdicts = pool.starmap(judged, [(command, config, sms, mutant) for mutant in mutants], chunksize=1)
    failed = sum(verdict.outcome == "Failed" for verdict in verdicts)
    errors = sum(v.outcome.startswith("error") and "the simulator failed" not in v.outcome for v in verdicts)
    wrong = without = 0
    for mutant, verdict in zip(mutants, verdicts, strict=True):
        if "the simulator failed" in verdict.outcome:  # by a mistake of the simulator or of a hook
            wrong += 1
            print(f"  {verdict.outcome}: {mutant}")
        if verdict.outcome != "Passed":
            continue
        why = verdict.idle or ("the products are the same" if verdict.same else "")
        if why and verdict.digest == plain.digest:
            without += 1
            print(f"  without effect: {mutant}: {why}")
        else:
            wrong += 1
            results = "the same bytes" if verdict.digest == plain.digest else "other bytes"
            print(f"  NOT FOUND: {mutant}: {results} after the products")
    print(
        f"  {many} mutants: {failed} Failed, {errors} stopped by an error, {without} without effect, "
        f"{wrong} not found: score {failed + errors} of {many - without}",
        flush=True,
    )
    return wrong
