"""Writes the CUDA program that executes one tensor copy of any kind, and one tensormap.replace of any field.

python -m measurements.tensor_maps.copies_kernel copies.cu && nvcc -arch=sm_90a -cubin -o copies.cubin copies.cu
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

OPERATIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")
LOAD, IM2COL, STORE, REDUCE, IM2COL_STORE, IM2COL_REDUCE = range(6)
SHARED_BYTES = 65536
_HEAD = """#include <cuda.h>
#include <stdint.h>
struct Case { int kind, rank, bytes, operation, c[5], o[3], read_back; };
extern __shared__ __align__(1024) unsigned char memory[];
extern "C" __global__ void copy(const CUtensorMap* map, const Case* k, const unsigned char* given, unsigned char* out,
                                int* done) {
  unsigned s = (unsigned)__cvta_generic_to_shared(memory), bar = s + SIZE;
  int t = threadIdx.x;
  for (int i = t; i < SIZE; i += blockDim.x) memory[i] = k->kind < 2 ? (0xA0 | (i & 15)) : given[i & 16383];
  if (!t) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1; fence.mbarrier_init.release.cluster;" :: "r"(bar));
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  int c0 = k->c[0], c1 = k->c[1], c2 = k->c[2], c3 = k->c[3], c4 = k->c[4];
  short o0 = k->o[0], o1 = k->o[1], o2 = k->o[2];
  if (!t) {
    asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" :: "l"(map) : "memory");
    if (k->kind < 2)
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(bar), "r"(k->bytes) : "memory");
""".replace("SIZE", str(SHARED_BYTES))
_TAIL = """    if (k->kind < 2) {
      int ok = 0;
      for (int i = 0; i < 200000 && !ok; i++)
        asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.b32 %0, 1, 0, p;}"
                     : "=r"(ok) : "r"(bar) : "memory");
      *done = ok ? 1 : 2;
    } else {
      asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
      *done = 1;
    }
  }
  __syncthreads();
  if (k->kind < 2) for (int i = t; i < k->read_back; i += blockDim.x) out[i] = memory[i];
}
extern "C" __global__ void change(const unsigned char* map, int field, unsigned long long value, unsigned char* out) {
  unsigned s = (unsigned)__cvta_generic_to_shared(memory), low = (unsigned)value;
  int t = threadIdx.x;
  for (int i = t; i < 128; i += 32) memory[i] = map[i];
  __syncthreads();
  if (!t) {
"""
_END = """  }
  __syncthreads();
  for (int i = t; i < 128; i += 32) out[i] = memory[i];
}
"""


def fields() -> Iterator[tuple[str, int | None, bool]]:
    """The fields that tensormap.replace changes: its name, the ordinal or the code, and whether that is the code."""
    yield from (("global_address", None, False), ("rank", None, False))
    for ordinal in range(5):
        yield from ((name, ordinal, False) for name in ("box_dim", "global_dim", "element_stride"))
    yield from (("global_stride", ordinal, False) for ordinal in range(4))
    for name, codes in (("elemtype", 13), ("interleave_layout", 3), ("swizzle_mode", 4), ("fill_mode", 2)):
        yield from ((name, code, True) for code in range(codes))


def _copies() -> Iterator[str]:
    for rank in range(1, 6):
        given = ", ".join(f'"r"(c{axis})' for axis in range(rank))
        third, second = ("{" + ", ".join(f"%{first + axis}" for axis in range(rank)) + "}" for first in (3, 2))
        load = "cp.async.bulk.tensor.{}d.shared::cluster.global.{}.mbarrier::complete_tx::bytes [%0], [%1, {}], [%2]"
        yield _case(LOAD, rank, "", f'"{load.format(rank, "tile", third)};" :: "r"(s), "l"(map), "r"(bar), {given}')
        if rank > 2:
            places = "{" + ", ".join(f"%{3 + rank + axis}" for axis in range(rank - 2)) + "}"
            offsets = ", ".join(f'"h"(o{axis})' for axis in range(rank - 2))
            text = (
                f'"{load.format(rank, "im2col", third)}, {places};" :: "r"(s), "l"(map), "r"(bar), {given}, {offsets}'
            )
            yield _case(IM2COL, rank, "", text)
        for store_kind, reduce_kind, mode in ((STORE, REDUCE, "tile"), (IM2COL_STORE, IM2COL_REDUCE, "im2col_no_offs")):
            if rank < 3 and reduce_kind == IM2COL_REDUCE:
                continue
            end = f"{mode}.bulk_group [%0, {second}], [%1];"
            store = f"cp.async.bulk.tensor.{rank}d.global.shared::cta.{end}"
            yield _case(store_kind, rank, "", f'"{store}" :: "l"(map), "r"(s), {given}')
            for number, name in enumerate(OPERATIONS):
                reduce = f"cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.{name}.{end}"
                which = f" && k->operation == {number}"
                yield _case(reduce_kind, rank, which, f'"{reduce}" :: "l"(map), "r"(s), {given}')


def _case(kind: int, rank: int, more: str, statement: str) -> str:
    return f'    if (k->kind == {kind} && k->rank == {rank}{more}) asm volatile({statement} : "memory");\n'


def _changes() -> Iterator[str]:
    for number, (name, which, coded) in enumerate(fields()):
        wide = name in ("global_address", "global_stride")
        value = f"{which}" if coded else f"{'' if which is None else f'{which}, '}%1"
        register = "" if coded else ', "l"(value)' if wide else ', "r"(low)'
        text = f"tensormap.replace.tile.{name}.shared::cta.b1024.b{64 if wide else 32} [%0], {value};"
        yield f'    if (field == {number}) asm volatile("{text}" :: "r"(s){register} : "memory");\n'


def program() -> str:
    """The CUDA program."""
    return "".join((_HEAD, *_copies(), _TAIL, *_changes(), _END))


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(program())
