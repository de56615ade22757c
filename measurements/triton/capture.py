# ruff: noqa
# mypy: ignore-errors
"""Runs each Triton kernel of kernels.py once on a GPU, and keeps the launch as a capture: PTX, geometry, the bytes of
all parameters, buffers before and after.

    gcc -shared -fPIC -o shim.so shim.c -ldl
    SHIM_LOG=$PWD/launches.log LD_PRELOAD=$PWD/shim.so python capture.py

Writes out/captures.tgz and out/summary.txt. Measured with Triton 3.6.0 on an H200 (sm_90), 2026-11-29.
"""

import json, os, sys, traceback, tarfile, io
from pathlib import Path
import numpy as np
import torch, triton
import kernels as K

try:
    from triton.tools.tensor_descriptor import TensorDescriptor
except Exception:
    TensorDescriptor = None
OUT = Path("work")
OUT.mkdir(exist_ok=True)
LOG = os.environ["SHIM_LOG"]
scratch = []
pool = []


def allocator(size, alignment, stream):
    t = torch.zeros(max(size, 1), dtype=torch.int8, device="cuda")
    scratch.append(t)
    return t


if hasattr(triton, "set_allocator"):
    triton.set_allocator(allocator)


def raw(t):
    return (
        t.contiguous().view(torch.uint8).reshape(-1).cpu().numpy()
        if t.dtype != torch.float8_e5m2
        else t.view(torch.int8).view(torch.uint8).reshape(-1).cpu().numpy()
    )


NAMES = {
    torch.float16: "float16",
    torch.float32: "float32",
    torch.int32: "int32",
    torch.int64: "int64",
    torch.bfloat16: "uint16",
}
summary = []


def case(name, launch, buffers, outputs, check=None):
    """launch() runs the kernel and returns what it returned."""
    try:
        torch.cuda.synchronize()
        if os.path.exists(LOG):
            os.remove(LOG)
        scratch.clear()
        before = {n: raw(t) for n, t in buffers.items()}
        compiled = launch()
        torch.cuda.synchronize()
        after = {n: raw(buffers[n]) for n in outputs}
        lines = [json.loads(l) for l in open(LOG)] if os.path.exists(LOG) else []
        ptx = compiled.asm["ptx"]
        meta = compiled.metadata
        said = {
            f: str(getattr(meta, f, None))
            for f in (
                "name",
                "num_warps",
                "num_ctas",
                "num_stages",
                "shared",
                "cluster_dims",
                "global_scratch_size",
                "tensordesc_meta",
            )
        }
        ok = check() if check else None
        summary.append(f"{name}: launches {len(lines)} check {ok} {said}")
        print(summary[-1], flush=True)
        if not lines:
            (OUT / f"{name}.ptx").write_text(ptx)
            return
        how = lines[-1]
        cluster = next(([a[1], a[2], a[3]] for a in how["attributes"] if a[0] == 4), None)
        cooperative = any(a[0] == 2 and a[1] for a in how["attributes"])
        spec, data = {}, {}
        every = dict(buffers) | {f"scratch{i}": t for i, t in enumerate(scratch)}
        for n, t in every.items():
            shape = list(t.shape)
            kind = NAMES.get(t.dtype, "uint8")
            size = t.numel() * t.element_size()
            spec[n] = {"bytes": size, "type": kind, "shape": shape, "address": t.data_ptr()}
            if n.startswith("scratch"):
                spec[n]["zero"] = True
                continue
            if n in outputs:
                spec[n]["output"] = True
            data[f"in|{n}"] = before[n].view(kind).reshape(shape)
            if n in outputs:
                data[f"out|{n}"] = after[n].view(kind).reshape(shape)
        params = []
        for p in how["params"]:
            params.append({"bytes": p})
        (OUT / f"{name}.ptx").write_text(ptx)
        entry = meta.name if hasattr(meta, "name") else compiled.name
        doc = {
            "name": name,
            "ptx": f"{name}.ptx",
            "entry": entry,
            "target": "sm_90a",
            "grid": how["grid"],
            "block": how["block"],
            "dynamic_shared": how["shared"],
            "params": params,
            "buffers": spec,
            "data": f"{name}.npz",
            "counters": None,
        }
        if cluster and cluster != [1, 1, 1]:
            doc["cluster"] = cluster
        if cooperative:
            summary.append(f"{name}: cooperative")
        (OUT / f"{name}.json").write_text(json.dumps(doc))
        np.savez_compressed(OUT / f"{name}.npz", **data)
    except Exception as error:
        text = traceback.format_exc()[-700:]
        summary.append(f"{name}: FAILED {type(error).__name__} {text}")
        print(summary[-1], flush=True)
        if "CUDA error" in text:
            finish()
            sys.exit(1)
    finish()


def finish():
    Path("out").mkdir(exist_ok=True)
    Path("out/summary.txt").write_text(
        f"triton {triton.__version__} torch {torch.__version__} {torch.cuda.get_device_name(0)}\n" + "\n".join(summary)
    )
    with tarfile.open("out/captures.tgz", "w:gz") as tar:
        for p in sorted(OUT.iterdir()):
            tar.add(p, p.name)


torch.manual_seed(7)


def rand(*shape, dtype=torch.float16, scale=1.0):
    return (torch.randn(*shape, device="cuda", dtype=torch.float32) * scale).to(dtype)


# softmax, layer norm
x = rand(16, 333, dtype=torch.float32)
y = torch.zeros_like(x)
case(
    "softmax",
    lambda: K.softmax[(16,)](x, y, 333, x.stride(0), BLOCK=512, num_warps=4),
    dict(x=x, y=y),
    ["y"],
    lambda: float((y - x.softmax(1)).abs().max()),
)
x2 = rand(8, 1000, dtype=torch.bfloat16)
w = rand(1000, dtype=torch.float32)
b = rand(1000, dtype=torch.float32)
y2 = torch.zeros_like(x2)
mo = torch.zeros(8, device="cuda")
ro = torch.zeros(8, device="cuda")
case(
    "layer_norm",
    lambda: K.layer_norm[(8,)](x2, w, b, y2, mo, ro, 1000, 1000, 1e-5, BLOCK=512, num_warps=4),
    dict(x=x2, w=w, b=b, y=y2, mean=mo, rstd=ro),
    ["y", "mean", "rstd"],
    lambda: float((y2.float() - torch.nn.functional.layer_norm(x2.float(), (1000,), w, b)).abs().max()),
)

xm = rand(512, dtype=torch.float32)
ym = torch.zeros_like(xm)
counts = torch.zeros(16, dtype=torch.int32, device="cuda")
case(
    "mixture",
    lambda: K.mixture[(2,)](xm, ym, counts, 1234, 500, BLOCK=256, num_warps=4),
    dict(x=xm, y=ym, counts=counts),
    ["y", "counts"],
)

# products
for dt, tag in ((torch.float16, "f16"), (torch.bfloat16, "bf16")):
    A = rand(200, 136, dtype=dt)
    B = rand(136, 184, dtype=dt)
    C = torch.zeros(200, 184, device="cuda", dtype=dt)
    case(
        f"matmul_pointers_{tag}",
        lambda: K.matmul_pointers[(4, 3)](
            A, B, C, 200, 184, 136, 136, 184, 184, BM=64, BN=64, BK=32, num_warps=4, num_stages=3
        ),
        dict(a=A, b=B, c=C),
        ["c"],
        lambda: float((C.float() - torch.nn.functional.silu(A.float() @ B.float())).abs().max()),
    )
A32 = rand(128, 128, dtype=torch.float32)
B32 = rand(128, 128, dtype=torch.float32)
C32 = torch.zeros(128, 128, device="cuda")
case(
    "matmul_pointers_tf32",
    lambda: K.matmul_pointers[(2, 2)](
        A32, B32, C32, 128, 128, 128, 128, 128, 128, BM=64, BN=64, BK=32, num_warps=4, num_stages=3
    ),
    dict(a=A32, b=B32, c=C32),
    ["c"],
)


def product(name, dt, ws=False, M=256, N=256, BM=128, BN=128, BK=64, **how):
    A = rand(M, 256, dtype=dt)
    B = rand(N, 256, dtype=dt)
    C = torch.zeros(M, N, device="cuda", dtype=torch.float16 if dt.itemsize == 1 else dt)
    a = TensorDescriptor(A, list(A.shape), list(A.stride()), [BM, BK])
    b = TensorDescriptor(B, list(B.shape), list(B.stride()), [BN, BK])
    c = TensorDescriptor(C, list(C.shape), list(C.stride()), [BM, BN])
    case(
        name,
        lambda: K.matmul_descriptors[(triton.cdiv(M, BM) * triton.cdiv(N, BN),)](
            a, b, c, M, N, 256, BM=BM, BN=BN, BK=BK, WS=ws, **how
        ),
        dict(a=A, b=B, c=C),
        ["c"],
        lambda: float((C.float() - A.float() @ B.float().T).abs().max()),
    )


product("matmul_bf16", torch.bfloat16, num_warps=4, num_stages=3, M=200, N=136)
product("matmul_f16_8warps", torch.float16, num_warps=8, num_stages=4)
product("matmul_e4m3", torch.float8_e4m3fn, BK=128, num_warps=4, num_stages=3)
product("matmul_bf16_ws", torch.bfloat16, ws=True, BM=64, num_warps=4, num_stages=3)
product("matmul_f16_2ctas", torch.float16, num_warps=4, num_stages=3, num_ctas=2)

A = rand(200, 192, dtype=torch.float16)
B = rand(136, 192, dtype=torch.float16)
C = torch.zeros(200, 136, device="cuda", dtype=torch.float16)
case(
    "matmul_persistent",
    lambda: K.persistent_matmul[(3,)](
        A, B, C, 200, 136, 192, SMS=3, BM=64, BN=64, BK=64, DT=K.tl.float16, num_warps=4, num_stages=3
    ),
    dict(a=A, b=B, c=C),
    ["c"],
    lambda: float((C.float() - A.float() @ B.float().T).abs().max()),
)

shapes = [(128, 64, 128), (72, 128, 64), (64, 200, 96)]
As = [rand(m, k) for m, n, k in shapes]
Bs = [rand(n, k) for m, n, k in shapes]
Cs = [torch.zeros(m, n, device="cuda", dtype=torch.float16) for m, n, k in shapes]
address = lambda ts: torch.tensor([t.data_ptr() for t in ts], dtype=torch.int64, device="cuda")
aa, ab, ac = address(As), address(Bs), address(Cs)
sizes = torch.tensor(shapes, dtype=torch.int32, device="cuda")
case(
    "grouped_gemm",
    lambda: K.grouped_gemm[(4,)](aa, ab, ac, sizes, 3, SMS=4, BM=64, BN=64, BK=32, num_warps=4, num_stages=3),
    {"aa": aa, "ab": ab, "ac": ac, "sizes": sizes}
    | {f"a{i}": t for i, t in enumerate(As)}
    | {f"b{i}": t for i, t in enumerate(Bs)}
    | {f"c{i}": t for i, t in enumerate(Cs)},
    ["c0", "c1", "c2"],
    lambda: [float((c.float() - a.float() @ b.float().T).abs().max()) for a, b, c in zip(As, Bs, Cs)],
)


def attention(name, dt, N=256, H=2, D=64, BM=128, BN=64, causal=False, ws=False, **how):
    q, k = rand(H * N, D, dtype=dt), rand(H * N, D, dtype=dt)
    f8 = dt.itemsize == 1
    v = rand(D, H * N, dtype=dt) if f8 else rand(H * N, D, dtype=dt)
    o = torch.zeros(H * N, D, device="cuda", dtype=torch.float16 if f8 else dt)
    M = torch.zeros(H, N, device="cuda")
    dq, do = (TensorDescriptor(t, [H * N, D], [D, 1], [BM, D]) for t in (q, o))
    dk = TensorDescriptor(k, [H * N, D], [D, 1], [BN, D])
    dv = (
        TensorDescriptor(v, [D, H * N], [H * N, 1], [D, BN]) if f8 else TensorDescriptor(v, [H * N, D], [D, 1], [BN, D])
    )
    tl = K.tl
    types = {
        torch.float16: tl.float16,
        torch.bfloat16: tl.bfloat16,
        torch.float8_e5m2: tl.float8e5,
        torch.float8_e4m3fn: tl.float8e4nv,
    }

    def check():
        qq, kk = q.float().view(H, N, D), k.float().view(H, N, D)
        vv = v.float().t().reshape(H, N, D) if f8 else v.float().view(H, N, D)
        s = qq @ kk.transpose(1, 2) * 0.125
        if causal:
            s = s.masked_fill(torch.ones(N, N, device="cuda").triu(1).bool(), float("-inf"))
        return float((o.float().view(H, N, D) - s.softmax(-1) @ vv).abs().max())

    case(
        name,
        lambda: K.attention[(N // BM, H)](
            dq, dk, dv, do, M, 0.125, N, D=D, BM=BM, BN=BN, CAUSAL=causal, DT=types[dt], VT=f8, WS=ws, **how
        ),
        dict(q=q, k=k, v=v, o=o, m=M),
        ["o", "m"],
        check,
    )


attention("attention_f16", torch.float16, num_warps=4, num_stages=2)
attention("attention_f16_causal", torch.float16, causal=True, num_warps=4, num_stages=3)
attention("attention_bf16_d128", torch.bfloat16, D=128, BN=128, causal=True, num_warps=8, num_stages=2)
attention("attention_e5m2", torch.float8_e5m2, num_warps=4, num_stages=2)
attention("attention_e5m2_causal_d128", torch.float8_e5m2, D=128, causal=True, num_warps=8, num_stages=2)
attention("attention_f16_ws", torch.float16, ws=True, BM=64, num_warps=4, num_stages=2)
finish()
