"""Escaping: whatever a record holds, markdown shows it as text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from warpsmith.report.markdown import escape, fence_code, table
from warpsmith.report.tables import Grid


@given(st.text(st.characters(blacklist_categories=("Cs", "Cc", "Zl", "Zp", "Zs")), max_size=40))
def test_escaped_text_stays_text(text):
    tokens = MarkdownIt("commonmark").parse("x" + escape(text))
    inline = [child for token in tokens for child in token.children or []]
    assert "".join(c.content for c in inline) == "x" + " ".join(text.split()) or "&" in text
    assert {c.type for c in inline} <= {"text", "text_special"}


@given(st.text(alphabet="`ab\n", max_size=40))
def test_a_fence_cannot_be_left(text):
    tokens = MarkdownIt("commonmark").parse(fence_code(text, "cpp"))
    assert [t.type for t in tokens] == ["fence"]
    assert tokens[0].content.rstrip("\n") == text.rstrip()


def test_a_cell_cannot_split_its_row():
    text = table(Grid("t", ("a|b", "c"), (("1|2\n3", "x"),), frozenset({1}), frozenset({0})))
    html = MarkdownIt("commonmark").enable("table").render(text)
    assert html.count("<td") == 2
    assert "<strong>1|2 3</strong>" in html
