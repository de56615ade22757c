"""`simulator.run`: a program, a config, a report."""

from __future__ import annotations

from pathlib import Path

from isa.arguments import flag, integer
from isa.errors import POLICIES
from simulator.chip.config import Config
from simulator.errors import check_option
from simulator.execute.cta_state import ARITHMETIC
from simulator.floating_point import guarded
from simulator.program.program import Program
from simulator.progress import Progress
from simulator.simulation.exact import exact_results
from simulator.simulation.listing import listing_of_program
from simulator.simulation.observer import TimeView, check_unused
from simulator.simulation.report import Report
from simulator.simulation.reporting import report_of
from simulator.simulation.session import NO_CONFIG, Session
from simulator.timing.result import Timing

MOST_COMPARED = 2**63 - 1
COMPARED = 20_000  # matrix instructions compared with the exact result, unless told otherwise


@guarded
def run(
    trace: str | Path | Program,
    config: str | Path | Config | None = "h100_sxm",
    *,
    arithmetic: str = "chip",
    undefined: str = "hardware",
    compare: int = COMPARED,
    exact: bool | None = None,
    skip: bool = True,
    timeline: TimeView | None = None,
    progress: Progress | None = None,
) -> Report:
    """Runs a program on one SM of a chip.

    Args:
        trace: path of a trace file, the name of one that comes with tcsim (e.g. "digits/f16"), the text of one (whose
            data files are looked for in the working directory), or a program that has been loaded.
        config: name of a config that comes with tcsim, path of a TOML file, or a loaded config; None or "none": values
            alone, as the chips of the trace's own target give them, in no time.
        arithmetic: "chip" (the bits that the chip gives), "exact" (exact sums, which go from one matrix instruction to
            the next and are rounded once, where something else reads them) or "none" (time alone, no arrays).
        undefined: "hardware" (what a chip was measured to do, counted in the report) or "raise".
        compare: how many matrix instructions to compare with the exact result.
        exact: whether to compute the exact results of the whole trace beside the chip's; None: if its matrix
            instructions do at most 2^26 multiply-adds.
        skip: whether the timing engine may skip repetitions of a loop; the cycles are the same.
        timeline: gets what happens when, and where the time goes (`simulator.Timeline`); of one run alone.
        progress: in a run of more than a second is called now and then with how much is done, how much there is, and of
            what.

    Raises:
        TraceError, ConfigError: a trace, its data or a config that cannot be used.
        UndefinedBehavior: under the policy "raise", and for what stops a chip.
        DeadlockError: a barrier that not all warps reach.
        ViewError: a timeline that has been used, or of a run without a config.
    """
    check_option("arithmetic", arithmetic, ARITHMETIC)
    check_option("undefined", undefined, POLICIES)
    integer(compare, 0, MOST_COMPARED, "compare")
    flag(skip, "skip")
    if exact is not None:
        flag(exact, "exact")
    check_unused(timeline, config is not None and config != NO_CONFIG)
    session = Session(trace, config, arithmetic=arithmetic, undefined=undefined, compare=compare)
    if session.config is not None:
        session.check()
    executed = session.run(machines=session.fresh(carries=arithmetic == "exact"), progress=progress)
    results = exact_results(session, executed, exact, progress)
    if session.config is None:
        return report_of(session.program, None, executed, Timing(0, {}, [], [], 0, 0), results)
    observer = None if timeline is None else timeline.recorder
    timing = session.time(executed, skip=skip, observer=observer, progress=progress)
    report = report_of(session.program, session.config, executed, timing, results)
    if timeline is not None:
        timeline.close(listing_of_program(report.trace, session.program), session.config, timing)
    return report
