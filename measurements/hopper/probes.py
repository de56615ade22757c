"""When the threads of the GEMM kernels by wgmma come where: kernels with stores of the clock in their loops.

    python -m measurements.hopper.probes build FOLDER
    python -m measurements.hopper.probes run FOLDER OUT.npz      # on a GPU

OUT.npz has for each kernel and size int64 [CTA, role, event] of clocks (0 where there is none). Role 0 is the thread
that loads: begin, behind the barrier at the begin, then of each stage when it was empty and when its copies were asked
for. Roles 1 and 2 are those that multiply: begin, then of each stage when it was full and when the products before it
were complete; of each tile when the last product was complete and when its stores were issued.
"""

from __future__ import annotations

import argparse
import ctypes as c
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from measurements.hopper.gemm import SMS, Gpu, name_of, tiles

ROLES, EVENTS = 3, 2048
SIZES = ((512, 512, 512), (2048, 2048, 2048), (4096, 4096, 4096))
PROBED = (
    "dense_f16_f16_128x256_cooperative_s4_c1x1", "dense_f16_f16_128x256_cooperative_s4_c2x1",
    "sp_f16_f16_128x128_cooperative_s3_c1x1", "sp_f16_f16_128x128_cooperative_s3_c2x1",
    "sp_f16_f16_256x128_cooperative_s2_c1x1", "dense_f16_f16_128x128_cooperative_s6_c1x1",
    "dense_f16_f16_128x128_pingpong_s6_c1x1", "sp_f16_f16_128x64_cooperative_s5_c1x2",
)  # fmt: skip


def probed(text: str) -> str:
    """A kernel's text with the stores."""
    mark = "@%probes st.global.u64 [%probe], %clock; @%probes add.u64 %probe, %probe, 8;"
    record = f"mov.u64 %clock, %clock64; {mark}"
    text = text.replace(".param .u32 raster", ".param .u32 raster, .param .u64 probe")
    first = (
        ".reg .b64 %probe, %clock; .reg .pred %probes; .reg .b32 %pr<4>; mov.u64 %clock, %clock64;\n"
        "mov.u32 %pr0, %tid.x; and.b32 %pr1, %pr0, 127; setp.eq.u32 %probes, %pr1, 0; shr.u32 %pr0, %pr0, 7;\n"
        f"mov.u32 %pr1, %ctaid.x; mad.lo.u32 %pr0, %pr1, {ROLES}, %pr0; mul.lo.u32 %pr0, %pr0, {8 * EVENTS};\n"
        "cvt.u64.u32 %probe, %pr0; { .reg .b64 %pt; ld.param.u64 %pt, [probe]; add.u64 %probe, %probe, %pt; }\n"
        f"{mark}\n"
    )
    text = text.replace("{\n", "{\n" + first, 1)
    parted = "setp.ge.u32 %p0, %warp, 4; @%p0 bra MULTIPLY;"
    text = text.replace(parted, f"{record}\n{parted}")
    text = re.sub(r"(@!%p2 bra (EMPTY|FULL\d);)", rf"\1\n{record}", text)
    text = re.sub(r"(add.u32 %t7, %t7, \d+; add.u32 %t8)", rf"{record}\n\1", text)
    text = text.replace("wgmma.wait_group.sync.aligned 1;", f"wgmma.wait_group.sync.aligned 1;\n{record}")
    text = text.replace("wgmma.wait_group.sync.aligned 0;", f"wgmma.wait_group.sync.aligned 0;\n{record}")
    return re.sub(r"^( *bra TILE;)", rf"{record}\n\1", text, flags=re.MULTILINE)


def build(folder: Path) -> None:
    """Writes and assembles the kernels."""
    from simulator.studies.gemm.wgmma import wgmma_kernel
    from simulator.studies.gemm.wgmma.chip import launch_of

    folder.mkdir(parents=True, exist_ok=True)
    jobs = []
    for tile in tiles():
        name = name_of(tile)
        if name not in PROBED:
            continue
        source = folder / f"{name}.ptx"
        source.write_text(probed(wgmma_kernel(tile)))
        subprocess.run(["ptxas", "-arch=sm_90a", "-o", str(source.with_suffix(".cubin")), str(source)], check=True)
        fields = ("type", "output", "sparse", "bm", "bn", "bk", "columns_a", "cluster_m", "cluster_n", "cluster")
        job = {field: getattr(tile, field) for field in (*fields, "bytes_d", "bytes_e", "shared_bytes")}
        launches = [[*sizes, *launch_of(tile, *sizes, SMS)] for sizes in SIZES]
        jobs.append(job | {"name": name, "bits": tile.element.bits, "launches": launches, "threads": 32 * tile.warps})
    (folder / "probes.json").write_text(json.dumps(jobs))


def run(folder: Path, result: Path) -> None:
    """Launches each kernel and size a few times; the clocks of the last launch are kept."""
    gpu = Gpu()
    size = SMS * ROLES * EVENTS * 8
    probe = gpu.driver.allocate(size)
    found: dict[str, Any] = {}
    jobs = json.loads((folder / "probes.json").read_text())
    gpu.fill(jobs[0], np.random.default_rng(0))
    for job in jobs:
        for launch in job["launches"]:
            gpu.driver.write(probe, np.zeros(size, np.uint8))
            gpu.launch(folder, job, launch, 3, c.c_uint64(probe))
            clocks = gpu.driver.read(probe, size).view(np.int64).reshape(SMS, ROLES, EVENTS)
            found[f"{job['name']} {'x'.join(map(str, launch[:3]))}"] = clocks[[0, 1, 2, 3, 40, 41, 90, 91]]
    np.savez_compressed(result, **found)


def main() -> None:
    """Builds or runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("build", "run"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("result", type=Path, nargs="?")
    options = parser.parse_args()
    if options.what == "build":
        build(options.folder)
    else:
        run(options.folder, options.result)


if __name__ == "__main__":
    main()
