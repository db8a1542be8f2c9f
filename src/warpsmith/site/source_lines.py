"""Sources as lines of HTML, paragraph by paragraph: kernels share most of their text, and a paragraph is highlighted once."""

from __future__ import annotations

from collections import OrderedDict

from markupsafe import Markup

from ..pages.highlighting import highlight_source, take_lines

MAX_REMEMBERED = 4_000  # paragraphs


class SourceLines:
    """Remembers the last paragraphs. A comment or a string with an empty line in it is read as two."""

    def __init__(self) -> None:
        self._paragraphs: OrderedDict[tuple[str, str], list[Markup]] = OrderedDict()

    def take(self, text: str, language: str, size_bytes: int) -> tuple[Markup, int]:
        """Return the first lines that fit into so many bytes of HTML, and how many lines are left out. No more is read than may fit."""
        head = text if len(text) <= size_bytes else text[:size_bytes].rpartition("\n")[0]
        lines: list[Markup] = []
        for paragraph in head.split("\n\n"):
            lines += [Markup("")] if lines else []
            lines += self._highlight(paragraph, language)
        shown, missing = take_lines(lines, size_bytes)
        return shown, missing + text.count("\n", len(head))

    def _highlight(self, paragraph: str, language: str) -> list[Markup]:
        key = (paragraph, language)
        if key not in self._paragraphs:
            self._paragraphs[key] = highlight_source(paragraph, language)
            if len(self._paragraphs) > MAX_REMEMBERED:
                self._paragraphs.popitem(last=False)
        self._paragraphs.move_to_end(key)
        return self._paragraphs[key]
