"""RealRobot: its infos, and the questions to a person."""

import time

import gymnasium as gym
import pytest

import her_envs
from her_wrappers import EpisodeRecorder, RealRobot
from her_wrappers.goals.real_robot import find_robot

gym.register_envs(her_envs)


class Arm(gym.Wrapper):
    """PointReach without a flag, in which a person intervenes in some steps."""

    def __init__(self, intervened=(), flag=False, **options):
        super().__init__(gym.make("her_envs/PointReach-v0", max_steps=4, **options))
        self.intervened, self.flag, self.count = intervened, flag, 0

    def step(self, action):
        *rest, info = self.env.step(action)
        info = {"is_success": True} if self.flag else {"battery": 0.5}
        if self.count in self.intervened:
            info["intervene_action"] = self.action_space.low
        self.count += 1
        return *rest, info


def play(env):
    env.reset(seed=0)
    env.action_space.seed(0)
    infos = []
    while True:
        *_, terminated, truncated, info = env.step(env.action_space.sample())
        infos.append(info)
        if terminated or truncated:
            return infos


@pytest.mark.parametrize("answer", [True, False])
def test_the_function_success_judges_the_last_step_only(answer):
    seen = []

    def success(observation, info):
        seen.append((set(observation), info))
        return answer

    infos = play(RealRobot(Arm(flag=True), success=success))
    assert [info["is_success"] for info in infos] == [False, False, False, answer]
    assert seen == [({"observation", "achieved_goal", "desired_goal"}, {"is_success": True})]


def test_without_it_the_flag_of_the_environment_stays_and_a_missing_one_is_an_error():
    assert all(info["is_success"] is True for info in play(RealRobot(Arm(flag=True))))
    with pytest.raises(ValueError, match=r"'is_success'.*'battery'.*success=input"):
        play(RealRobot(Arm()))


@pytest.mark.parametrize(("line", "success"), [("y", True), (" Yes", True), ("n", False), ("", False)])
def test_input_asks_a_person_before_each_reset_and_after_each_episode(line, success, monkeypatch):
    prompts = []
    monkeypatch.setattr("builtins.input", lambda prompt: prompts.append(prompt) or line)
    env = RealRobot(Arm(), before_reset=input, success=input)
    assert [play(env)[-1]["is_success"] for _ in range(2)] == [success, success]
    assert [prompt.split()[0] for prompt in prompts] == ["Reset", "Was", "Reset", "Was"]


def test_a_function_is_called_before_each_reset_and_other_values_are_errors():
    calls = []
    env = RealRobot(Arm(flag=True), before_reset=lambda: calls.append(env.unwrapped.np_random.random()))
    play(env)
    play(env)
    assert len(calls) == 2
    for argument in ("before_reset", "success"):
        with pytest.raises(TypeError, match=argument):
            RealRobot(Arm(), **{argument: "input"})


@pytest.mark.parametrize("argument", ["before_reset", "success"])
def test_input_without_a_terminal_is_an_error(argument, monkeypatch):
    def closed(prompt):
        raise EOFError

    monkeypatch.setattr("builtins.input", closed)
    with pytest.raises(ValueError, match=f"{argument}=input needs a terminal"):
        play(RealRobot(Arm(flag=True), **{argument: input}))


def test_a_robot_is_found_among_wrappers_but_not_by_an_attribute():
    arm, robot = Arm(), RealRobot(Arm())
    arm.action_key = "executed"
    limited = gym.wrappers.TimeLimit(robot, 3)
    assert [find_robot(env) for env in (arm, arm.unwrapped, robot, limited)] == [None, None, robot, robot]


def test_infos_say_where_a_person_intervened_and_recorders_store_what_was_executed():
    episodes = []
    env = RealRobot(Arm(intervened={1, 2}, flag=True), action_key="intervene_action")
    recorder = EpisodeRecorder(env, episodes.append, info_keys=["intervened"], action_key=env.action_key)
    play(recorder)
    (episode,) = episodes
    assert episode.infos["intervened"].tolist() == [False, True, True, False]
    is_low = (episode.actions == env.action_space.low).all(axis=1)
    assert is_low.tolist() == [False, True, True, False]


def test_step_seconds_are_the_times_between_the_beginnings_of_steps(monkeypatch):
    now = iter([1.0, 1.25, 1.5, 2.5, 9.0, 9.5, 9.75, 10.0])
    env = RealRobot(Arm(flag=True))
    monkeypatch.setattr(time, "perf_counter", lambda: next(now))
    assert [info["step_seconds"] for info in play(env)] == [0.0, 0.25, 0.25, 1.0]
    assert [info["step_seconds"] for info in play(env)] == [0.0, 0.5, 0.25, 0.25]
