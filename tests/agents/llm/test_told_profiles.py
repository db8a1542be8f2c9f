"""What was measured of a unit is told beside its parent's, and can be left out."""

from dataclasses import replace

from llm_fakes import GOOD, make_brain, situation, whole

from warpsmith.agents.base import Attempt
from warpsmith.records import Build, Candidate, KernelResources, Lineage, Profile, RegionProfile, Unit
from warpsmith.testing import scripted_result

PARENT = Unit(region=whole(), language="c++", source=GOOD, family="pointwise", technique="one pass")
CHILD = PARENT.model_copy(update={"source": GOOD.replace("i++", "++i")})
EDIT = "<<<<<<< SEARCH\n  for (int64_t i = 0;\n=======\n  for (int64_t i = +0;\n>>>>>>> REPLACE"


def judged(unit: Unit, us: float, registers: int, spilled: int, parents: tuple[str, ...] = ()) -> Attempt:
    candidate = Candidate(
        task_id="t", target="cpu", units=(unit,), lineage=Lineage(operator="edit", parents=parents)
    )
    result = scripted_result(candidate, 1.5)
    kernel = KernelResources(
        name="fused", symbol="_Z5fused", arch="sm_90a", registers=registers, spill_store_bytes=spilled
    )
    seen = RegionProfile(
        region=unit.region.id, seconds=us * 1e-6, least_bytes=256, flops=64, limit_share=5 / us, bottleneck="memory",
        technique="one pass",
    )  # fmt: skip
    update = {
        "builds": (Build(unit_key=unit.code_key, variant="main", ok=True, kernels=(kernel,)),),
        "profile": Profile(regions=(seen,)),
    }
    return Attempt(candidate, result.model_copy(update=update))


def ask_for_an_edit(tells_profiles: bool) -> str:
    before = judged(PARENT, 40.0, 255, 96)
    now = judged(CHILD, 20.0, 64, 0, (before.candidate.id,))
    brain, chat, memory = make_brain(lambda *_: EDIT)
    memory.tells_profiles = tells_profiles
    brain.edit_unit(replace(situation(), attempts=(before, now)), now, CHILD, 1)
    return chat.asked[0].prompt


def test_registers_spills_and_times_are_told_beside_the_parents() -> None:
    told = ask_for_an_edit(True)
    assert "kernel fused: 64 registers a thread, no spills" in told
    assert "against its parent: 40 to 20 us alone, 12% to 25% of its limit" in told
    assert "its parent had kernel fused: 255 registers a thread, SPILLS 96 bytes a thread" in told


def test_the_setting_leaves_them_out() -> None:
    assert "registers a thread" not in ask_for_an_edit(False)
