"""`tcsim capture`, and the C++ header with which a host program makes captures: compiled against a CUDA that is not
there (functions of the host in its place), the files that it writes are those that `read_capture` reads."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from simulator.program.capture import read_capture
from tests.support.paths import GOLDEN

Tcsim = Callable[..., tuple[int, str, str]]
COMPILER = shutil.which("c++") or shutil.which("g++")
CUDA = r"""
#pragma once
#include <cstddef>
#include <cstring>
#include <functional>
enum cudaError_t { cudaSuccess, cudaErrorUnknown };
enum cudaMemcpyKind { cudaMemcpyDeviceToHost };
enum cudaDeviceAttr { cudaDevAttrComputeCapabilityMajor, cudaDevAttrComputeCapabilityMinor };
struct dim3 {
    unsigned x, y, z;
    dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};
struct cudaFuncAttributes { int numRegs; };
inline const char* cudaGetErrorString(cudaError_t) { return "no reason"; }
inline cudaError_t cudaMemcpy(void* to, const void* from, size_t size, cudaMemcpyKind) {
    std::memcpy(to, from, size);
    return cudaSuccess;
}
inline std::function<void(void**)> launched;
inline cudaError_t cudaLaunchKernel(const void*, dim3, dim3, void** arguments, size_t, void*) {
    launched(arguments);
    return cudaSuccess;
}
inline cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
inline cudaError_t cudaFuncGetName(const char** name, const void*) { *name = "_Z5scale"; return cudaSuccess; }
inline cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* a, const void*) { a->numRegs = 21; return cudaSuccess; }
inline cudaError_t cudaGetDevice(int* device) { *device = 0; return cudaSuccess; }
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr what, int) {
    *value = what == cudaDevAttrComputeCapabilityMajor ? 9 : 0;
    return cudaSuccess;
}
"""
HOST = r"""
#include "tcsim_capture.h"
struct Options { float by; short spare; };
void scale(const float*, float*, int, unsigned char, float, Options) {}
int main(int count, char** names) {
    static float x[300], y[300];
    for (int i = 0; i < 300; ++i) x[i] = 0.5f * i;
    launched = [](void** given) {
        const float* from = *static_cast<const float**>(given[0]);
        float* to = *static_cast<float**>(given[1]);
        for (int i = 0; i < *static_cast<int*>(given[2]); ++i) to[i] = 2 * from[i];
    };
    tcsim::Capture capture(names[1], names[2]);
    capture.buffer("x", x, "float32", {3, 100});
    capture.buffer("y", y, "float32", {300});
    if (count > 3) capture.buffer("z", y, "half", {300});
    capture.launch(scale, dim3(3), dim3(128, 2), 1024, x, y, 300, 7, 0.25f, Options{1.0f, 3});
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if COMPILER is None:
        pytest.skip("no C++ compiler")
    folder = tmp_path_factory.mktemp("host")
    (folder / "cuda_runtime.h").write_text(CUDA)
    (folder / "host.cpp").write_text(HOST)
    (folder / "scale.ptx").write_text(".version 8.0\n.target sm_80\n.address_size 64\n")
    return folder


def built(folder: Path, tcsim: Tcsim) -> Path:
    """The host program, compiled once with the header that `tcsim capture --header` writes."""
    if (folder / "host").exists():
        return folder / "host"
    assert COMPILER is not None
    assert tcsim("capture", "--header", "--output", folder / "tcsim_capture.h")[0] == 0
    command = [COMPILER, "-std=c++17", "-Wall", "-Wextra", "-Werror", f"-I{folder}", "host.cpp", "-o", "host"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "host"


def test_a_host_program_writes_a_capture(program: Path, tcsim: Tcsim) -> None:
    host = built(program, tcsim)
    subprocess.run([host, program / "out" / "one", program / "scale.ptx"], check=True)
    capture = read_capture(program / "out" / "one.json")
    x = np.arange(300, dtype=np.float32) / 2
    assert (capture.entry, capture.target) == ("_Z5scale", "sm_90")
    assert (capture.grid, capture.block, capture.dynamic_shared) == ((3, 1, 1), (128, 2, 1), 1024)
    assert capture.params[:4] == (("buffer", "x"), ("buffer", "y"), ("s32", 300), ("u8", 7))
    assert capture.params[4] == ("bytes", np.float32(0.25).tobytes())
    assert len(capture.params[5][1]) == 8
    assert np.array_equal(capture.before["x"], x.reshape(3, 100))
    assert np.array_equal(capture.after["y"], 2 * x)
    assert capture.buffers["y"].zero
    assert not capture.buffers["x"].output
    assert capture.counters["registers_per_thread"] == 21
    assert (program / "out" / "scale.ptx").exists()
    code, out, _ = tcsim("capture", program / "out" / "one.json")
    assert code == 0
    assert "launch   3 x 1 x 1 CTAs of 128 x 2 x 1 threads, 1,024 bytes of dynamic shared memory" in out
    assert "y: float32 300: begins with zeros, written" in out


def test_what_the_header_refuses(program: Path, tcsim: Tcsim) -> None:
    """One line, exit code 2, no file half-written."""
    host = built(program, tcsim)
    for arguments, words in (
        ([program / "two" / "a", program / "nosuch.ptx"], "there is no"),
        ([program / "two" / "a", program / "scale.ptx", "more"], "type 'half' has no width; e.g. float16"),
    ):
        done = subprocess.run([host, *arguments], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert words in done.stderr
        assert not list((program / "two").glob("*"))


def test_the_verb_asks_for_one_thing(tcsim: Tcsim) -> None:
    for arguments in ((), ("--header", GOLDEN / "launches" / "divergence.json")):
        code, out, err = tcsim("capture", *arguments)
        assert (code, out) == (2, "")
        assert "tcsim capture NAME.json, or tcsim capture --header" in err
