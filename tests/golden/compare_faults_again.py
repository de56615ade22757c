"""Compare outcomes of faults with those that are computed again from rows of lists, documentation and PTX alone.

    python -m tests.golden.compare_faults_again           # from the root: 5,000 drawn faults of every target
    python -m tests.golden.compare_faults_again --count 500 --target mma.sp.f16
    python -m tests.golden.compare_faults_again --seed 2              # other faults

Exit status 1 if anything differs. The recomputation is tests/golden/again; it shares no code with the simulator's
arithmetic, layouts, execution and faults. It reads from the targets what their words hold without faults: registers of
`mma`; Tensor Memory, shared memory and descriptors of `tcgen05.mma`; addresses of a launch's buffers. Traces, PTX and
their data it reads from their files.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from simulator.execute.tcgen05.example import fill
from tests.golden.again import groups
from tests.golden.again.compared import Found, compared
from tests.golden.again.drawn import Keys, Lot, drawn
from tests.golden.again.fragments import form_of
from tests.golden.again.instruction import FIRST_OTHER, Instruction
from tests.golden.again.kernel import Kernel
from tests.golden.again.launch import Launch
from tests.golden.again.program import Program
from tests.golden.again.tensor_memory import TensorInstruction
from tests.golden.again.trace import Trace

ROOT = Path(__file__).resolve().parents[2]
COUNT = 5000
_ORDERED = "mma.sp::ordered_metadata.m16n8k"
_MMA: Mapping[str, Keys] = {
    "mma.sp.f16": {"opcode": f"{_ORDERED}32.f32.f16.f16.f32", "selector": 1},
    "mma.sp.f16.f16": {"opcode": "mma.sp.m16n8k16.f16.f16.f16.f16", "selector": 2},
    "mma.sp.bf16": {"opcode": f"{_ORDERED}16.f32.bf16.bf16.f32", "target": "sm_80"},
    "mma.sp.tf32": {"opcode": "mma.sp.m16n8k16.f32.tf32.tf32.f32"},
    "mma.sp.s8": {"opcode": f"{_ORDERED}64.s32.s8.u8.s32"},
    "mma.sp.s4": {"opcode": "mma.sp.m16n8k64.satfinite.s32.s4.u4.s32"},
    "mma.sp.e4m3": {"opcode": "mma.sp.m16n8k64.f32.e4m3.e5m2.f32"},
    "mma.sp.mxf8f6f4": {
        "opcode": f"{_ORDERED}64.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e3m2.e2m1.f32.ue8m0", "target": "sm_120a",
    },
    "mma.sp.mxf4": {
        "opcode": f"{_ORDERED}128.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0", "target": "sm_120a",
    },
    "mma.sp.mxf4nvf4": {
        "opcode": f"{_ORDERED}128.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3",
        "target": "sm_120a",
    },
    "mma.sp.f16 raise": {"opcode": "mma.sp.m16n8k32.f32.f16.f16.f32", "policy": "raise"},
    "mma.sp.tf32 zero": {"opcode": f"{_ORDERED}8.f32.tf32.tf32.f32", "policy": "zero"},
    "mma.sp.s4 saturate": {"opcode": f"{_ORDERED}128.s32.u4.u4.s32", "policy": "saturate"},
    "mma.f16": {"opcode": "mma.m16n8k16.f32.f16.f16.f32"},
    "mma.tf32": {"opcode": "mma.m16n8k8.f32.tf32.tf32.f32", "target": "sm_80"},
    "mma.e4m3": {"opcode": "mma.m16n8k32.f32.e4m3.e4m3.f32"},
    "mma.s8": {"opcode": "mma.m16n8k32.s32.s8.s8.s32"},
}  # fmt: skip
_SCALED = "kind::mxf8f6f4.block_scale.scale_vec::1X"
_TCGEN05: Mapping[str, Keys] = {
    "tcgen05.sp.f16": {"opcode": "tcgen05.mma.sp.cta_group::1.kind::f16", "m": 64, "n": 64, "base_lane": 16},
    "tcgen05.sp.i8": {"opcode": "tcgen05.mma.sp.cta_group::1.kind::i8", "m": 128, "n": 32},
    "tcgen05.sp.f8": {"opcode": "tcgen05.mma.sp.cta_group::1.kind::f8f6f4", "m": 128, "n": 32},
    "tcgen05.sp.mxf8 pair": {"opcode": f"tcgen05.mma.sp.cta_group::2.{_SCALED}", "m": 256, "n": 32},
    "tcgen05.sp.f16 pair": {
        "opcode": "tcgen05.mma.sp.cta_group::2.kind::f16", "m": 128, "n": 32, "d_type": "f16", "selector": 1,
        "a_in_tmem": False,
    },
    "tcgen05.f16 pair": {"opcode": "tcgen05.mma.cta_group::2.kind::f16", "m": 128, "n": 64},
    "tcgen05.mxf8": {"opcode": f"tcgen05.mma.cta_group::1.{_SCALED}", "m": 128, "n": 40, "element": "e5m2"},
}  # fmt: skip
_TRACES = {"trace digits/f16": ROOT / "traces" / "digits" / "f16.trace"}
_LAUNCHES = {
    "launch bug0": ROOT / "tests" / "golden" / "planted" / "bug0.json",
    "launch direct": ROOT / "tests" / "golden" / "launches" / "direct_one_warp.json",
}
Again = Callable[[Any], Mapping[str, Any]]


def _mma(keys: Keys, count: int, seed: int) -> tuple[Lot, Again]:
    subject = {"target": "sm_90a", "cases": 5} | {key: value for key, value in keys.items() if key != "policy"}
    form = form_of(subject["opcode"])
    a = form.format("a")
    wanted = groups.of_instruction(
        form.selectors if form.sparse else 0, bool(form.vector), form.format("d").is_float,
        a.is_float and a.special != "none", a.is_float and a.special == "ieee", form.c == form.d,
    )  # fmt: skip
    lot = drawn(subject, wanted, count, seed, policy=keys.get("policy", "hardware"))
    return lot, Instruction(lot.campaign.subject, lot.models, lot.patterns).run


def _tcgen05(keys: Keys, count: int, seed: int) -> tuple[Lot, Again]:
    opcode, in_tmem = keys["opcode"], keys.get("a_in_tmem", True)
    sparse, scaled, pair = ".sp" in opcode, "block_scale" in opcode, "cta_group::2" in opcode
    halves = keys["m"] == (128 if pair else 64) and (sparse or not pair)
    wanted = groups.of_tensor_instruction(sparse, scaled, in_tmem, sparse and not scaled, halves)
    lot = drawn({"target": "sm_100a", "cases": 2} | keys, wanted, count, seed)
    target: Any = lot.campaign.subject
    others = [fill(target.shape, target.seed, FIRST_OTHER + number, valid=True) for number in range(16)]
    return lot, TensorInstruction(target, lot.models, lot.patterns, others).run


def _trace(path: Path, count: int, seed: int) -> tuple[Lot, Again]:
    name = f"{path.parent.name}/{path.stem}"
    lot = drawn({"trace": name, "config": "h100_sxm"}, groups.of_trace(), count, seed)
    return lot, Trace(Program(path.read_text(), path.parent)).run


def _launch(path: Path, count: int, seed: int) -> tuple[Lot, Again]:
    shared = ".shared" in path.with_suffix(".ptx").read_text()
    lot = drawn({"launch": str(path)}, groups.of_launch(shared), count, seed)
    target: Any = lot.campaign.subject
    memory = target.setup().memory
    bases = {name: memory[name].address for name in target.capture.buffers}
    return lot, Launch(Kernel(path, bases)).run


_SORTS: tuple[tuple[Mapping[str, Any], Callable[[Any, int, int], tuple[Lot, Again]]], ...] = (
    (_MMA, _mma), (_TCGEN05, _tcgen05), (_TRACES, _trace), (_LAUNCHES, _launch),
)  # fmt: skip
TARGETS = [name for targets, _ in _SORTS for name in targets]


def compare(name: str, count: int, seed: int = 1) -> Found:
    """Draws about `count` faults of a target of `TARGETS`, and compares the simulator with the recomputation."""
    targets, make = next((targets, make) for targets, make in _SORTS if name in targets)
    lot, again = make(targets[name], count, seed)
    return compared(name, lot, again)


def main(arguments: list[str] | None = None) -> int:
    """Prints the table; 1 if anything differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=COUNT, help="faults of each target (default: %(default)s)")
    parser.add_argument("--target", choices=TARGETS, action="append", help="this one alone; may be given several times")
    parser.add_argument("--seed", type=int, default=1, help="which faults are drawn (default: %(default)s)")
    given = parser.parse_args(arguments)
    print("target                  faults  differing: outcomes  numbers  detectors   seconds: simulator  again")
    equal, faults = True, 0
    for name in given.target or TARGETS:
        found = compare(name, given.count, given.seed)
        print(f"{name:22} {found.faults:7,} {found.outcomes:20,} {found.numbers:8,} {found.detectors:10,}"
              f" {found.seconds[0]:20.1f} {found.seconds[1]:6.1f}", flush=True)  # fmt: skip
        if found.first:
            print(f"    {found.first}")
        equal, faults = equal and found.equal, faults + found.faults
    print(f"{faults:,} faults, {'0 differ' if equal else 'some differ'}")
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
