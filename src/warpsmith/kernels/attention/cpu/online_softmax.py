"""Attention as one C++ unit: scores of a block of queries against blocks of keys, a running softmax, weights times
values.

In: a graph, a region, the names of its operands and an attention pattern's parts. Out: the text of the unit's body,
the macros that go before task.h (sizes and scratch) and the helper functions. Each thread packs the keys of a head
once (transposed, as float32, in panels that fit the first-level cache), the values where they are not dense float32.
"""

from __future__ import annotations

from ....codegen.fusion.op_chain import write_chain
from ....codegen.templates import render
from ....codegen.writer import Writer
from ..attention_heads import Parts, final_sizes, head_start, raw_sizes, score_sizes, split_head

WORKSPACE = "(uint64_t)THREADS * SCRATCH * sizeof(float)"


def macros(p: Parts) -> str:
    """Write the macros before task.h; raises Unsupported where a size cannot be named."""
    q, k, v = (p.names[n] for n in (p.query, p.key, p.value))
    ranks = [len(p.graph.specs[n].shape) for n in (p.query, p.key, p.value)]
    return render(
        "attention/cpu/sizes.h", heads=" * ".join(f"({s})" for s in raw_sizes(p)) or "1",
        queries=f"{q}_shape[{ranks[0] - 2}]", keys=f"{k}_shape[{ranks[1] - (1 if p.transposed else 2)}]",
        width=f"{q}_shape[{ranks[0] - 1}]", out=f"{v}_shape[{ranks[2] - 1}]",
        value_t=f"{v}_t", value_stride=f"{v}_stride", last=ranks[2] - 1, row=ranks[2] - 2,
    ).rstrip()  # fmt: skip


def helpers() -> str:
    """Functions that the body calls."""
    kernels = ("attention/cpu/pack.h", "attention/cpu/register_tile_gemm.h", "attention/cpu/online_softmax.h")
    return "\n".join(map(render, kernels))


def write_attention(w: Writer, p: Parts) -> None:
    """The body of `unit`."""
    w.paste(render("attention/cpu/query_blocks.h"))
    if p.scores is not None:
        write_chain(w, p.scores, "scores")
    write_chain(w, p.epilogue, "epilogue")
    w.line("// At least 2^18 multiplications for each thread.")
    w.line("constexpr int64_t work = EACH * KEY_COUNT * (WIDTH + OUT_WIDTH) + 1;")
    w.line("constexpr int64_t grain = work >= (1 << 18) ? 1 : (1 << 18) / work;")
    head = "ws::parallel_ranges(THREADS, HEADS * BLOCKS, grain, [&](int64_t begin, int64_t end, int part)"
    with w.block(head, "});"):
        _write_scratch(w, p.softmax)
        with w.block("for (int64_t task = begin; task < end; ++task)"):
            _write_task(w, p)


def _write_scratch(w: Writer, softmax: bool) -> None:
    w.paste(render("attention/cpu/scratch.h"))
    if softmax:
        w.line("float* const totals = sums + SUM_FLOATS;")
        w.line("float* const tops = totals + QUERIES * VEC;")
    w.line("int64_t packed = -1;  // the head whose keys are")


def _write_task(w: Writer, p: Parts) -> None:
    """One block of queries of one head."""
    q, k, v = (p.names[n] for n in (p.query, p.key, p.value))
    rank_q, rank_k, rank_v = (len(p.graph.specs[n].shape) for n in (p.query, p.key, p.value))
    w.line("const int64_t head = task / SIZE(BLOCKS), turn = task % SIZE(BLOCKS);")
    if p.limit is None:
        w.line("const int64_t block = turn;")
    else:
        w.line("// Early blocks see few keys: threads get early and late ones in turn.")
        w.line("const int64_t block = turn % 2 ? BLOCKS - 1 - turn / 2 : turn / 2;")
    w.line(
        "const int64_t first = block * EACH, rows = QUERY_COUNT - first < EACH ? QUERY_COUNT - first : EACH;"
    )
    split_head(w, "h", raw_sizes(p))
    split_head(w, "o", final_sizes(p))
    key, feature = (rank_k - 1, rank_k - 2) if p.transposed else (rank_k - 2, rank_k - 1)
    w.line(f"const {v}_t* const values_at = {head_start(p, p.value, 'o', len(p.final))};")
    with w.block("if (head != packed)"):
        start = head_start(p, p.key, "h", len(p.raw))
        w.line(f"pack_keys<{k}_stride[{key}], {k}_stride[{feature}]>({start}, keys, KEY_COUNT, WIDTH);")
        w.line("if constexpr (COPIED)")
        strides = f"{v}_stride[{rank_v - 2}], {v}_stride[{rank_v - 1}]"
        w.line(f"  pack_rows<{strides}>(values_at, copies, KEY_COUNT, OUT_WIDTH);")
        w.line("packed = head;")
    w.line("const float* const values = COPIED ? copies : (const float*)values_at;")
    start = f"{head_start(p, p.query, 'h', len(p.raw))} + first * {q}_stride[{rank_q - 2}]"
    strides = f"{q}_stride[{rank_q - 2}], {q}_stride[{rank_q - 1}]"
    w.line(f"pack_rows<{strides}>({start}, queries, rows, WIDTH);")
    _write_blocks(w, p)
    _write_end(w, p)


def _write_blocks(w: Writer, p: Parts) -> None:
    """Over the keys: scores, what is done to them, weighted sums."""
    if p.softmax:
        w.line("for (int64_t r = 0; r < rows; ++r) tops[r] = -ws::infinity;")
        w.line("for (int64_t r = 0; r < rows; ++r) ws::store(totals + r * VEC, ws::vf{});")
    w.line("for (int64_t i = 0; i < rows * OUT_PAD; i += VEC) ws::store(sums + i, ws::vf{});")
    if p.limit is None:
        w.line("constexpr int64_t visible = KEY_COUNT;")
    else:
        w.line(f"const int64_t last = first + rows + ({p.limit});  // beyond it no row sees a key")
        w.line("const int64_t visible = last < 0 ? 0 : last < KEY_COUNT ? last : KEY_COUNT;")
    if p.scores is not None:
        split_head(w, "s", score_sizes(p))
    with w.block("for (int64_t from = 0; from < visible; from += KEYS)"):
        w.line("const int64_t count = visible - from < KEYS ? visible - from : KEYS;")
        w.line("for (int64_t c = 0; c < count; c += PANEL)")
        w.line(
            "  strip<TILE, 2>(queries, WIDTH_PAD, keys + (from + c) * WIDTH, PANEL, weights + c, KEYS, rows, WIDTH, false);"
        )
        with w.block("for (int64_t r = 0; r < rows; ++r)"):
            w.line("float* const row = weights + r * KEYS;")
            _write_row(w, p)
        w.line(
            "product<OUT_PAD / VEC>(weights, KEYS, values + from * OUT_PAD, OUT_PAD, sums, OUT_PAD, rows, count, true);"
        )


def _write_row(w: Writer, p: Parts) -> None:
    if p.limit is None:
        w.line("const int64_t seen = count;")
    else:
        w.line(f"const int64_t left = first + r + ({p.limit}) + 1 - from;")
        w.line("const int64_t seen = left < 0 ? 0 : left < count ? left : count;")
    if p.scores is not None:
        index = ", ".join([*(f"s{d}" for d in range(len(p.shape) - 2)), "first + r", "from"])
        w.line(f"const int64_t at[] = {{{index}}};")
        w.line("scores(row, at, seen);")
    if p.softmax:
        scale = "1.0f" if p.scores is not None else p.scale
        w.paste(render("attention/cpu/rescale_sums.h", scale=scale))
    if p.limit is not None:
        w.line("for (int64_t c = UP(seen, VEC); c < count; c += VEC) ws::store(row + c, ws::vf{});")


def _write_end(w: Writer, p: Parts) -> None:
    """Divide by the totals and store."""
    with w.block("for (int64_t r = 0; r < rows; ++r)"):
        w.line("float* const row = sums + r * OUT_PAD;")
        if p.softmax:
            w.line("const float total = ws::hadd(ws::load(totals + r * VEC));")
            none = "total == 0.0f" if p.library else "KEY_COUNT == 0"
            w.line(f"const float share = {none} ? 0.0f : 1.0f / total;")
            w.line(
                "for (int64_t d = 0; d < OUT_PAD; d += VEC) ws::store(row + d, ws::load(row + d) * share);"
            )
        index = ", ".join([*(f"o{d}" for d in range(len(p.final) - 2)), "first + r", "0"])
        w.line(f"const int64_t at[] = {{{index}}};")
        w.line("epilogue(row, at, OUT_WIDTH);")
