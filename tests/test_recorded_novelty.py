"""A replay has no compiler: what was left out for its machine code is what the record does not have."""

from warpsmith.pipeline.replaying import RecordedNovelty
from warpsmith.records import Candidate, Unit
from warpsmith.testing import chain_graph, chain_region


def candidate(source: str) -> Candidate:
    unit = Unit(region=chain_region(chain_graph(), 0, 0), language="c++", source=source)
    return Candidate(task_id="t", target="cpu", units=(unit,))


def test_what_is_not_in_the_record_is_left_out_and_the_rest_is_as_it_was() -> None:
    first, same, other = candidate("f(1);"), candidate("f(1);  // again"), candidate("f(2);")
    novelty = RecordedNovelty(0.995)
    novelty.recorded = frozenset({first.content_key, same.content_key})
    assert novelty.like(first) == ""
    novelty.add(first)
    assert novelty.like(same).startswith("same source")
    assert novelty.like(other) == "not in the record"
    assert novelty.rejected == {"same source": 1}
