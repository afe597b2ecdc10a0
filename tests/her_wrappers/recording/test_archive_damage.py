"""EpisodeArchive: shards survive kills, and damaged files raise CorruptFileError."""

from __future__ import annotations

import contextlib
import json
import shutil
import tracemalloc

import numpy as np
import pytest

from her_wrappers import CorruptFileError, EpisodeArchive
from her_wrappers.files.writing import write_arrays
from tests.support.archived_episodes import Nested, assert_same_episodes, forged, random_episode
from tests.support.damage import damaged
from tests.support.kill_trials import kill_while_archiving


@pytest.mark.parametrize("archives", [1, pytest.param(20, marks=pytest.mark.campaign)])
def test_kills_while_archiving_leave_every_completed_shard(tmp_path, archives):
    unlisted, completed = 0, 0
    for seed in range(archives):
        counts = kill_while_archiving(tmp_path / str(seed), 5, seed)
        unlisted, completed = unlisted + counts[0], completed + counts[1]
    if archives > 1:
        assert completed, "no shard was completed before a kill"
        assert unlisted, "no kill came between a shard and its line in the manifest"


def example(folder):
    """Make a small archive of two shards; return its episodes."""
    episodes = [random_episode(length) for length in (3, 2, 4)]
    with EpisodeArchive(folder, env=Nested(), shard_steps=4) as archive:
        archive.add_episodes(episodes)
    return episodes


@pytest.mark.parametrize("name", ["manifest.json", "shard-000000.npz"])
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.campaign)])
def test_damaged_archives_are_read_correctly_or_raise_corrupt_file_error(tmp_path, name, seed):
    episodes = example(tmp_path)
    content, refused = (tmp_path / name).read_bytes(), 0
    for variant in damaged(content, 500 if seed == 0 else 20_000, seed):
        (tmp_path / name).write_bytes(variant)
        try:
            found = list(EpisodeArchive(tmp_path))
        except CorruptFileError:
            refused += 1
        else:
            assert_same_episodes(found, episodes)
    assert refused > 300
    (tmp_path / name).write_bytes(content)
    assert_same_episodes(EpisodeArchive(tmp_path), episodes)


@pytest.mark.parametrize("name", ["manifest.json", "shard-000000.npz"])
def test_a_damaged_archive_is_not_written_to(tmp_path, name):
    example(tmp_path)
    (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:-9])
    if name == "manifest.json":
        with pytest.raises(
            CorruptFileError, match=r"manifest\.json is damaged, or not the manifest of an archive"
        ):
            EpisodeArchive(tmp_path, env=Nested())
    else:
        (tmp_path / "manifest.json").write_text(forged(tmp_path, lambda content: content.update(shards=[])))
        with pytest.raises(CorruptFileError, match=r"shard-000000\.npz is not a file of her-toolkit"):
            EpisodeArchive(tmp_path, env=Nested())


def test_an_archive_with_a_missing_shard_is_not_written_to(tmp_path):
    example(tmp_path)
    (tmp_path / "shard-000000.npz").unlink()
    with pytest.raises(
        CorruptFileError, match=r"shard-000000\.npz is missing; restore it, or write to another"
    ):
        EpisodeArchive(tmp_path, env=Nested())
    with pytest.raises(CorruptFileError, match="is missing"):
        EpisodeArchive(tmp_path).add_episode(random_episode(3))


def test_undamaged_shards_of_a_damaged_archive_can_be_read(tmp_path):
    episodes = example(tmp_path)
    (tmp_path / "shard-000001.npz").write_bytes(b"")
    found = []
    with pytest.raises(
        CorruptFileError, match=r"shard-000001\.npz is not a file of her-toolkit, or its end is missing"
    ):
        found.extend(EpisodeArchive(tmp_path))
    archive = EpisodeArchive(tmp_path)
    assert_same_episodes(next(iter(archive.batches())), episodes[:2])


LIES = {
    "of another kind": lambda c: c.update(kind="cookbook"),
    "version no number": lambda c: c.update(version="1"),
    "no shards": lambda c: c.pop("shards"),
    "shards a number": lambda c: c.update(shards=5),
    "a shard no dict": lambda c: c.update(shards=[5]),
    "a shard elsewhere": lambda c: c["shards"][0].update(file="../../shard-000000.npz"),
    "a negative count": lambda c: c["shards"][0].update(steps=-1),
    "a count no number": lambda c: c["shards"][0].update(episodes="2"),
    "another checksum": lambda c: c["shards"][0].update(crc32="00000000"),
    "no checksum": lambda c: c["shards"][0].update(crc32="x"),
    "no space": lambda c: c["source"].update(observation_space={"type": "Text"}),
    "a space of a petabyte": lambda c: c["source"].update(
        action_space={"type": "Box", "dtype": "float32", "shape": [10**15], "low": 0, "high": 1}
    ),
    "a source with more": lambda c: c["source"].update(more=1),
    "a source no dict": lambda c: c.update(source=[]),
    "more episodes than the file holds": lambda c: c["shards"][0].update(episodes=10**12, steps=10**12),
    "a count of hundreds of digits": lambda c: c["shards"][0].update(episodes=10**300, steps=10**300),
    "arguments no dict": lambda c: c["source"].update(kwargs=[1]),
    "a shard too few": lambda c: c.update(archive="other", shards=c["shards"][:1]),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_manifest_with_false_values_raises_corrupt_file_error(tmp_path, lie):
    example(tmp_path)
    (tmp_path / "manifest.json").write_text(forged(tmp_path, LIES[lie]))
    with pytest.raises(CorruptFileError):
        list(EpisodeArchive(tmp_path))


LARGE = {"type": "Box", "dtype": "float32", "shape": [2**24], "low": 0, "high": 1}


@pytest.mark.parametrize(
    "change", [{}, {"shape": [1], "dtype": "S999999999"}, {"shape": [2**23], "dtype": "uint8"}]
)
def test_a_short_manifest_cannot_allocate_hundreds_of_megabytes(tmp_path, change):
    """The description of a Box of any shape needs only a hundred bytes."""
    example(tmp_path)
    source = {"observation_space": LARGE | change}
    (tmp_path / "manifest.json").write_text(forged(tmp_path, lambda c: c["source"].update(source)))
    tracemalloc.start()
    try:
        with contextlib.suppress(CorruptFileError):
            archive = EpisodeArchive(tmp_path)
            assert archive.observation_space.shape == (2**23,)
            list(archive)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2**27


ALTERED = [None, True, -1, 1.5, 10**18, 10**400, "x", [], {}, [1], "float64", "S9", 1e300]


def every_path(content, path=()):
    """Yield the path of each value in JSON."""
    if path:
        yield path
    parts = content.items() if isinstance(content, dict) else ()
    for key, part in enumerate(content) if isinstance(content, list) else parts:
        yield from every_path(part, (*path, key))


def with_value(content, path, value):
    """Set the value at a path."""
    for key in path[:-1]:
        content = content[key]
    content[path[-1]] = value


@pytest.mark.parametrize("stride", [11, pytest.param(1, marks=pytest.mark.slow)])
def test_an_altered_value_of_a_manifest_gives_one_error_or_does_no_harm(tmp_path, stride):
    example(tmp_path)
    manifest = tmp_path / "manifest.json"
    original, outcomes = manifest.read_text(), {True: 0, False: 0}
    cases = [
        (path, value) for path in every_path(json.loads(original)) if path != ("crc32",) for value in ALTERED
    ]
    for path, value in cases[::stride]:
        manifest.write_text(original)
        manifest.write_text(forged(tmp_path, lambda c, path=path, value=value: with_value(c, path, value)))
        try:
            archive = EpisodeArchive(tmp_path)
            list(archive)
            outcomes[archive.observation_space is not None] += 1
        except CorruptFileError as error:
            outcomes[False] += "\n" not in str(error)
    assert sum(outcomes.values()) == len(cases[::stride])
    assert min(outcomes.values()) > 5


def test_a_manifest_of_a_later_version_gives_one_clear_error(tmp_path):
    example(tmp_path)
    (tmp_path / "manifest.json").write_text(forged(tmp_path, lambda content: content.update(version=2)))
    with pytest.raises(
        CorruptFileError, match="has version 2, and this her-toolkit reads up to version 1; update"
    ):
        EpisodeArchive(tmp_path)


def test_manifests_that_are_too_long_or_nested_are_errors(tmp_path):
    for content in (b"[" * 2**20, b" " * 2**24, b'{"a":' * 2**18, b'"' + b"x" * 2**22 + b'"'):
        (tmp_path / "manifest.json").write_bytes(content)
        with pytest.raises(CorruptFileError):
            EpisodeArchive(tmp_path)


HEADER = {
    "labels": {}, "observations": "observations", "actions": "actions", "infos": {}, "reset_infos": None,
}  # fmt: skip
ARRAYS = {
    "observations": np.zeros(3), "actions": np.zeros(2), "rewards": np.zeros(2), "lengths": np.array([2]),
    "terminated": np.array([True]), "truncated": np.array([False]),
}  # fmt: skip
SHARD_LIES = {
    "missing rows": ({}, {"rewards": np.zeros(1)}),
    "lengths that do not add up": ({}, {"lengths": np.array([3])}),
    "lengths of none": ({}, {"lengths": np.array([0])}),
    "huge lengths": ({}, {"lengths": np.array([2**62, 2**62])}),
    "lengths of floats": ({}, {"lengths": np.array([2.0])}),
    "lengths in a square": ({}, {"lengths": np.array([[2]])}),
    "one length": ({}, {"lengths": np.array(2)}),
    "flags of numbers": ({}, {"terminated": np.array([1])}),
    "rewards of words": ({}, {"rewards": np.array(["a", "b"])}),
    "an array too many": ({}, {"more": np.zeros(1)}),
    "an unknown array": ({"actions": "steps"}, {}),
    "a name no text": ({"actions": 5}, {}),
    "an array used twice": ({"actions": "observations"}, {}),
    "nothing in its place": ({"actions": None}, {}),
    "infos a list": ({"infos": []}, {}),
    "reset infos a number": ({"reset_infos": 5}, {}),
    "reset infos of no episode": (
        {"reset_infos": [{"key": "a", "values": "v", "episodes": "e"}]},
        {"v": np.zeros(1), "e": np.array([7])},
    ),
    "reset infos of words": (
        {"reset_infos": [{"key": "a", "values": "v", "episodes": "e"}]},
        {"v": np.zeros(1), "e": np.array(["a"])},
    ),
}


@pytest.mark.parametrize("lie", SHARD_LIES)
def test_a_shard_with_false_values_raises_corrupt_file_error(tmp_path, lie):
    example(tmp_path)
    header, arrays = SHARD_LIES[lie]
    shard = tmp_path / "shard-000000.npz"
    for lies in (False, True):
        told = (ARRAYS | arrays, HEADER | header) if lies else (ARRAYS, HEADER)
        checksum = write_arrays(shard, *told, kind="episodes", version=1)
        (tmp_path / "manifest.json").write_text(
            forged(tmp_path, lambda c, crc=checksum: c["shards"][0].update(crc32=f"{crc:08x}"))
        )
        batches = EpisodeArchive(tmp_path).batches()
        if not lies:
            assert len(next(batches)[0]) == 2
            continue
        with pytest.raises(
            CorruptFileError, match=r"shard-000000\.npz is damaged: the arrays do not form valid episodes"
        ):
            next(batches)


def test_a_folder_of_other_files_is_an_error(tmp_path):
    example(tmp_path / "archive")
    shutil.copy(tmp_path / "archive" / "shard-000000.npz", tmp_path / "manifest.json")
    with pytest.raises(
        CorruptFileError, match=r"manifest\.json is damaged, or not the manifest of an archive"
    ):
        EpisodeArchive(tmp_path)
    (tmp_path / "manifest.json").write_text('{"name": "my web page", "short_name": "page", "crc32": 0}')
    with pytest.raises(CorruptFileError, match="not the manifest of an archive"):
        EpisodeArchive(tmp_path)
