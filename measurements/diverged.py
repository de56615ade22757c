"""What a GPU gives for drawn kernels whose lanes part, exchange data under masks, and meet again.

    python diverged.py OUTPUT.json.gz    # needs a GPU of compute capability 8.0 or later and its driver; seconds

It is one file that needs the standard library alone: the driver assembles the PTX. Each kernel is drawn from its seed
(`drawn`, `text`), so that the file holds seeds, digests of the texts and results: for each of 2 CTAs of 64 threads one
word a thread. `tests/simulator/simulation/test_diverged.py` compares the simulator with it bit by bit, as
`tests/golden/diverged_h100.json.gz`. Kernels of an odd seed have instructions at which lanes meet from several places
of the text; each kernel runs in a process of its own that ends after LIMIT seconds, as such a meeting might never end.
"""

from __future__ import annotations

import ctypes
import gzip
import hashlib
import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SEEDS = range(400)
CTAS, THREADS = 2, 64
LIMIT = 20
DEPTH, LOOPS = 3, 2  # how deep branches and loops are nested
SYNCS = ("shfl", "vote", "match", "redux", "bar", "guarded")
REDUCTIONS = ("add.u32", "min.u32", "max.u32", "min.s32", "max.s32", "and.b32", "or.b32", "xor.b32")

Statement = tuple[Any, ...]
Block = list[Statement]


def drawn(seed: int) -> Block:
    """A program: statements that change a word `x` of each lane. All of them work on the lanes of the current mask.

    ("mix", a, c): x = x * a + c + lane.
    ("if", shift, limit, then, else): by x >> shift & 7 < limit, each side under the mask of its lanes.
    ("loop", shift, body): x >> shift & 3 times, each turn under the mask of the lanes that are still there.
    ("leave", shift): lanes with x >> shift & 7 == 0 store x and exit.
    (one of SYNCS, what, a, c): an exchange. ("cross", sync, mix): both sides of a branch by x & 1 execute the same
    exchange under the mask of both, one of them behind further arithmetic.
    """
    rng = random.Random(seed)
    return _block(rng, 0, bool(seed & 1), 5)


def _block(rng: random.Random, depth: int, crosses: bool, size: int) -> Block:
    return [_statement(rng, depth, crosses) for _ in range(rng.randint(1 if depth else 3, size))]


def _statement(rng: random.Random, depth: int, crosses: bool) -> Statement:
    kinds = ["mix", "sync", "sync"] + (["if", "if"] if depth < DEPTH else [])
    kinds += ["loop"] if depth < LOOPS else []
    kinds += ["cross"] if crosses else []
    kinds += ["leave"] if depth == 0 else []
    match rng.choice(kinds):
        case "mix":
            return _mix(rng)
        case "if":
            sides = _block(rng, depth + 1, crosses, 2), _block(rng, depth + 1, crosses, 2) if rng.random() < 0.7 else []
            return "if", rng.randint(0, 28), rng.randint(1, 7), *sides
        case "loop":
            return "loop", rng.randint(0, 28), _block(rng, depth + 1, crosses, 2)
        case "leave":
            return "leave", rng.randint(0, 28)
        case "cross":
            return "cross", _sync(rng, SYNCS[:5]), _mix(rng)
        case _:
            return _sync(rng, SYNCS)


def _mix(rng: random.Random) -> Statement:
    return "mix", rng.randrange(1, 1 << 16) * 2 + 1, rng.randrange(1 << 31)


def _sync(rng: random.Random, kinds: tuple[str, ...]) -> Statement:
    kind = rng.choice(kinds)
    what = {
        "shfl": ("up", "down", "bfly", "idx"), "vote": ("all", "any", "uni", "ballot"), "match": ("any", "all"),
        "redux": REDUCTIONS, "bar": ("",), "guarded": ("",),
    }[kind]  # fmt: skip
    return kind, rng.choice(what), rng.randrange(32), rng.randrange(32)


def text(seed: int, target: str = "sm_80") -> str:
    """The PTX text of the program of a seed; its kernel is `k`."""
    writer = _Writer()
    writer.block(drawn(seed), 0)
    masks = ", ".join(f"%m{i}, %i{i}, %n{i}" for i in range(DEPTH + 2))
    body = "\n".join(f" {line}" for line in writer.lines)
    return (
        f".version 7.0\n.target {target}\n.address_size 64\n.visible .entry k(.param .u64 out) {{\n"
        f" .reg .pred %p, %q, %u;\n .reg .b32 %x, %l, %t, %s, %v, %w, {masks};\n .reg .b64 %a, %b;\n"
        " mov.u32 %t, %ctaid.x;\n mov.u32 %s, %tid.x;\n and.b32 %l, %s, 31;\n"
        f" mad.lo.u32 %t, %t, {THREADS}, %s;\n mul.wide.u32 %b, %t, 4;\n ld.param.u64 %a, [out];\n"
        f" cvta.to.global.u64 %a, %a;\n add.u64 %a, %a, %b;\n mad.lo.u32 %x, %t, 2654435761, {seed * 40503 + 12345};\n"
        f" mov.u32 %m0, -1;\n{body}\n st.global.u32 [%a], %x;\n ret;\n}}\n"
    )


class _Writer:
    """Writes statements as PTX; %m of a depth is the mask of the lanes there."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.labels = 0

    def put(self, *lines: str) -> None:
        self.lines += lines

    def label(self) -> str:
        self.labels += 1
        return f"L{self.labels}"

    def block(self, block: Block, depth: int) -> None:
        for statement in block:
            self.statement(statement, depth)

    def statement(self, statement: Statement, depth: int) -> None:
        m = f"%m{depth}"
        match statement:
            case ("mix", a, c):
                self.put(f"mad.lo.u32 %x, %x, {a}, {c};", "add.u32 %x, %x, %l;")
            case ("if", shift, limit, then, other):
                side, end = self.label(), self.label()
                self.below(shift, 7, limit)
                self.put(f"vote.sync.ballot.b32 %t, %p, {m};", f"@!%p bra {side};", f"and.b32 %m{depth + 1}, {m}, %t;")
                self.block(then, depth + 1)
                self.put(f"bra {end};", f"{side}:", "not.b32 %t, %t;", f"and.b32 %m{depth + 1}, {m}, %t;")
                self.block(other, depth + 1)
                self.put(f"{end}:")
            case ("loop", shift, body):
                begin, end = self.label(), self.label()
                i, n = f"%i{depth}", f"%n{depth}"
                self.put(f"shr.u32 {n}, %x, {shift};", f"and.b32 {n}, {n}, 3;", f"mov.u32 {i}, 0;")
                self.put(f"mov.u32 %m{depth + 1}, {m};", f"{begin}:", f"setp.lt.u32 %p, {i}, {n};")
                self.put(f"vote.sync.ballot.b32 %t, %p, %m{depth + 1};", f"@!%p bra {end};")
                self.put(f"and.b32 %m{depth + 1}, %m{depth + 1}, %t;")
                self.block(body, depth + 1)
                self.put(f"add.u32 {i}, {i}, 1;", f"bra {begin};", f"{end}:")
            case ("leave", shift):
                stay = self.label()
                self.below(shift, 7, 1)
                self.put(f"vote.sync.ballot.b32 %t, %p, {m};", f"@!%p bra {stay};")
                self.put("st.global.u32 [%a], %x;", "ret;", f"{stay}:", "not.b32 %t, %t;", f"and.b32 {m}, {m}, %t;")
            case ("cross", sync, mix):
                side, end = self.label(), self.label()
                self.put("and.b32 %t, %x, 1;", "setp.eq.u32 %p, %t, 0;", f"@%p bra {side};")
                self.statement(mix, depth)
                self.sync(sync, m)
                self.put(f"bra {end};", f"{side}:")
                self.sync(sync, m)
                self.put(f"{end}:")
            case _:
                self.sync(statement, m)

    def below(self, shift: int, mask: int, limit: int) -> None:
        self.put(f"shr.u32 %t, %x, {shift};", f"and.b32 %t, %t, {mask};", f"setp.lt.u32 %p, %t, {limit};")

    def sync(self, statement: Statement, m: str) -> None:
        kind, what, a, c = statement
        match kind:
            case "shfl":
                # the lane to read from is named by the mask, or the own one
                self.put(f"mad.lo.u32 %s, %l, {a}, {c};", "and.b32 %s, %s, 31;")
                if what in ("up", "down"):
                    self.put(f"{'min' if what == 'up' else 'max'}.u32 %s, %s, %l;")
                self.put(f"shr.u32 %t, {m}, %s;", "and.b32 %t, %t, 1;", "setp.eq.u32 %q, %t, 1;")
                self.put("selp.b32 %s, %s, %l, %q;")
                given = {"up": "sub.u32 %s, %l, %s;", "down": "sub.u32 %s, %s, %l;", "bfly": "xor.b32 %s, %s, %l;"}
                self.put(*([given[what]] if what in given else []))
                last = 0 if what == "up" else 31
                self.put(f"shfl.sync.{what}.b32 %v|%q, %x, %s, {last}, {m};", "selp.u32 %w, 1, 0, %q;")
                self.put("add.u32 %v, %v, %w;")
            case "vote":
                self.below(a % 29, 7, 1 + c % 7)
                if what == "ballot":
                    self.put(f"vote.sync.ballot.b32 %v, %p, {m};")
                else:
                    self.put(f"vote.sync.{what}.pred %q, %p, {m};", "selp.u32 %v, 77, 5, %q;")
            case "match":
                self.put(f"shr.u32 %s, %x, {a % 29};", "and.b32 %s, %s, 3;")
                if what == "all":
                    self.put(f"match.all.sync.b32 %v|%q, %s, {m};", "selp.u32 %w, 9, 0, %q;", "add.u32 %v, %v, %w;")
                else:
                    self.put(f"match.any.sync.b32 %v, %s, {m};")
            case "redux":
                self.put(f"redux.sync.{what} %v, %x, {m};")
            case "bar":
                self.put(f"bar.warp.sync {m};", "mov.u32 %v, 3;")
            case _:
                self.below(a % 29, 7, 1 + c % 7)
                self.put(f"vote.sync.ballot.b32 %v, %p, {m};", "@%p redux.sync.add.u32 %v, %x, %v;")
        self.put("shl.b32 %x, %x, 1;", "xor.b32 %x, %x, %v;")


# On the GPU


def digest(kernel: str) -> str:
    """A short digest of a text."""
    return hashlib.sha256(kernel.encode()).hexdigest()[:16]


def run(seed: int) -> list[int]:
    """The words that the kernel of a seed leaves, on GPU 0."""
    cuda = ctypes.CDLL("libcuda.so.1")

    def ask(name: str, *arguments: Any) -> None:
        status = getattr(cuda, name)(*arguments)
        if status:
            raise SystemExit(f"{name}: CUDA error {status}")

    device, context, module, entry = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    place, words = ctypes.c_uint64(), (ctypes.c_uint32 * (CTAS * THREADS))()
    ask("cuInit", 0)
    ask("cuDeviceGet", ctypes.byref(device), 0)
    ask("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    ask("cuCtxSetCurrent", context)
    ask("cuModuleLoadData", ctypes.byref(module), text(seed).encode() + b"\0")
    ask("cuModuleGetFunction", ctypes.byref(entry), module, b"k")
    ask("cuMemAlloc_v2", ctypes.byref(place), ctypes.c_size_t(ctypes.sizeof(words)))
    ask("cuMemcpyHtoD_v2", place, words, ctypes.c_size_t(ctypes.sizeof(words)))
    parameters = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.byref(place), ctypes.c_void_p))
    ask("cuLaunchKernel", entry, *map(ctypes.c_uint, (CTAS, 1, 1, THREADS, 1, 1, 0)), None, parameters, None)
    ask("cuCtxSynchronize")
    ask("cuMemcpyDtoH_v2", words, place, ctypes.c_size_t(ctypes.sizeof(words)))
    return list(words)


def recorded() -> Iterator[dict[str, Any]]:
    """What the kernels of all seeds give; `words` is null for one that does not end or fails."""
    for seed in SEEDS:
        words: list[int] | None = None
        try:
            command = [sys.executable, __file__, "--seed", str(seed)]
            done = subprocess.run(command, timeout=LIMIT, capture_output=True, check=False)
            if done.returncode == 0:
                words = json.loads(done.stdout)
            else:
                print(f"seed {seed}: {done.stderr.decode().strip()}", file=sys.stderr)
        except subprocess.TimeoutExpired:
            print(f"seed {seed}: no end in {LIMIT} s", file=sys.stderr)
        yield {"seed": seed, "digest": digest(text(seed)), "words": words}


def main(arguments: list[str]) -> None:
    """Runs one seed, or all of them and writes the file."""
    if arguments[0] == "--seed":
        print(json.dumps(run(int(arguments[1]))))
        return
    rows = list(recorded())
    Path(arguments[0]).write_bytes(gzip.compress(json.dumps(rows).encode(), mtime=0))
    print(f"{len(rows)} kernels, {sum(row['words'] is None for row in rows)} without results")


if __name__ == "__main__":
    main(sys.argv[1:])
