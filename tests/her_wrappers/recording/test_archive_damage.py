"""EpisodeArchive: damaged files raise CorruptFileError, and undamaged shards are found."""

import json

import numpy as np
import pytest

from her_wrappers import CorruptFileError, EpisodeArchive
from her_wrappers.data.arrays import write_arrays
from tests.support.archived_episodes import Nested, assert_same_episodes, forge_manifest, random_episode
from tests.support.counting import counting_buffer, counting_episode


def example(folder):
    """Make a small archive of two shards; return its episodes."""
    episodes = [random_episode(length) for length in (3, 2, 4)]
    with EpisodeArchive(folder, env=Nested(), shard_steps=4) as archive:
        archive.add_episodes(episodes)
    return episodes


@pytest.mark.parametrize("name", ["manifest.json", "shard-000000.npz", "shard-000001.npz"])
def test_a_damaged_archive_is_not_written_to(tmp_path, name):
    example(tmp_path)
    (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:-9])
    with pytest.raises(CorruptFileError, match=name):
        EpisodeArchive(tmp_path, env=Nested())


def test_a_damaged_or_missing_shard_is_skipped_by_a_buffer(tmp_path):
    with EpisodeArchive(tmp_path, shard_steps=6) as archive:
        archive.add_episodes([counting_episode(number, 3) for number in range(6)])
    damaged = tmp_path / "shard-000001.npz"
    damaged.write_bytes(damaged.read_bytes()[:-100] + bytes(100))
    buffer = counting_buffer()
    with pytest.raises(CorruptFileError, match="shard-000001"):
        buffer.extend(archive)
    assert buffer.num_episodes == 2
    with pytest.warns(UserWarning, match="2 of 6 episodes were skipped; .*shard-000001"):
        assert buffer.extend(archive, on_error="skip") == 2
    damaged.unlink()
    with pytest.raises(FileNotFoundError, match=r"shard-000001\.npz"):
        list(EpisodeArchive(tmp_path))
    with pytest.raises(CorruptFileError, match=r"shard-000001\.npz"):
        EpisodeArchive(tmp_path).add_episode(counting_episode(6, 3))
    with pytest.warns(UserWarning, match=r"at least 1 of 5 episodes were skipped; .*shard-000001\.npz"):
        buffer.extend(EpisodeArchive(tmp_path), on_error="skip")


def test_swapped_shards_and_shards_of_another_archive_are_errors(tmp_path):
    for name in ("one", "other"):
        example(tmp_path / name)
    first, second = (tmp_path / "one" / f"shard-00000{i}.npz" for i in range(2))
    third = second.with_name("shard-000002.npz")
    third.write_bytes((tmp_path / "other" / first.name).read_bytes())
    with pytest.raises(CorruptFileError, match=r"shard-000002\.npz belongs to another archive"):
        list(EpisodeArchive(tmp_path / "one"))
    third.write_bytes(second.read_bytes())
    with pytest.raises(CorruptFileError, match=r"it is shard 1 of this archive; rename it to shard-000001"):
        list(EpisodeArchive(tmp_path / "one"))
    third.unlink()
    first.write_bytes(second.read_bytes())
    with pytest.raises(CorruptFileError, match=r"it is shard 1 of this archive"):
        list(EpisodeArchive(tmp_path / "one"))


def test_an_archive_of_version_2_whose_manifest_lists_its_shards_is_read_and_continued(tmp_path):
    episodes = example(tmp_path)
    listed = [{"episodes": 2, "steps": 5, "checksum": 7}]
    forge_manifest(tmp_path, lambda content: content.update(version=2, episodes=2, steps=5, shards=listed))
    with EpisodeArchive(tmp_path, env=Nested()) as archive:
        archive(random_episode(1))
    assert_same_episodes(EpisodeArchive(tmp_path), [*episodes, random_episode(1)])


LIES = {
    "kind": (lambda c: c.update(kind="cookbook"), "must contain 'her-toolkit archive of episodes'"),
    "a new version": (lambda c: c.update(version=4), "reads only version 2 to 3; update her-toolkit"),
    "no versions": (lambda c: c.pop("versions"), "'versions' is missing"),
    "no space": (lambda c: c["source"].update(action_space={"type": "Box"}), "does not describe a space"),
    "a source with more": (lambda c: c["source"].update(more=1), "'more'"),
    "another archive": (lambda c: c.update(archive="other"), "belongs to another archive"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_manifest_with_false_values_raises_corrupt_file_error(tmp_path, lie):
    example(tmp_path)
    change, message = LIES[lie]
    forge_manifest(tmp_path, change)
    with pytest.raises(CorruptFileError, match=message):
        list(EpisodeArchive(tmp_path))


def test_other_files_with_the_name_of_a_manifest_are_errors(tmp_path):
    page = b'{"name": "my web page", "short_name": "page", "crc32": 0}'
    for content in (b"[" * 2**20, b" " * 2**24, b'{"a":' * 2**18, b'"' + b"x" * 2**22 + b'"', b"PK", page):
        (tmp_path / "manifest.json").write_bytes(content)
        with pytest.raises(CorruptFileError, match="not the manifest of an archive"):
            EpisodeArchive(tmp_path)


TREES = {"observations": "observations", "actions": "actions", "infos": {}}
SHAPES = {"observations": 3, "actions": 2, "rewards": 2}
ARRAYS = {name: np.zeros(count) for name, count in SHAPES.items()} | {
    "lengths": np.array([2]),
    "terminated": np.array([True]),
    "truncated": np.array([False]),
}
RESET, EPISODES = "reset_infos/a/0", "episodes_of_reset_infos/a/0"
SHARD_LIES = {
    "more episodes than the file can hold": ({"episodes": 10**12, "steps": 10**12}, {}),
    "other numbers of episodes": ({"episodes": 2}, {}),
    "lengths that do not add up": ({}, {"lengths": np.array([3])}),
    "rewards of words": ({}, {"rewards": np.array(["a", "b"])}),
    "an unknown array": ({"actions": "steps"}, {}),
    "reset infos without episodes": ({}, {RESET: np.zeros(1)}),
    "reset infos of no episode": ({}, {RESET: np.zeros(1), EPISODES: np.array([7])}),
}


@pytest.mark.parametrize("lie", [None, *SHARD_LIES])
def test_a_shard_with_false_values_raises_corrupt_file_error(tmp_path, lie):
    EpisodeArchive(tmp_path, env=Nested()).close()
    archive = json.loads((tmp_path / "manifest.json").read_text())["archive"]
    header, arrays = SHARD_LIES.get(lie, ({}, {}))
    header = {**TREES, "archive": archive, "number": 0, "episodes": 1, "steps": 2} | header
    write_arrays(tmp_path / "shard-000000.npz", ARRAYS | arrays, header, kind="episodes", version=2)
    if lie is None:
        assert len(next(iter(EpisodeArchive(tmp_path)))) == 2
        return
    with pytest.raises(CorruptFileError, match=r"shard-000000\.npz is damaged"):
        list(EpisodeArchive(tmp_path))
