"""Results from a landscape: what was recorded, with its noise; what was not is refused and counted."""

import gzip
import math
from pathlib import Path

import pytest
from landscape_sample import FACTS, FLAG, micros, sample_landscape, sample_task

from warpsmith.agents.expert.ideas import Known, ideas
from warpsmith.agents.expert.planner import plans
from warpsmith.errors import UsageError
from warpsmith.executors.executor import Executor
from warpsmith.executors.landscape import LandscapeExecutor
from warpsmith.executors.landscape_data import Landscape, Point, Remeasurement, Whole, rank_correlation
from warpsmith.executors.landscape_file import line, read
from warpsmith.records import Candidate, Unit
from warpsmith.search.tuner import with_values
from warpsmith.testing import ExecutorContract

LANDSCAPE = sample_landscape()


def unit(**values: int) -> Unit:
    graph = sample_task().graph
    idea = ideas(graph, FACTS, Known(), plans(graph, FACTS))[0]
    return with_values(idea.family.write(graph, idea.region, idea.technique), values)


def candidate(*units: Unit) -> Candidate:
    return Candidate(task_id=sample_task().id, target="cpu", units=units)


class TestLandscape(ExecutorContract):
    def make(self) -> Executor:
        return LandscapeExecutor(LANDSCAPE, seed=0)

    def candidates(self) -> list[Candidate]:
        unknown = unit().model_copy(update={"technique": "unheard of"})
        return [candidate(unit()), candidate(unknown), candidate(unit(UNROLL=1))]


def median_us(executor: LandscapeExecutor, wanted: Candidate) -> float:
    timing = next(iter(executor.run([wanted]))).timing
    assert timing is not None
    return timing.median_us


def test_times_are_the_recorded_ones_with_noise_of_their_size() -> None:
    executor, wanted = LandscapeExecutor(LANDSCAPE, seed=1), unit()
    found = [median_us(executor, candidate(wanted)) for _ in range(200)]
    true = LANDSCAPE.whole_us([p for p in [LANDSCAPE.point(wanted)] if p is not None])
    assert sum(found) / len(found) == pytest.approx(true, rel=0.005)
    assert 0.005 < max(found) / min(found) - 1 < 0.15
    assert executor.asked == [true] * 200


def test_a_seed_repeats() -> None:
    runs = [median_us(LandscapeExecutor(LANDSCAPE, seed), candidate(unit())) for seed in (3, 3, 4)]
    assert runs[0] == runs[1] != runs[2]


def test_what_was_not_recorded_is_refused_and_counted() -> None:
    executor = LandscapeExecutor(LANDSCAPE, seed=0)
    odd = unit().model_copy(update={"family": "nobody's"})
    result = next(iter(executor.run([candidate(odd)])))
    assert (result.status, result.reason) == ("refused", "not in the landscape")
    assert (executor.missing, executor.asked) == (1, [math.inf])


def test_a_unit_that_was_wrong_is_wrong() -> None:
    first = LANDSCAPE.points[0].model_copy(update={"status": "incorrect", "reason": "budget"})
    broken = LANDSCAPE.model_copy(update={"points": (first, *LANDSCAPE.points[1:])})
    result = next(iter(LandscapeExecutor(broken, seed=0).run([candidate(unit())])))
    assert result.status == "incorrect"


def test_what_a_unit_leaves_to_aten_counts() -> None:
    """The sample's widest unit covers all three operations; uncovered ones cost what they cost alone."""
    assert LANDSCAPE.whole_us([]) == pytest.approx(600.0)
    widest = max(LANDSCAPE.sites, key=lambda s: len(s.nodes))
    covering = next(
        p for p in LANDSCAPE.points if LANDSCAPE.sites[LANDSCAPE.sources[p.source].site] is widest
    )
    assert LANDSCAPE.whole_us([covering]) == pytest.approx(covering.us + 4.0)


def test_the_best_is_the_fastest_of_all_covers() -> None:
    assert LANDSCAPE.best_us == pytest.approx(min(LANDSCAPE.whole_us([p]) for p in LANDSCAPE.points))
    assert LANDSCAPE.best_us < micros(unit().values)


def test_flags_at_new_settings_change_the_time_as_they_did_where_they_were_tried() -> None:
    tried = unit()
    elsewhere = with_values(
        tried, {"UNROLL": max(next(t.domain for t in tried.tunables if t.name == "UNROLL"))}
    )
    assert elsewhere.values != tried.values
    plain = LANDSCAPE.point(elsewhere)
    flagged = LANDSCAPE.point(elsewhere.model_copy(update={"flags": (*elsewhere.flags, FLAG)}))
    assert plain is not None
    assert flagged is not None
    assert flagged.us == pytest.approx(2 * plain.us)
    assert LANDSCAPE.point(elsewhere.model_copy(update={"flags": (*elsewhere.flags, "-O1")})) is None


def test_a_unit_without_an_unused_tunable_is_as_with_it() -> None:
    kept = unit()
    less = kept.model_copy(update={"tunables": kept.tunables[:-1]})
    found = LANDSCAPE.point(less)
    assert found is not None
    assert (
        dict(zip(LANDSCAPE.sources[found.source].names, found.values, strict=True)).items()
        >= less.values.items()
    )


def without(points: int) -> Landscape:
    """Recording stopped early."""
    plain = [p for p in LANDSCAPE.points if not p.flags]
    return LANDSCAPE.model_copy(update={"points": tuple(plain[:-points]), "wholes": ()})


def test_of_a_recording_that_ended_early_a_full_lattice_is_kept() -> None:
    cut = without(points=5).drop_incomplete()
    for number, source in enumerate(cut.sources):
        values = {p.values for p in cut.points if p.source == number}
        assert len(values) == math.prod(map(len, source.domains))
    assert 0 < len(cut.points) < len(LANDSCAPE.points) - 5
    assert cut.point(unit()) is not None


def written(path: Path, landscape: Landscape, cut: int = 0) -> Path:
    records = [
        landscape.header,
        *landscape.sites,
        *landscape.sources,
        *landscape.points,
        *landscape.wholes,
        *landscape.agains,
    ]
    text = "\n".join(line(r) for r in records)
    data = text[: len(text) - cut].encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def test_a_file_gives_back_what_was_written(tmp_path: Path) -> None:
    assert read(written(tmp_path / "a.jsonl.gz", LANDSCAPE)) == LANDSCAPE
    assert read(written(tmp_path / "a.jsonl", LANDSCAPE)) == LANDSCAPE


def test_a_last_line_cut_short_is_left_out(tmp_path: Path) -> None:
    found = read(written(tmp_path / "a.jsonl", LANDSCAPE, cut=10))
    assert found.points == LANDSCAPE.points
    assert found.wholes == ()


@pytest.mark.parametrize("content", [b"", b"{}\n", b'{"header": {}}\n', b"not json\n}", b'{"what": 1}\n'])
def test_a_file_that_is_no_landscape_is_told_in_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(content)
    with pytest.raises(UsageError, match="is no landscape"):
        read(path)


def test_what_was_measured_again_counts_with_its_median(tmp_path: Path) -> None:
    """And so do points of the same machine code in the same region; others stay as they were."""
    first = LANDSCAPE.points[0]
    twins = [
        p.model_copy(update={"code": "abc"}) if i in (0, 1) else p for i, p in enumerate(LANDSCAPE.points)
    ]
    twins[1] = twins[1].model_copy(update={"us": first.us})
    agains = tuple(Remeasurement(number=0, us=f * first.us, low=1.0, high=2.0) for f in (1.3, 1.2))
    made = LANDSCAPE.model_copy(update={"points": tuple(twins), "agains": agains})
    found = read(written(tmp_path / "a.jsonl.gz", made))
    assert [p.us for p in found.points[:2]] == pytest.approx([1.2 * first.us] * 2)
    assert found.points[2:] == made.points[2:]
    assert found.agains == ()


def test_another_version_is_refused(tmp_path: Path) -> None:
    other = LANDSCAPE.model_copy(update={"header": LANDSCAPE.header.model_copy(update={"version": 0})})
    with pytest.raises(UsageError, match="another version"):
        read(written(tmp_path / "a.jsonl", other))


def test_rank_correlation() -> None:
    assert rank_correlation([1, 2, 3, 4], [10, 20, 30, 40]) == pytest.approx(1.0)
    assert rank_correlation([1, 2, 3, 4], [4, 3, 2, 1]) == pytest.approx(-1.0)
    assert rank_correlation([1, 1, 2, 3], [1, 1, 2, 3]) == pytest.approx(1.0)
    assert math.isnan(rank_correlation([1, 2], [1, 2]))


def test_agreement_compares_the_model_with_what_was_deployed() -> None:
    wholes = tuple(
        Whole(points=(i,), us=p.us, low=p.us, high=p.us) for i, p in enumerate(LANDSCAPE.points[:20])
    )
    alike = LANDSCAPE.model_copy(update={"wholes": wholes})
    assert alike.correlate_model() == pytest.approx(1.0)
    backwards = tuple(w.model_copy(update={"us": 1e6 - w.us}) for w in wholes)
    assert LANDSCAPE.model_copy(update={"wholes": backwards}).correlate_model() == pytest.approx(-1.0)


def test_a_point_keeps_its_numbers() -> None:
    point = Point(source=1, values=(2, 4), us=1.5, low=1.0, high=2.0, calls=5, code="ab", called=("expf",))
    assert Point.model_validate_json(line(point).removeprefix('{"point":')[:-1]) == point
