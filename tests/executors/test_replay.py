from warpsmith.executors.executor import Executor
from warpsmith.executors.replay import ReplayExecutor
from warpsmith.records import Candidate
from warpsmith.testing import ExecutorContract, FakeBrain, chain_graph, chain_task, scripted_result


class TestReplay(ExecutorContract):
    def candidates(self) -> list[Candidate]:
        graph, brain = chain_graph(), FakeBrain()
        from warpsmith.records import Hypothesis

        found = []
        for technique in ("a", "b", "c"):
            region = brain.plans(graph, None)[0][0]
            idea = Hypothesis(
                region=region,
                family="f",
                technique=technique,
                bottleneck="memory",
                expected_gain=1,
                evidence=(),
            )
            found.append(
                Candidate(
                    task_id=chain_task().id, target="cpu", units=tuple(brain.write_units(graph, idea, 1))
                )
            )
        return found

    def make(self) -> Executor:
        first, second, _ = self.candidates()
        return ReplayExecutor(
            {
                first.content_key: scripted_result(first, 1.5),
                second.content_key: scripted_result(second, "crashed"),
            }
        )

    def test_an_unrecorded_candidate_says_so(self) -> None:
        *_, last = list(self.make().run(self.candidates()))
        assert last.status == "refused"
        assert "recording" in last.reason
