"""EpisodeArchive: damaged files raise CorruptFileError, and undamaged shards are found."""

import json

import numpy as np
import pytest

from her_wrappers import CorruptFileError, EpisodeArchive
from her_wrappers.data.arrays import write_arrays
from her_wrappers.recording import archive as archive_module
from her_wrappers.recording import space_json
from tests.support.archived_episodes import (
    Nested,
    assert_same_episodes,
    files,
    forge_manifest,
    random_episode,
)


def example(folder):
    """Make a small archive of two shards; return its episodes."""
    episodes = [random_episode(length) for length in (3, 2, 4)]
    with EpisodeArchive(folder, env=Nested(), shard_steps=4) as archive:
        archive.add_episodes(episodes)
    return episodes


@pytest.mark.parametrize("damage", ["manifest", "unlisted shard", "missing shard"])
def test_a_damaged_archive_is_not_written_to(tmp_path, damage):
    example(tmp_path)
    manifest, shard = tmp_path / "manifest.json", tmp_path / "shard-000000.npz"
    if damage == "manifest":
        manifest.write_bytes(manifest.read_bytes()[:-9])
    elif damage == "missing shard":
        shard.unlink()
        with pytest.raises(FileNotFoundError, match=shard.name):
            list(EpisodeArchive(tmp_path))
    else:
        shard.write_bytes(shard.read_bytes()[:-9])
        forge_manifest(tmp_path, lambda content: content.update(shards=[]))
    with pytest.raises(CorruptFileError, match=manifest.name if damage == "manifest" else shard.name):
        EpisodeArchive(tmp_path, env=Nested())


def test_undamaged_shards_of_a_damaged_archive_can_be_read(tmp_path):
    episodes = example(tmp_path)
    (tmp_path / "shard-000001.npz").write_bytes(b"")
    with pytest.raises(CorruptFileError, match=r"shard-000001\.npz"):
        list(EpisodeArchive(tmp_path))
    assert_same_episodes(next(iter(EpisodeArchive(tmp_path).iter_shards())), episodes[:2])


def test_swapped_shards_and_shards_of_another_archive_are_errors(tmp_path):
    for name in ("one", "other"):
        example(tmp_path / name)
    first, second = (tmp_path / "one" / f"shard-00000{i}.npz" for i in range(2))
    second.with_name("shard-000002.npz").write_bytes((tmp_path / "other" / first.name).read_bytes())
    with pytest.raises(CorruptFileError, match=r"shard-000002\.npz belongs to another archive"):
        EpisodeArchive(tmp_path / "one")
    second.with_name("shard-000002.npz").write_bytes(second.read_bytes())
    with pytest.raises(CorruptFileError, match=r"it is shard 1 of this archive; rename it to shard-000001"):
        EpisodeArchive(tmp_path / "one")
    second.with_name("shard-000002.npz").unlink()
    first.write_bytes(second.read_bytes())
    with pytest.raises(CorruptFileError, match=r"shard-000000\.npz is damaged: its checksum differs"):
        list(EpisodeArchive(tmp_path / "one"))


HUGE = {"type": "Box", "dtype": "float32", "shape": [10**15], "low": 0, "high": 1}
LIES = {
    "of another kind": lambda c: c.update(kind="cookbook"),
    "no shards": lambda c: c.pop("shards"),
    "another checksum": lambda c: c["shards"][0].update(checksum=0),
    "a space of a petabyte": lambda c: c["source"].update(action_space=HUGE),
    "a source with more": lambda c: c["source"].update(more=1),
    "more episodes than the file holds": lambda c: c["shards"][0].update(episodes=10**12, steps=10**12),
    "a shard too few": lambda c: c.update(archive="other", shards=c["shards"][:1]),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_manifest_with_false_values_raises_corrupt_file_error(tmp_path, lie):
    example(tmp_path)
    forge_manifest(tmp_path, LIES[lie])
    with pytest.raises(CorruptFileError):
        list(EpisodeArchive(tmp_path))


@pytest.mark.parametrize(("version", "fix"), [(1, "use the her-toolkit"), (3, "update her-toolkit")])
def test_an_archive_of_another_version_gives_one_clear_error(tmp_path, version, fix):
    example(tmp_path)
    forge_manifest(tmp_path, lambda content: content.update(version=version))
    with pytest.raises(CorruptFileError, match=f"has version {version} .* reads only version 2; {fix}"):
        EpisodeArchive(tmp_path)


def test_other_files_with_the_name_of_a_manifest_are_errors(tmp_path):
    page = b'{"name": "my web page", "short_name": "page", "crc32": 0}'
    for content in (b"[" * 2**20, b" " * 2**24, b'{"a":' * 2**18, b'"' + b"x" * 2**22 + b'"', b"PK", page):
        (tmp_path / "manifest.json").write_bytes(content)
        with pytest.raises(CorruptFileError, match="not the manifest of an archive"):
            EpisodeArchive(tmp_path)


HEADER = {"observations": "observations", "actions": "actions", "infos": {}}
SHAPES = {"observations": 3, "actions": 2, "rewards": 2}
ARRAYS = {name: np.zeros(count) for name, count in SHAPES.items()} | {
    "lengths": np.array([2]),
    "terminated": np.array([True]),
    "truncated": np.array([False]),
}
RESET, EPISODES = "reset_infos/a/0", "episodes_of_reset_infos/a/0"
SHARD_LIES = {
    "missing rows": ({}, {"rewards": np.zeros(1)}),
    "lengths that do not add up": ({}, {"lengths": np.array([3])}),
    "huge lengths": ({}, {"lengths": np.array([2**62, 2**62])}),
    "rewards of words": ({}, {"rewards": np.array(["a", "b"])}),
    "an unknown array": ({"actions": "steps"}, {}),
    "an array used twice": ({"actions": "observations"}, {}),
    "reset infos without episodes": ({}, {RESET: np.zeros(1)}),
    "reset infos of no episode": ({}, {RESET: np.zeros(1), EPISODES: np.array([7])}),
    "reset infos of words": ({}, {RESET: np.zeros(1), EPISODES: np.array(["a"])}),
}


@pytest.mark.parametrize("lie", [None, *SHARD_LIES])
def test_a_shard_with_false_values_raises_corrupt_file_error(tmp_path, lie):
    example(tmp_path)
    header, arrays = SHARD_LIES.get(lie, ({}, {}))
    checksum = write_arrays(
        tmp_path / "shard-000000.npz", ARRAYS | arrays, HEADER | header, kind="episodes", version=2
    )
    forge_manifest(tmp_path, lambda c: c["shards"][0].update(checksum=checksum))
    blocks = EpisodeArchive(tmp_path).iter_shards()
    if lie is None:
        assert len(next(blocks)[0]) == 2
        return
    with pytest.raises(CorruptFileError, match="the arrays do not form valid episodes"):
        next(blocks)


def test_shards_beyond_the_maximum_of_the_manifest_are_found(tmp_path, monkeypatch):
    monkeypatch.setattr(archive_module, "MAX_LISTED", 2)
    episodes = [random_episode(length) for length in (1, 2, 3, 4)]
    with EpisodeArchive(tmp_path, shard_steps=1) as archive:
        archive.add_episodes(episodes)
    assert len(json.loads((tmp_path / "manifest.json").read_text())["shards"]) == 2
    assert_same_episodes(EpisodeArchive(tmp_path), episodes)


def test_an_environment_with_a_description_that_is_too_long_is_an_error(tmp_path, monkeypatch):
    """An image space with different bounds for each pixel has a long description."""
    monkeypatch.setattr(space_json, "MAX_SOURCE", 300)
    with pytest.raises(ValueError, match=r"the spaces of env .* must take at most 300 bytes"):
        EpisodeArchive(tmp_path / "archive", env=Nested())
    assert files(tmp_path) == []
