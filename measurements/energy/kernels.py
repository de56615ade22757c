# ruff: noqa: E501 - lines of CUDA
"""Writes the CUDA kernels whose energy is measured: each is one loop of one instruction."""

from __future__ import annotations

from forms import FORMS, SETS, Form

UNROLL = 16
"""Instructions of interest in an iteration."""
KEPT = {"ldmatrix_x1": 8, "ldmatrix_x2": 4, "ldmatrix_x4": 2}
"""How many of them ptxas 13.0 keeps, where it drops loads whose values are overwritten (read in the machine code)."""


def _operands(first: int, count: int) -> str:
    return "{" + ", ".join(f"%{first + i}" for i in range(count)) + "}"


def _bound(constraint: str, name: str, count: int) -> str:
    return ", ".join(f'"{constraint}"({name}[{i}])' for i in range(count))


def matrix_kernel(form: Form) -> str:
    """Two chains of accumulators, four sets of operands in turn."""
    c, a, b = form.words_c, form.words_a, form.words_b
    kind = "float" if form.accumulator == "f32" else "unsigned"
    letter = "f" if kind == "float" else "r"
    text = f"{form.opcode} {_operands(0, c)}, {_operands(c, a)}, {_operands(c + a, b)}, {_operands(0, c)}"
    inputs = f"{_bound('r', 'a[s]', a)}, {_bound('r', 'b[s]', b)}"
    if form.sparse:
        text, inputs = f"{text}, %{c + a + b}, 0x0", f'{inputs}, "r"(e[s])'
    words = a + b + 1
    return f"""
extern "C" __global__ void __launch_bounds__(128) k_{form.name}(const unsigned *in, unsigned *out, int iterations) {{
    const unsigned *from = in + threadIdx.x / 32 * {SETS * words * 32} + threadIdx.x % 32;
    unsigned a[{SETS}][{a}], b[{SETS}][{b}], e[{SETS}];
    {kind} c[2][{c}] = {{}};
#pragma unroll
    for (int s = 0; s < {SETS}; s++) {{
        for (int i = 0; i < {a}; i++) a[s][i] = from[(s * {words} + i) * 32];
        for (int i = 0; i < {b}; i++) b[s][i] = from[(s * {words} + {a} + i) * 32];
        e[s] = from[(s * {words} + {a + b}) * 32];
    }}
#pragma unroll 1
    for (int n = 0; n < iterations; n++)
#pragma unroll
        for (int i = 0; i < {UNROLL}; i++) {{
            const int s = i % {SETS}, q = i % 2;
            asm volatile("{text};" : {_bound("+" + letter, "c[q]", c)} : {inputs});
        }}
    {kind} sum = 0;
    for (int i = 0; i < {c}; i++) sum += c[0][i] + c[1][i];
    if (sum == ({kind})123457) out[threadIdx.x] = e[0];
}}
"""


def _loop(name: str, before: str, body: str, after: str, threads: int = 128, shared: int = 0) -> str:
    """A kernel with registers x[16] from memory and `body` repeated for i = 0 .. 15."""
    room = f"__shared__ __align__(1024) unsigned memory[{shared // 4}];" if shared else ""
    fill = f"for (int i = threadIdx.x; i < {shared // 4}; i += {threads}) memory[i] = in[i % 8192]; __syncthreads();"
    return f"""
extern "C" __global__ void __launch_bounds__({threads}) k_{name}(const unsigned *in, unsigned *out, int iterations) {{
    {room}
    unsigned x[16]; float f[16];
    for (int i = 0; i < 16; i++) x[i] = in[i * 128 + threadIdx.x % 128], f[i] = __uint_as_float(x[i]);
    {fill if shared else ""}
    {before}
#pragma unroll 1
    for (int n = 0; n < iterations; n++) {{
#pragma unroll
        for (int i = 0; i < {UNROLL}; i++) {{ {body} }}
        {after}
    }}
    unsigned sum = 0;
    for (int i = 0; i < 16; i++) sum += x[i] + (unsigned)f[i];
    if (sum == 123457) out[threadIdx.x] = sum;
}}
"""


def _asm(text: str, outputs: str, inputs: str, *clobbers: str) -> str:
    tail = f" : {', '.join(clobbers)}" if clobbers else ""
    return f'asm volatile("{text};" : {outputs} : {inputs}{tail});'


SHARED = 32768
_ADDRESS = "unsigned at = (unsigned)__cvta_generic_to_shared(memory) + threadIdx.x / 32 * 4096"


def plain_kernels() -> dict[str, str]:
    """Arithmetic, moves, shared memory, barriers and loops without anything."""
    d4 = '"=r"(x[i & 12]), "=r"(x[(i & 12) + 1]), "=r"(x[(i & 12) + 2]), "=r"(x[(i & 12) + 3])'
    d2 = '"=r"(x[i & 14]), "=r"(x[(i & 14) + 1])'
    d1 = '"=r"(x[i])'
    v4 = '"r"(x[i & 12]), "r"(x[(i & 12) + 1]), "r"(x[(i & 12) + 2]), "r"(x[(i & 12) + 3])'
    row = f"{_ADDRESS} + threadIdx.x % 32 * 16; "
    word = f"{_ADDRESS} + threadIdx.x % 32 * 4; "
    eight = f"{_ADDRESS} + threadIdx.x % 32 * 32; "
    ld = "ldmatrix.sync.aligned.m8n8"
    bodies = {
        "heavy": ("float c[2][4] = {};", HEAVY, ""),
        "iadd": ("", _asm("add.s32 %0, %0, %1", '"+r"(x[i])', '"r"(x[(i + 5) % 16])'), ""),
        "lop3": ("", _asm("lop3.b32 %0, %0, %1, %2, 0x96", '"+r"(x[i])', '"r"(x[(i + 5) % 16]), "r"(x[(i + 9) % 16])'), ""),
        "imad": ("", _asm("mad.lo.s32 %0, %1, %2, %0", '"+r"(x[i])', '"r"(x[(i + 5) % 16]), "r"(x[(i + 9) % 16])'), ""),
        "ffma": ("", _asm("fma.rn.f32 %0, %0, %1, %2", '"+f"(f[i % 8])', '"f"(f[8 + i % 8]), "f"(f[8 + (i + 3) % 8])'), ""),
        "shf": ("", _asm("shf.l.wrap.b32 %0, %0, %1, %2", '"+r"(x[i])', '"r"(x[(i + 5) % 16]), "r"(x[(i + 9) % 16])'), ""),
        "mov": ("", "", "unsigned t = x[0]; for (int i = 0; i < 15; i++) x[i] = x[i + 1]; x[15] = t;"),
        "bar": ("", 'asm volatile("bar.sync 0;" ::: "memory");', ""),
        "ldmatrix_x4": (row, _asm(f"{ld}.x4.shared.b16 {{%0, %1, %2, %3}}, [%4]", d4, '"r"(at + (i % 8) * 512)', '"memory"'), ""),
        "ldmatrix_x2": (row, _asm(f"{ld}.x2.shared.b16 {{%0, %1}}, [%2]", d2, '"r"(at + (i % 8) * 512)', '"memory"'), ""),
        "ldmatrix_x1": (row, _asm(f"{ld}.x1.shared.b16 {{%0}}, [%1]", d1, '"r"(at + (i % 8) * 512)', '"memory"'), ""),
        "lds_b32": (word, _asm("ld.volatile.shared.b32 %0, [%1]", d1, '"r"(at + i * 128)', '"memory"'), ""),
        "lds_b32_conflict8": (eight, _asm("ld.volatile.shared.b32 %0, [%1]", d1, '"r"(at + (i % 8) * 4)', '"memory"'), ""),
        "lds_v4": (row, _asm("ld.volatile.shared.v4.b32 {%0, %1, %2, %3}, [%4]", d4, '"r"(at + (i % 8) * 512)', '"memory"'), ""),
        "sts_b32": (word, _asm("st.volatile.shared.b32 [%1], %0", "", '"r"(x[i]), "r"(at + i * 128)'), ""),
        "sts_v4": (row, _asm("st.volatile.shared.v4.b32 [%4], {%0, %1, %2, %3}", "", f'{v4}, "r"(at + (i % 8) * 512)'), ""),
    }  # fmt: skip
    shared = ("ldmatrix", "lds", "sts")
    return {
        name: _loop(name, before, body, after, shared=SHARED if name.startswith(shared) else 0)
        for name, (before, body, after) in bodies.items()
    }


MEMORY = r"""
// Every CTA walks over `size` bytes (a power of two); each turn of a warp takes 16 pieces of 512 bytes.
__device__ inline unsigned long long place(int n, int i, unsigned long long size) {
    unsigned long long piece = ((unsigned long long)n * gridDim.x + blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
    return ((piece * 16 + i) * 512 & (size - 1)) + threadIdx.x % 32 * 16;
}
#define WALK(NAME, BEFORE, BODY, AFTER)                                                                              \
    extern "C" __global__ void __launch_bounds__(256) k_##NAME(char *memory, unsigned *out, int iterations,               \
                                                           unsigned long long size) {                                \
        extern __shared__ __align__(1024) char room[];                                               \
        unsigned to = (unsigned)__cvta_generic_to_shared(room) + threadIdx.x / 32 * 8192 + threadIdx.x % 32 * 16;     \
        uint4 x[16]; unsigned sum = 0; (void)to;                                                                      \
        for (int i = 0; i < 16; i++) x[i] = make_uint4(0, 0, 0, 0);                                                   \
        BEFORE                                                                                                        \
        _Pragma("unroll 1") for (int n = 0; n < iterations; n++) {                                                    \
            _Pragma("unroll") for (int i = 0; i < 16; i++) { char *at = memory + place(n, i, size); BODY }            \
            AFTER                                                                                                     \
        }                                                                                                             \
        if (sum == 123457) out[threadIdx.x] = sum;                                                                    \
    }
#define LOAD(WAY) asm volatile("ld.global." WAY ".v4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(x[i].x), "=r"(x[i].y), "=r"(x[i].z), "=r"(x[i].w) : "l"(at));
#define TAKE _Pragma("unroll") for (int i = 0; i < 16; i++) sum |= x[i].x;
WALK(ldg_cg, , LOAD("cg"), TAKE)
WALK(ldg_ca, , LOAD("ca"), TAKE)
WALK(cp_async, , asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + i * 512), "l"(at));,
     asm volatile("cp.async.commit_group; cp.async.wait_group 0;");)
WALK(stg, for (int i = 0; i < 16; i++) x[i] = *(uint4 *)(memory + i * 512 + threadIdx.x % 32 * 16);,
     asm volatile("st.global.v4.b32 [%4], {%0, %1, %2, %3};" ::"r"(x[i].x), "r"(x[i].y), "r"(x[i].z), "r"(x[i].w), "l"(at));, )
extern "C" __global__ void k_sleeping(const unsigned *in, unsigned *out, int iterations) {
    for (int n = 0; n < iterations; n++) __nanosleep(1000);
}
"""


HEAVY = (
    _asm(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3}",
        ", ".join(f'"+f"(c[i % 2][{r}])' for r in range(4)),
        ", ".join(f'"r"(x[(i * 3 + {r}) % 16])' for r in range(6)),
    )
    + "f[i % 8] = fmaf(f[i % 8], f[8 + i % 8], f[8 + (i + 3) % 8]); " * 4
)
"""A matrix instruction and four FFMA: more power than the limit allows at the highest clock."""


def source() -> str:
    """The whole CUDA file."""
    return "\n".join([*(matrix_kernel(form) for form in FORMS), *plain_kernels().values(), MEMORY])
