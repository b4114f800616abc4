"""Triton kernels as people write them, and what Triton 3.6 makes of them for sm_90 without a GPU (disassembled: instructions of
one warp, loops counted by their trips)."""

from __future__ import annotations

SOFTMAX = """
@triton.jit
def softmax(out_ptr, in_ptr, in_stride, out_stride, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(in_ptr + row * in_stride + cols, mask=cols < n_cols, other=-float("inf"))
    x = x - tl.max(x, axis=0)
    e = tl.exp(x)
    d = tl.sum(e, axis=0)
    tl.store(out_ptr + row * out_stride + cols, e / d, mask=cols < n_cols)
"""
GELU = """
@triton.jit
def gelu(x_ptr, g_ptr, o_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    g = tl.load(g_ptr + i, mask=i < n)
    c = 0.5 * (1.0 + tl.erf(x * 0.7071067811865476))
    pdf = tl.exp(-0.5 * x * x) * 0.3989422804014327
    tl.store(o_ptr + i, g * (c + x * pdf), mask=i < n)
"""
ATTEND = """
@triton.jit
def attend(Q, K, V, Out, scale, stride_h, stride_m, N_CTX, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, HEAD: tl.constexpr):
    start_m = tl.program_id(0)
    head = tl.program_id(1)
    offs_m = start_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.arange(0, BLOCK_N)
    offs_d = tl.arange(0, HEAD)
    q = tl.load(Q + head * stride_h + offs_m[:, None] * stride_m + offs_d[None, :])
    k_ptrs = K + head * stride_h + offs_n[None, :] * stride_m + offs_d[:, None]
    v_ptrs = V + head * stride_h + offs_n[:, None] * stride_m + offs_d[None, :]
    m_i = tl.zeros([BLOCK_M], dtype=tl.float32) - float("inf")
    l_i = tl.zeros([BLOCK_M], dtype=tl.float32) + 1.0
    acc = tl.zeros([BLOCK_M, HEAD], dtype=tl.float32)
    for start_n in range(0, N_CTX, BLOCK_N):
        k = tl.load(k_ptrs)
        qk = tl.dot(q, k)
        m_ij = tl.maximum(m_i, tl.max(qk, 1) * scale)
        qk = qk * scale - m_ij[:, None]
        p = tl.math.exp2(qk)
        l_ij = tl.sum(p, 1)
        alpha = tl.math.exp2(m_i - m_ij)
        l_i = l_i * alpha + l_ij
        acc = acc * alpha[:, None]
        v = tl.load(v_ptrs)
        acc = tl.dot(p.to(tl.bfloat16), v, acc)
        m_i = m_ij
        k_ptrs += BLOCK_N * stride_m
        v_ptrs += BLOCK_N * stride_m
    acc = acc / l_i[:, None]
    tl.store(Out + head * stride_h + offs_m[:, None] * stride_m + offs_d[None, :], acc.to(tl.bfloat16))
"""
MATMUL = """
@triton.jit
def matmul(a_ptr, b_ptr, c_ptr, M, N, K, sam, sak, sbk, sbn, scm, scn,
           BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, ACT: tl.constexpr):
    pid = tl.program_id(axis=0)
    rows = tl.cdiv(M, BM)
    in_group = GROUP * tl.cdiv(N, BN)
    first = pid // in_group * GROUP
    size = min(rows - first, GROUP)
    pm = first + ((pid % in_group) % size)
    pn = (pid % in_group) // size
    om = (pm * BM + tl.arange(0, BM)) % M
    on = (pn * BN + tl.arange(0, BN)) % N
    ok = tl.arange(0, BK)
    a_ptrs = a_ptr + (om[:, None] * sam + ok[None, :] * sak)
    b_ptrs = b_ptr + (ok[:, None] * sbk + on[None, :] * sbn)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        a = tl.load(a_ptrs, mask=ok[None, :] < K - k * BK, other=0.0)
        b = tl.load(b_ptrs, mask=ok[:, None] < K - k * BK, other=0.0)
        acc = tl.dot(a, b, acc)
        a_ptrs += BK * sak
        b_ptrs += BK * sbk
    if ACT == "leaky_relu":
        acc = tl.where(acc >= 0, acc, 0.01 * acc)
    ocm = pm * BM + tl.arange(0, BM)
    ocn = pn * BN + tl.arange(0, BN)
    mask = (ocm[:, None] < M) & (ocn[None, :] < N)
    tl.store(c_ptr + scm * ocm[:, None] + scn * ocn[None, :], acc.to(tl.float16), mask=mask)
"""
HEAD = "import triton\nimport triton.language as tl\n"
