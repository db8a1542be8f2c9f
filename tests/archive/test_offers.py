"""A winner holds where it was confirmed: another device, driver, compiler or torch makes it another one."""

from __future__ import annotations

import pytest

from warpsmith.archive.offers import differences, find_confirmation, why_not_here

OTHERS = {
    "device": "NVIDIA H200", "gpu_driver": "580.1", "compiler": "g++ 14", "torch": "2.12.0", "simd": "avx512",
    "threads": 4,
}  # fmt: skip


@pytest.fixture
def won(begun, make):
    archive, candidate = begun(), make.candidate()
    archive.add_confirmation("run-1", candidate, make.ok(candidate, 2.0, confirmed=True))
    return archive


def entry_of(archive):
    return archive.run_entries("run-1")[0]


def test_a_win_is_offered_where_it_was_confirmed(won, make):
    found = find_confirmation(won, entry_of(won), make.environment)
    assert found.result == entry_of(won).result


@pytest.mark.parametrize("field", OTHERS)
def test_another_environment_is_named_and_gets_no_offer(won, make, field):
    here = make.environment.model_copy(update={field: OTHERS[field]})
    assert find_confirmation(won, entry_of(won), here) is None
    why = why_not_here(won, entry_of(won), here)
    assert field.replace("_", " ") in why
    assert f"{OTHERS[field]} here" in why


def test_a_new_kernel_of_the_system_or_patch_of_python_is_no_other_environment(won, make):
    update = {
        "os": "Linux 7",
        "python": "3.11.9",
        "memory_gb": 9.0,
        "warpsmith": "9",
        "device": make.environment.cpu,
    }
    here = make.environment.model_copy(update=update)
    assert differences(make.environment, here) == []
    assert find_confirmation(won, entry_of(won), here) is not None


def test_a_confirmation_of_another_run_in_this_environment_is_offered(won, make):
    here = make.environment.model_copy(update={"torch": "2.12.0"})
    candidate = make.candidate()
    won.begin_run("run-2", make.task, "cpu", 8, {}, here)
    again = make.ok(candidate, 1.3, confirmed=True).model_copy(update={"environment": here.id})
    won.add_confirmation("run-2", candidate, again)
    found = find_confirmation(won, entry_of(won), here)
    assert found.result == again
    assert won.run_of(found.result.id) == "run-2"
    lost = make.failed(candidate).model_copy(update={"environment": here.id})
    won.add_result("run-2", candidate, lost)
    assert (
        find_confirmation(won, entry_of(won), here) is None
    )  # contradicted here, though it stands elsewhere
    assert find_confirmation(won, entry_of(won), make.environment) is not None


def test_an_imported_win_is_not_offered(archive, won, make, tmp_path):
    from warpsmith.archive import Archive, export_jsonl, import_jsonl

    export_jsonl(won, tmp_path / "all.jsonl")
    there = Archive(tmp_path / "there.db")
    import_jsonl(there, tmp_path / "all.jsonl")
    assert find_confirmation(there, entry_of(there), make.environment) is None
