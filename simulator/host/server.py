"""The server: answers what the program's CUDA runtime asks over a socket (docs/exec.md has the protocol)."""

from __future__ import annotations

import socket
import struct
import sys
import time
from collections.abc import Callable
from enum import IntEnum
from typing import Any

from isa.descriptors.tensor_map import TensorMap
from isa.descriptors.tensor_map_driver import of_driver
from isa.descriptors.tensor_map_rules import refuse
from isa.errors import Error, IsaError
from simulator.chip.config import Config
from simulator.host.device import described
from simulator.host.errors import HostError, Status, stays
from simulator.host.kernels import Modules
from simulator.host.launches import Launcher, Request, short
from simulator.host.memory import Arena, Kind

_HEAD = struct.Struct("<IIQ")
_REPLY = struct.Struct("<iIQ")
_LAUNCH = struct.Struct("<II3I3I3IQI")
_MAP = struct.Struct("<10IQ5Q4Q5I5I3i3i")
_MAP_FUNCTIONS = ("Tiled", "Im2col", "Im2colWide")
_PORTION = 1 << 20


class Asked(IntEnum):
    """Requests: runtime/server.h."""

    DEVICE = 1
    MODULE = 2
    FUNCTION = 3
    VARIABLE = 4
    ALLOCATE = 5
    RELEASE = 6
    LAUNCH = 7
    OCCUPANCY = 8
    TENSOR_MAP = 9
    CLOCK = 10


Answer = tuple[Status, bytes] | None  # None: no answer is waited for


def tell(message: object) -> None:
    """A line on stderr, where the program's own are."""
    sys.stderr.write(f"tcsim: {message}\n")
    sys.stderr.flush()


class Server:
    """Serves one program until it ends.

    Args:
        connection: to the program.
        launcher: runs its launches.
        verbose: whether each launch is told.
    """

    def __init__(
        self, connection: socket.socket, config: Config, modules: Modules, arena: Arena, launcher: Launcher, *,
        verbose: bool = False,
    ) -> None:  # fmt: skip
        self.connection, self.config, self.modules = connection, config, modules
        self.arena, self.launcher, self.verbose = arena, launcher, verbose
        self._began = time.perf_counter()
        self._answers: dict[Asked, Callable[[bytes], Answer]] = {
            Asked.DEVICE: lambda _: (Status.SUCCESS, described(self.config)),
            Asked.MODULE: self._module,
            Asked.FUNCTION: self._function,
            Asked.VARIABLE: self._variable,
            Asked.ALLOCATE: self._allocate,
            Asked.RELEASE: self._release,
            Asked.LAUNCH: self._launch,
            Asked.OCCUPANCY: self._occupancy,
            Asked.TENSOR_MAP: self._tensor_map,
            Asked.CLOCK: self._clock,
        }

    def serve(self) -> None:
        """Answers until the program has closed its end."""
        while (head := self._receive(_HEAD.size)) is not None:
            kind, _, size = _HEAD.unpack(head)
            body = self._receive(size)
            if body is None:
                return
            answer = self._answers[Asked(kind)](body)
            if answer is not None:
                status, data = answer
                try:
                    self.connection.sendall(_REPLY.pack(status, 0, len(data)) + data)
                except OSError:  # the program has ended meanwhile
                    return

    def _receive(self, size: int) -> bytes | None:
        parts = bytearray()
        while len(parts) < size:
            try:
                part = self.connection.recv(min(size - len(parts), _PORTION))
            except ConnectionError:
                return None
            if not part:
                return None
            parts += part
        return bytes(parts)

    # Answers

    def _module(self, body: bytes) -> Answer:
        self.modules.add(int.from_bytes(body[:4], "little"), body[4:])
        return None

    def _function(self, body: bytes) -> Answer:
        number, name = _named(body)
        try:
            kernel = self.modules.kernel(number, name)
        except HostError as error:
            tell(error)
            return Status.NO_KERNEL_IMAGE, b""
        except Error as error:
            tell(f"{short(name)}: {error}")
            return Status.NOT_SUPPORTED, b""
        version = int(float(kernel.module.version) * 10)
        cluster = (*kernel.directives.get("reqnctapercluster", (0, 0, 0)), 1, 1)[:3]
        constant = sum(len(image.data) for image in kernel.images if image.constant)
        numbers = [
            kernel.shared_bytes, constant, kernel.local_bytes, self.modules.registers(kernel),
            self.modules.most_threads(kernel), version, self.config.target.number, *cluster, kernel.parameter_bytes,
            len(kernel.parameters),
        ]  # fmt: skip
        for parameter in kernel.parameters:
            numbers += [parameter.offset, parameter.bytes]
        return Status.SUCCESS, struct.pack(f"<{len(numbers)}I", *numbers)

    def _variable(self, body: bytes) -> Answer:
        number, name = _named(body)
        try:
            image = next((each for each in self.modules.images(number) if each.name == name), None)
        except Error as error:
            tell(error)
            return (Status.NO_KERNEL_IMAGE if isinstance(error, HostError) else Status.INVALID_PTX), b""
        if image is None:
            tell(f"the PTX has no variable '{name}'")
            return Status.INVALID_SYMBOL, b""
        variable = self.arena.variable(number, image)
        return Status.SUCCESS, struct.pack("<QQ", variable.address, len(image.data))

    def _allocate(self, body: bytes) -> Answer:
        address, size, kind = struct.unpack("<QQI", body)
        self.arena.allocate(address, size, Kind(kind))
        return None

    def _release(self, body: bytes) -> Answer:
        self.arena.release(int.from_bytes(body, "little"))
        return None

    def _launch(self, body: bytes) -> Answer:
        module, cooperative, *sizes, shared, length = _LAUNCH.unpack_from(body)
        name, parameters = body[_LAUNCH.size :][:length].decode(), body[_LAUNCH.size + length :]
        grid, block, cluster = ((sizes[i], sizes[i + 1], sizes[i + 2]) for i in (0, 3, 6))
        launched = self.launcher.run(Request(module, name, grid, block, cluster, shared, parameters, bool(cooperative)))
        if launched.message:
            tell(f"{short(name)}: {launched.message}")
        if self.verbose:
            tell(launched)
        return launched.status, struct.pack("<I", stays(launched.status)) + launched.printed.encode()

    def _occupancy(self, body: bytes) -> Answer:
        number, threads, shared = struct.unpack_from("<IIQ", body)
        kernel = self.modules.kernel(number, body[16:].decode())
        return Status.SUCCESS, struct.pack("<I", self.modules.resident(kernel, threads, shared))

    def _tensor_map(self, body: bytes) -> Answer:
        im2col, kind, rank, interleave, swizzle, promotion, fill, channels, pixels, *rest = _MAP.unpack(body)
        address, numbers = rest[1], rest[2:]
        counts = (0, rank), (5, rank - 1), (9, rank), (14, rank), (19, max(rank - 2, 0)), (22, max(rank - 2, 0))
        size, stride, box, element, lower, upper = (tuple(numbers[first : first + count]) for first, count in counts)
        codes = {
            "data_type": kind, "interleave": interleave, "swizzle": swizzle, "l2_promotion": promotion, "fill": fill,
        }  # fmt: skip
        try:
            where: dict[str, Any] = {"box": box}
            if im2col:
                where = {"lower": lower, "upper": upper, "channels": channels, "pixels": pixels}
            tensor = TensorMap(
                size=size, stride_bytes=stride, element_stride=element, address=address, **of_driver(codes), **where
            )
            if self.config.target.number < 100 and tensor.beyond_hopper:
                raise refuse(tensor.type, f"{tensor.beyond_hopper}: the driver of a Hopper refuses it", "none", "type")
            return Status.SUCCESS, tensor.encode()
        except IsaError as error:
            tell(f"cuTensorMapEncode{_MAP_FUNCTIONS[im2col]}: {error}")
            return Status.INVALID_VALUE, b""

    def _clock(self, body: bytes) -> Answer:
        """Milliseconds: of the chip, all launches so far, where they are timed; else of the simulator."""
        if self.launcher.timed:
            now = sum(each.device_us or 0 for each in self.launcher.done) / 1000
        else:
            now = (time.perf_counter() - self._began) * 1000
        return Status.SUCCESS, struct.pack("<d", now)


def _named(body: bytes) -> tuple[int, str]:
    return int.from_bytes(body[:4], "little"), body[4:].decode()
