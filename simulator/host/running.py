"""Runs a host program against the simulated device."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from simulator.host.build import LIBRARY, SONAME, build, is_current
from simulator.host.errors import HostError
from simulator.host.program import check, located

if TYPE_CHECKING:
    from simulator.chip.config import Config
    from simulator.host.checking import ProgramCheck
    from simulator.host.launches import Launched

DEFAULT = "h100_sxm"


@dataclass(frozen=True)
class Result:
    """A program that has ended.

    Attributes:
        code: its exit code; 128 and the signal's number where a signal ended it, as shells have it.
        launches: of its kernels, in order.
        check: what was found in its launches; None if they were not checked.
    """

    code: int
    launches: tuple[Launched, ...]
    check: ProgramCheck | None = None


def run(
    command: Sequence[str | Path],
    *,
    config: str | Path | Config = DEFAULT,
    capture: str | Path | None = None,
    workers: int = 0,
    timed: bool = False,
    verbose: bool = False,
    completion: str = "issue",
    budget: int | None = None,
    checked: bool = False,
) -> Result:
    """Runs a program that nvcc compiled with `-cudart shared` against a simulated GPU.

    Args:
        command: the program and its arguments.
        config: the chip that the program finds.
        capture: a folder that keeps every launch as a capture.
        workers: processes; 0: as many as there are cores.
        timed: whether launches are timed on the chip, which is what events then say.
        verbose: whether each launch is told on stderr.
        completion: when asynchronous operations complete, as `Options` of launches; other than at issue, missing waits
            and fences are told on stderr.
        budget: warp instructions after which a launch is given up; None: as `Options`.
        checked: whether each launch is checked before it runs, as by `tcsim check`.

    Raises:
        HostError: no program, or one that would not run here.
        ConfigError: a config that cannot be used.
    """
    if not command:
        raise HostError("no program is named", "tcsim exec -- ./program args")
    program = located(str(command[0]))
    check(program)
    library = _library()
    from simulator.chip.config import load_config
    from simulator.host.checking import ProgramCheck
    from simulator.host.kernels import Modules
    from simulator.host.launches import Launcher
    from simulator.host.memory import Arena
    from simulator.host.server import Server

    chip = load_config(config)
    modules, arena = Modules(chip), Arena()
    folder = Path(capture) if capture is not None else None
    checks = ProgramCheck() if checked else None
    launcher = Launcher(
        chip, modules, arena, timed=timed, capture=folder, workers=workers, budget=budget, completion=completion,
        check=checks,
    )  # fmt: skip
    ours, theirs = socket.socketpair()
    paths = [str(library.parent), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    added = {"TCSIM_EXEC_SOCKET": str(theirs.fileno()), "TCSIM_EXEC_MEMORY": str(arena.fd)}
    environment = os.environ | added | {"LD_LIBRARY_PATH": os.pathsep.join(paths)}
    sys.stdout.flush()
    with ours:
        with theirs:
            process = subprocess.Popen(
                [*map(str, command)], executable=program, env=environment, pass_fds=(theirs.fileno(), arena.fd)
            )
        try:
            Server(ours, chip, modules, arena, launcher, verbose=verbose).serve()
            code = process.wait()
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    return Result(code if code >= 0 else 128 - code, tuple(launcher.done), checks)


def _library() -> Path:
    """The runtime library, which is built if it is not there: beside its sources, or where those cannot be written, in
    the user's cache.

    Raises:
        HostError: it cannot be built.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tcsim" / SONAME
    for library in (LIBRARY, cache):
        if is_current(library):
            return library
    try:
        if os.access(LIBRARY.parent, os.W_OK):
            return build()
        cache.parent.mkdir(parents=True, exist_ok=True)
        return build(cache)
    except (OSError, subprocess.CalledProcessError) as error:
        said = (getattr(error, "stderr", "") or str(error)).strip().splitlines()
        first = next((line for line in said if "error" in line), said[0] if said else str(error))
        reason = f"the CUDA runtime of the simulator cannot be built: {first}"
        raise HostError(reason, "a C++ compiler: c++, or CXX") from None
