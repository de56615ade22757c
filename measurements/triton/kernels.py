# ruff: noqa
# mypy: ignore-errors
"""Triton kernels for Hopper, as users write them: attention, products, norms (capture.py runs them)."""

import triton
import triton.language as tl


@triton.jit
def softmax(x, y, columns, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    keep = offsets < columns
    v = tl.load(x + row * stride + offsets, mask=keep, other=-float("inf"))
    v = v - tl.max(v, axis=0)
    e = tl.exp(v)
    tl.store(y + row * stride + offsets, e / tl.sum(e, axis=0), mask=keep)


@triton.jit
def layer_norm(x, w, b, y, mean_out, rstd_out, stride, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x += row * stride
    y += row * stride
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for at in range(0, columns, BLOCK):
        offsets = at + tl.arange(0, BLOCK)
        total += tl.load(x + offsets, mask=offsets < columns, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / columns
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for at in range(0, columns, BLOCK):
        offsets = at + tl.arange(0, BLOCK)
        v = tl.load(x + offsets, mask=offsets < columns, other=0.0).to(tl.float32)
        v = tl.where(offsets < columns, v - mean, 0.0)
        total += v * v
    rstd = 1 / tl.sqrt(tl.sum(total, axis=0) / columns + eps)
    tl.store(mean_out + row, mean)
    tl.store(rstd_out + row, rstd)
    for at in range(0, columns, BLOCK):
        offsets = at + tl.arange(0, BLOCK)
        keep = offsets < columns
        v = (tl.load(x + offsets, mask=keep, other=0.0).to(tl.float32) - mean) * rstd
        v = v * tl.load(w + offsets, mask=keep, other=0.0) + tl.load(b + offsets, mask=keep, other=0.0)
        tl.store(y + offsets, v, mask=keep)


@triton.jit
def matmul_descriptors(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, WS: tl.constexpr):
    pid = tl.program_id(0)
    tiles = tl.cdiv(N, BN)
    row = pid // tiles * BM
    column = pid % tiles * BN
    sum = tl.zeros((BM, BN), dtype=tl.float32)
    for k in tl.range(0, K, BK, warp_specialize=WS):
        sum = tl.dot(a.load([row, k]), b.load([column, k]).T, sum)
    c.store([row, column], sum.to(c.dtype))


@triton.jit
def matmul_pointers(a, b, c, M, N, K, sa, sb, sc, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    column = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    pa = a + (row[:, None] % M) * sa + inner[None, :]
    pb = b + inner[:, None] * sb + (column[None, :] % N)
    sum = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        left = tl.load(pa, mask=inner[None, :] < K - k * BK, other=0.0)
        right = tl.load(pb, mask=inner[:, None] < K - k * BK, other=0.0)
        sum = tl.dot(left, right, sum)
        pa += BK
        pb += BK * sb
    value = sum * tl.sigmoid(sum)
    keep = (row[:, None] < M) & (column[None, :] < N)
    tl.store(c + row[:, None] * sc + column[None, :], value.to(c.dtype.element_ty), mask=keep)


@triton.jit
def persistent_matmul(
    a_p, b_p, c_p, M, N, K, SMS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, DT: tl.constexpr
):
    a = tl.make_tensor_descriptor(a_p, shape=[M, K], strides=[K, 1], block_shape=[BM, BK])
    b = tl.make_tensor_descriptor(b_p, shape=[N, K], strides=[K, 1], block_shape=[BN, BK])
    c = tl.make_tensor_descriptor(c_p, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    tiles_n = tl.cdiv(N, BN)
    for tile in tl.range(tl.program_id(0), tl.cdiv(M, BM) * tiles_n, SMS):
        row = tile // tiles_n * BM
        column = tile % tiles_n * BN
        sum = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, K, BK):
            sum = tl.dot(a.load([row, k]), b.load([column, k]).T, sum)
        c.store([row, column], sum.to(DT))


@triton.jit
def grouped_gemm(
    a_addresses,
    b_addresses,
    c_addresses,
    sizes,
    groups,
    SMS: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    tile = tl.program_id(0)
    end = 0
    for g in range(groups):
        m = tl.load(sizes + g * 3)
        n = tl.load(sizes + g * 3 + 1)
        k = tl.load(sizes + g * 3 + 2)
        tiles_n = tl.cdiv(n, BN)
        count = tl.cdiv(m, BM) * tiles_n
        if tile >= end and tile < end + count:
            a = tl.make_tensor_descriptor(
                tl.load(a_addresses + g).to(tl.pointer_type(tl.float16)),
                shape=[m, k],
                strides=[k, 1],
                block_shape=[BM, BK],
            )
            b = tl.make_tensor_descriptor(
                tl.load(b_addresses + g).to(tl.pointer_type(tl.float16)),
                shape=[n, k],
                strides=[k, 1],
                block_shape=[BN, BK],
            )
            c = tl.make_tensor_descriptor(
                tl.load(c_addresses + g).to(tl.pointer_type(tl.float16)),
                shape=[m, n],
                strides=[n, 1],
                block_shape=[BM, BN],
            )
            while tile >= end and tile < end + count:
                row = (tile - end) // tiles_n * BM
                column = (tile - end) % tiles_n * BN
                sum = tl.zeros((BM, BN), dtype=tl.float32)
                for at in range(0, tl.cdiv(k, BK)):
                    sum = tl.dot(a.load([row, at * BK]), b.load([column, at * BK]).T, sum)
                c.store([row, column], sum.to(tl.float16))
                tile += SMS
        end += count


@triton.jit
def _inner(
    acc,
    l,
    m,
    q,
    k,
    v,
    base,
    lo,
    hi,
    first,
    scale,
    rows,
    columns,
    BN: tl.constexpr,
    MASK: tl.constexpr,
    DT: tl.constexpr,
    VT: tl.constexpr,
    WS: tl.constexpr,
):
    for at in tl.range(lo, hi, BN, warp_specialize=WS):
        at = tl.multiple_of(at, BN)
        s = tl.dot(q, k.load([base + at, 0]).T)
        if MASK:
            s = s * scale + tl.where(rows[:, None] >= (at + columns[None, :]), 0, -1.0e6)
            new = tl.maximum(m, tl.max(s, 1))
            s -= new[:, None]
        else:
            new = tl.maximum(m, tl.max(s, 1) * scale)
            s = s * scale - new[:, None]
        p = tl.math.exp2(s)
        alpha = tl.math.exp2(m - new)
        l = l * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        if VT:
            values = v.load([0, base + at]).T
        else:
            values = v.load([base + at, 0])
        acc = tl.dot(p.to(DT), values, acc)
        m = new
    return acc, l, m


@triton.jit
def attention(
    q,
    k,
    v,
    o,
    M,
    scale,
    N,
    D: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    CAUSAL: tl.constexpr,
    DT: tl.constexpr,
    VT: tl.constexpr,
    WS: tl.constexpr,
):
    start = tl.program_id(0)
    head = tl.program_id(1)
    base = head * N
    rows = start * BM + tl.arange(0, BM)
    columns = tl.arange(0, BN)
    m = tl.zeros([BM], dtype=tl.float32) - float("inf")
    l = tl.zeros([BM], dtype=tl.float32) + 1.0
    acc = tl.zeros([BM, D], dtype=tl.float32)
    scale *= 1.44269504
    query = q.load([base + start * BM, 0])
    if CAUSAL:
        acc, l, m = _inner(
            acc, l, m, query, k, v, base, 0, start * BM, start, scale, rows, columns, BN, False, DT, VT, WS
        )
        acc, l, m = _inner(
            acc,
            l,
            m,
            query,
            k,
            v,
            base,
            start * BM,
            (start + 1) * BM,
            start,
            scale,
            rows,
            columns,
            BN,
            True,
            DT,
            VT,
            WS,
        )
    else:
        acc, l, m = _inner(acc, l, m, query, k, v, base, 0, N, start, scale, rows, columns, BN, False, DT, VT, WS)
    m += tl.math.log2(l)
    acc = acc / l[:, None]
    tl.store(M + head * N + rows, m)
    o.store([base + start * BM, 0], acc.to(o.dtype))


@triton.jit
def mixture(x, y, counts, seed, n, BLOCK: tl.constexpr):
    """Scan, sort, histogram, random numbers, arg max."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + offsets, mask=offsets < n, other=0.0)
    sums = tl.cumsum(v, 0)
    ordered = tl.sort(v)
    keep = tl.rand(seed, offsets) > 0.5
    best = tl.argmax(v, 0)
    out = tl.where(keep, sums, ordered) + best.to(tl.float32) + tl.erf(v) + tl.math.rsqrt(tl.abs(v) + 1.0) + tl.sin(v)
    tl.store(y + offsets, out, mask=offsets < n)
    bins = tl.histogram((tl.abs(v) * 4).to(tl.int32) % 16, 16)
    tl.atomic_add(counts + tl.arange(0, 16), bins)
