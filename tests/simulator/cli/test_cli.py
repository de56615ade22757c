"""The command line as a user meets it: output, exit codes, one clear line for every error, nothing half-written."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import isa
from simulator.cli.main import main
from simulator.cli.verbs import VERBS
from simulator.resources import folder
from simulator.version import __version__
from tests.support.cases import exhaustive, over
from tests.support.paths import GOLDEN

Tcsim = Callable[..., tuple[int, str, str]]
LAUNCHES = GOLDEN / "launches"
MMA = "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32"
TEXT = MMA + " {%r0, %r1, %r2, %r3}, {%r4, %r5, %r6, %r7}, {%r8, %r9, %r10, %r11}, {%r0, %r1, %r2, %r3}, %r12, 0x1;"
TRACE = f""".trace 1
.target sm_90a
.warps 2
.warp 0-1 {{
  mov.b32 %r12, 0x44444444;
  .repeat 3 {{
    {TEXT}
  }}
}}
.store "d", %r0, 4;
"""


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "small.trace"
    path.write_text(TRACE)
    return path


def test_version_and_help(tcsim: Tcsim) -> None:
    assert tcsim("--version")[:2] == (0, f"tcsim {__version__}\n")
    code, out, _ = tcsim("--help")
    assert code == 0
    assert all(verb in out for verb in VERBS)
    assert "Exit codes" in out
    assert "tcsim run digits/f16" in out


@over("verb", VERBS)
def test_help_of_every_verb(tcsim: Tcsim, verb: str) -> None:
    code, out, err = tcsim(verb, "--help")
    assert code == 0
    assert len(out) > 300
    assert not err


@over(
    ("arguments", "words"),
    [
        ((), ("VERB",)),
        (("bogus",), ("bogus", "run", "decode")),
        (("run",), ("TRACE",)),
        (("runn", "digits/f16"), ("no verb 'runn', did you mean 'run'?",)),
        (("run", "nothing.trace"), ("nothing.trace", "No such file")),
        (("run", "digits/f17"), ("digits/f17: no such trace, did you mean 'digits/f16'?", "tcsim: digits/f16, ")),
        (("run", "s8"), ("did you mean 'digits/s8'?",)),
        (("run", f"{LAUNCHES}/divergence.ptx"), ("a PTX module, not a trace; legal: tcsim launch",)),
        (("run", f"{LAUNCHES}/divergence.json"), ("a captured launch, not a trace; legal: tcsim launch",)),
        (("roofline", f"{LAUNCHES}/divergence.json"), ("collatz_steps has no matrix instructions",)),
        (("run", "digits/f16", "--config", "rtx4090"), ("163,840", "rtx4090", "101,376, such as digits/f16_99kb\n")),
        (("decode", "tests"), ("tests: is a directory",)),
        (("layout", MMA, "--output", "a.bmp"), ("a.bmp", "'.bmp'", ".svg, .png, .pdf, .html, .csv, .json, .md, .txt")),
        (("layout", "datapath", "--output", "a.eps"), ("a.eps", ".svg")),
        (("layout", "--metadata-format", "cutlass.sm90.k128", "--output", "a.bmp"), ("a.bmp", ".svg")),
        (("layout", MMA, "--palette", "rainbow"), ("no palette 'rainbow'", "pastel, distinct, safe, bw")),
        (("faults", "report", "r.csv", "--output", "x.svg"), ("x.svg", "'.svg'", ".html, .md, .json, .txt")),
        (("run", "digits/f16", "--config", "h100"), ("h100", "did you mean 'h100_sxm'", "a100")),
        (("run", "digits/f16", "--compare", "-1"), ("-1",)),
        (("run", "digits/f16", "--format", "xml"), ("xml", "json")),
        (("run", "digits/e4m3", "--config", "a100"), ("e4m3.trace:86", "sm_80", "a100", "sm_89")),
        (("run", ""), ("'': no name of a file", "the path of a trace")),
        (("run", "digits/f16", "--output", "/nowhere/at/all/x.npz"), ("/nowhere/at/all/x.npz", "cannot be written")),
        (("decode", "mov.b32 %r0, 1;", "--target", "sm_12"), ("sm_12", "sm_90")),
        (("validate", "--config", "jetson_thor", "--set", "name=own"), ("own", "h100_sxm")),
        (("validate", "--config", "a100", "--group", "uniform"), ("uniform", "sun22-round")),
        (("validate", "--config", "a100", "--worst", "-1"), ("--worst -1", "0 or more")),
        (("validate", "--config", "a100", "--plot", "x.gif"), ("x.gif", ".png")),
        (("validate", "--config", "a100", "--check", "no.json"), ("no.json", "No such file")),
        (
            ("validate", "--config", "a100", "--record", "/nowhere/at/all/x.json"),
            ("/nowhere/at/all/x.json", "no such folder"),
        ),
        (("validate", "--headline"), ("--headline", "--config")),
        (("validate", "--config", "a100", "--headline"), ("a100 has no times for tcgen05",)),
        (("validate", "--config", "b200", "--headline", "--check"), ("--headline",)),
    ],
)
def test_bad_use_is_exit_2_and_one_line(tcsim: Tcsim, arguments: tuple[str, ...], words: tuple[str, ...]) -> None:
    code, out, err = tcsim(*arguments)
    assert code == 2
    assert not out
    assert err.startswith("tcsim")
    assert err.count("\n") == 1
    for word in words:
        assert word in err


def test_a_file_without_instructions_is_no_ptx(tcsim: Tcsim, tmp_path: Path) -> None:
    for text in ("", "// nothing\n"):
        (tmp_path / "empty.ptx").write_text(text)
        code, out, err = tcsim("decode", tmp_path / "empty.ptx")
        assert (code, out) == (2, "")
        assert "empty.ptx: has no PTX instruction; legal: " in err


@exhaustive
@over(
    ("arguments", "about"),
    [
        (("run", "small.trace"), "on h100_sxm (mine.toml) (sm_90a), 2 warps"),
        (("stalls", "small.trace"), "on h100_sxm (mine.toml): "),
        (("roofline", "small.trace"), " h100_sxm (mine.toml) "),
        (("gemm", "--m", "128", "--n", "128", "--k", "256"), "on h100_sxm (mine.toml)\n"),
        (("faults", "cost"), "on h100_sxm (mine.toml): one CTA"),
    ],
)
def test_a_copied_config_is_named_with_its_path(
    tcsim: Tcsim, arguments: tuple[str, ...], about: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.trace").write_text(TRACE)
    (tmp_path / "mine.toml").write_bytes((folder("configs") / "h100_sxm.toml").read_bytes())
    assert about in tcsim(*arguments, "--config", "mine.toml")[1]
    own = tcsim(*arguments, "--config", "h100_sxm")[1]
    assert "h100_sxm" in own
    assert "h100_sxm (" not in own.replace("h100_sxm (sm_90a)", "")
    if arguments[0] not in ("run", "gemm"):  # of one kind each
        return
    for config, path in (("mine.toml", "mine.toml"), ("h100_sxm", "")):
        values = json.loads(tcsim(*arguments, "--config", config, "--format", "json")[1])
        values = values["points"][0] if "points" in values else values
        assert (values["config"], values["config_path"]) == ("h100_sxm", path)


def test_plain_metadata_is_slow_on_a_b200_and_said_to_be(tcsim: Tcsim, tmp_path: Path) -> None:
    cycles = {}
    for name, spelled in (("ordered", "mma.sp::ordered_metadata"), ("plain", "mma.sp")):
        path = tmp_path / f"{name}.trace"
        path.write_text(TRACE.replace("sm_90a", "sm_80").replace("mma.sp::ordered_metadata", spelled))
        report = json.loads(tcsim("run", path, "--config", "b200", "--format", "json")[1])
        cycles[name] = report["cycles"]
        slow = [text for text in report["warnings"] if "plain .sp is slow on sm_100a" in text]
        routine = [text for text in report["assumed"] if "ptxas 13.0 sorts plain metadata by a routine" in text]
        assert (len(slow), len(routine)) == ((1, 1) if name == "plain" else (0, 0))
        assert not any("slow" in text for text in json.loads(tcsim("run", path, "--format", "json")[1])["warnings"])
    assert cycles["plain"] > 4 * cycles["ordered"]


def test_run_prints_a_report(tcsim: Tcsim, trace: Path) -> None:
    code, out, err = tcsim("run", trace)
    assert (code, err) == (0, "")
    for words in (
        "cycles",
        "FMA/clk/SM",
        "TFLOPS of the chip",
        "6  " + MMA,
        "sub-core 1 tensor",
        "dependency",
        "%r0 is read before",
    ):
        assert words in out


def test_run_shows_how_far_it_is_on_a_terminal(tcsim: Tcsim, trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """100 turns of one instruction and one before them, executed for both warps at once. Their sub-cores do the same
    and are timed once."""
    trace.write_text(TRACE.replace(".repeat 3", ".repeat 100"))
    monkeypatch.setattr("simulator.progress.Pace.QUIET", 0.0)
    monkeypatch.setattr("simulator.progress.Pace.EVERY", 0.0)
    monkeypatch.setattr("simulator.cli.answer.Meter._EVERY", 0.0)
    code, out, err = tcsim("run", trace, "--exact")
    assert (code, err) == (0, "")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    code, shown, err = tcsim("run", trace, "--exact")
    assert (code, shown) == (0, out)
    assert err.count("] 64 of 101 executed") == 2  # on the chip's machine, and with exact sums
    assert "of 101 timed" in err
    assert err.endswith("\r\x1b[K")


def test_run_json_has_what_the_design_promises(tcsim: Tcsim, trace: Path) -> None:
    code, out, _ = tcsim("run", trace, "--format", "json")
    report = json.loads(out)
    assert code == 0
    assert report["config"] == "h100_sxm"
    assert report["instructions"] == {MMA: 6, "mov.b32": 2}
    assert report["throughput_fma_per_clk_sm"] == pytest.approx(6 * 16 * 8 * 32 / report["cycles"])
    assert report["performed_throughput_fma_per_clk_sm"] == pytest.approx(report["throughput_fma_per_clk_sm"] / 2)
    assert report["tflops_chip"] == pytest.approx(132 * report["tflops_sm"])
    assert report["time_us"] == pytest.approx(report["cycles"] / 1830)
    assert all(sum(row.values()) == report["cycles"] for row in report["waits"].values())
    assert report["arrays"] == {"d": {"type": "uint32", "shape": [2, 4, 32]}}


def test_run_csv_is_a_table(tcsim: Tcsim, trace: Path) -> None:
    code, out, _ = tcsim("run", trace, "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert code == 0
    assert {"section": "instructions", "name": MMA, "value": "6"} in rows
    assert {row["section"] for row in rows} >= {"run", "instructions", "utilisation", "waits of warp 0", "warning"}


def test_output_is_complete_or_not_there(tcsim: Tcsim, trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "out" / "d.npz"
    assert tcsim("run", trace, "--output", out)[0] == 2
    out.parent.mkdir()
    assert tcsim("run", trace, "--output", out)[0] == 0
    with np.load(out) as arrays:
        assert arrays["d"].shape == (2, 4, 32)
    assert [p.name for p in out.parent.iterdir()] == ["d.npz"]
    trace.write_text(TRACE.replace("0x1;", "0x7;"))
    before = out.read_bytes()
    assert tcsim("run", trace, "--output", out)[0] == 2
    assert out.read_bytes() == before
    assert [p.name for p in out.parent.iterdir()] == ["d.npz"]


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    from simulator.files import complete

    def write_half() -> None:
        with complete(tmp_path / "x.npz") as stream:
            stream.write(b"half")
            raise ValueError

    with pytest.raises(ValueError):
        write_half()
    assert list(tmp_path.iterdir()) == []


def test_undefined_behaviour_is_the_answer_no(tcsim: Tcsim, trace: Path) -> None:
    trace.write_text(TRACE.replace("0x44444444", "0x44440444"))
    code, out, _ = tcsim("run", trace)
    assert code == 0
    assert "invalid-metadata" in out
    code, out, err = tcsim("run", trace, "--undefined", "raise")
    assert (code, out) == (1, "")
    for words in ("invalid-metadata", "small.trace:7", "0b0000", "PTX ISA"):
        assert words in err
    trace.write_text(TRACE.replace("0x1;", "0x2;"))
    code, out, err = tcsim("run", trace)
    assert (code, out) == (1, "")
    assert "illegal-instruction" in err


def test_decode_explains(tcsim: Tcsim) -> None:
    code, out, _ = tcsim("decode", TEXT)
    assert code == 0
    for words in (
        TEXT,
        "f16 16 x 16 in 4 registers",
        "selector 1 of 0..1, from lanes 2, 3, 6",
        "0b1110",
        "PTX 8.5",
        "4,096",
    ):
        assert words in out
    code, out, _ = tcsim("decode", TEXT, "--format", "json")
    facts = json.loads(out)
    assert facts["instruction"] == str(isa.decode(TEXT))
    assert facts["metadata"]["selectors"] == 2
    assert facts["operands"][2] == {
        "role": "b",
        "text": "{%r8, %r9, %r10, %r11}",
        "direction": "read",
        "type": "f16",
        "rows": 32,
        "columns": 8,
        "registers": 4,
    }


def test_decode_says_no(tcsim: Tcsim) -> None:
    code, out, err = tcsim("decode", TEXT.replace("k32", "k31"))
    assert (code, out) == (1, "")
    assert "m16n8k31" in err
    assert "m16n8k16, m16n8k32" in err
    code, _, err = tcsim("decode", TEXT, "--target", "sm_75")
    assert code == 1
    assert "sm_80 or higher" in err


def test_decode_reads_stdin(tcsim: Tcsim, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(TEXT))
    assert tcsim("decode", "-")[0] == 0


def test_layout_formats_agree(tcsim: Tcsim) -> None:
    form = isa.mma_form(MMA)
    code, out, _ = tcsim("layout", "mma.sp::ordered_metadata.m16n8k32.f32.f16.f16.f32", "--format", "json")
    assert code == 0
    shown = {layout["operand"]: layout for layout in json.loads(out)}
    assert list(shown) == ["a", "b", "c", "d", "e"]
    for name in "abcd":
        fragment = getattr(form, name)
        assert len(shown[name]["cells"]) == fragment.shape[0] * fragment.shape[1]
        for cell in shown[name]["cells"]:
            lane, register, element = fragment.mapping.positions(row=cell["row"], column=cell["column"])
            assert (cell["lane"], cell["register"], cell["low_bit"]) == (lane, register, element * fragment.type.bits)
    code, out, _ = tcsim("layout", MMA, "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert len(rows) == sum(len(layout["cells"]) for layout in shown.values())
    assert [int(v) for v in list(rows[0].values())[1:]] == list(shown["a"]["cells"][0].values())[1:]


@pytest.mark.parametrize(
    "opcode", ["mma.sp.m16n8k8.f32.tf32.tf32.f32", "mma.m16n8k16.f32.f16.f16.f32", "mma.sp.m16n8k128.s32.u4.s4.s32"]
)
@pytest.mark.parametrize("view", ["matrix", "lanes"])
def test_layout_text_tables(tcsim: Tcsim, opcode: str, view: str) -> None:
    code, out, _ = tcsim("layout", opcode, "--view", view)
    assert code == 0
    assert "row = lane / 4" in out
    assert tcsim("layout", opcode, "--view", view, "--format", "markdown")[1].count("|") > 100
    if view == "matrix":
        assert out.count("T31 ") >= 4


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("mma.m16n8k16.f32.f16.f16.f32", "--operand", "e"), "dense form has no operand e"),
        (("mma.sp.m16n8k32.f32.f16.f16.f32", "--selector", "2"), "selector 2 is out of range"),
        (("ld.shared.b32",), "no matrix operand"),
        (("mma.sp.m16n8k33.f32.f16.f16.f32",), "m16n8k33"),
    ],
)
def test_layout_says_no(tcsim: Tcsim, arguments: tuple[str, ...], words: str) -> None:
    code, out, err = tcsim("layout", *arguments)
    assert (code, out) == (1, "")
    assert words in err


def test_a_reader_that_goes_away_is_no_error() -> None:
    command = f"{sys.executable} -m simulator layout mma.sp.m16n8k128.s32.u4.u4.s32 | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "0"
    assert not done.stderr


@over("arguments", [("--version",), ("--help",), ("run", "--help"), ("forms",)], ids=" ".join)
def test_a_full_disk_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    """Whether each line is written at once, as with PYTHONUNBUFFERED, or everything at the end."""
    for at_once in (False, True):
        full = io.TextIOWrapper(open("/dev/full", "wb", buffering=0), write_through=at_once)  # noqa: SIM115
        with suppress(OSError), full:  # as the stream ends, it meets the error again
            monkeypatch.setattr(sys, "stdout", full)
            assert main(arguments) == 2
        assert capsys.readouterr().err == "tcsim: standard output cannot be written: No space left on device\n"


@pytest.mark.parametrize(
    ("redirected", "said"),
    [
        ("run nosuch 2> /dev/full", ""),  # nobody can be told: the exit code alone says it
        ("nosuch 2> /dev/full", ""),
        ("decode - <&-", "tcsim: stdin is closed; legal: one PTX instruction\n"),
    ],
)
def test_streams_that_cannot_be_used(redirected: str, said: str) -> None:
    command = ["bash", "-c", f"{sys.executable} -m simulator {redirected}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)


_INTERRUPTED = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from simulator.cli.main import command

class Finder:
    def find_spec(self, name, *_):
        if name == sys.argv[2]:
            try:
                os.kill(os.getpid(), signal.SIGINT)
            except KeyboardInterrupt:
                if name == "numpy":
                    raise ImportError("as an extension that cannot load another") from None
                raise

sys.meta_path.insert(0, Finder())
sys.exit(command())
"""


@pytest.mark.parametrize("loaded", ["argparse", "simulator.cli.run", "numpy"])
def test_interrupted_while_it_loads(loaded: str) -> None:
    command = [sys.executable, "-c", _INTERRUPTED, "run", loaded]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "tcsim: interrupted\n")


def test_importing_isa_loads_nothing_heavy() -> None:
    script = (
        "import isa, sys; print(*[m for m in ('pandas', 'matplotlib', 'simpy', 'rich', 'simulator', "
        "'ml_dtypes') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == ""
    assert not any(name in done.stderr for name in ("pandas", "matplotlib", "simpy"))


def test_decode_needs_no_simpy() -> None:
    script = (
        f"import sys; from simulator.cli.main import main; main(['decode', {TEXT!r}]); print('simpy' in "
        f"sys.modules, 'rich' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env={**os.environ}
    )
    assert done.stdout.splitlines()[-1] == "False False"
