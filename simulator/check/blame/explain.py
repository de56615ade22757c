"""Which mistake explains a wrong result: chooses the CTAs that are run again, makes the hypotheses, tries and confirms
them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from isa.forms.record import Time
from simulator.check.blame.addresses import address_hypotheses
from simulator.check.blame.change import Hypothesis
from simulator.check.blame.constants import constant_hypotheses
from simulator.check.blame.control import control_hypotheses
from simulator.check.blame.metadata import metadata_registers
from simulator.check.blame.names import KNOWN, names_of
from simulator.check.blame.operands import operand_hypotheses
from simulator.check.blame.pattern import MOST_WEIGHT, Pattern
from simulator.check.blame.products import product_hypotheses, scales_exchanged
from simulator.check.blame.registers import register_hypotheses
from simulator.check.blame.search import PARTIAL, SECONDS, Evidence, Outcome, Search, grouped
from simulator.check.blame.sequences import disturbed, left_out, orders_others, sequence_hypotheses
from simulator.check.blame.timer import Timer
from simulator.check.blame.trial_launch import search_of
from simulator.program.capture import Capture
from simulator.program.kernel import Kernel, Operation
from simulator.simulation.launch.batches import Setup
from simulator.simulation.launch.launching import Options

LONG_KERNEL, FEW_KNOWN = 300, 12  # instructions; registers written before that may be meant in longer kernels
METADATA = 1.5  # how much likelier a mistake of a constant or address is where metadata comes from
SURE = 0.3  # weight from which on an answer is believed without a look at instructions that seem to feed nothing
EARLY = 0.7  # weight from which on a hypothesis is tried before anybody has looked what feeds wrong elements
EARLY_TIME, FEED_TIME = 0.4, 0.4  # share of the time that is left that this takes at most, and that look


_BARRIERS = (Time.BARRIER, Time.CLUSTER_BARRIER)


@dataclass(frozen=True)
class Explanation:
    """What a wrong result comes from.

    Attributes:
        answers: hypotheses that make all elements right, the likeliest first.
        partial: one that makes most of them right; None if there are answers, or there is none.
        slice: without answers, the instructions that feed wrong elements alone, if these are few.
        evidence: by place, which elements an instruction feeds.
        tried: how many hypotheses.
    """

    answers: tuple[Hypothesis, ...]
    partial: Outcome | None
    slice: tuple[Operation, ...]
    evidence: Mapping[int, Evidence]


def explain(
    capture: Capture, setup: Setup, options: Options, rtol: float = 0.0, atol: float = 0.0, seconds: float = SECONDS
) -> Explanation:
    """Looks for the mistake.

    Args:
        setup: the launch after it has run; its kernel is linked with `allocate=False`.
    """
    timer = Timer()
    kernel = setup.kernel

    search = search_of(capture, setup, options, rtol, atol, timer, seconds)
    if search is None:
        return Explanation((), None, (), {})
    plain, weighted = hypotheses(kernel, search.executed)
    groups = grouped(kernel, [each for each in plain if each.weight >= EARLY])
    early = [each for each in (*weighted, *groups) if each.weight >= EARLY]
    search.try_early(early, timer.spent + EARLY_TIME * (seconds - timer.spent))
    if not search.found:
        _search_all(search, plain, weighted, timer, seconds)
    answers = search.answers()
    best = search.best
    partial = None
    if best is not None and not answers and 0 < best.left <= PARTIAL * search.wrong and search.alone(best):
        partial = best
    elements = sum(int(each.sum()) for each in search.owned.values())
    slice_ = _slice(kernel, search.evidence) if search.wrong <= SLICED * elements else ()
    return Explanation(tuple(answers), partial, slice_, search.evidence)


def hypotheses(kernel: Kernel, executed: Set[int]) -> tuple[list[Hypothesis], list[Hypothesis]]:
    """Those about single instructions, of which groups are made, with weights that heed nothing else; and all, with
    weights that heed the pattern of their neighbours.

    Args:
        executed: the places that threads come to.
    """
    operations = [item for item in kernel.items if isinstance(item, Operation)]
    work = [item for item in operations if item.index in executed and item.instruction.form.time not in _BARRIERS]
    pattern = Pattern(kernel)
    plain = list(_singles(kernel, work, operations, metadata_registers(operations)))
    products = product_hypotheses(kernel, [item for item in work if not orders_others(item)])
    weighted = [pattern.weighted(each) for each in (*plain, *products)]
    return plain, [*weighted, *control_hypotheses(kernel, executed)]


def _search_all(
    search: Search,
    plain: Sequence[Hypothesis],
    weighted: Sequence[Hypothesis],
    timer: Timer,
    seconds: float,
) -> None:
    """Finds out which elements instructions feed, and tries all hypotheses: those about what feeds wrong elements
    first.

    Args:
        plain: hypotheses about single instructions, of which groups are made: all of them together keep to a pattern.
        weighted: those that are tried, with weights that heed the pattern.
    """
    operations = [item for item in search.kernel.items if isinstance(item, Operation)]
    work = [item for item in operations if item.index in search.executed and not orders_others(item)]
    half = timer.spent + FEED_TIME * (seconds - timer.spent)
    search.feed([left_out(item, ()) for item in work], half)
    unfed = [item for item in work if item.writes and search.feeds_little(item.index)]
    search.feed([disturbed(item) for item in unfed], half)
    groups = grouped(search.kernel, [each for each in plain if search.feeds(each.place)])
    search.try_all([*(each for each in weighted if search.feeds(each.place)), *groups])
    if all(each.hypothesis.weight < SURE for each in search.found):
        search.try_all([each for each in weighted if not search.feeds(each.place)])


def _singles(
    kernel: Kernel, work: list[Operation], operations: list[Operation], metadata: Set[str]
) -> Iterator[Hypothesis]:
    """The hypotheses about single instructions; likelier ones about where metadata is loaded from, and its codes."""
    names = names_of(kernel, FEW_KNOWN if len(work) > LONG_KERNEL else KNOWN)
    writers = Counter(name for item in operations for name in item.writes)
    once = {name for name, count in writers.items() if count == 1}
    by_opcode: dict[str, list[Operation]] = {}
    for item in operations:
        by_opcode.setdefault(item.instruction.form.opcode, []).append(item)
    for item in work:
        own = by_opcode[item.instruction.form.opcode]
        alike = sorted((each for each in own if each is not item), key=lambda each: abs(each.index - item.index))
        if not orders_others(item):
            yield left_out(item, once)
        yield from operand_hypotheses(kernel, item, alike)
        likelier = METADATA if metadata & set(item.writes) else 1.0
        for each in (*constant_hypotheses(item, names), *address_hypotheses(kernel, item, names)):
            yield each if likelier == 1.0 else replace(each, weight=min(likelier * each.weight, MOST_WEIGHT))
        yield from register_hypotheses(kernel, item, names)
        yield from sequence_hypotheses(kernel, item, names)
        yield from scales_exchanged(item)


SLICED = 2 / 3  # share of the elements that may be wrong where those that an instruction feeds tell anything
MOST_LINES = 4  # of a slice
COVERS, SHARE = 0.99, 0.95  # of the wrong elements that an instruction of a slice feeds; and wrong ones of all


def _slice(kernel: Kernel, evidence: Mapping[int, Evidence]) -> tuple[Operation, ...]:
    """The instructions that feed all wrong elements and hardly any others, if these are of four lines at most; else
    none: where most of a kernel feeds what is wrong, no line is more suspect than others."""
    found: dict[int, Operation] = {}
    for index, each in sorted(evidence.items()):
        item = kernel.items[index] if index >= 0 else None
        if isinstance(item, Operation) and each.covers >= COVERS and each.share >= SHARE:
            found.setdefault(item.line, item)
    return tuple(found.values()) if len(found) <= MOST_LINES else ()
