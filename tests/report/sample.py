"""A made-up but plausible run of a softmax task: several branches, failures, a crossover, a confirmed win."""

from __future__ import annotations

from pathlib import Path

from warpsmith import records as r
from warpsmith.archive import Archive
from warpsmith.records import Candidate

RUN = "5f3a9c01d2e4"
BASELINES = {"eager": 2210.0, "compile": 1890.0, "compile-max-autotune": 1925.0}  # median microseconds
SOURCE = (Path(__file__).parent / "sample_unit.cpp").read_text()
EVIDENCE = ("the region takes 96% of the time", "it reaches 59% of the measured 25.6 GB/s")
FAMILIES = {"task": 0.06, "sign-mixed": 0.07, "heavy-tailed": 0.11, "large": 0.21, "sparse": 0.04}
ENVIRONMENT = r.Environment(
    cpu="Example CPU 9000 @ 3.1 GHz",
    cores=2,
    threads=2,
    memory_gb=15.6,
    simd="avx512",
    os="Linux 6.1 x86_64",
    python="3.11.9",
    torch="2.13.0",
    compiler="g++ 12.2.0",
    warpsmith="0.1.0",
)
LIMIT = r.Limit(
    seconds=1.31e-3,
    least_bytes=33_554_432,
    flops=25_165_824,
    bytes_per_second=25.6e9,
    flops_per_second=190e9,
    bound="memory",
)


def make_task() -> r.Task:
    spec = r.TensorSpec(shape=(4096, 1024), dtype="float32", stride=(1024, 1))
    made = {name: r.Value(name=name, spec=spec) for name in ("softmax", "scale")}
    softmax = r.Node(
        name="softmax",
        op="aten._softmax.default",
        args=({"v": "x"}, -1, False),
        kwargs={},
        outputs=(made["softmax"],),
        flops=20_971_520,
    )
    scale = r.Node(
        name="scale",
        op="aten.mul.Tensor",
        args=({"v": "softmax"}, 2.0),
        kwargs={},
        outputs=(made["scale"],),
        flops=4_194_304,
    )
    graph = r.Graph(
        inputs=(r.GraphInput(name="x", spec=spec, role="input", target="x"),),
        nodes=(softmax, scale),
        outputs=(r.GraphOutput(value="scale"),),
        tree="0",
    )
    source = r.TaskSource(kind="kernelbench", path="examples/softmax.py", text="class Model: ...\n")
    return r.Task(
        name="softmax", source=source, variants=(r.Variant(name="main", overrides={}, graph=graph),)
    )


def ratio(name: str, us: float) -> r.Ratio:
    median = BASELINES[name] / us
    return r.Ratio(baseline=name, median=median, low=median * 0.97, high=median * 1.025)


class RunMaker:
    """Plays a run into an archive, candidate by candidate."""

    def __init__(self, archive: Archive, task: r.Task | None = None) -> None:
        self.archive, self.task = archive, task or make_task()
        archive.begin_run(RUN, self.task, "cpu", 20231, {"budget": {"evaluations": 30}}, ENVIRONMENT)

    def candidate(
        self,
        technique: str,
        unroll: int = 2,
        parents: tuple[Candidate, ...] = (),
        operator: str = "seed",
        reason: str = "",
        round: int = 0,
        evidence: tuple[str, ...] = EVIDENCE,
    ) -> Candidate:
        region = r.Region(
            nodes=("softmax", "scale"), inputs=("x",), outputs=("scale",), signature="softmax+mul|f32|r2|last"
        )
        unit = r.Unit(
            region=region,
            language="c++",
            source=SOURCE.replace("{technique}", technique).replace("{unroll}", str(unroll)),
            tunables=(r.Tunable(name="UNROLL", domain=(1, 2, 4, 8), value=unroll),),
            family="softmax",
            technique=technique,
        )
        idea = r.Hypothesis(
            region=region,
            family="softmax",
            technique=technique,
            bottleneck="memory",
            expected_gain=1.35,
            evidence=evidence,
        )
        lineage = r.Lineage(
            parents=tuple(p.id for p in parents),
            operator=operator,
            agent="synthesis",
            hypothesis=idea.id,
            branch=technique,
            round=round,
            reason=reason or f"{technique}: fewer passes over memory",
        )
        candidate = Candidate(task_id=self.task.id, target="cpu", units=(unit,), lineage=lineage)
        self.archive.add_candidate(candidate, idea)
        return candidate

    def timed(
        self,
        candidate: Candidate,
        us: float,
        confirmed: bool = False,
        profile: r.Profile | None = None,
        busy: str = "",
    ) -> Candidate:
        """`busy`: why its ratios have no lower end."""
        ratios = tuple(ratio(name, us) for name in BASELINES)
        ratios = tuple(x.model_copy(update={"low": 0.0}) for x in ratios) if busy else ratios
        timing = r.Timing(
            median_us=us,
            low_us=us * 0.985,
            high_us=us * 1.02,
            cache="cold",
            samples=40,
            ratios=ratios,
            busy=busy,
            limit_share=LIMIT.seconds * 1e6 / us,
            confirmed=confirmed,
        )
        checks = tuple(
            r.Check(variant=variant, family=family, where="whole", ok=True, error=error)
            for variant in ("main", "ragged")
            for family, error in FAMILIES.items()
        )
        verdict = r.Verdict(
            correct=True,
            checks=checks,
            labels=("kernel", "general", "deterministic"),
            isolation="landlock4+seccomp+rlimits",
        )
        build = r.Build(
            unit_key=candidate.units[0].code_key,
            variant="main",
            ok=True,
            flags=("-O3", "-march=native", "-fopenmp"),
        )
        result = self._result(
            candidate, status="ok", verdict=verdict, timing=timing, builds=(build,), profile=profile
        )
        keep = self.archive.add_confirmation if confirmed else self.archive.add_result
        keep(RUN, candidate, result)
        return candidate

    def failed(self, candidate: Candidate, status: str, reason: str, **fields: object) -> Candidate:
        self.archive.add_result(
            RUN, candidate, self._result(candidate, status=status, reason=reason, **fields)
        )
        return candidate

    def _result(self, candidate: Candidate, **fields: object) -> r.Result:
        return r.Result(
            candidate_id=candidate.id,
            content_key=candidate.content_key,
            task_id=candidate.task_id,
            target="cpu",
            environment=ENVIRONMENT.id,
            seed=20231,
            **fields,
        )

    def note(self, admitted: bool = True) -> None:
        share = LIMIT.seconds * 1e6
        baselines = [
            r.BaselineTiming(
                name=name, ok=True, median_us=us, low_us=us * 0.99, high_us=us * 1.01, limit_share=share / us
            )
            for name, us in BASELINES.items()
        ]
        mutants = {"zeros": "budget", "constant": "budget", "stale replay": "budget", "low precision": "ulp"}
        reasons = () if admitted else ("zeros pass on it",)
        admission = r.Admission(admitted=admitted, mutants=mutants, reasons=reasons)
        self.archive.note_run(RUN, baselines, LIMIT, admission)

    def finish(self, best: Candidate | None, us: float = 0.0, status: str = "win", reason: str = "") -> None:
        claimed = None
        if best is not None:
            claimed = r.Best(
                label=best.units[0].technique,
                candidate_id=best.id,
                labels=("kernel",),
                speedup=ratio("compile", us),
                speedup_eager=ratio("eager", us),
                median_us=us,
                limit_share=LIMIT.seconds * 1e6 / us,
                confirmed=True,
            )
        self.archive.finish_run(
            r.RunSummary(
                run_id=RUN,
                task=self.task.name,
                target="cpu",
                status=status,
                reason=reason,
                best=claimed,
                evaluations=len(self.archive.run_entries(RUN)),
                seconds=74.2,
                seconds_by_stage={"baselines": 21.4, "build": 11.8, "verify": 14.9, "time": 22.3},
                seed=20231,
                limit_us=1310,
                stopped="no gain in 3 rounds",
                hardware=ENVIRONMENT.hardware,
            )
        )


def winning_run(path: Path) -> Archive:
    """A run with a confirmed win of 1.24 against torch.compile."""
    archive = Archive(path)
    run = RunMaker(archive)
    run.note()
    three = run.timed(run.candidate("three-pass"), 2050)
    online = run.timed(run.candidate("online one-pass"), 1840)
    wrong = r.Check(
        variant="ragged",
        family="heavy-tailed",
        where="whole",
        ok=False,
        rule="budget",
        detail="7.2 at [12, 1003]",
    )
    verdict = r.Verdict(correct=False, checks=(wrong,))
    run.failed(
        run.candidate("online, low-degree exp"), "incorrect", "error 7.2 times the budget", verdict=verdict
    )
    fixed = _repaired(run)
    for unroll, us in ((1, 1810), (4, 1655), (8, 1770)):
        run.timed(run.candidate("online one-pass", unroll, (online,), "tune", f"UNROLL={unroll}"), us)
    run.failed(
        run.candidate("non-temporal stores", 2, (three,), "rewrite"), "crashed", "the runner died (SIGSEGV)"
    )
    run.failed(run.candidate("spin on a flag", 2, (three,), "rewrite"), "timeout", "stopped after 10 s")
    both = (fixed, online)
    best = crossed = run.timed(
        run.candidate("two-pass, streamed", 4, both, "crossover", "streamed, fused"), 1580
    )
    for unroll, us in ((1, 1640), (2, 1560), (8, 1522)):
        best = run.timed(
            run.candidate("two-pass, streamed", unroll, (crossed,), "tune", f"UNROLL={unroll}"), us
        )
    run.timed(best, 1528, confirmed=True)
    run.finish(best, 1528)
    return archive


def _repaired(run: RunMaker) -> Candidate:
    """A candidate that does not build, and its repair."""
    message = "'ws::expf' is not a member of 'ws'"
    bad = run.candidate("two-pass, fused exp")
    diagnostic = r.Diagnostic(line=14, kind="error", message=message)
    build = r.Build(unit_key=bad.units[0].code_key, variant="main", ok=False, diagnostics=(diagnostic,))
    run.failed(bad, "build-failed", f"line 14: {message}", builds=(build,))
    return run.timed(run.candidate("two-pass, fused exp", 4, (bad,), "repair", "use ws::exp"), 1700)


def failed_run(path: Path) -> Archive:
    """A run in which nothing valid was produced."""
    archive = Archive(path)
    run = RunMaker(archive)
    run.note()
    for technique in ("three-pass", "online <one-pass>"):
        run.failed(run.candidate(technique), "incorrect", "error 7.2 times the budget")
    run.finish(None, status="failed", reason="nothing valid was produced: error 7.2 times the budget")
    return archive
