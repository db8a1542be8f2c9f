"""Graphs as records: what was written before a field was there keeps its id."""

from __future__ import annotations

from warpsmith.records import Node


def test_a_node_that_names_no_module_is_written_as_before_there_were_modules() -> None:
    node = Node(name="a", op="aten.relu.default", args=({"v": "x"},), kwargs={}, outputs=(None,))
    named = node.model_copy(update={"module": "layers.0"})
    assert "module" not in node.model_dump()
    assert named.model_dump()["module"] == "layers.0"
    assert Node.model_validate_json(named.model_dump_json()) == named
    assert Node.model_validate_json(node.model_dump_json()).id == node.id != named.id
