"""What CUDA C++ asks for besides arithmetic: mbarriers of libcu++, the WMMA interface, calls through pointers, printf
and assert. Bytes and text are those of an H100 (tests/golden/launches, 2026-11-24)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import simulator
from simulator.check.launches import check_launch
from simulator.program.capture import write_capture
from tests.support.paths import GOLDEN

Tcsim = Callable[..., tuple[int, str, str]]
LAUNCHES = GOLDEN / "launches"
HEAD = ".version 8.6\n.target sm_90a\n.address_size 64\n"
REGISTERS = ".reg .pred %p<8>; .reg .b16 %rs<4>; .reg .b32 %r<16>; .reg .b64 %rd<8>;\n"
# What the H100 printed for tests/golden/launches/calls.cu
PRINTED = """\
  0: 15 calls, +251304.143 many 1.8e+09|15    |1ad799|p|1844580450304%
 20: 11 calls, +7708.143 many 5.4e+07|11    |00d2c5|l|56578015232%
 40: 13 calls, +419084.143 many 2.9e+09|13    |2cc355|n|3076091019264%
 60: 10 calls, +119804.571 many 8.4e+08|10    |0ccbe8|k|879369388032%
"""


def module(body: str, before: str = "") -> str:
    """A kernel of one buffer D, and an mbarrier and room for copies in shared memory."""
    shared = ".shared .align 16 .b8 s[1024];\n"
    return f"{HEAD}{before}.visible .entry k(.param .u64 D) {{\n{REGISTERS}{shared}{body}\nret;\n}}\n"


def run(body: str, before: str = "", threads: int = 64, **options: object) -> simulator.LaunchReport:
    data = np.arange(256, dtype=np.uint32)
    function = simulator.Module(module(body, before)).get_function("k")
    return function((1,), (threads,), (data,), names=["D"], **options)  # type: ignore[arg-type]


# wmma


def test_wmma_gives_the_bytes_of_the_chip() -> None:
    """Every type, shape and pair of layouts of wmma.cu, and a tile in shared memory."""
    wmma = simulator.Module(LAUNCHES / "wmma.ptx")
    with np.load(LAUNCHES / "wmma.npz") as stored:
        golden = {key: stored[key] for key in stored}
    names = {key.partition("|")[0] for key in golden}
    assert len(names) == 16
    for name in names:
        (result,) = (key for key in golden if key.startswith(f"{name}|out"))
        given = [golden[f"{name}|in{number}"] for number in range(3) if f"{name}|in{number}" in golden]
        found = np.zeros_like(golden[result])
        more = (32,) if name == "shared_tile" else ()
        wmma.get_function(name)((1,), (32,), (*given, found, *more), target="sm_90")
        assert np.array_equal(found.view(np.uint8), golden[result].view(np.uint8)), name


def test_wmma_of_other_types_is_refused_where_it_stands() -> None:
    with pytest.raises(simulator.Error, match=r"line 8: .*wmma.load.a.*m8n8k32.*s4' is not executed; legal: wmma of"):
        run("ld.param.u64 %rd1, [D];\nwmma.load.a.sync.aligned.row.m8n8k32.global.s4 {%r1}, [%rd1], %r2;", threads=32)


# Calls


def test_printf_prints_what_the_chip_prints(tcsim: Tcsim) -> None:
    """The bytes of calls.cu, whose threads call through pointers, are compared by test_launch."""
    assert simulator.launch(LAUNCHES / "calls.json").printed == PRINTED
    _, out, _ = tcsim("launch", str(LAUNCHES / "calls.json"))
    assert out.startswith(PRINTED)


POINTER = """.func (.param .b32 r) f(.param .b32 x) {{ .reg .b32 %r<4>; .reg .b64 %rd<4>;
ld.param.u32 %r1, [x]; {inner} st.param.b32 [r], %r1; ret; }}
.global .u64 table[1] = {{f}};
"""
CALL = """{{ .param .b32 a; .param .b32 b; st.param.b32 [a], 1;
p: .callprototype (.param .b32 _) _ (.param .b32 _);
call (b), {register}, (a), p; }}
"""


@pytest.mark.parametrize(
    ("inner", "address", "reason"),
    [
        ("", "mov.u64 %rd1, 12345;", "a call through a register that holds no address of a function like this"),
        (
            f"mov.u64 %rd1, f; {CALL.format(register='%rd1')}",
            "mov.u64 %rd1, f;",
            "a call through a register of 'f', which calls itself",
        ),
    ],
)
def test_calls_that_lead_nowhere(inner: str, address: str, reason: str) -> None:
    before = POINTER.format(inner=inner)
    with pytest.raises(simulator.Error, match=reason):
        run(f"{address}\n{CALL.format(register='%rd1')}", before)


ASSERT = """.extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e);
.global .align 1 .b8 text[6] = {120, 32, 60, 32, 57, 0};
.global .align 1 .b8 file[5] = {107, 46, 99, 117, 0};
"""


def test_assert_ends_the_launch_with_what_it_says() -> None:
    call = "".join(
        f".param .b{bits} a{number}; st.param.b{bits} [a{number}], {value};\n"
        for number, (bits, value) in enumerate(((64, "%rd1"), (64, "%rd2"), (32, "17"), (64, "0"), (64, "1")))
    )
    body = (
        "mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 40; @%p1 bra fine;\nmov.u64 %rd1, text; mov.u64 %rd2, file;\n"
        f"{{ {call}call.uni __assertfail, (a0, a1, a2, a3, a4); }}\nfine:"
    )
    with pytest.raises(simulator.Error, match=r"warp 1: assertion 'x < 9' of \(null\) failed \(k.cu:17\), by lane 8;"):
        run(body, ASSERT)


WIDE_RESULT = """.func (.param .align 8 .b8 r[16]) f() {{ .reg .b32 %r<2>; mov.u32 %r1, 7;
st.param.v4.b32 [r], {{%r1, %r1, %r1, %r1}}; ret; }}
"""


def test_results_of_calls_take_wide_stores() -> None:
    """As nvcc 13.0 writes them for sm_100: a result aligned to 8 bytes, written 16 at a time."""
    body = "{ .param .b32 a; .param .align 8 .b8 b[16]; call (b), f, (); ld.param.b32 %r1, [b+12]; }\n"
    report = run(f"{body}ld.param.u64 %rd1, [D]; st.global.u32 [%rd1], %r1;", WIDE_RESULT.format())
    assert report.arrays["D"][0] == 7


# mbarriers

INIT = "mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; mov.u32 %r2, s; @%p1 mbarrier.init.shared.b64 [%r2], {count};\n"
WAIT = "again:\nmbarrier.{kind}.parity.shared.b64 %p2, [%r2], {parity};\n@!%p2 bra again;\n"


@pytest.mark.parametrize("kind", ["test_wait", "try_wait"])
def test_threads_that_wait_for_arrivals_in_vain(kind: str) -> None:
    body = f"{INIT.format(count=65)}bar.sync 0;\nmbarrier.arrive.shared.b64 %rd1, [%r2];\n"
    with pytest.raises(simulator.Error) as error:
        run(body + WAIT.format(kind=kind, parity=0))
    where = "line 11: CTA (0, 0, 0), warp 0: "
    assert str(error.value).startswith(f"{where}deadlock: warps 0, 1 wait at line 11 for phase 0 of the mbarrier at")
    assert "which lacks 1 of 65 arrivals" in str(error.value)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (f"{INIT.format(count=3)}bar.sync 0;\nmbarrier.arrive.shared.b64 %rd1, [%r2], 5;", "whose phase lacks 3 of 3"),
        ("mov.u32 %r2, s;\nmbarrier.arrive.shared.b64 %rd1, [%r2+8];", r"no mbarrier at shared\[8\]"),
        (
            f"{INIT.format(count=64)}st.shared.u32 [%r2], 7;\nbar.sync 0;\nmbarrier.arrive.shared.b64 %rd1, [%r2];",
            "was overwritten by a store",
        ),
    ],
)
def test_mbarriers_that_are_misused(body: str, reason: str) -> None:
    with pytest.raises(simulator.Error, match=reason):
        run(body)


def test_each_arrival_finds_the_count_that_those_before_it_left() -> None:
    body = (
        f"{INIT.format(count=64)}bar.sync 0;\nmbarrier.arrive.shared.b64 %rd1, [%r2];\n"
        "mbarrier.pending_count.b64 %r3, %rd1; ld.param.u64 %rd2, [D]; mul.wide.u32 %rd3, %r1, 4;\n"
        "add.u64 %rd2, %rd2, %rd3; st.global.u32 [%rd2], %r3;"
    )
    assert sorted(run(body).arrays["D"][:64].tolist()) == list(range(1, 65))


COPY = (
    "ld.param.u64 %rd1, [D]; mul.wide.u32 %rd2, %r1, 4; add.u64 %rd1, %rd1, %rd2; shl.b32 %r3, %r1, 2;\n"
    "add.u32 %r3, %r3, %r2; cp.async.ca.shared.global [%r3+64], [%rd1], 4;\n{arrive}"
)


@pytest.mark.parametrize(
    ("arrive", "count"),
    [
        ("cp.async.mbarrier.arrive.noinc.shared.b64 [%r2];\n", 64),
        ("cp.async.mbarrier.arrive.shared.b64 [%r2];\nmbarrier.arrive.shared.b64 %rd3, [%r2];\n", 64),
    ],
)
def test_copies_arrive(arrive: str, count: int) -> None:
    """What a copy brings is read by another warp behind the barrier, and not before it has come, in time, too."""
    read = "xor.b32 %r4, %r3, 128; ld.shared.u32 %r5, [%r4+64]; st.global.u32 [%rd1+512], %r5;"
    body = (
        INIT.format(count=count) + "bar.sync 0;\n" + COPY.format(arrive=arrive) + WAIT.format(kind="try_wait", parity=0)
    )
    report = run(body + read, config="h100_sxm")
    assert report.arrays["D"][128:192].tolist() == [number ^ 32 for number in range(64)]
    assert report.timing is not None
    assert report.timing.stalls["mbarrier"] > 300  # two warps, each about as long as the copy is on its way


@pytest.mark.parametrize(
    ("missing", "rule"), [("", ""), ("bar.sync 0;\n", "shared-memory-race"), ("wait", "async-pending")]
)
def test_check_knows_the_order_that_mbarriers_make(tmp_path: Path, missing: str, rule: str) -> None:
    """Without the barrier behind mbarrier.init, and without the wait for the copies, a race is found."""
    arrive = "cp.async.mbarrier.arrive.noinc.shared.b64 [%r2];\n"
    wait = "" if missing == "wait" else WAIT.format(kind="test_wait", parity=0)
    first = INIT.format(count=64) + "bar.sync 0;\n".replace(missing or "never", "")
    body = first + COPY.format(arrive=arrive) + wait
    read = "xor.b32 %r4, %r3, 128; ld.shared.u32 %r5, [%r4+64]; st.global.u32 [%rd1+512], %r5;"
    data = np.arange(256, dtype=np.uint32)
    after = data.copy()
    after[128:192] = np.arange(64) ^ 32
    path = tmp_path / "c.json"
    write_capture(
        path,
        module(body + read),
        "k",
        (1, 1, 1),
        (64, 1, 1),
        [{"buffer": "D"}],
        {"D": data},
        {"D": after},
        target="sm_90a",
    )
    found = {finding.rule for finding in check_launch(path).findings if finding.serious}
    assert found == ({rule} if rule else set())


# CTAs that wait for one another


def test_a_chain_of_ctas_takes_the_time_of_the_chip() -> None:
    """Eight CTAs that add up one after the other take 20,563 cycles on an H100
    (tests/simulator/compiler/test_kernel.py); one alone 3,279, two 5,778."""
    chain = simulator.Module(LAUNCHES / "chain.ptx").get_function("chain")
    for ctas, cycles in ((1, 3279), (2, 5778)):
        given = np.ones((ctas, 128), np.float32), np.zeros((4, 128), np.float32), np.zeros(1, np.int32), 64
        timing = chain((ctas,), (128,), given, config="h100_sxm").timing
        assert timing is not None
        assert timing.cycles == pytest.approx(cycles, rel=0.12)
