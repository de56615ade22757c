"""How many clusters of each size a chip has room for at once, and on which SMs their CTAs are:

    python -m measurements.hopper.places build FOLDER     # needs ptxas, no GPU
    python -m measurements.hopper.places run FOLDER

With one CTA on each SM (its shared memory is full). Prints, by size, what the driver says and the SMs of each cluster
of one launch.
"""

from __future__ import annotations

import argparse
import ctypes as c
import subprocess
from pathlib import Path

import numpy as np

from measurements.hopper.kernels import HEADER, SHARED
from measurements.tensor_maps.driver import Driver

SIZES = tuple(range(1, 17))
THREADS = 128
CLUSTER, PORTABLE = 4, 14  # a launch's attribute; a function's: sizes above 8
_TEXT = """
.visible .entry places(.param .u64 out) .reqntid 128, 1, 1
{
.reg .b64 %t<4>; .reg .b32 %x<4>; .reg .pred %q;
mov.u32 %x0, %tid.x; setp.ne.u32 %q, %x0, 0; @%q bra DONE;
ld.param.u64 %t0, [out]; mov.u32 %x1, %ctaid.x; mul.wide.u32 %t1, %x1, 4; add.u64 %t0, %t0, %t1;
mov.u32 %x2, %smid; st.global.u32 [%t0], %x2; nanosleep.u32 1000000;
DONE: ret;
}
"""


class Attribute(c.Structure):
    """An attribute of a launch: its number and up to 64 bytes."""

    _fields_ = (("id", c.c_int), ("pad", c.c_int), ("value", c.c_uint32 * 16))


class Launch(c.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        ("grid", c.c_uint * 3), ("block", c.c_uint * 3), ("shared", c.c_uint), ("stream", c.c_void_p),
        ("attributes", c.POINTER(Attribute)), ("count", c.c_uint),
    )  # fmt: skip


def build(folder: Path) -> None:
    """Assembles the kernel."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "places.ptx").write_text(HEADER + _TEXT)
    command = ["ptxas", "-arch=sm_90a", "-o", str(folder / "places.cubin"), str(folder / "places.ptx")]
    subprocess.run(command, check=True)


def run(folder: Path) -> None:
    """Asks the driver, and launches."""
    driver = Driver()
    function = driver.function(str(folder / "places.cubin"), "places", SHARED - 1024)
    driver.call("cuFuncSetAttribute", function, PORTABLE, 1)
    out = driver.allocate(4096)
    for size in SIZES:
        attribute = Attribute(CLUSTER, 0, (c.c_uint32 * 16)(size, 1, 1))
        ctas = 132 // size * size
        launch = Launch((ctas, 1, 1), (THREADS, 1, 1), SHARED - 1024, None, c.pointer(attribute), 1)
        count = c.c_int()
        driver.call("cuOccupancyMaxActiveClusters", c.byref(count), function, c.byref(launch))
        print(f"clusters of {size}: {count.value} at once", flush=True)
        launch.grid[0] = count.value * size
        address = c.c_uint64(out)
        pointers = (c.c_void_p * 1)(c.cast(c.byref(address), c.c_void_p))
        driver.call("cuLaunchKernelEx", c.byref(launch), function, pointers, None)
        driver.call("cuCtxSynchronize")
        places = driver.read(out, count.value * size * 4).view(np.uint32).reshape(-1, size)
        print("\n".join(" ".join(map(str, sms)) for sms in places.tolist()), flush=True)


def main() -> None:
    """Builds or runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("build", "run"))
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    build(options.folder) if options.what == "build" else run(options.folder)


if __name__ == "__main__":
    main()
