"""The launcher of CTAs: a process that puts each CTA on its SM when it begins, and lets the SM go.

CTAs that take the place of others on an SM are no matter of the launcher: their warps go on in the place of those
before them, behind a barrier of these (`simulator.compiler.kernel.replay`), since the SM keeps the machine code and
the data that it has fetched.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

import simpy

from simulator.compiler.timed_code import TimedCode, registers_of


class Cta(NamedTuple):
    """A CTA that has not begun: the cycle in which its first warp begins, its number, and for each of its warps the
    number, the place of its program in `codes`, and the cycle in which it begins."""

    begin: int
    number: int
    warps: list[tuple[int, int, int]]


class Launcher:
    """Launches the CTAs of a machine, each on an SM of its own.

    Args:
        codes: the programs, of which each has warps.
        programs: these as the front reads them.
        starts: for each warp, by number, the cycle in which it begins; none: all begin in cycle 0.

    Attributes:
        waiting: CTAs that have not begun, the first the soonest.
        warps: how many all CTAs have.
    """

    def __init__(self, machine: Any, codes: list[TimedCode], programs: Any, starts: Sequence[int]) -> None:
        self.machine, self.env, self.codes = machine, machine.env, codes
        self.registers, self.programs = registers_of(codes), [programs.find(code) for code in codes]
        by_cta: dict[int, list[tuple[int, int, int]]] = {}
        for number, place in sorted((number, place) for place, code in enumerate(codes) for number in code.warps):
            cta = number // max(machine.cta_warps, 1)
            by_cta.setdefault(cta, []).append((number, place, starts[number] if starts else 0))
        self.waiting = sorted(Cta(min(warp[2] for warp in warps), cta, warps) for cta, warps in by_cta.items())
        self.warps = sum(map(len, by_cta.values()))
        self.env.process(self.run())

    def run(self) -> Generator[simpy.Event, Any, None]:
        """Launches one CTA after the other."""
        while self.waiting:
            cta = self.waiting[0]
            if cta.begin > self.env.now:
                yield self.env.timeout(cta.begin - self.env.now)
            self.waiting.pop(0)
            self.launch(cta)

    def launch(self, cta: Cta) -> None:
        """Puts the warps of a CTA on its SM, whose front goes on from here by itself."""
        sm, places = self.machine.sms[cta.number], self.machine.places
        for number, place, start in cta.warps:
            places.append((sm, sm.front.place(self.programs[place], number, self.registers, start), self.codes[place]))
        places.sort(key=lambda place: place[1].id)
        self.env.process(sm.run())

    def state(self, now: int) -> tuple[tuple[int, int], ...]:
        """Returns which CTAs will begin, and in how many cycles."""
        return tuple((cta.begin - now, cta.number) for cta in self.waiting)
