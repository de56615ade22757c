"""The processor time of tests: `pytest --processor-times` ends with a table of it, slowest test first.

Unlike `--durations` it does not count waiting, so that it says the same on a machine that does other things, too; it
counts the threads and the finished child processes of a test. With `-n` it is the sum over all workers.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Generator
from typing import Any

import pytest

_PROPERTY = "processor_time"


def processor_time() -> float:
    """Seconds that this process and its finished children have used, in user and in system mode."""
    now = os.times()
    return now.user + now.system + now.children_user + now.children_system


class ProcessorTimes:
    """Notes the processor time of every phase of every test, and prints the sums at the end."""

    def __init__(self, config: pytest.Config) -> None:
        self.shown: int = config.getoption("--processor-times")
        self.last = processor_time()
        self.of_test: dict[str, float] = defaultdict(float)

    def pytest_collection_finish(self) -> None:
        """What came before the first test belongs to none."""
        self.last = processor_time()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Each phase (set-up, call, teardown) carries its time in its report, from a worker, too."""
        report = yield
        now = processor_time()
        report.user_properties = [*report.user_properties, (_PROPERTY, now - self.last)]
        self.last = now
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Adds the phases of a test. The properties of a phase that went before come first: the last is its own."""
        times = [value for name, value in report.user_properties if name == _PROPERTY]
        if times:
            self.of_test[report.nodeid] += float(str(times[-1]))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Sums by folder and by file, and the slowest tests."""
        own, line = processor_time(), terminalreporter.write_line
        total = sum(self.of_test.values())
        terminalreporter.write_sep("=", "processor time, s")
        for depth in (2, 3, 4):
            of_place: dict[str, float] = defaultdict(float)
            for test, time in self.of_test.items():
                path = test.partition("::")[0].split("/")
                if len(path) >= depth:
                    of_place["/".join(path[:depth])] += time
            for place, time in sorted(of_place.items(), key=lambda item: -item[1])[: self.shown]:
                line(f"{time:8.2f}  {place}")
            line("")
        for test, time in sorted(self.of_test.items(), key=lambda item: -item[1])[: self.shown]:
            line(f"{time:8.2f}  {test}")
        line(f"{total:8.2f}  all tests")
        line(f"{own:8.2f}  with start, imports and collection of every process")


def register(config: pytest.Config) -> None:
    """Called when pytest starts, in the controller and in each worker."""
    if config.getoption("--processor-times"):
        config.pluginmanager.register(ProcessorTimes(config), "processor-times")


def add_option(parser: pytest.Parser) -> None:
    """The option on the command line."""
    parser.addoption(
        "--processor-times",
        type=int,
        nargs="?",
        const=40,
        default=0,
        metavar="N",
        help="print the processor time of folders, files and the N slowest tests (40)",
    )
