"""How soon the explorer's page shows something, and how soon another form: `python -m tests.benchmarks.explorer`.

Prints milliseconds of each browser that is here: the first paint after the navigation began, and the time in which a
switch of the form is computed, drawn and laid out as far as it is in sight (the best, the median and the worst of nine,
and the first of each form beside them). On a machine that others use the best is what says most.
"""

from __future__ import annotations

from tests.support.explorer_browser import BROWSERS, DENSE, F16, ORDERED, S4, TF32, TMEM, run_page

FORMS = (ORDERED, TF32, F16, DENSE, S4, TMEM)


def main() -> None:
    """Measures in each browser, and prints."""
    for browser, program in BROWSERS.items():
        if program is None:
            print(f"{browser}: not here")
            continue
        measured = run_page("times", FORMS, size=(1280, 720), browser=browser)
        print(f"{browser}: first paint {measured['paint']:.0f} ms, everything shown {measured['shown']:.0f} ms")
        for opcode, first, times in measured["switches"]:
            median, worst = times[len(times) // 2], times[-1]
            found = f"best {times[0]:.0f}, median {median:.0f}, worst {worst:.0f}, first {first:.0f} ms"
            print(f"{browser}: to {opcode}: {found}")


if __name__ == "__main__":
    main()
