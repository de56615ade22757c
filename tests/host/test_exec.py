"""Host programs against the simulated GPU: each checks its own results, and says what it found."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import simulator
from simulator.host import HostError, Result, run
from simulator.host.fatbin import modules

NVCC = shutil.which("nvcc")
PROGRAMS = Path(__file__).parent / "programs.cu"
COMPILE = ("-std=c++17", "-gencode", "arch=compute_90a,code=compute_90a")

pytestmark = pytest.mark.skipif(NVCC is None or shutil.which("c++") is None, reason="needs nvcc and a C++ compiler")


def compiled(output: Path, *options: str, source: Path = PROGRAMS) -> Path:
    """A program, compiled."""
    subprocess.run([str(NVCC), *options, "-o", str(output), str(source)], check=True, capture_output=True)
    return output


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("host") / "programs", "-cudart", "shared", *COMPILE)


def ran(programs: Path, name: str, capfd: pytest.CaptureFixture[str], **options: object) -> tuple[Result, str, str]:
    """A program, run; what it and the simulator have said."""
    result = run([programs, *name.split()], workers=1, **options)  # type: ignore[arg-type] # options of any kind
    out, err = capfd.readouterr()
    return result, out, err


@pytest.mark.parametrize("name", ["vector_add", "matrix_product", "module_variables", "streams", "sparse_product"])
def test_programs_find_their_results_right(name: str, programs: Path, capfd: pytest.CaptureFixture[str]) -> None:
    result, out, err = ran(programs, name, capfd)
    assert (result.code, out) == (0, f"{name} passed\n"), err
    assert all(not launch.status for launch in result.launches)


@pytest.mark.parametrize(("config", "said"), [("h100_sxm", "132 SMs, 9.0"), ("h100_sxm --sms", "7 SMs, 9.0")])
def test_the_device_is_the_config(config: str, said: str, programs: Path, capfd: pytest.CaptureFixture[str]) -> None:
    from simulator.chip.config import load_config

    name, _, fewer = config.partition(" ")
    result, out, err = ran(programs, "occupancy", capfd, config=load_config(name, ["chip.sms=7"] if fewer else []))
    assert result.code == 0, out + err
    assert said in out


def test_a_failed_launch_stays_and_leaves_poison(programs: Path, capfd: pytest.CaptureFixture[str]) -> None:
    result, out, err = ran(programs, "failure", capfd)  # the program looks at the poison and at later calls
    assert (result.code, out) == (0, "failure passed\n"), err
    assert [launch.status.name for launch in result.launches] == ["ILLEGAL_ADDRESS"]
    assert "right behind the end of buffer 'device_0' (256 bytes)" in err


def test_captures_of_a_program_give_the_same_bytes(
    programs: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    result, _, err = ran(programs, "module_variables sparse_product", capfd, capture=tmp_path)
    assert result.code == 0, err
    assert len(result.launches) == 5
    for launch in result.launches:
        assert launch.capture is not None
        report = simulator.launch(launch.capture)
        assert report.arrays
        assert not report.differences
    counted = simulator.launch(tmp_path / "launch0001.json")  # begins with what the launch before has left
    assert int(counted.arrays["counter"].view("int32")[0]) == 19


@pytest.mark.parametrize("options", [("-Xfatbin", "-compress=false"), ("--compress-mode=speed",), ()])
def test_ptx_is_found_however_it_is_compressed(options: tuple[str, ...], tmp_path: Path) -> None:
    binary = tmp_path / "programs.fatbin"
    subprocess.run([str(NVCC), "-fatbin", *COMPILE, *options, "-o", binary, PROGRAMS], check=True)
    ((target, text),) = modules(binary.read_bytes())
    assert str(target) == "sm_90a"
    assert ".entry _Z8compressPK6__halfPS_Pj" in text
    assert text.rstrip().endswith("}")


@pytest.mark.parametrize(
    ("options", "reason", "legal"),
    [
        (("-cudart", "static", *COMPILE), "linked statically", "-cudart shared"),
        (("-cudart", "shared", "-Xlinker", "--no-as-needed", "-lcuda"), "needs libcuda.so.1", "runtime alone"),
        (("-ptx", *COMPILE), "is no executable", "nvcc -cudart shared"),
    ],
)
def test_programs_that_cannot_run_are_refused(
    options: tuple[str, ...], reason: str, legal: str, tmp_path: Path
) -> None:
    if "-lcuda" in options:
        stub = tmp_path / "libcuda.so"
        subprocess.run(["c++", "-shared", "-x", "c", "/dev/null", "-Wl,-soname,libcuda.so.1", "-o", stub], check=True)
        options = (*options, f"-L{tmp_path}")
    source = tmp_path / "small.cu"
    source.write_text("__global__ void k() {}\nint main() { k<<<1, 1>>>(); return cudaDeviceSynchronize(); }\n")
    with pytest.raises(HostError) as refused:
        run([compiled(tmp_path / "program", *options, source=source)])
    assert reason in str(refused.value)
    assert legal in str(refused.value)


def test_kernels_without_ptx_for_the_device_fail_with_the_remedy(
    programs: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    result, out, err = ran(programs, "vector_add", capfd, config="a100")
    assert result.code == 1
    assert "no kernel image is available" in out
    assert "the program has PTX for sm_90a, and the device is sm_80; legal: nvcc -cudart shared -gencode " in err


def test_functions_that_are_not_there_say_so_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "graphs.cu"
    source.write_text(
        "int main() { cudaGraph_t g; cudaGraphCreate(&g, 0); return cudaGraphCreate(&g, 0) == cudaErrorNotSupported; }"
    )
    result = run([compiled(tmp_path / "graphs", "-cudart", "shared", source=source)])
    assert result.code == 1
    assert capfd.readouterr().err == "tcsim: cudaGraphCreate is not supported\n"


MAPS = r"""
#include <cuda.h>
#include <cstdio>
#include <cstring>
#include <cuda_runtime.h>
template <class F> F *driver(const char *name) {
    void *found = nullptr;
    cudaDriverEntryPointQueryResult result;
    cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &result);
    return reinterpret_cast<F *>(found);
}
#define CALL(name) driver<decltype(name)>(#name)
int main() {
    alignas(64) CUtensorMap wide, plain, atoms;
    cuuint64_t size[4] = {32, 9, 7, 3}, stride[3] = {64, 576, 4032};
    cuuint32_t step[4] = {1, 2, 1, 1}, box[4] = {32, 2, 1, 1};
    int lower[2] = {-1, 0}, upper[2] = {2, 0};
    void *at = reinterpret_cast<void *>(0x7f0000000100);
    int codes[4] = {
        CALL(cuTensorMapEncodeIm2colWide)(&wide, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 4, at, size, stride, -1, 2, 32, 24,
            step, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_IM2COL_WIDE_MODE_W128, CU_TENSOR_MAP_SWIZZLE_64B,
            CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
        CALL(cuTensorMapEncodeIm2col)(&plain, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 4, at, size, stride, lower, upper, 32,
            24, step, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_64B, CU_TENSOR_MAP_L2_PROMOTION_NONE,
            CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
        CALL(cuTensorMapEncodeTiled)(&atoms, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 4, at, size, stride, box, step,
            CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B, CU_TENSOR_MAP_L2_PROMOTION_NONE,
            CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
        CALL(cuTensorMapReplaceAddress)(&plain, reinterpret_cast<void *>(0x7f0000000200)),
    };
    unsigned long long address;
    memcpy(&address, &plain, 8);
    bool same = !memcmp(8 + (char *)&wide, 8 + (char *)&plain, 120);
    printf("%d %d %d %d, address %llx, %s\n", codes[0], codes[1], codes[2], codes[3], address, same ? "same" : "other");
}
"""


@pytest.mark.parametrize(("config", "atoms"), [("h100_sxm", 1), ("b200", 0)])
def test_the_driver_makes_wide_maps_and_refuses_those_of_blackwell_on_a_hopper(
    config: str, atoms: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "maps.cu"
    source.write_text(MAPS)
    run([compiled(tmp_path / "maps", "-cudart", "shared", source=source)], config=config)
    out, err = capfd.readouterr()
    assert out == f"0 0 {atoms} 0, address 7f0000000200, same\n", err
    assert ("the driver of a Hopper refuses it" in err) == bool(atoms)


RACE = """
#include <cstdio>
__global__ void exchange(const float *x, float *y, bool waits) {
    __shared__ float s[64];
    s[threadIdx.x] = x[threadIdx.x];
    if (waits) __syncthreads();
    y[threadIdx.x] = s[threadIdx.x ^ 32];
}
int main(int count, char **) {
    float *x, *y, back = 0;
    cudaMalloc(&x, 256), cudaMalloc(&y, 256), cudaMemset(x, 0, 256);
    for (int i = 0; i < 4; i++) exchange<<<1, 64>>>(x, y, count > 1 || i == 0);
    int code = cudaMemcpy(&back, y, 4, cudaMemcpyDeviceToHost);
    printf("ended\\n");
    return code;
}
"""


def test_every_launch_is_checked_and_what_repeats_is_told_once(
    tcsim: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    source = tmp_path / "race.cu"
    source.write_text(RACE)
    program = str(compiled(tmp_path / "race", "-cudart", "shared", "-lineinfo", *COMPILE, source=source))
    assert tcsim("exec", "--", program)[0] == 0
    assert tcsim("exec", "--check", "--", program, "wait")[0] == 0
    result = run([program], workers=1, checked=True)
    assert result.code == 0
    assert result.check is not None
    races = [each for each in result.check.findings if each.finding.rule == "shared-memory-race"]
    assert races
    assert all(each.launches == [1, 2, 3] for each in races)
    assert "race.cu:7" in result.check.table()
    assert "in    3 launches of _Z8exchange" in result.check.table()
    assert "4 launches checked" in result.check.verdict
    assert not list(tmp_path.glob("*.json"))
    findings = tmp_path / "findings.json"
    assert tcsim("exec", "--check", "--findings", str(findings), "--", program)[0] == 1
    data = json.loads(findings.read_text())
    assert (data["launches"], data["clean"]) == (4, False)
    code, _, err = tcsim("exec", "--findings", str(findings), "--", program)
    assert (code, err.count("\n")) == (2, 1)


def test_a_launch_that_fails_is_a_finding_and_the_program_is_told(
    programs: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    result, out, err = ran(programs, "failure", capfd, checked=True)
    assert (result.code, out) == (0, "failure passed\n"), err
    assert result.check is not None
    assert {each.finding.rule for each in result.check.findings} == {"out-of-bounds"}
