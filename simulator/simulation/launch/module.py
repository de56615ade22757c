"""`simulator.Module`: the kernels of a PTX file, called with numpy arrays as CuPy's RawModule calls them with its own.

module = simulator.Module("spmm.ptx")
kernel = module.get_function("spmm_f16")
report = kernel((16, 32), (128,), (a, e, b, d, np.int32(64)), shared_mem=61440)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isa.ptx.module import Module as PtxModule
from isa.ptx.module import parse_module
from simulator.chip.config import Config
from simulator.floating_point import guarded
from simulator.inputs import InputError, read_text
from simulator.program.capture_record import Capture
from simulator.program.kernel import Kernel, link
from simulator.simulation.launch.arguments import parameter_bytes
from simulator.simulation.launch.call_arguments import Declared, Sizes, call_arguments, captured_call
from simulator.simulation.launch.errors import LaunchError
from simulator.simulation.launch.launching import Options, run_launch, time_one_cluster
from simulator.simulation.launch.place import dim
from simulator.simulation.launch.report import LaunchReport
from simulator.simulation.launch.upward import Checked, check_call
from simulator.state.device_memory import DeviceMemory
from simulator.timing.result import Timing

TEXT_SIGNS = ("\n", ".version")


class Module:
    """The entries of a PTX module.

    Args:
        source: path of a PTX file, or the text of one.
        fmad: whether a product and a sum without a rounding become a fused multiply-add, as ptxas makes them; False:
            as with its --fmad=false.

    Attributes:
        name: the file's path, or "<text>".
        source: the file's path, or the text.
        entries: names of the kernels that it has.

    Raises:
        LaunchError: the file cannot be read.
        IsaError: text that is no PTX module, with its line.
    """

    def __init__(self, source: str | Path, *, fmad: bool = True) -> None:
        self.fmad = fmad
        text, self.name = _read(source)
        self.source: str | Path = text if self.name == "<text>" else Path(source)
        self.parsed: PtxModule = parse_module(text)

    @property
    def entries(self) -> tuple[str, ...]:
        """Names of the kernels, in the order of the text."""
        return tuple(name for name, function in self.parsed.functions.items() if function.entry)

    def get_function(self, name: str | None = None) -> Function:
        """A kernel by its name, or by a part of its (mangled) name that no other kernel has; None: the only one.

        Raises:
            LaunchError: there is no such kernel, or more than one.
        """
        return Function(self, self.find(name))

    def find(self, name: str | None) -> str:
        """The whole name of a kernel, as `get_function` understands names."""
        entries = self.entries
        matching = [entry for entry in entries if name is None or name == entry] or [
            entry for entry in entries if name is not None and name in entry
        ]
        if len(matching) == 1:
            return matching[0]
        shown = ", ".join(entries[:8]) + (f" and {len(entries) - 8} more" if len(entries) > 8 else "")
        if name is None:
            reason = f"{self.name} has {len(entries)} kernels, so one must be named"
        else:
            reason = f"{self.name} has {len(matching) or 'no'} kernels with '{name}' in their names"
        raise LaunchError(reason, shown or "a module with an .entry", rule="unknown-kernel")


class _Arguments(NamedTuple):
    """Arguments of a call: memory with their buffers, the bytes of the parameters, the arrays by name."""

    memory: DeviceMemory
    params: NDArray[np.uint8]
    arrays: list[tuple[str, NDArray[Any]]]


class Function:
    """A kernel that can be called.

    Attributes:
        module: where it stands.
        name: its whole name.
    """

    def __init__(self, module: Module, name: str) -> None:
        self.module, self.name = module, name
        self.kernel: Kernel = link(module.parsed, name, fmad=module.fmad)

    @guarded
    def __call__(
        self,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        args: Sequence[Any] = (),
        *,
        shared_mem: int = 0,
        cluster: int | Sequence[int] | None = None,
        config: str | Path | Config | None = None,
        names: Sequence[str] = (),
        **options: Any,
    ) -> LaunchReport:
        """Runs the kernel.

        Args:
            grid, block: CTAs and threads, up to three numbers, x first.
            args: one for each parameter: a numpy array (a buffer, whose address is passed and which is written in
                place), a number of the parameter's type, the bytes of a structure, or an `isa.TensorMap` with its
                array, as a tuple: the map of that array, which is a buffer, too.
            shared_mem: dynamic shared memory of a CTA in bytes.
            cluster: CTAs of a cluster, up to three numbers, x first; None: as the kernel's directives demand, or one.
            config: the chip whose time is reported; None: values alone, as the module's own target gives them.
            names: what messages and the report call the arguments; without them, as the parameters are called.
            options: as `simulator.simulation.launch.launching.Options`.

        Raises:
            LaunchError: arguments that do not fit, or what goes wrong in the kernel.
        """
        given = self._placed(args, names)
        how = Options(config=config, dynamic_shared=shared_mem, cluster=cluster, **options)
        geometry = dim(grid, "grid"), dim(block, "block")
        report = run_launch(self.kernel, *geometry, given.memory, given.params, how)
        for name, array in given.arrays:
            data = given.memory[name].data
            if array.flags.writeable:
                array.view(np.uint8).reshape(-1)[:] = data if array.ndim else data[0]
        return report.with_arrays(dict(given.arrays))

    @guarded
    def timing(
        self,
        block: int | Sequence[int],
        args: Sequence[Any],
        *,
        config: str | Path | Config,
        shared_mem: int = 0,
        cluster: int = 1,
        sms: int = 1,
    ) -> Timing:
        """The time of the CTAs of one cluster, each alone on an SM, without the values of matrix products, beside so
        many SMs that do the same at the same time (these among them) and share L2.

        Raises:
            LaunchError, ConfigError: as for a launch with this config.
        """
        given = self._placed(args, ())
        how = Options(config=config, dynamic_shared=shared_mem, cluster=cluster, arithmetic="none")
        return time_one_cluster(self.kernel, dim(block, "block"), given.memory, given.params, how, sms)

    @guarded
    def capture(
        self,
        grid: Sizes,
        block: Sizes,
        args: Sequence[Any] = (),
        *,
        shared_mem: int = 0,
        cluster: Sizes | None = None,
        names: Sequence[str] = (),
        outputs: Collection[str] | None = None,
        declared: Declared | None = None,
    ) -> Capture:
        """The call as a captured launch, with copies of the arrays as they are now; nothing runs.

        `simulator.launch`, `simulator.check`, `simulator.verify` and `simulator.write_capture` take it.

        Args:
            grid, block, args, shared_mem, cluster, names: as of a call.
            outputs: names of the arrays that the kernel writes; None: all that may be written.
            declared: by name of an array, the rows, columns and leading dimension (in elements) of what it holds; what
                lies between them is padding.

        Raises:
            LaunchError: arguments that do not fit.
        """
        return captured_call(
            self.kernel, self.module.source, grid, block, args, shared_mem=shared_mem, cluster=cluster, names=names,
            outputs=outputs, declared=declared,
        )  # fmt: skip

    @guarded
    def check(
        self,
        grid: Sizes,
        block: Sizes,
        args: Sequence[Any] = (),
        *,
        shared_mem: int = 0,
        cluster: Sizes | None = None,
        names: Sequence[str] = (),
        declared: Declared | None = None,
        expect: Mapping[str, Any] | None = None,
        rtol: float = 0.0,
        atol: float = 0.0,
    ) -> Checked:
        """Looks for mistakes in the call: races, barriers, accesses out of bounds, and what makes a result wrong. The
        arrays stay as they are.

        Args:
            grid, block, args, shared_mem, cluster, names, declared: as of `capture`.
            expect: by name of an array, what it must hold after the call: an array, the file of one, or an expression
                (docs/kernels.md); None: no result is compared.
            rtol, atol: how far it may be from that, as of `numpy.allclose`; 0: bit for bit.

        Returns:
            A `simulator.check.launch_finding.LaunchCheck`.

        Raises:
            LaunchError: arguments that do not fit.
            ExpectationError: expected arrays that do not fit.
        """
        capture = self.capture(
            grid, block, args, shared_mem=shared_mem, cluster=cluster, names=names, declared=declared
        )
        return check_call(capture, expect or {}, rtol, atol)

    def _placed(self, args: Sequence[Any], names: Sequence[str]) -> _Arguments:
        """The arguments of a call in memory."""
        from simulator.simulation.launch.batches import shared_storage

        memory = DeviceMemory()
        arrays: list[tuple[str, NDArray[Any]]] = []
        values: list[Any] = []
        for each in call_arguments(self.kernel, args, names):
            if each.array is None:
                values.append(each.value)
                continue
            if each.buffer == each.name:
                buffer = memory.place(each.name, each.array.nbytes, storage=shared_storage(each.array.nbytes))
                buffer.data[:] = each.array.reshape(-1).view(np.uint8)
                arrays.append((each.name, each.array))
            address = memory[each.buffer].address
            values.append(address if each.tensor is None else each.tensor.encode(address))
        return _Arguments(memory, parameter_bytes(self.kernel, values), arrays)


def _read(source: str | Path) -> tuple[str, str]:
    """The text of a module, and what to call it."""
    if isinstance(source, str) and any(sign in source for sign in TEXT_SIGNS):
        return source, "<text>"
    try:
        return read_text(source, "a PTX file"), str(source)
    except InputError as error:
        raise LaunchError(f"{error.path} {error.reason}".strip(), error.legal) from None
