"""Runs with demonstrations: of an archive, a saved buffer, or a policy that plays when the run begins."""

import warnings
from contextlib import closing

import gymnasium as gym
import numpy as np
import pytest

from her_agents.algorithms.sac import SAC
from her_agents.training.demonstrations import record_successes
from her_agents.training.loop import train
from her_agents.training.run import open_run
from her_wrappers import EpisodeArchive, HindsightReplayBuffer
from tests.support.commands import her
from tests.support.short_runs import TASKS, assert_resumes, same, tiny

ENV, OPTIONS = TASKS["td3"]["env"], {"max_steps": 9}


class Seeker:
    """Moves to the goal; counts the calls of ``reset``."""

    resets = 0

    def reset(self):
        self.resets += 1

    def __call__(self, observation):
        offset = observation["desired_goal"] - observation["achieved_goal"]
        return np.clip(20 * offset, -1, 1).astype(np.float32)


@pytest.fixture(name="demos", scope="module")
def recorded(tmp_path_factory):
    """Return three demonstrations, in an archive in ``demos`` and a buffer in ``saved``."""
    env, folder = gym.make(ENV, **OPTIONS), tmp_path_factory.mktemp("demos")
    episodes = record_successes(
        env, Seeker(), count=3, noise=0.1, rng=np.random.default_rng(0), info_keys=["is_success"]
    )
    with EpisodeArchive(folder / "demos", env=env) as archive:
        archive.add_episodes(episodes)
    buffer = HindsightReplayBuffer.for_env(env, buffer_size=100, seed=0)
    buffer.add_episodes(episodes)
    buffer.save(folder / "saved")
    (folder / "seeker.py").write_text(
        "def seek(observation):\n"
        "    offset = observation['desired_goal'] - observation['achieved_goal']\n"
        "    return (20 * offset).clip(-1, 1).astype('float32')\n"
        "def stay(observation):\n"
        "    return 0 * observation['desired_goal']\n"
    )
    return folder


def demonstrated(folder, source, algo="sac", **options):
    return tiny(algo, demos=str(folder / source), env=ENV, env_kwargs=OPTIONS, steps=200, **options)


@pytest.mark.parametrize("source", ["demos", "saved", "seeker.py:seek"])
def test_demonstrations_are_a_share_of_each_update(source, demos):
    with closing(open_run(demonstrated(demos, source, demo_share=0.5, demo_episodes=3))) as run:
        run.run_epoch(lambda: False, lambda _: None)
        assert run.buffer.demonstrations.num_episodes == 3
        assert run.buffer.sample(100).is_demonstration.sum() == 50


class WithoutImitation(SAC):
    def update(self, batch):
        return super().update(batch)


def test_agents_whose_update_has_no_imitate_learn_unless_they_must_imitate(demos):
    config = demonstrated(demos, "demos", steps_per_epoch=200)
    results = [train(config, agent=each, on_epoch=None) for each in (SAC, WithoutImitation)]
    assert same(*(result.agent.state_dict() for result in results))
    config = demonstrated(demos, "demos", agent={"bc_weight": 1.0})
    with pytest.raises(TypeError, match="imitate"):
        train(config, agent=WithoutImitation, on_epoch=None)


def test_only_successes_of_a_policy_are_recorded():
    policy, env = Seeker(), gym.make(ENV, **OPTIONS)
    rng = np.random.default_rng(0)
    episodes = record_successes(env, policy, count=4, noise=0.5, rng=rng, info_keys=["is_success"])
    assert [bool(episode.infos["is_success"][-1]) for episode in episodes] == [True] * 4
    assert policy.resets >= 4
    with pytest.raises(ValueError, match="got 0 successes in 20 episodes; lower demo_noise"):
        record_successes(env, lambda _: np.zeros(2, np.float32), count=2, noise=0.0, rng=rng)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_resumed_run_equals_an_uninterrupted_one(demos, workers, tmp_path):
    config = demonstrated(demos, "seeker.py:seek", demo_episodes=3, workers=workers, agent={"bc_weight": 0.5})
    assert_resumes(config, tmp_path, backend="local")


@pytest.mark.parametrize(
    ("source", "options"),
    [
        ("missing", {}),
        ("demos", {"env": "her_envs/PointPush-v0", "env_kwargs": {}}),
        ("seeker.py:none", {}),
        ("seeker.py:stay", {"demo_episodes": 1}),
        ("none.py:seek", {}),
    ],
)
def test_unusable_demonstrations_raise_an_error_with_their_name(source, options, demos):
    config = tiny("sac", demos=str(demos / source), **{"env": ENV, "env_kwargs": OPTIONS} | options)
    with (
        warnings.catch_warnings(action="ignore"),
        pytest.raises(ValueError, match=r"demos='.*' cannot be used|demonstrations: episodes"),
    ):
        train(config, on_epoch=None)


def test_the_command_takes_demonstrations(demos, tmp_path):
    command = ["train", ENV, "-o", "max_steps=9", "--steps", 100, "--learning-starts", 50, "--no-check"]
    command += ["--no-tensorboard", "--out"]
    assert her(*command, tmp_path / "run", "--demos", demos / "demos", "--demo-share", 0.5).exit_code == 0
    result = her(*command, tmp_path / "other", "--demos", demos / "missing")
    assert result.exit_code == 3, result.output
    assert "cannot be used" in result.stderr
    assert "is neither a file nor a folder" in result.stderr
