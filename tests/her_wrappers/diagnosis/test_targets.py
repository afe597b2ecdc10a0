"""Targets of a diagnosis: archives, run folders, buffers, episodes and environments; unusable ones."""

import json
import pickle
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise

import gymnasium as gym
import numpy as np
import pytest

import her_envs  # noqa: F401 - registers the bundled ids
from her_wrappers import EpisodeArchive, HindsightReplayBuffer
from her_wrappers.diagnosis import diagnose
from her_wrappers.diagnosis.facts import Facts
from her_wrappers.diagnosis.targets import options_of_config
from her_wrappers.recording.episodes import Episodes
from tests.support.commands import her
from tests.support.diagnosis import EPISODES, PointEnv, healthy, mapped

UNTOUCHED = EPISODES["GD102"]()
CONFIG = json.dumps({"algo": "sac", "gamma": 0.98, "clip_targets": True, "batch_size": 128, "env_kwargs": {}})


def filled_buffer(episodes):
    spaces = PointEnv.observation_space, PointEnv.action_space
    buffer = HindsightReplayBuffer(*spaces, n_sampled_goal=0, buffer_size=10_000, info_keys=["is_success"])
    buffer.extend(episodes)
    return buffer


@pytest.fixture(name="run")
def run_folder(tmp_path):
    (tmp_path / "config.json").write_text(CONFIG)
    (tmp_path / "progress.csv").write_text("epoch,env_steps,updates,success_rate,q_mean\n1,400,1,0,\n")
    filled_buffer(healthy()).save(tmp_path / "buffer-9.replay")
    filled_buffer(UNTOUCHED).save(tmp_path / "buffer-12.replay")
    return tmp_path


def test_an_archive_an_open_archive_and_its_episodes_have_equal_findings(tmp_path):
    with EpisodeArchive(tmp_path, shard_steps=200) as archive:
        archive.add_episodes(UNTOUCHED)
    report = diagnose(tmp_path)
    assert report.codes == ["GD102"]
    assert (report.episodes, report.steps, report.target) == (40, 1200, str(tmp_path))
    for target in (str(tmp_path), archive, UNTOUCHED, Episodes.of(UNTOUCHED)):
        assert diagnose(target).findings == report.findings


def test_a_buffer_and_its_saved_file_have_equal_findings_whatever_its_suffix(tmp_path):
    buffer = filled_buffer(UNTOUCHED)
    buffer.save(tmp_path / "buffer.pkl")
    of_buffer, of_file = diagnose(buffer), diagnose(tmp_path / "buffer.pkl")
    assert of_buffer.codes == ["GD102"]
    assert replace(of_file, target=of_buffer.target) == of_buffer


def test_a_run_folder_has_options_and_a_history_and_perhaps_a_buffer_of_which_the_latest_counts(run):
    report = diagnose(run)
    assert report.codes == ["GD102", "GD606"]
    unmet = {code for gap in report.not_exercised for code in gap.codes}
    assert not unmet & {"GD401", "GD601", "GD606"}
    for buffer in run.glob("*.replay"):
        buffer.unlink()
    assert diagnose(run).codes == ["GD606"]


def test_run_folders_are_read_without_torch(run):
    code = (
        "import sys; from her_wrappers.diagnosis import diagnose; report = diagnose(sys.argv[1]); "
        "sys.exit('torch' in sys.modules or report.steps != 1200)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(run)], check=False).returncode == 0


def test_given_options_have_precedence_over_those_of_the_target(run):
    reports = [diagnose(run, clip_targets=each, select="GD302") for each in (None, False)]
    assert [[gap.codes for gap in report.not_exercised] for report in reports] == [[()], [("GD302",), ()]]


@pytest.mark.parametrize(
    ("options", "subjects"),
    [
        ({"her": False}, ["her"]),
        ({"goal_selection_strategy": {"desired": 0.9, "future": 0.1}}, ["goal_selection_strategy"]),
        ({"agent": {"learning_rate": 1.0}, "gamma": 1.0}, ["agent.learning_rate", "gamma"]),
        ({"goal_selection_strategy": {"future": 0.8, "original": 0.2}, "agent": {}}, []),
    ],
)
def test_options_in_the_config_of_a_run_are_judged(options, subjects, run):
    (run / "config.json").write_text(json.dumps(json.loads(CONFIG) | options))
    assert [each.subject for each in diagnose(run, select="GD609").findings] == subjects


def test_an_environment_that_is_passed_in_stays_open():
    env = PointEnv()
    env.close = lambda: pytest.fail("the environment was closed")
    assert diagnose(env, max_steps=600).codes == []


def test_facts_do_not_depend_on_the_sizes_of_the_blocks():
    episodes = Episodes.of(healthy(count=210, steps=3))  # more than are sampled
    parts = [episodes[begin:end] for begin, end in pairwise((0, 1, 30, 100, 205, 210))]
    whole, joined = vars(Facts.of("whole", [episodes])), vars(Facts.of("parts", parts))
    np.testing.assert_equal(joined["sample"].observations, whole["sample"].observations)
    for name in whole.keys() - {"name", "sample"}:
        np.testing.assert_equal(joined[name], whole[name])


def test_goals_that_are_images_are_compared_too():
    images = mapped(UNTOUCHED, lambda rows: np.repeat(rows, 50, axis=1), "achieved_goal", "desired_goal")
    assert diagnose(images).codes == ["GD102"]


class TextReward(PointEnv):
    def step(self, action):
        observation, _, *others = super().step(action)
        return observation, [], *others


class Broken(PointEnv):
    def step(self, action):
        raise ZeroDivisionError("no simulator")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "is neither an archive nor a run folder of `her train`"),
        ({"config.json": "{}"}, "config.json is damaged, or is not the config of a run"),
        ({"config.json": CONFIG}, "train for at least one"),
        ({"config.json": CONFIG, "progress.csv": "success_rate\nx\n"}, "could not convert string"),
        ({"config.json": CONFIG[:-1] + ', "n_sampled_goal": -1}'}, "n_sampled_goal must be"),
    ],
)
def test_unusable_folders_raise_a_value_error_that_says_why(files, message, tmp_path):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=message):
        diagnose(tmp_path)


def test_no_episodes_and_episodes_without_goals_are_an_error():
    with pytest.raises(ValueError, match="at least one complete episode is needed, got none"):
        diagnose([])
    without_goals = replace(UNTOUCHED[0], observations=UNTOUCHED[0].observations["observation"])
    with pytest.raises(ValueError, match="but lack 'observation', 'achieved_goal', 'desired_goal'"):
        diagnose([without_goals])


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("no/such/path", "there is no file or folder"),
        (__file__, "test_targets.py"),
        (f"{__file__}:TextReward", "values that cannot be diagnosed"),
        (f"{__file__}:Broken", "step() of Broken in episode 0, step 0 raised"),
    ],
)
def test_unusable_files_and_environments_end_with_three_and_one_sentence(target, message):
    result = her("doctor", target)
    assert result.exit_code == 3, result.output
    assert message in result.output
    assert len(result.output.splitlines()) == 1


@pytest.mark.parametrize("target", [3, [1, 2], lambda: gym.make_vec("her_envs/PointReach-v0", 2)])
def test_other_targets_raise_a_type_error(target):
    with pytest.raises(TypeError, match="must be"):
        diagnose(target)


@pytest.mark.parametrize(
    "options", [{"gamma": 2}, {"time_limit": 0}, {"max_steps": 0}, {"seed": -1}, {"select": "GD9"}]
)
def test_wrong_options_raise_a_value_error_that_names_them(options):
    with pytest.raises(ValueError, match="GD9" if "select" in options else next(iter(options))):
        diagnose(healthy(count=10), **options)


@pytest.mark.parametrize(("of_env", "of_run", "limit"), [(50, 20, 20), (None, 50, 50), (None, None, None)])
def test_the_smaller_time_limit_of_environment_and_run_holds(of_env, of_run, limit):
    config = json.loads(CONFIG) | {"env_kwargs": {"max_steps": of_env}, "max_episode_steps": of_run}
    assert options_of_config(config)["time_limit"] == limit


class Trap:
    def __reduce__(self):
        return pytest.fail, ("the pickle was read",)


def test_files_of_stable_baselines3_are_not_unpickled_and_advice_says_how_to_get_episodes(tmp_path):
    file = tmp_path / "replay_buffer.pkl"
    file.write_bytes(pickle.dumps(Trap()))
    for path in (file, tmp_path):
        with pytest.raises(ValueError, match=r"docs/stable_baselines3\.md"):
            diagnose(path)


def log_of_sb3(folder, names, rows):
    lines = [",".join(names), *(",".join(map(str, row)) for row in rows)]
    (folder / "progress.csv").write_text("\n".join(lines))


@pytest.mark.parametrize("file", ["", "progress.csv"])
def test_a_log_of_stable_baselines3_is_the_history_of_a_run(tmp_path, file):
    """The success rate stays 0 while the temperature collapses; other rows have no success rate."""
    names = ["rollout/success_rate", "time/total_timesteps", "train/ent_coef", "custom/note"]
    rows = [(0.0, 1000 * i, 0.1 / 10 ** (i / 2), "text") for i in range(1, 12)]
    log_of_sb3(tmp_path, names, [*rows, ("", 12_000, 0.1, "")])
    report = diagnose(tmp_path / file, gamma=0.98)
    assert "GD603" in report.codes
    assert report.episodes == 0


def test_evaluations_of_stable_baselines3_count_before_episodes_with_exploration(tmp_path):
    names = ["eval/success_rate", "rollout/success_rate", "time/total_timesteps"]
    log_of_sb3(tmp_path, names, [("" if 1 < i < 9 else 0.1, 0.9, i) for i in range(1, 11)])
    assert diagnose(tmp_path).codes == ["GD607"]
