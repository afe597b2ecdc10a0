"""mjlab and Brax on the CPU, by the code of the page on simulators."""

from dataclasses import replace

import pytest
import torch
from gymnasium.spaces import Box

from her_agents import Config, load_agent, train
from her_wrappers import VectorEpisodeRecorder
from her_wrappers.simulators import GoalSimulator
from tests.support.pages import EXAMPLE, ROOT

pytestmark = [pytest.mark.simulators, pytest.mark.filterwarnings("ignore")]

PAGE = (ROOT / "docs" / "simulators.md").read_text()
NUM_ENVS = 16
QUICK = {'("reacher")': '("reacher", backend="spring")'}  # compiles faster


def compute_reward(achieved_goal, desired_goal, info):
    return (achieved_goal - desired_goal).norm(dim=-1).lt(0.05).float() - 1


def from_page(preset, **changes):
    """Run the code of the page for a preset, with changes; return its names."""
    code = next(
        match["code"] for match in EXAMPLE.finditer(PAGE) if f"GoalSimulator.{preset}(" in match["code"]
    )
    for old, new in changes.items():
        assert old in code
        code = code.replace(old, new)
    names = {"GoalSimulator": GoalSimulator, "compute_reward": compute_reward}
    exec(code, names)
    return names


def steps_of(env, count):
    """Yield pairs of an observation and the step from it, with random actions."""
    generator = torch.Generator().manual_seed(0)
    observation = env.reset(seed=1)
    for _ in range(count):
        shape = (env.num_envs, *env.single_action_space.shape)
        step = env.step(torch.rand(shape, generator=generator) * 2 - 1)
        yield observation, step
        observation = step.observation


@pytest.fixture(scope="module")
def mjlab():
    """The lifting task with episodes of 10 steps."""
    short = "False\ncfg.episode_length_s = 0.2"
    names = from_page("mjlab", **{"4096": str(NUM_ENVS), "cuda:0": "cpu", "False": short})
    yield names
    names["sim"].close()


def test_mjlab_gives_last_observations(mjlab):
    env, sim = mjlab["env"], mjlab["sim"]
    ends = 0
    for before, step in steps_of(env, 25):
        ended = step.terminated | step.truncated
        ends += int(ended.sum())
        cube = sim.scene["cube"].data.root_link_pos_w - sim.scene.env_origins
        assert torch.equal(step.observation["achieved_goal"], cube)
        for key, now in step.observation.items():
            assert torch.equal(step.last_observation[key][~ended], now[~ended])
        # In one step, the arm and the cube move by less than a reset moves them.
        moved = (step.last_observation["achieved_goal"] - before["achieved_goal"]).norm(dim=-1)
        assert moved.max() < 0.05
        assert torch.equal(step.last_observation["desired_goal"][ended], before["desired_goal"][ended])
        if ended.any():
            assert (step.observation["achieved_goal"] - before["achieved_goal"]).norm(dim=-1)[
                ended
            ].max() > 0.05
    assert ends >= 2 * NUM_ENVS
    env.check()


def test_mjlab_is_recorded(mjlab):
    episodes = []
    env = VectorEpisodeRecorder(mjlab["env"].as_vector_env(), episodes.append)
    env.reset(seed=0)
    for _ in range(10):
        env.step(env.action_space.sample() * 0)
    assert [len(episode) for episode in episodes] == [10] * NUM_ENVS


def test_mjlab_is_trained_on(mjlab, tmp_path):
    env = mjlab["env"]
    size = env.single_action_space.shape
    bounded = replace(env, action_space=Box(-1, 1, size), time_limit=10)
    config = Config("lift", "sac", steps=320, steps_per_epoch=320, learning_starts=64, num_envs=NUM_ENVS)
    result = train(config, env=bounded, folder=tmp_path / "run", on_epoch=None)
    assert [row["mean_length"] for row in result.history] == [10]
    assert result.history[-1]["updates"] == 2 * 16  # of each step after the first four
    assert load_agent(tmp_path / "run").act(env.reset(seed=0)).shape == (NUM_ENVS, *size)
    with pytest.raises(TypeError, match="action_space"):
        train(config, env=env, on_epoch=None)


def test_mjlab_with_automatic_resets_is_rejected(mjlab):
    mjlab["cfg"].auto_reset = True
    with pytest.raises(ValueError, match="auto_reset"):
        GoalSimulator.mjlab(mjlab["sim"], achieved_goal="a", desired_goal="b", compute_reward=compute_reward)
    mjlab["cfg"].auto_reset = False


def test_brax_gives_last_observations_and_new_episodes():
    env = from_page("brax", **{"4096": str(NUM_ENVS), "=100": "=5", **QUICK})["env"]
    first = None
    for i, (before, step) in enumerate(steps_of(env, 15)):
        ended = step.terminated | step.truncated
        assert ended.all() if i % 5 == 4 else not ended.any()
        assert not step.terminated.any()
        assert torch.allclose(step.last_observation["desired_goal"], before["desired_goal"], atol=1e-3)
        if ended.all():
            start = step.observation["achieved_goal"]
            assert first is None or not torch.equal(start, first)
            assert (step.last_observation["observation"] != step.observation["observation"]).any(1).all()
            first = start
    env.check()


def test_brax_with_automatic_resets_is_rejected():
    with pytest.raises(ValueError, match="auto_reset"):
        from_page(
            "brax",
            **{
                "sim = EpisodeWrapper": "sim = envs.wrappers.training.AutoResetWrapper(EpisodeWrapper",
                "action_repeat=1)": "action_repeat=1))",
                "4096": "2",
                **QUICK,
            },
        )
