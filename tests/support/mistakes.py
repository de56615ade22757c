"""What users get wrong, by hand: a command, its exit code, and what its one line says. `prepared` writes the files that
the commands name; tests/whole/test_user_errors.py runs them in that folder."""

from __future__ import annotations

import gzip
import os
import shutil
import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tests.support.paths import GOLDEN

SP = "mma.sp.m16n8k32.f32.f16.f16.f32"
DIGITS = "9" * 5000


class Mistake(NamedTuple):
    """A command, what it must say in one line, and its exit code."""

    line: str
    words: tuple[str, ...]
    code: int = 2


def _said(line: str, *words: str) -> Mistake:
    return Mistake(line, words)


def _no(line: str, *words: str) -> Mistake:
    return Mistake(line, words, 1)


MISTAKES = (
    # names that there are not
    _said("runn digits/f16", "no verb 'runn', did you mean 'run'?"),
    _said("RUN digits/f16", "no verb 'RUN', did you mean 'run'?"),
    _said("xyzzy", "no verb 'xyzzy'; legal: run, launch"),
    _said("run digits/f17", "no such trace, did you mean 'digits/f16'?"),
    _said("run digits/f16 --confg a100", "tcsim run: no option '--confg', did you mean '--config'?"),
    _said("stalls digits/f16 --bye warp", "no option '--bye', did you mean '--by'?"),
    _said("stalls digits/f16 --by wrap", "no 'wrap', did you mean 'warp'?; legal: line, warp, sub-core, sm"),
    _said("run digits/f16 --format jsn", "no 'jsn', did you mean 'json'?"),
    _said("forms --family tcgen5", "no 'tcgen5', did you mean 'tcgen05'?"),
    _said("faults runn list.csv", "no 'runn', did you mean 'run'?"),
    _said("faults list metdata", "no such campaign, did you mean 'metadata'?"),
    _said("sweep smal", "no such sweep, did you mean 'small'?"),
    _said("design vegtea", "no such design, did you mean 'vegeta'?"),
    _said("run digits/f16 --config a10", "no such config, did you mean 'a100'?"),
    _said("validate --config rtx5070ti --group peek", "no such group, did you mean 'peak'?"),
    _said("config h100_sxm operand", "unknown key, did you mean 'operands'?"),
    _said("run digits/f16 --set sm.tensor_pips=2", "unknown key, did you mean 'tensor_pipes'?"),
    _said("forms --type mxf4", "unknown element type 'mxf4': 'mxf4' is a kind"),
    _said("forms --type f17", "unknown element type 'f17'; legal: f16, bf16"),
    _no(f"layout {SP[:-1]}", "'.f3' is not a qualifier of mma, did you mean '.f32'?"),
    _no("layout mma.sp.m16n8k33.f32.f16.f16.f32", "has no shape m16n8k33; legal: m16n8k16, m16n8k32"),
    _no(f"where {SP} --operand g --row 1 --col 1", "has no operand g; legal: "),
    _said("compress pruned.npy --type f16 --as torch.matrx", "of f16, did you mean 'torch.matrix'?"),
    # what is missing
    _said("", "VERB"),
    _said("run", "TRACE"),
    _said("faults", "ACTION"),
    _said(f"where {SP}", "--operand"),
    _said("launch divergence.ptx", "without --grid"),
    _said("explain " + SP, "--d"),
    # files
    _said("run nothing.trace", "nothing.trace: no such trace (No such file or directory)"),
    _said("run .", ".: is a directory"),
    _said("run pipe", "pipe: is a pipe"),
    _said("run /dev/null", "/dev/null: is a device"),
    _said("run noise.bin", "noise.bin"),
    _said("run empty.x", "empty.x"),
    _said("decode empty.ptx", "empty.ptx: has no PTX instruction"),
    _said("decode .", ".: is a directory"),
    _said("run digits/f16 --config pipe", "no such config (is a pipe)"),
    _said("run digits/f16 --config huge.toml", "huge.toml: has 5,000,000,000 bytes; legal: at most 4,194,304"),
    _said("run digits/f16 --config brackets.toml", "values nested too deeply"),
    _said("run digits/f16 --config noise.bin", "is not UTF-8 text"),
    _said("launch brackets.json", "brackets.json: is no JSON"),
    _said("launch empty.json", "buffers: is missing"),
    _said("validate --config rtx5070ti --group peak --check brackets.json", "brackets.json: is no JSON"),
    _said("prune objects.npy --type f16", "Python objects"),
    _said("prune huge.npy --type f16", "the array has 2,000,000,000,000 bytes"),
    _said("prune text.npz --type f16", "text.npz"),
    _said("prune pipe.npy --type f16", "pipe.npy: is a pipe"),
    _said("prune matrix.npy --type f17", "f17"),
    _said("prune three.npy --type f16", "shape [2, 2, 2]"),
    _said("accuracy --type f16 --a pipe.npy --b pipe.npy", "pipe.npy: is a pipe"),
    _said(f"layout {SP} --metadata objects.npy", "objects.npy: cannot be read: there is no array of numbers in it"),
    _said(f"layout {SP} --metadata zzz", "'zzz' is neither metadata nor a file"),
    _said(f"what {SP} --lane 1 --register a0 --metadata pipe", "pipe: is a pipe"),
    _said("launch divergence.json --config h100_sxm --machine-code bomb.gz", "unpacks to more than 268,435,456 bytes"),
    _said("launch divergence.json --config h100_sxm --machine-code cut.gz", "is no whole gzip file"),
    _said("run missing.trace", "missing.trace:5: 'data.npz' has no array 'w'; legal: x"),
    _said("run large.trace", "large.trace:5: array 'x' has 4096 bytes; legal: at most 1024"),
    _said("run store.trace", ".store '../../x'; legal: a name"),
    _said("faults run noise.bin --output r.csv", "noise.bin"),
    _said("faults run list.csv --output list.csv", "list.csv: is an input, and would be replaced by the output"),
    _said("faults run policy.csv --output r.csv", "policy.csv:6:1: policy is 'zzz'; legal: hardware, raise"),
    _said("faults run cut.csv --output r.csv", "cut.csv: 19 rows, but its head says 87"),
    _said("faults report list.csv", "list.csv:1:1: not a file of results"),
    _said("faults replay list.csv --id 99999999", "99999999"),
    # outputs
    _said("run digits/s8 --arithmetic none --output /nowhere/x.npz", "/nowhere/x.npz: cannot be written"),
    _said("run digits/s8 --arithmetic none --output some.folder", "some.folder"),
    _said(f"layout {SP} --output a.bmp", "there is no format for '.bmp'; legal: a name that ends in .svg, .png, .pdf"),
    _said("faults report list.csv --output x.svg", "there is no format for '.svg'"),
    _said(f"layout {SP} --palette rainbow", "no palette 'rainbow'; legal: pastel, distinct, safe, bw"),
    _said("run digits/s8 --arithmetic none --gantt x.gif", "x.gif"),
    _said("roofline digits/s8 --output x.gif", "x.gif"),
    # numbers
    _said("gemm --m 10000000000000000000000", "m = 10,000,000,000,000,000,000,000; legal: 1 to 16,777,216"),
    _said("gemm --k -5", "k = -5; legal: 1 to 16,777,216"),
    _said("gemm --tile 0x0x0", "0 rows; legal: 128, 256"),
    _said("gemm --tile 7", "'7' is not a tile; legal: BMxBN or BMxBNxBK"),
    _said(f"gemm --m {DIGITS}", "invalid int value: '999", "..."),
    _said(f"run digits/f16 --set sm.warps={DIGITS}", "sm.warps"),
    _said(f"decode bar.sync --target sm_{DIGITS}", "unknown target 'sm_999999999"),
    _said("run digits/f16 --set sm.warps=0", "sm.warps: 0; legal: an integer from 1"),
    _said("run digits/f16 --set sm.warps", "sm.warps: nothing is set by this; legal: KEY=VALUE"),
    _said("stalls digits/s8 --worst 0", "'0' is not a number of rows; legal: 1 or more"),
    _said("run digits/f16 --compare -1", "-1"),
    _no(f"layout {SP} --selector 2", "sparsity selector 2 is out of range; legal: 0 to 1"),
    _no(f"where {SP} --operand a --row 16 --col 0", "no row 16; legal: 0 to 15"),
    _no(f"what {SP} --lane 32 --register a0", "lane"),
    # chips and choices
    _said("run digits/e4m3 --config a100", "e4m3.trace:86", "sm_80", "sm_89"),
    _said("run digits/f16 --config rtx4090", "163,840", "101,376, such as digits/f16_99kb"),
    _said("gemm --type e4m3 --config a100", "sm_80"),
    _said("gemm --type f16 --warps 2x2 --config b200", "warps along M and N for a kernel of tcgen05"),
    _said("validate --config a100 --headline", "a100 has no times for tcgen05"),
    _said("launch divergence.json --machine-code x.sass", "--machine-code without --config"),
    _said("convert matrix.npy --from torch.matrix --to marlin --type f16", "--output is missing"),
)


def prepared(folder: Path) -> dict[str, str]:
    """Files to name, in a folder that is the working directory; the values of the names in braces."""
    matrix = np.arange(64 * 64, dtype=np.float32).reshape(64, 64) % 7 - 3
    np.save(folder / "matrix.npy", matrix)
    np.save(folder / "pruned.npy", np.where(np.arange(64) % 4 < 2, matrix, 0))
    for name in ("list.csv", "results.csv"):
        shutil.copy(GOLDEN / "formats" / "0.1.0" / name, folder)
    (folder / "noise.bin").write_bytes(np.random.default_rng(1).bytes(4096))
    (folder / "empty.x").touch()
    (folder / "some.folder").mkdir()
    return {"folder": "some.folder", "noise": "noise.bin", "empty": "empty.x"}


def prepared_by_hand(folder: Path) -> None:
    """The other files of `MISTAKES`."""
    np.save(folder / "three.npy", np.ones((2, 2, 2), np.float16))
    np.save(folder / "objects.npy", np.array([{}, 1], dtype=object))
    head = b"{'descr': '<f2', 'fortran_order': False, 'shape': (1000000000000,), }"
    (folder / "huge.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head)
    with zipfile.ZipFile(folder / "text.npz", "w") as archive:
        archive.writestr("w.txt", "hello")
    np.savez(folder / "data.npz", x=np.zeros(4096, np.uint8))
    (folder / "empty.ptx").write_text("// nothing\n")
    (folder / "empty.json").write_text("{}")
    (folder / "brackets.json").write_text('{"a": ' + "[" * 100_000)
    (folder / "brackets.toml").write_text("a = " + "[" * 100_000)
    with (folder / "huge.toml").open("wb") as stream:
        stream.truncate(5_000_000_000)  # a hole: it takes no room
    packed = gzip.compress(bytes(1 << 20), 9)
    (folder / "bomb.gz").write_bytes(packed * 300)
    (folder / "cut.gz").write_bytes(packed[:-20])
    for name in ("pipe", "pipe.npy"):
        os.mkfifo(folder / name)
    for suffix in ("json", "ptx", "npz"):
        shutil.copy(GOLDEN / "launches" / f"divergence.{suffix}", folder)
    trace = ".trace 1\n.target sm_90a\n.warps 1\n.shared 1024\n{}\n.warp 0 {{\n bar.sync 0;\n}}\n{}\n"
    (folder / "missing.trace").write_text(trace.format('.load shared[0], "data.npz", "w";', ""))
    (folder / "large.trace").write_text(trace.format('.load shared[0], "data.npz", "x";', ""))
    (folder / "store.trace").write_text(trace.format("", '.store "../../x", %r0, 1;'))
    lines = (folder / "list.csv").read_text().splitlines(keepends=True)
    (folder / "cut.csv").write_text("".join(lines[:30]))
    policy = ("# policy: zzz\n" if line.startswith("# policy") else line for line in lines)
    (folder / "policy.csv").write_text("".join(policy))
