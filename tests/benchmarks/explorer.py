"""How soon the explorer's page shows something, and how soon another form: `python -m tests.benchmarks.explorer`.

Prints milliseconds of each browser that is here: the first paint after the navigation began, and the time in which a
switch of the form is computed, drawn and laid out (the median and the worst of several, the first of each form left
out and printed beside them).
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
        found = run_page("times", FORMS, size=(1280, 720), browser=browser)
        print(f"{browser}: first paint {found['paint']:.0f} ms, everything shown {found['shown']:.0f} ms")
        for opcode, first, times in found["switches"]:
            median, worst = times[len(times) // 2], times[-1]
            print(f"{browser}: to {opcode}: first {first:.0f}, median {median:.0f}, worst {worst:.0f} ms")


if __name__ == "__main__":
    main()
