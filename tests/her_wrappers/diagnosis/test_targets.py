"""Targets of a diagnosis: archives, run folders, buffers, episodes and environments; unusable ones."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from itertools import pairwise

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from her_wrappers import EpisodeArchive, HindsightReplayBuffer
from her_wrappers.diagnosis import diagnose
from her_wrappers.diagnosis.facts import Facts
from her_wrappers.recording.episodes import Episodes
from tests.support.commands import her, train_reach
from tests.support.damage import damaged
from tests.support.diagnosis import PLACE, PLANTED, PointEnv, healthy, with_observations

UNTOUCHED = PLANTED["GD102"]()[0]

CONFIG = {"gamma": 0.98, "clip_targets": True, "batch_size": 128, "env_kwargs": {}}


def filled_buffer(episodes, **options):
    buffer = HindsightReplayBuffer(
        PointEnv.observation_space, PointEnv.action_space, n_sampled_goal=0, buffer_size=10_000, **options
    )
    buffer.extend(episodes)
    return buffer


@pytest.fixture(name="archive")
def archive_folder(tmp_path):
    with EpisodeArchive(tmp_path / "archive", shard_steps=200) as archive:
        archive.add_episodes(UNTOUCHED)
    return tmp_path / "archive"


@pytest.fixture(name="saved")
def saved_buffer(tmp_path):
    filled_buffer(UNTOUCHED).save(tmp_path / "saved.replay")
    return tmp_path / "saved.replay"


@pytest.fixture(name="run")
def run_folder(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "progress.csv").write_text("epoch,env_steps,updates,success_rate,q_mean\n1,400,100,0,\n")
    filled_buffer(healthy()).save(folder / "buffer-9.replay")
    filled_buffer(UNTOUCHED).save(folder / "buffer-12.replay")
    return folder


def test_an_archive_is_read_shard_by_shard(archive):
    report = diagnose(archive)
    assert report.codes == ["GD102"]
    assert (report.episodes, report.steps, report.environment) == (40, 1200, str(archive))


def test_an_open_archive_and_its_folder_have_equal_findings(archive):
    assert diagnose(EpisodeArchive(archive)).findings == diagnose(str(archive)).findings


def test_a_buffer_and_its_saved_file_have_equal_findings(saved):
    assert diagnose(filled_buffer(UNTOUCHED)).findings == diagnose(saved).findings
    assert diagnose(saved).codes == ["GD102"]


def test_episodes_are_a_target_one_by_one_and_joined():
    assert diagnose(UNTOUCHED).findings == diagnose(Episodes.of(UNTOUCHED)).findings


def test_a_run_folder_has_the_options_the_history_and_the_latest_buffer(run):
    report = diagnose(run)
    assert report.codes == ["GD102"]
    unmet = {code for gap in report.not_exercised for code in gap.codes}
    assert not unmet & {"GD401", "GD601", "GD606"}


def test_a_run_folder_without_a_buffer_has_findings_of_its_history(run):
    for buffer in run.glob("*.replay"):
        buffer.unlink()
    (run / "progress.csv").write_text("epoch,env_steps,updates,success_rate\n1,4000,1,0\n")
    assert diagnose(run).codes == ["GD606"]


def test_given_options_have_precedence_over_those_of_the_target():
    assert diagnose(healthy(), gamma=0.5).codes == ["GD401"]
    assert diagnose(healthy(), gamma=0.98).codes == []


def test_only_selected_rules_are_reported(archive):
    assert diagnose(archive, select="GD2").codes == []
    assert diagnose(archive, ignore=["GD1"]).codes == []


def test_an_environment_that_is_passed_in_stays_open():
    env = PointEnv()
    env.close = lambda: pytest.fail("the environment was closed")
    assert diagnose(env, max_steps=600).codes == []


def test_equal_seeds_give_equal_reports():
    assert diagnose("her_envs/PointPush-v0", seed=3) == diagnose("her_envs/PointPush-v0", seed=3)


def test_folders_of_trainings_are_read_without_torch(tmp_path):
    out, _ = train_reach(tmp_path)
    code = (
        "import sys; from her_wrappers.diagnosis import diagnose; report = diagnose(sys.argv[1]); "
        "sys.exit('torch' in sys.modules or 'her_agents' in sys.modules or report.steps != 200)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(out)], check=False).returncode == 0


@given(cuts=st.lists(st.integers(1, 39), max_size=4), seed=st.integers(0, 3))
@settings(max_examples=20, deadline=None)
def test_facts_do_not_depend_on_the_sizes_of_the_blocks(cuts, seed):
    episodes = Episodes.of(healthy(count=40, steps=8, seed=seed))
    bounds = sorted({0, 40, *cuts})
    parts = [episodes[begin:end] for begin, end in pairwise(bounds)]
    whole, joined = Facts.of([episodes]), Facts.of(parts)
    for name in ("moves", "rewards", "distances", "starts", "finals", "episode_hashes", "start_hashes"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(joined, name))
    np.testing.assert_array_equal(whole.achieved.high, joined.achieved.high)
    np.testing.assert_array_equal(whole.has_moved, joined.has_moved)


def test_goals_that_are_images_are_compared_too():
    image = {key: (lambda each, i, key=key: np.repeat(each.observations[key], 50, axis=1)) for key in KEYS}
    assert diagnose(with_observations(UNTOUCHED, **image)).codes == ["GD102"]


KEYS = ("achieved_goal", "desired_goal")


class NoGoals(gym.Env):
    observation_space = PLACE
    action_space = PLACE

    def reset(self, *, seed=None, options=None):
        return np.zeros(2), {}

    def step(self, action):
        return np.zeros(2), 0.0, False, False, {}


class TextReward(PointEnv):
    def step(self, action):
        observation, _, terminated, truncated, info = super().step(action)
        return observation, [], terminated, truncated, info


class Broken(PointEnv):
    def step(self, action):
        raise ZeroDivisionError("no simulator")


def empty_archive(folder):
    EpisodeArchive(folder / "empty", env=PointEnv()).close()
    return folder / "empty"


def archive_without_goals(folder):
    with EpisodeArchive(folder / "plain") as archive:
        for episode in healthy(count=2):
            archive.add_episode(
                type(episode)(
                    episode.observations["observation"],
                    episode.actions,
                    episode.rewards,
                    terminated=False,
                    truncated=True,
                )
            )
    return folder / "plain"


def damaged_archive(folder):
    with EpisodeArchive(folder / "damaged") as archive:
        archive.add_episodes(UNTOUCHED)
    [shard] = [path for path in (folder / "damaged").iterdir() if path.suffix not in {".json", ""}]
    shard.write_bytes(shard.read_bytes()[:-100])
    return folder / "damaged"


def text_file(folder):
    (folder / "notes.txt").write_text("not a buffer")
    return folder / "notes.txt"


def folder_of(files):
    def make(folder):
        for name, text in files.items():
            (folder / name).write_text(text)
        return folder

    return make


UNUSABLE = {
    "missing path": (lambda folder: folder / "none", "there is no file or folder"),
    "empty folder": (lambda folder: folder, "is neither an archive nor a folder of her train"),
    "empty archive": (empty_archive, "has no complete episode"),
    "archive without goals": (archive_without_goals, "but lack observation, achieved_goal, desired_goal"),
    "damaged archive": (damaged_archive, "damaged"),
    "text file": (text_file, "notes.txt"),
    "config of something else": (folder_of({"config.json": "{}"}), "is not the config of a training"),
    "config that is not JSON": (folder_of({"config.json": "{"}), "is not the config of a training"),
    "config that is a list": (folder_of({"config.json": "[]"}), "is not the config of a training"),
    "training without an epoch": (folder_of({"config.json": json.dumps(CONFIG)}), "train for at least one"),
    "text in progress.csv": (
        folder_of({"config.json": json.dumps(CONFIG), "progress.csv": "epoch,success_rate\n1,none\n"}),
        "its cells must be numbers",
    ),
    "progress.csv without success": (
        folder_of({"config.json": json.dumps(CONFIG), "progress.csv": "epoch\n1\n"}),
        "each row must have a success_rate",
    ),
    "binary progress.csv": (
        folder_of({"config.json": json.dumps(CONFIG), "progress.csv": "success_rate\n0\0\n"}),
        "is damaged",
    ),
    "long row in progress.csv": (
        folder_of({"config.json": json.dumps(CONFIG), "progress.csv": "success_rate\n0,1,2\n"}),
        "is damaged",
    ),
    "environment without goals": (lambda folder: f"{__file__}:NoGoals", "achieved_goal"),
    "environment without rewards": (
        lambda folder: f"{__file__}:TextReward",
        "values that cannot be recorded",
    ),
    "environment that raises": (
        lambda folder: f"{__file__}:Broken",
        "step() of Broken raised at episode 0, step 0",
    ),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_unusable_targets_end_with_three_and_one_sentence(name, tmp_path):
    make, message = UNUSABLE[name]
    result = her("doctor", make(tmp_path))
    assert result.exit_code == 3, result.output
    assert message in result.output
    assert result.output.startswith("Error: ")
    assert len(result.output.splitlines()) == 1


def test_damaged_buffers_raise_no_other_errors(saved):
    for variant in damaged(saved.read_bytes(), 50):
        saved.write_bytes(variant)
        with suppress(OSError, ValueError):
            diagnose(saved)


@pytest.mark.parametrize("target", [3, [1, 2], {"a": 1}])
def test_other_targets_raise_a_type_error(target):
    with pytest.raises(TypeError, match="target must be"):
        diagnose(target)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gamma": 2}, "gamma must lie in"),
        ({"time_limit": 0}, "time_limit"),
        ({"max_steps": 0}, "max_steps"),
        ({"seed": -1}, "seed"),
        ({"select": "GD9"}, "unknown rule code 'GD9'"),
    ],
)
def test_wrong_options_raise_a_value_error(options, message):
    with pytest.raises(ValueError, match=message):
        diagnose(healthy(count=10), **options)


def test_vector_environments_are_rejected_with_the_reason():
    envs = gym.make_vec("her_envs/PointReach-v0", 2)
    with pytest.raises(TypeError, match="needs a single environment"):
        diagnose(lambda: envs)
