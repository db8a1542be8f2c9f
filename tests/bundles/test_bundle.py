"""What travels comes back as it was, and nothing else is taken: damage, forgery and names that lead elsewhere are refused."""

from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from bundle_sample import ALL, FAST, IDEA, KEY, TASK, WRONG, candidate, made
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from warpsmith.bundles import container
from warpsmith.bundles.bundle import Bundle, make_bundle, parse, read_bundle
from warpsmith.bundles.container import read_files
from warpsmith.bundles.manifest import MANIFEST, SIGNATURE, BundleError, compute_digest, read_key
from warpsmith.records import TaskSource

FILES = sorted(made().files)


@pytest.mark.parametrize("name", ["b", "b.tar.gz"])
def test_what_was_written_is_read_back(tmp_path: Path, name: str) -> None:
    bundle = made(KEY, canaries=2)
    bundle.write(tmp_path / name)
    back = read_bundle(tmp_path / name, KEY)
    assert back == bundle
    assert list(back.candidates.values()) == list(ALL)  # in the order in which they were given
    assert back.tasks == {TASK.id: TASK}
    assert back.hypotheses == {IDEA.id: IDEA}
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_nothing_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    with pytest.raises(BundleError, match="there already"):
        made().write(tmp_path / "b")


def test_a_content_that_two_authors_wrote_is_judged_once() -> None:
    twin = candidate("fast")
    assert twin.id != FAST.id
    assert list(make_bundle("cpu", [TASK], [FAST, twin, WRONG]).candidates) == [FAST.id, WRONG.id]


def with_changed(files: dict[str, bytes], name: str) -> dict[str, bytes]:
    middle = len(files[name]) // 2
    changed = bytes([files[name][middle] ^ 1])
    return files | {name: files[name][:middle] + changed + files[name][middle + 1 :]}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("how", ["changed", "missing", "cut"])
def test_damage_to_any_file_is_refused(name: str, how: str) -> None:
    files = dict(made().files)
    if how == "missing":
        del files[name]
    else:
        files = with_changed(files, name) if how == "changed" else files | {name: files[name][:-1]}
    with pytest.raises(BundleError):
        parse(files, "b", None)


def test_a_file_that_the_manifest_does_not_name_is_refused() -> None:
    extra = made().files | {f"candidates/{'0' * 16}.json": b"{}"}
    with pytest.raises(BundleError, match="does not belong"):
        parse(extra, "b", None)


def test_not_even_a_blank_may_be_added() -> None:
    """The record is the same, and so is its id: the hash of the file is not."""
    name = f"candidates/{FAST.id}.json"
    with pytest.raises(BundleError, match=f"{name} was changed"):
        parse(made().files | {name: made().files[name] + b" "}, "b", None)


def rehashed(files: dict[str, bytes], **changes: object) -> dict[str, bytes]:
    """As a forger would: every hash made anew, which needs no key."""
    manifest = json.loads(files[MANIFEST]) | changes
    kept = {n: d for n, d in files.items() if n not in (MANIFEST, SIGNATURE)}
    manifest["files"] = {n: {"sha256": compute_digest(d), "size": len(d)} for n, d in kept.items()}
    text = json.dumps(manifest).encode()
    signature = json.loads(files[SIGNATURE]) | {"root": compute_digest(text)}
    return {**kept, MANIFEST: text, SIGNATURE: json.dumps(signature).encode()}


def test_only_the_key_tells_a_forgery() -> None:
    """Hashes alone can be made anew: without a key a forged bundle is read, with it refused."""
    forged = rehashed(dict(made(KEY).files), target="cpu", created_at="2020-01-01T00:00:00+00:00")
    assert parse(forged, "b", None).manifest.created_at.startswith("2020")
    with pytest.raises(BundleError, match="signed with another key"):
        parse(forged, "b", KEY)
    with pytest.raises(BundleError, match="signed without a key"):
        parse(dict(made().files), "b", KEY)
    with pytest.raises(BundleError, match="signed with another key"):
        parse(dict(made(KEY).files), "b", KEY[::-1])


def test_a_record_that_is_not_what_its_name_says_is_refused() -> None:
    files = dict(made().files)
    name = f"candidates/{FAST.id}.json"
    files[name] = files[name].replace(b"// fast", b"// evil")
    with pytest.raises(BundleError, match="holds"):
        parse(rehashed(files), "b", None)
    files[name] = b'{"task_id": 3}'
    with pytest.raises(BundleError, match="not a valid candidate"):
        parse(rehashed(files), "b", None)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "is of format 2, this warpsmith reads 1"),
        ({"format": None}, "is of format None"),
        ({"target": "cuda"}, "is for cpu, not cuda"),
        ({"canaries": -1}, "not a valid manifest: canaries"),
        ({"more": 1}, "not a valid manifest: more"),
    ],
)
def test_a_manifest_that_says_something_else_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(BundleError, match=message):
        parse(rehashed(dict(made().files), **change), "b", None)


def test_a_module_in_memory_cannot_travel() -> None:
    source = TaskSource(kind="memory", path="m", export_file="/somewhere/else")
    with pytest.raises(BundleError, match="in memory, which cannot travel"):
        make_bundle("cpu", [TASK.model_copy(update={"source": source})], [])


def test_a_candidate_needs_its_task() -> None:
    with pytest.raises(BundleError, match="for a task that is not in it"):
        make_bundle("cpu", [TASK], [FAST.model_copy(update={"task_id": "t2"})])
    with pytest.raises(BundleError, match="holds no task"):
        make_bundle("cpu", [], [])


# ---------------------------------------------------------------- containers


def packed(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for member, data in members:
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return path


def named(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


@pytest.mark.parametrize(
    "name",
    ["../evil", "/etc/passwd", "tasks/../../x.json", "tasks/x.json", "candidates/0123.json", "a\0b", ""],
)
def test_a_name_that_leads_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(BundleError, match="no file of a bundle"):
        read_files(packed(tmp_path / "b.tar.gz", (named(name), b"x")))
    assert [p.name for p in tmp_path.iterdir()] == ["b.tar.gz"]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_links_and_devices_in_an_archive_are_refused(tmp_path: Path, kind: bytes) -> None:
    with pytest.raises(BundleError, match="plain files only"):
        read_files(packed(tmp_path / "b.tar.gz", (named(MANIFEST, kind, "/etc/passwd"), b"")))


def test_links_in_a_folder_are_refused(tmp_path: Path) -> None:
    made().write(tmp_path / "b")
    manifest = tmp_path / "b" / MANIFEST
    manifest.rename(tmp_path / "kept")
    manifest.symlink_to(tmp_path / "kept")
    with pytest.raises(BundleError, match="a link or a device"):
        read_bundle(tmp_path / "b")
    manifest.unlink()
    os.mkfifo(manifest)
    with pytest.raises(BundleError, match="a link or a device"):  # and does not wait for a writer
        read_bundle(tmp_path / "b")


def test_a_linked_folder_is_refused(tmp_path: Path) -> None:
    made().write(tmp_path / "b")
    (tmp_path / "b" / "tasks").rename(tmp_path / "tasks")
    (tmp_path / "b" / "tasks").symlink_to(tmp_path / "tasks")
    with pytest.raises(BundleError, match="a link or a device"):
        read_bundle(tmp_path / "b")


def test_one_file_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="twice"):
        read_files(packed(tmp_path / "b.tar.gz", (named(MANIFEST), b"1"), (named(MANIFEST), b"2")))


@pytest.mark.parametrize(
    ("limit", "most"), [("MAX_FILE_BYTES", 100), ("MAX_TOTAL_BYTES", 2000), ("MAX_FILES", 3)]
)
def test_what_is_too_large_is_refused_unread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, most: int
) -> None:
    made().write(tmp_path / "b")
    monkeypatch.setattr(container, limit, most)
    with pytest.raises(BundleError, match="too large"):
        read_bundle(tmp_path / "b")


def test_a_small_file_that_unpacks_to_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A header may ask for any amount, too: it is read within the same limit."""
    monkeypatch.setattr(container._LimitedGzip, "left_bytes", 1 << 20)
    path = tmp_path / "b.tar.gz"
    member = named("x" * 150, tarfile.XHDTYPE)
    member.size = 64 << 20
    path.write_bytes(gzip.compress(member.tobuf(tarfile.GNU_FORMAT) + bytes(64 << 20)))
    assert path.stat().st_size < 1 << 17
    with pytest.raises(BundleError, match="unpacks to more than any bundle needs"):
        read_files(path)


def test_what_is_no_bundle_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("not a bundle")
    (tmp_path / "empty").mkdir()
    for name, message in (("text", "read"), ("empty", "no manifest.json"), ("none", "No such file")):
        with pytest.raises(BundleError, match=message) as caught:
            read_bundle(tmp_path / name)
        assert "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def archive_bytes(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("packed") / "b.tar.gz"
    made().write(path)
    return path.read_bytes()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_an_archive_that_was_cut_off_or_changed_is_refused_or_the_same(
    archive_bytes: bytes, tmp_path: Path, data: st.DataObject
) -> None:
    """Never another error, never other content: where a changed byte does not matter, the bundle is the same."""
    where = data.draw(st.integers(0, len(archive_bytes) - 1))
    flipped = bytes([archive_bytes[where] ^ data.draw(st.integers(1, 255))])
    change: Callable[[bytes], bytes] = data.draw(
        st.sampled_from([lambda b: b[:where], lambda b: b[:where] + flipped + b[where + 1 :]])
    )
    path = tmp_path / "b.tar.gz"
    path.write_bytes(change(archive_bytes))
    try:
        back = read_bundle(path)
    except BundleError as error:
        assert "\n" not in str(error)  # noqa: PT017 - most changes are refused, some change nothing
    else:
        assert contents(back) == ALL


def contents(bundle: Bundle) -> tuple[object, ...]:
    return tuple(bundle.candidates.values())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=80, deadline=None)
@given(
    name=st.sampled_from(["format", "target", "warpsmith", "created_at", "files", "canaries", "new"]),
    value=JSON,
)
def test_any_other_value_in_the_manifest_is_refused_without_its_hash_and_valid_or_refused_with_it(
    name: str, value: object
) -> None:
    files = dict(made().files)
    manifest = json.loads(files[MANIFEST])
    changed = json.dumps(manifest | {name: value}).encode()
    if json.loads(changed) != manifest:
        with pytest.raises(BundleError, match=r"manifest\.json was changed"):
            parse(files | {MANIFEST: changed}, "b", None)
    signature = json.dumps({"root": compute_digest(changed), "mac": ""}).encode()
    try:
        back = parse(files | {MANIFEST: changed, SIGNATURE: signature}, "b", None)
    except BundleError as error:
        assert "\n" not in str(error)  # noqa: PT017 - both outcomes are right
    else:
        assert json.loads(back.manifest.model_dump_json())[name] == value


def test_a_refusal_is_one_line_whatever_a_file_is_called() -> None:
    files = dict(made().files)
    changed = json.dumps(json.loads(files[MANIFEST]) | {"files": {"a\nb": None}}).encode()
    signature = json.dumps({"root": compute_digest(changed), "mac": ""}).encode()
    with pytest.raises(BundleError, match=r"files\.'a\\nb'") as refused:
        parse(files | {MANIFEST: changed, SIGNATURE: signature}, "b", None)
    assert "\n" not in str(refused.value)


@settings(max_examples=80, deadline=None)
@given(name=st.sampled_from(FILES), data=st.binary(max_size=64) | JSON.map(lambda v: json.dumps(v).encode()))
def test_any_other_file_is_refused(name: str, data: bytes) -> None:
    with pytest.raises(BundleError):
        parse(made().files | {name: data}, "b", None)


def test_a_key_file_that_is_missing_or_short_is_refused(tmp_path: Path) -> None:
    (tmp_path / "short").write_text("secret\n")
    (tmp_path / "key").write_bytes(KEY + b"\n")
    assert read_key(tmp_path / "key") == KEY
    assert read_key(None) is None
    for name in ("short", "none"):
        with pytest.raises(BundleError, match="key file"):
            read_key(tmp_path / name)
