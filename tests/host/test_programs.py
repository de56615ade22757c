"""Host programs as people write them: each checks its own results. What they expect is what an H200 did with the same
programs (CUDA 13.0, 2026-11-29), but for those of Hopper, and for mistakes at which it hangs or does not look."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from simulator.host import Result, launches, run
from tests.host import collective, cutlass

NVCC = shutil.which("nvcc")
FOLDER = Path(__file__).parent
pytestmark = pytest.mark.skipif(NVCC is None or shutil.which("c++") is None, reason="needs nvcc and a C++ compiler")


class Compiled:
    """Compiles the programs of a file when it is first asked for one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, name: str) -> Path:
        program = self.folder / name
        if not program.exists():
            options = ("-std=c++17", "-cudart", "shared", "-lineinfo", "-gencode", "arch=compute_90a,code=compute_90a")
            command = [str(NVCC), *options, "-o", str(program), str(FOLDER / f"{name}.cu")]
            subprocess.run(command, check=True, capture_output=True)
        return program


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    return Compiled(tmp_path_factory.mktemp("programs"))


def passes(program: Path, name: str, capfd: pytest.CaptureFixture[str], **options: object) -> tuple[Result, str, str]:
    """Runs a program, which must find all as it should be; what it and the simulator have said."""
    result = run([program, name], workers=1, **options)  # type: ignore[arg-type] # options of any kind
    out, err = capfd.readouterr()
    assert (result.code, out.splitlines()[-1:]) == (0, [f"{name} passed"]), out + err
    return result, out, err


@pytest.mark.parametrize(
    "name", ["templates", "reduction", "host_memory", "three_dimensions", "callbacks", "occupancy"]
)
def test_features_of_the_runtime(name: str, compiled: Compiled, capfd: pytest.CaptureFixture[str]) -> None:
    passes(compiled("features"), name, capfd)


def test_kernels_print(compiled: Compiled, capfd: pytest.CaptureFixture[str]) -> None:
    _, out, _ = passes(compiled("features"), "printing", capfd)
    assert out.splitlines()[:2] == ["thread 0 of CTA 0: 0.00 half", "thread 1 of CTA 0: 0.50 half"]


@pytest.mark.parametrize("name", ["histogram_of_clusters", "halo_exchange", "tensor_map_pipeline", "dependent_launch"])
def test_programs_of_hopper(name: str, compiled: Compiled, capfd: pytest.CaptureFixture[str]) -> None:
    passes(compiled("hopper"), name, capfd)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("illegal_address", "behind the end of buffer 'device_0'"),
        ("null_pointer", "access to 4 bytes at 0x0"),
        ("used_after_free", "access to 4 bytes at 0x300100000000"),
        ("address_of_the_host", "access to 4 bytes"),
        ("misaligned", "misaligned access to 4 bytes"),
        ("assertion", "assertion 'int(threadIdx.x) < n' of void asserted(int) failed"),
        ("trap", "the kernel stops itself"),
        ("endless_loop", "which hold 0, and nobody writes there"),
        ("deadlock", "warp 0 waits at barrier 1"),
        ("outside_of_shared_memory", "outside of the 128 bytes of shared memory"),
        ("too_many_threads", "block (1025, 1, 1); legal: (1, 1, 1) to (1024, 1024, 64)"),
        ("too_much_shared_memory", "legal: cudaFuncSetAttribute"),
        ("clusters_that_are_too_large", "grid (5, 1, 1) is not whole clusters of (4, 1, 1)"),
        ("too_much_memory", ""),
        ("early_exit", ""),
        ("wrong_calls", ""),
    ],
)
def test_mistakes_are_errors_of_a_gpu_and_one_line(
    name: str, said: str, compiled: Compiled, capfd: pytest.CaptureFixture[str]
) -> None:
    _, _, err = passes(compiled("mistakes"), name, capfd, budget=200_000)
    assert said in err
    assert all(line.startswith("tcsim: ") for line in err.splitlines())


def test_mistakes_of_the_simulator_are_one_line(
    compiled: Compiled, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> None:
        raise KeyError("a table\nwithout this")

    monkeypatch.setattr(launches, "run_launch", broken)
    result = run([compiled("features"), "reduction"], workers=1)
    out, err = capfd.readouterr()
    assert result.code == 1
    assert "unknown error" in out
    assert len(err.splitlines()) == 1
    assert "the simulator failed: KeyError" in err


# What takes minutes to compile


@pytest.mark.programs
@pytest.mark.parametrize("name", ["thrust_algorithms", "cub_algorithms", "asynchronous_copies", "groups"])
def test_libraries_of_the_toolkit(name: str, compiled: Compiled, capfd: pytest.CaptureFixture[str]) -> None:
    passes(compiled("libraries"), name, capfd)


def _installed(package: str, path: str) -> Path | None:
    """A folder of an installed package; None if it is not there."""
    try:
        files = importlib.metadata.files(package) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    found = next((file for file in files if path in str(file)), None)
    return None if found is None else Path(str(found.locate())[: str(found.locate()).index(path) + len(path)])


def _sources() -> Path:
    """CUTLASS's sources, from the package nvidia-cutlass, or those that CUTLASS_SOURCES names; skips without."""
    given = os.environ.get("CUTLASS_SOURCES")
    sources = Path(given) if given else _installed("nvidia-cutlass", "cutlass_library/source")
    if sources is None:
        pytest.skip("needs the package nvidia-cutlass: pip install tcsim[programs]")
    return sources


def _curand() -> Path:
    """The folder of curand's headers; skips without."""
    include = os.environ.get("CURAND_INCLUDE") or _installed("nvidia-curand", "cu13/include")
    if include is None:
        pytest.skip("needs the package nvidia-curand: pip install tcsim[programs]")
    return Path(include)


@pytest.mark.programs
@pytest.mark.parametrize("example", cutlass.EXAMPLES, ids=lambda example: example.name)
def test_examples_of_cutlass(example: cutlass.Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = _sources()
    monkeypatch.setenv("CURAND_INCLUDE", str(_curand()))
    program = cutlass.build(sources, example, Path(os.environ.get("CUTLASS_BUILD", tmp_path)))
    for size in example.sizes:
        right, _, _, why = cutlass.passed(program, example, size, sms=max(example.sms, 8))
        assert right, f"{size}: {why}"


@pytest.mark.programs
@pytest.mark.parametrize("example", ["62_hopper_sparse_gemm", "84b_blackwell_mixed_mxfp8_bf16_sparse_gemm"])
def test_disturbed_operands_fail_cutlass(example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of each kind; in a process of its own, because hooks stay in the process that installs them."""
    monkeypatch.setenv("CURAND_INCLUDE", str(_curand()))
    build = os.environ.get("CUTLASS_BUILD", str(tmp_path))
    command = [sys.executable, "-m", "tests.host.cutlass", str(_sources()), "--build", build, "--only", example]
    done = subprocess.run([*command, "--mutants", "16"], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 not found" in done.stdout


def _built(program: collective.Program) -> bool:
    """Whether COLLECTIVE_BUILD has the program: those that are there run, and a few are compiled (a minute each)."""
    few = (
        "sp.mxf4nvf4.e2m1.e2m1.f32.m128n128.cta1",
        "sp.f8f6f4.e2m1.e4m3.f32.m256n128.cta2",
        "f16.f16.f16.f32.m64n128.cta1",
    )
    return program.name in few or (Path(os.environ.get("COLLECTIVE_BUILD", "/nowhere")) / program.name).exists()


@pytest.mark.programs
@pytest.mark.parametrize(
    "program", [each for each in collective.PROGRAMS if _built(each)], ids=lambda program: program.name
)
def test_collectives_of_cutlass(program: collective.Program, tmp_path: Path) -> None:
    folder = Path(os.environ.get("COLLECTIVE_BUILD", tmp_path))
    binary = collective.build(_sources(), program, folder)
    right, _, words = collective.run(binary, collective.SIZES[1])
    assert right, words
