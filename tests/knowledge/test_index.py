"""The knowledge base is well formed, and what an author would ask leads to the page that answers it."""

from __future__ import annotations

import re
import sqlite3
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsmith.errors import UsageError
from warpsmith.knowledge import index as index_module
from warpsmith.knowledge.index import Index
from warpsmith.knowledge.page import pages, parse
from warpsmith.knowledge.query import MEANINGS, MOST_TERMS, match, operations, terms
from warpsmith.targets.cpu import BASE_FLAGS, EXTRA_FLAGS
from warpsmith.targets.native_target import HEADERS

# Query, target, the page that must be among the first three. Signatures as `tasks/regions.py` makes them, bottlenecks as
# hypotheses name them, messages as compilers and the judge print them.
WANTED = (
    ("_softmax.default(i0,-1,False) | float32 contiguous [p2,p3] | t0:float32 contiguous [p2,p3]", "cpu", "recipe-softmax"),
    ("_log_softmax.default(i0,1,False) | float32 contiguous [p2,p3] | t0:float32 contiguous [p2,p3]", "cuda", "recipe-softmax"),
    ("native_layer_norm.default(i0,[N],i1,i2,1e-05) | float32 contiguous [p4,v3]", "cpu", "recipe-norm"),
    ("native_group_norm.default(i0,i1,i2,2,N,N,8,1e-05);sigmoid.default(t0);mul.Tensor(t0,t3) | float32", "cpu", "recipe-norm"),
    ("addmm.default(i0,i1,i2);gelu.default(t0) | float32 contiguous [v3]", "cuda", "recipe-matmul-cuda"),
    ("mm.default(i0,i1) | float32 contiguous [p3,p3] | t0:float32", "cpu", "recipe-matmul-cpu"),
    ("linear.default(i0,i1,i2);sum.dim_IntList(t0,[1],True) | float32", "cpu", "recipe-algebra"),
    ("convolution.default(i0,i1,i2,[1,1],[1,1],[1,1],False,[0,0],1);relu.default(t0) | float32", "cpu", "recipe-conv"),
    ("convolution depthwise groups N memory", "cpu", "recipe-depthwise"),
    ("max_pool2d_with_indices.default(i0,[3,3],[2,2],[1,1]) | float32 contiguous", "cpu", "recipe-pooling"),
    ("avg_pool2d.default(i0,[2,2]) memory", "cuda", "recipe-pooling"),
    ("cumsum.default(i0,-1) | float32 contiguous [p4,p4]", "cpu", "recipe-scan"),
    ("scaled_dot_product_attention.default(i0,i1,i2,None,0,True) compute", "cpu", "recipe-attention"),
    ("mul.Tensor(i0,2);round.default(t0);clamp.default(t1,-8,7) fake quantise", "cpu", "recipe-quantisation"),
    ("upsample_bilinear2d.vec(i0,[N,N],False) | float32", "cpu", "recipe-upsample"),
    ("_log_softmax.default(i0,1,False);nll_loss_forward.default(t0,i1,None,1,-100) | float32", "cpu", "recipe-loss"),
    ("permute.default(i0,[0,-1,-2]);clone.default(t0) | float32 contiguous", "cuda", "recipe-layout"),
    ("sum.dim_IntList(i0,[0]) | float32 contiguous [p4,p3] memory", "cuda", "recipe-reduction"),
    (
        "matmul.default(i0,i1);div.Tensor(t0,8);full.default([N,N],True,device=cpu,dtype=bool,layout=strided);where.self(t2,t1,t3);"
        "_softmax.default(t4,-1,False);matmul.default(t5,i2) | float32 contiguous [p1,p2,p2] memory",
        "cpu", "recipe-attention",
    ),
    ("pow.Tensor_Scalar(i0,2);mean.dim(t0,[-1],True);add.Tensor(t1,0.001);rsqrt.default(t2);mul.Tensor(i0,t3)", "cpu", "recipe-norm"),
    ("mul.Tensor(i0,i1);add.Tensor(t0,i2) | float32 contiguous [p1,p2,p3] memory", "cpu", "recipe-pointwise"),
    ("mul.Tensor(i0,i1);tanh.default(t0);convolution.default(t1,i2,i3,[-3,-3]);leaky_relu.default(t2,0.1)", "cpu", "recipe-conv"),
    ("variance cancellation on offset inputs (main): off by a constant", "cpu", "welford"),
    ("incorrect: budget on large inputs (main): 16 NaN and inf where the reference is finite; exp overflow", "cpu", "online-softmax"),
    ("incorrect: budget on own inputs (ragged): 48 of 800 elements; only the last 5 columns are wrong: tail", "cpu", "wrong-results"),
    ("incorrect: nondeterministic: 3 of 64 elements differ between two runs on the same inputs, first at [0]", "cuda", "races"),
    ("build-failed: error: line 14: ‘vf’ does not name a type", "cpu", "compile-errors-cpp"),
    (
        "build-failed: error: line 8: inlining failed in call to ‘always_inline’ ‘_mm512_exp_ps’: target specific option mismatch",
        "cpu", "compile-errors-cpp",
    ),
    ("build-failed: error: Entry function 'k' uses too much shared data (0x12000 bytes, 0xc000 max)", "cuda", "compile-errors-cuda"),
    ("crashed: cudaErrorMisalignedAddress: misaligned address float4", "cuda", "cuda-coalescing"),
    ("refused: symbol: forbidden import: malloc, which returns what an earlier call left in memory", "cpu", "judge-refusals"),
    ("refused: symbol: keeps state between calls: cache must be const, local or in the workspace", "cuda", "judge-refusals"),
    ("agrees to about 10 bits: looks like TF32 or fp16 rounding", "cuda", "cuda-tensor-cores"),
    ("shared memory bank conflict transpose tile", "cuda", "cuda-shared-memory-banks"),
    ("register spills local memory LDL STL launch bounds", "cuda", "cuda-occupancy"),
    ("wgmma mbarrier TMA producer consumer", "cuda", "cuda-wgmma-tma"),
    ("balance 0.4 threads uneven OpenMP schedule", "cpu", "cpu-openmp"),
    ("library calls expf tanhf scalar loop vector bits", "cpu", "cpu-simd"),
    ("which header gives in0_shape, WORKSPACE_BYTES and tunables", "cpu", "abi"),
    ("how much shared memory and L2 has an H200", "cuda", "gpu-sm90"),
)  # fmt: skip


@pytest.fixture(scope="module")
def index() -> Index:
    return Index()


@pytest.mark.parametrize(
    ("query", "target", "page"), WANTED, ids=[row[2] + str(n) for n, row in enumerate(WANTED)]
)
def test_the_page_that_answers_is_among_the_first_three(index, query, target, page):
    found = [passage.page for passage in index.retrieve(query, target, 3)]
    assert page in found


def test_every_page_can_be_found_and_is_of_readable_length(index):
    assert 35 <= len(index.content) <= 60
    for page in index.content:
        assert 80 <= len(page.body.split()) <= 450, page.name
        assert page.keywords, page.name
        assert all(source.startswith("https://") for source in page.sources), page.name
        assert page.name in [p.page for p in index.retrieve(page.title, "", 3)], page.name
    assert len({page.title for page in index.content}) == len(index.content)


def test_names_and_flags_that_pages_mention_exist(index):
    headers = "".join(path.read_text() for path in HEADERS.glob("warpsmith_*.h"))
    text = "".join(page.body for page in index.content)
    names, flags = set(re.findall(r"ws::(\w+)", text)), set(re.findall(r"`(-[fm][\w-]+=[\w-]+)`", text))
    assert len(names) > 15
    assert [name for name in names if not re.search(rf"\b{name}\b", headers)] == []
    assert flags
    assert flags <= EXTRA_FLAGS | set(BASE_FLAGS)


def test_a_target_sees_its_own_pages_only(index):
    assert all("cpu" in page.targets for page in index.content if page.name.startswith("cpu-"))
    found = [p.page for p in index.retrieve("matmul register tile shared memory", "cpu", 99)]
    assert "recipe-matmul-cpu" in found
    assert not [name for name in found if name.startswith(("cuda-", "gpu-"))]


def test_passages_carry_title_text_and_sources_best_first(index):
    found = index.retrieve("softmax", "cpu", 5)
    assert [p.score for p in found] == sorted((p.score for p in found), reverse=True)
    assert found[0].title
    assert len(found[0].text) > 400
    assert found == index.retrieve("softmax", "cpu", 5)
    assert (
        index.retrieve("softmax", "cpu", 0)
        == index.retrieve("", "cpu", 3)
        == index.retrieve("zzqq", "cpu", 3)
        == []
    )


@settings(max_examples=300)
@given(st.text(max_size=300) | st.text("\"'*()^:-+{}AND OR NOT NEAR\0aten._softmax.default", max_size=80))
def test_no_text_raises(text):
    index = SHARED
    assert len(index.retrieve(text, "cpu", 3)) <= 3
    with sqlite3.connect(":memory:") as raw:
        raw.execute("CREATE VIRTUAL TABLE t USING fts5(x)")
        words = terms(text)
        assert len(words) <= MOST_TERMS
        if words:
            raw.execute("SELECT * FROM t WHERE t MATCH ?", (match(words),)).fetchall()
        raw.execute("SELECT * FROM t WHERE t MATCH ?", (match([text]),)).fetchall()


SHARED = Index()


def test_a_huge_text_is_answered_quickly(index):
    assert index.retrieve("error: softmax " + "x" * 2_000_000, "cpu", 1)
    assert index.retrieve("softmax " + "a1 _b. " * 500_000, "cpu", 1)


def test_operation_names_become_words():
    assert terms("aten._softmax.default")[0] == "softmax"
    assert {"matmul", "gemm"} <= set(terms("aten.addmm.default(i0,i1,i2)"))
    assert {"pooling", "maximum"} <= set(terms("max_pool2d_with_indices"))
    assert terms("i0 t3 N the and") == []
    assert terms("sum.dim_IntList(i0,[0])") == terms("aten.sum.dim_IntList") == ["reduction", "sum"]
    assert all(words == words.lower() for words in MEANINGS.values())
    assert operations("mm.default(i0,i1);relu.default(t0) | float32 | t1:float32") == {"mm", "relu"}


def test_without_fts5_words_are_counted_and_a_warning_says_so(monkeypatch):
    monkeypatch.setattr(index_module, "has_fts5", lambda: False)
    with pytest.warns(UserWarning, match="no FTS5: knowledge is ranked by plain counts"):
        plain = Index()
    right = sum(page in [p.page for p in plain.retrieve(query, target, 3)] for query, target, page in WANTED)
    assert right >= len(WANTED) // 2
    assert plain.retrieve("zzqq", "cpu", 3) == []


def test_threads_share_one_index(index):
    wanted = index.retrieve("softmax", "cpu", 3)
    answers: list[object] = []
    threads = [
        threading.Thread(target=lambda: answers.append(index.retrieve("softmax", "cpu", 3))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [wanted] * 8


GOOD = "---\ntitle: T\ntargets: cpu, cuda\nfamilies:\nkeywords: a, b c\nsources: https://x.org/1\n---\ntext\n"


def test_a_page_is_read():
    page = parse("p", GOOD)
    assert (page.title, page.targets, page.families, page.keywords) == (
        "T",
        ("cpu", "cuda"),
        (),
        ("a", "b c"),
    )
    assert (page.sources, page.body) == (("https://x.org/1",), "text")


@pytest.mark.parametrize(
    "text",
    [
        "no front matter",
        GOOD.replace("---\ntext", "text"),
        GOOD.replace("title: T\n", ""),
        GOOD.replace("title: T", "titel: T"),
        GOOD.replace("cpu, cuda", "tpu"),
        GOOD.replace("targets: cpu, cuda\n", ""),
        GOOD.replace("text\n", ""),
        GOOD.replace("title: T", "title: T\ntitle: U"),
    ],
)
def test_a_malformed_page_is_named(text):
    with pytest.raises(UsageError, match="knowledge page p: "):
        parse("p", text)


def test_the_installed_pages_are_the_files():
    folder = Path(index_module.__file__).parent / "pages"
    assert [page.name for page in pages()] == sorted(file.stem for file in folder.glob("*.md"))
