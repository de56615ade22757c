"""Stores to shared memory among matrix instructions: what do they wait for?

python measure_stores.py [--results results]      # needs nvcc and the GPU; ten seconds

Each loop has stores of one or four registers and matrix instructions in turn. Operands of the matrix instructions and
the stored values are registers, or RZ, which no port of the register file has to read. results/stores.csv: cycles of an
iteration, the difference of 64 and 192 iterations, best of 7.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

HERE = Path(__file__).parent
MATRIX = {
    "sparse": ("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32", 4, ", %12, 0x0"),
    "dense": ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 2, ""),
}
COUNTS = ((4, 4), (8, 4), (8, 8), (4, 8), (8, 16))  # stores, matrix instructions
WARPS = (1, 4, 8, 16)
HEAD = """#include <cstdint>
#include <cstdio>
extern __shared__ __align__(1024) char memory[];
typedef void (*Kernel)(uint64_t *, const unsigned *, int, unsigned);
"""
BEGIN = """
__global__ void __launch_bounds__(512) {name}(uint64_t *out, const unsigned *values, int count, unsigned e) {{
    unsigned lane = threadIdx.x & 31, at = (unsigned)__cvta_generic_to_shared(memory) + lane * {bytes};
    unsigned x[32] = {{}}, y[12] = {{}};
    for (int i = {first}; i < {last}; ++i) y[i] = ((const volatile unsigned *)values)[i];
    __syncthreads();
    uint64_t begin, end;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(begin)::"memory");
#pragma unroll 1
    for (int i = 0; i < count; ++i) {{
"""
END = """    }
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(end)::"memory");
    unsigned sum = 0;
    for (int i = 0; i < 32; ++i) sum += x[i];
    if (lane == 0) out[threadIdx.x / 32 * 2] = begin, out[threadIdx.x / 32 * 2 + 1] = end;
    if (sum == 12345) out[100] = sum;
}
"""
MAIN = """int main() {
    uint64_t *out, h[128];
    unsigned *values;
    cudaMalloc(&out, 4096), cudaMalloc(&values, 4096), cudaMemset(values, 0, 4096);
    for (auto &kernel : kernels)
        for (int warps : {1, 4, 8, 16}) {
            double best[2] = {1e30, 1e30};
            for (int i = 0; i < 14; ++i) {
                kernel<<<1, warps * 32, 32768>>>(out, values, i % 2 ? 192 : 64, 0x4e4e4e4e);
                if (cudaError_t error = cudaDeviceSynchronize()) return printf("%s\\n", cudaGetErrorString(error)), 1;
                cudaMemcpy(h, out, 1024, cudaMemcpyDeviceToHost);
                uint64_t first = ~0ull, last = 0;
                for (int w = 0; w < warps; ++w) {
                    first = h[2 * w] < first ? h[2 * w] : first;
                    last = h[2 * w + 1] > last ? h[2 * w + 1] : last;
                }
                if (last - first < best[i % 2]) best[i % 2] = last - first;
            }
            printf("%.3f\\n", (best[1] - best[0]) / 128);
        }
}
"""


def store(words: int, number: int) -> str:
    """One store; its values are y[8] and those that follow."""
    vector, first = {1: ("", "%1"), 4: (".v4", "{%1, %2, %3, %4}")}[words]
    values = ", ".join(f'"r"(y[{8 + i}])' for i in range(words))
    return f'asm volatile("st.shared{vector}.b32 [%0], {first};" ::"r"(at + {512 * (number % 4)}), {values});'


def matrix(kind: str, number: int) -> str:
    """One matrix instruction; its operands are y[0] to y[7], its accumulator one of eight."""
    opcode, words, rest = MATRIX[kind]
    d = [4 * (number % 8) + i for i in range(4)]
    b = ", ".join(f"%{8 + i}" for i in range(words))
    text = f"{opcode} {{%0, %1, %2, %3}}, {{%4, %5, %6, %7}}, {{{b}}}, {{%0, %1, %2, %3}}{rest};"
    outputs = ", ".join(f'"+r"(x[{i}])' for i in d)
    inputs = ", ".join([*(f'"r"(y[{i}])' for i in range(4 + words)), *(['"r"(e)'] if rest else [])])
    return f'asm volatile("{text}" : {outputs} : {inputs});'


def body(words: int, stores: int, kind: str, products: int) -> list[str]:
    """The stores, with the matrix instructions spread among them."""
    lines, done = [], 0
    for number in range(stores):
        lines.append(store(words, number))
        while done * stores < (number + 1) * products:
            lines.append(matrix(kind, done))
            done += 1
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=HERE / "results")
    options = parser.parse_args()
    loops = list(itertools.product((True, False), (True, False), (1, 4), COUNTS, MATRIX))
    names: list[str] = []
    text = HEAD
    for operands, values, words, (stores, products), kind in loops:
        names.append(f"k{len(names)}")
        first, last = (0 if operands else 8), (12 if values else 8)
        text += BEGIN.format(name=names[-1], bytes=4 * words, first=first, last=last)
        text += "\n".join(body(words, stores, kind, products)) + END
    text += f"Kernel kernels[] = {{{', '.join(names)}}};\n" + MAIN
    with TemporaryDirectory() as folder:
        source, program = Path(folder) / "stores.cu", Path(folder) / "stores"
        source.write_text(text)
        subprocess.run(["nvcc", "-w", "-arch=sm_90a", "-O3", "-o", str(program), str(source)], check=True)
        found = subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout.split()
    with (options.results / "stores.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("operands", "values", "store_words", "stores", "matrix", "products", "warps", "cycles"))
        for (row, warps), cycles in zip(itertools.product(loops, WARPS), found, strict=True):
            operands, values, words, (stores, products), kind = row
            registers = ["registers" if real else "RZ" for real in (operands, values)]
            writer.writerow((*registers, words, stores, kind, products, warps, cycles))


if __name__ == "__main__":
    main()
