"""Runs on a real robot: one instance, no evaluations, updates in a thread, and nothing lost."""

import itertools
import signal
import threading
import time
from functools import partial

import numpy as np
import pytest

from her_agents import DDPG, SAC
from her_agents.training.checkpoints import load_checkpoint
from her_agents.training.evaluation import play_episode
from her_agents.training.logs import is_solved
from her_agents.training.loop import epoch_line, train
from her_wrappers import EpisodeRecorder, HindsightReplayBuffer, RealRobot
from her_wrappers.data.text import read_progress
from tests.support.robot import Robot
from tests.support.short_runs import same, tiny

STEPS = 10  # of an episode


def real(**options):
    numbers = {"steps": 60, "steps_per_epoch": 30, "learning_starts": 20, "updates_per_step": 0.5}
    numbers |= {"env": "robot", "env_kwargs": {}, "real": True, "num_envs": 1}
    return tiny("ddpg", **{**numbers, **options})


@pytest.fixture(name="robot")
def a_robot(request):
    made = Robot(hz=1000, max_steps=STEPS, **getattr(request, "param", {}))
    yield made
    made.close()


def saved_lengths(folder):
    (buffer,) = folder.glob("buffer-*.replay")
    stored = HindsightReplayBuffer.load(buffer, Robot(hz=1000))
    return [len(episode) for episode in stored.episodes()]


def test_the_run_makes_one_instance_and_moves_it_for_the_steps_of_the_run_only(monkeypatch):
    made = []
    monkeypatch.setattr(Robot, "close", lambda self, close=Robot.close: (made.append(self), close(self)))
    before = Robot.instances
    result = train(real(), env=partial(Robot, hz=1000, max_steps=STEPS), on_epoch=None)
    assert Robot.instances == before + 1
    (robot,) = set(made)
    assert (robot.steps, robot.resets) == (60, 6), "an episode of 10 steps each, and no reset after the last"
    assert robot.is_stopped, "by its own close"
    assert result.history[-1]["updates"] == 20 == int(0.5 * (60 - 20))


@pytest.mark.parametrize(("evaluate_every", "evaluated"), [(None, []), (2, [2])])
def test_evaluations_happen_only_when_asked(evaluate_every, evaluated, robot, tmp_path):
    config = real(evaluate_every=evaluate_every, steps=90)
    result = train(config, env=robot, folder=tmp_path / "run", tensorboard=False, on_epoch=None)
    assert [row["epoch"] for row in result.history if "success_rate" in row] == evaluated
    assert robot.resets == 9 + 3 * len(evaluated)
    best = load_checkpoint(tmp_path / "run/best.pt")
    assert (best["config"]["real"], best["config"]["evaluate_every"]) == (True, evaluate_every or 0)
    assert best["history"][-1]["epoch"] == (2 if evaluated else 3), "that of the evaluation, or the latest"
    rows = read_progress(tmp_path / "run/progress.csv")
    assert [row["epoch"] for row in rows if "success_rate" in row] == evaluated
    assert "period" in epoch_line(rows[-1])


def test_simulated_environments_are_evaluated_every_few_epochs_too():
    history = train(tiny(evaluate_every=2), on_epoch=None).history
    assert ["success_rate" in row for row in history] == [False, True, False]
    plain = train(tiny(steps=200), on_epoch=None).history
    assert history[1]["success_rate"] == plain[1]["success_rate"], "evaluations do not change the run"
    solved = [{"success_rate": 1.0}, {}, {"success_rate": 1.0}, {}]
    assert is_solved(solved)
    assert not is_solved(solved[1:])


def test_updates_are_made_in_a_thread_by_another_agent_than_the_one_that_acts(robot):
    threads, agents, acting = set(), set(), []

    class Watched(SAC):
        def update(self, batch, imitate=None):
            threads.add(threading.current_thread())
            agents.add(id(self))
            return super().update(batch)

        def act(self, observation, *, explore=False):
            if robot.time < STEPS:  # else the vector environment only resets
                weights = self.policy_state()["network"]
                acting.append((id(self), {name: each.clone() for name, each in weights.items()}))
            return super().act(observation, explore=explore)

    result = train(real(algo="sac", agent={"hidden": [8]}), env=robot, agent=Watched, on_epoch=None)
    assert threading.main_thread() not in threads
    assert agents == {id(result.agent)}
    (actor,) = {name for name, _ in acting}
    assert actor != id(result.agent)
    episodes = [acting[i : i + STEPS] for i in range(0, 60, STEPS)]
    for episode in episodes:
        assert all(same(each, episode[0][1]) for _, each in episode), "constant within an episode"
    changed = [not same(a[0][1], b[0][1]) for a, b in itertools.pairwise(episodes)]
    assert changed == [False, False, False, True, True], "those of one episode act in the next but one"


def test_the_result_does_not_depend_on_the_time_that_updates_take():
    class Slow(DDPG):
        def update(self, batch, imitate=None):
            time.sleep(0.01)
            return super().update(batch)

    options = {"linear_schedule": True, "env": "her_envs/PointReach-v0", "env_kwargs": {"max_steps": STEPS}}
    results = [train(real(**options), agent=agent, on_epoch=None) for agent in (DDPG, Slow)]
    weights = [result.agent.policy_state()["network"] for result in results]
    assert same(*weights)
    assert results[0].history[-1]["updates"] == results[1].history[-1]["updates"] > 10


FAULTS = [("raise", ConnectionError), ("kill", (EOFError, OSError))]


@pytest.mark.parametrize(("fault", "error"), FAULTS)
def test_a_robot_that_fails_loses_no_step_and_the_run_continues_the_next_day(fault, error, tmp_path):
    robot = Robot(hz=1000, max_steps=STEPS, faults={45: fault})
    folder = tmp_path / "run"
    with pytest.raises(error) as raised:
        train(real(), env=robot, folder=folder, tensorboard=False, on_epoch=None)
    assert "continues it with all its episodes" in raised.value.__notes__[-1]
    assert saved_lengths(folder) == [10, 10, 10, 10, 4]
    robot.process.kill()
    env = partial(Robot, hz=1000, max_steps=STEPS)
    result = train(real(), env=env, folder=folder, resume=True, tensorboard=False, on_epoch=None)
    assert result.history[-1]["env_steps"] >= 60
    assert sum(saved_lengths(folder)) == result.history[-1]["env_steps"]


def test_a_pause_of_the_robot_is_only_a_long_step(tmp_path):
    robot = partial(Robot, hz=1000, max_steps=STEPS, faults={15: 0.3})
    folder = tmp_path / "run"
    result = train(real(), env=robot, folder=folder, tensorboard=False, on_epoch=None)
    assert saved_lengths(folder) == [10] * 6
    assert result.history[0]["step_jitter"] > 0.3 / 2


def test_ctrl_c_ends_the_episode_without_a_reset(robot, tmp_path):
    def interrupt(run):
        if robot.steps == 45:
            signal.raise_signal(signal.SIGINT)

    folder = tmp_path / "run"
    result = train(real(), env=robot, folder=folder, tensorboard=False, on_epoch=None, on_step=interrupt)
    assert result.interrupted
    assert (robot.steps, robot.resets) == (45, 5)
    assert saved_lengths(folder) == [10, 10, 10, 10, 5]


def test_an_error_of_an_update_reaches_the_caller(robot):
    class Broken(SAC):
        def update(self, batch, imitate=None):
            raise ZeroDivisionError("in the thread")

    with pytest.raises(ZeroDivisionError, match="in the thread"):
        train(real(algo="sac"), env=robot, agent=Broken, on_epoch=None)


def toward_the_goal(observation):
    return np.clip(10 * (observation["desired_goal"] - observation["achieved_goal"]), -1, 1).astype(
        np.float32
    )


class Imitator(SAC):
    """Collects which actions it is asked to imitate."""

    def build(self, action_space):
        super().build(action_space)
        self.imitated = []

    def update(self, batch, imitate=None):
        self.imitated.append((batch.actions.copy(), np.array(imitate), batch.is_demonstration.copy()))
        return super().update(batch)


@pytest.mark.parametrize("robot", [{"intervened": range(12, 18)}], indirect=True)
@pytest.mark.parametrize("has_demos", [False, True])
def test_steps_in_which_a_person_intervened_have_the_executed_action_and_are_imitated(
    robot, has_demos, tmp_path
):
    demos = {}
    if has_demos:
        demos = {"demos": str(tmp_path / "demos.replay")}
        with Robot(hz=200, max_steps=STEPS) as other:
            recorded = HindsightReplayBuffer.for_env(other, buffer_size=100)
            recorder = EpisodeRecorder(other, recorded.add_episode)
            while not play_episode(recorder, toward_the_goal).success:  # the robot may overshoot
                pass
            recorded.save(demos["demos"])
    env = RealRobot(robot, action_key="intervene_action")
    result = train(real(algo="sac", **demos), env=env, agent=Imitator, on_epoch=None)
    actions, imitate, is_demonstration = (
        np.concatenate(each) for each in zip(*result.agent.imitated, strict=True)
    )
    assert is_demonstration.any() == has_demos
    assert imitate[is_demonstration].all()
    others = actions[imitate & ~is_demonstration]
    assert 1 <= len(np.unique(others, axis=0)) <= 6 == len(robot.executed)
    executed = {tuple(action) for action in robot.executed}
    assert {tuple(action) for action in others} <= executed
    assert not executed & {tuple(action) for action in actions[~imitate]}


@pytest.mark.parametrize(
    ("name", "value"),
    [("num_envs", 2), ("workers", 1), ("on_device", True), ("offline", "a"), ("updates_in_graph", "always")],
)
def test_options_that_a_robot_cannot_have_are_errors(name, value):
    with pytest.raises(ValueError, match=name):
        real(**{name: value})
