"""The short examples: each runs in a small setting, and behaves as its text says."""

import runpy
import sys
from functools import partial

import gymnasium as gym
import pytest

from examples import own_loop, write_a_task  # noqa: F401 - registers King-v0
from examples.check_your_env import Buttons
from her_agents.training.config import make_config
from her_agents.training.loop import train
from her_wrappers import check_goal_env
from her_wrappers.repairs import CopyObservation


def test_environment_to_check_has_exactly_the_fault_of_its_comment():
    report = check_goal_env(Buttons, max_steps=300)
    assert [finding.code for finding in report.of_severity("error")] == ["GE301"]
    mended = check_goal_env(lambda: CopyObservation(Buttons()), max_steps=300)
    assert not mended.of_severity("error")


def test_own_loop_learns():
    assert own_loop.train(30) < 0.5
    assert own_loop.train(500) > 0.6


def test_task_passes_the_check():
    assert check_goal_env(gym.make("King-v0"), max_steps=500).findings == ()
    env = gym.make("King-v0", render_mode="rgb_array", render_size=64)
    env.reset(seed=0, options={"state": {"king": [0, 0]}, "goal": [1, 0]})
    assert env.render().shape == (64, 64, 3)
    observation, reward, terminated, *_ = env.step(2)
    assert (observation["achieved_goal"].tolist(), reward, terminated) == ([1, 0], 0, True)


def test_her_train_accepts_the_file_of_the_task():
    config = {"env": "examples.write_a_task:King-v0", "algo": "dqn", "steps": 200, "steps_per_epoch": 200}
    row = train(make_config(config, {"learning_starts": 50, "evaluation_episodes": 2})).history[-1]
    assert row["relabeled_success"] > 0


MODULES = {
    "check_your_buffer": "HB401",
    "check_your_env": "GE301",
    "demonstrations": "demonstrations: 0.25 of the rows; the puck moves in 0.",
    "own_loop": "success rate",
    "write_a_task": "1000 kings moved",
}


@pytest.mark.parametrize("module", MODULES)
def test_examples_run_as_programs(module, capsys, monkeypatch):
    """Each example is executed with ``__name__ == "__main__"``, as by ``python -m``; its checks are short."""
    monkeypatch.setattr("her_wrappers.check_goal_env", partial(check_goal_env, max_steps=300))
    monkeypatch.delitem(sys.modules, f"examples.{module}", raising=False)
    monkeypatch.delitem(gym.registry, "King-v0")
    runpy.run_module(f"examples.{module}", run_name="__main__")
    assert MODULES[module] in capsys.readouterr().out
