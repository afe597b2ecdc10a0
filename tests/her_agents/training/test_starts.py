"""Episodes that begin in recorded states: of demonstrations, with the reverse curriculum, or of the run."""

from collections import Counter
from contextlib import closing
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from her_agents.training.loop import train
from her_agents.training.run import open_run
from her_agents.training.starts import SLACK, START, Starts, StartWrapper
from her_wrappers import Episode, EpisodeRecorder
from tests.support.chi_square import assert_proportional
from tests.support.short_runs import assert_resumes, tiny

# In Counting, a state is the number of an episode and of its step, and every episode reaches its goal.
COUNTING = {"env": "her_envs/Counting-v0", "env_kwargs": {"length": 30}}
COUNTING |= {"steps": 400, "steps_per_epoch": 200, "start_state": "observation"}


class Drift(gym.Env):
    """A point on a line; its velocity, which is not observed, is in the infos, with the position."""

    goals = spaces.Box(-9, 9, (1,), np.float32)
    observation_space = spaces.Dict(observation=goals, achieved_goal=goals, desired_goal=goals)
    action_space = spaces.Discrete(3)

    def observe(self):
        position = self.state[:1].astype(np.float32)
        return {"observation": position, "achieved_goal": position.copy(), "desired_goal": self.goal.copy()}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        options = options or {}
        self.goal = np.float32(options.get("goal", self.np_random.uniform(1, 3, 1)))
        self.state, self.steps = np.array(options.get("state", [0.0, 0.0])), 0
        return self.observe(), {"state": self.state}

    def step(self, action):
        velocity = np.clip(self.state[1] + 0.1 * (action - 1), -1, 1)
        self.state, self.steps = np.array([self.state[0] + velocity, velocity]), self.steps + 1
        success = bool(abs(self.state[0] - self.goal[0]) < 0.5)
        info = {"is_success": success, "state": self.state}
        return self.observe(), float(success) - 1, success, self.steps == 20, info

    def compute_reward(self, achieved_goal, desired_goal, info):
        return (abs(achieved_goal - desired_goal)[..., 0] < 0.5) - np.float32(1)

    def compute_terminated(self, achieved_goal, desired_goal, info):
        return abs(achieved_goal - desired_goal)[..., 0] < 0.5


class Deaf(Drift):
    """Ignores the option ``ignored`` of reset."""

    def __init__(self, ignored):
        self.ignored = ignored

    def reset(self, *, seed=None, options=None):
        replaced = {"state": [0.0, 0.0], "goal": [-9.0]}[self.ignored]
        return super().reset(seed=seed, options=(options or {}) | {self.ignored: replaced})


def faster(observation):
    return 2


def count(observation):
    return 0


def push_state(env, episode, t):
    agent, puck = np.split(episode.observations["observation"][t], 2)
    goal = episode.observations["desired_goal"][t]
    return env.reset(options={"state": {"agent": agent, "puck": puck}, "goal": goal})


def without_result(env, episode, t):
    env.reset()


HERE = f"{__file__}:"


def counted(task="dqn", **options):
    shared = {"demos": HERE + "count", "demo_episodes": 3, "demo_noise": 0.0, "start_share": 0.5}
    return tiny(task, **COUNTING | shared | options)


def epochs(config, number=1, **options):
    """Return the run after some epochs."""
    run = open_run(config, **options)
    for _ in range(number):
        run.run_epoch(lambda: False, lambda _: None)
    return run


def episode(flags):
    """Return an episode whose achieved goals are the numbers of the states."""
    goals = np.arange(len(flags) + 1, dtype=np.float32)[:, None]
    observations = {"observation": goals, "achieved_goal": goals, "desired_goal": goals * 0 + len(flags)}
    infos = {} if flags[0] is None else {"is_success": np.array(flags)}
    return Episode(observations, np.zeros(len(flags)), np.zeros(len(flags)), False, True, infos)


def starts(episodes, env=None, how="observation", **options):
    """Return `Starts` in states of these demonstrations, or of a buffer with these episodes."""
    config = counted(**options)
    made = Starts(config, env or gym.make(config.env), how, "is_success")
    stored = SimpleNamespace(num_episodes=len(episodes), episodes=lambda: iter(episodes))
    stored.demonstrations = stored
    made.begin(0, stored)
    return made


def record(env, action, seeds=1, info_keys=()):
    """Return one episode of each seed."""
    recorded = []
    with EpisodeRecorder(env, recorded.append, info_keys=info_keys) as recorder:
        for seed in range(seeds):
            recorder.reset(seed=seed)
            while len(recorded) <= seed:
                recorder.step(action)
    return recorded


@pytest.mark.parametrize("source", ["demos", "run"])
@pytest.mark.parametrize("share", [0.3, 1.0])
def test_a_share_of_the_starts_is_uniform_over_all_recorded_states(source, share):
    made = starts([episode([0] * 2), episode([0, 0, 0, 1])], start_share=share, start_source=source)
    rng = np.random.default_rng(0)
    odds = {(i, step): share / 6 for i, length in enumerate((2, 4)) for step in range(length)}
    found = Counter(made.choose(rng) for _ in range(4000))
    assert_proportional(found, odds | ({(-1, -1): 1 - share} if share < 1 else {}))


def test_the_curriculum_chooses_demonstrations_and_steps_as_published():
    made = starts([episode([0] * 9 + [1]), episode([0] * 19 + [1]), episode([0] * 5)])
    made.curriculum[1][0] = 5  # the first one is at its end, 9
    odds = {(0, 9): 0.9, (-1, -1): 1.15}  # of which the third, a failure, has none
    odds |= {(1, 5 + k): 0.25 / 2 ** min(k + 1, 4) for k in range(5)}
    rng = np.random.default_rng(1)
    assert_proportional(Counter(made.choose(rng) for _ in range(4000)), odds)


@pytest.mark.parametrize(
    ("flags", "start"),
    [([0, 0, 1, 0, 0, 1, 1, 1], 5), ([0, 0, 0, 1], 3), ([1, 1], 0), ([None] * 4, 3), ([1], 0)],
)
def test_the_curriculum_begins_where_a_demonstration_reaches_its_goal_for_good(flags, start):
    made = starts([episode(flags)])
    assert made.curriculum == [[start, 0]]
    assert made.limit(0, 0) == start + SLACK
    assert made.limit(-1, -1) == np.inf


def test_the_curriculum_moves_after_three_successive_successes_at_its_step():
    made = starts([episode([0] * 9 + [1]), episode([0] * 6 + [1])])
    assert made.measure() == {"curriculum": 0.0}

    def ends(i, *results):
        for step, success in results:
            made.end(i, step, success=success)
        return [each[0] for each in made.curriculum]

    assert ends(0, (9, True), (9, True), (9, False), (9, True), (9, True)) == [9, 6]  # not successive
    assert ends(0, (8, True), (-1, True)) == [9, 6]  # not at its step
    assert ends(-1, (-1, True), (-1, True), (-1, True)) == [9, 6]  # ordinary episodes
    assert ends(0, (9, True)) == [5, 6]
    assert ends(0, (5, True), (9, True), (5, True)) == [5, 6]
    assert ends(1, *[(6, True)] * 3) == [5, 2]
    assert ends(1, *[(2, True)] * 3) == [5, 0]
    assert made.measure() == {"curriculum": pytest.approx(1 - (6 / 10 + 1 / 7) / 2)}
    assert ends(1, *[(0, True)] * 3) == [5, -1]
    assert ends(1, *[(-1, True)] * 3) == [5, -1]
    assert {made.choose(np.random.default_rng(i))[0] for i in range(99)} == {-1, 0}  # the other is solved
    assert ends(0, *[(5, True)] * 3, *[(1, True)] * 3, *[(0, True)] * 3) == [-1, -1]
    assert made.measure() == {"curriculum": 1.0}
    assert made.choose(np.random.default_rng(0)) == (-1, -1)


@pytest.mark.parametrize("source", ["curriculum", "demos"])
def test_episodes_begin_in_states_and_with_goals_of_demonstrations(source):
    with closing(epochs(counted(start_source=source), 2)) as run:
        known_goals = [each.observations["desired_goal"][0] for each in run.buffer.demonstrations.episodes()]
        demos = {int(goal[0]): goal for goal in known_goals}
        begun = Counter()
        for each in run.buffer.episodes():
            (number, step), goal = each.observations["observation"][0], each.observations["desired_goal"][0]
            known = each.infos[START][0]
            begun[known >= 0] += 1
            assert (each.infos[START] == known).all()
            assert step == max(known, 0)
            if known >= 0:
                assert (goal == demos[number]).all()
            else:
                assert number not in demos
        assert min(begun[True], begun[False]) > 5
        assert ("curriculum" in run.history[-1]) == (source == "curriculum")
        assert source == "demos" or run.history[-1]["curriculum"] > 0.2  # every episode succeeds


def test_episodes_begin_in_states_of_the_run_with_new_goals():
    config = counted(start_source="run", demos=None, env_kwargs={"length": 10})
    with closing(epochs(config, 2)) as run:
        episodes = list(run.buffer.episodes())
        first = [each for each in episodes if each.infos[START][0] < 0]
        numbers = {each.observations["observation"][0, 0] for each in first}
        others = [each for each in episodes if each.infos[START][0] >= 0]
        assert len(others) > 5
        for each in others:
            number, step = each.observations["observation"][0]
            assert number in numbers
            assert step == each.infos[START][0]
            assert each.observations["desired_goal"][0, 0] != number
        assert len(first) > len(others)


@pytest.mark.parametrize("number", [1, 3])
def test_the_infos_may_contain_the_state(number):
    options = {"info_keys": ("state",), "start_state": "state", "start_share": 1.0, "start_source": "demos"}
    config = counted(env="Drift", demos=HERE + "faster", env_kwargs={}, num_envs=number, **options)
    with closing(epochs(config, env=Drift if number > 1 else Drift())) as run:
        states = {
            tuple(each.infos["state"][t - 1]): t
            for each in run.buffer.demonstrations.episodes()
            for t in range(1, len(each))
        }
        for each in run.buffer.episodes():
            assert each.infos[START][0] > 0  # the first state is not in the infos of steps
            velocity = each.infos["state"][0, 1] - 0.1 * (each.actions[0] - 1)
            began = each.observations["observation"][0, 0], velocity
            assert each.infos[START][0] in [t for state, t in states.items() if np.allclose(state, began)]


def test_a_function_sets_the_state():
    env = gym.make("her_envs/PointPush-v0", max_steps=9)
    recorded, options = record(env, np.ones(2, np.float32)), {"start_share": 1.0, "start_source": "demos"}
    wrapper = StartWrapper(lambda: env, starts(recorded, env, push_state, **options))
    for seed in range(5):
        observation, info = wrapper.reset(seed=seed)
        assert info[START] in range(9)
        for key, values in observation.items():
            assert (values == recorded[0].observations[key][info[START]]).all()
    # Without the function, the observation of two parts would have to be the state.
    with pytest.raises(ValueError, match=r"start_state=.* a function"):
        StartWrapper(lambda: env, starts(recorded, env, **options)).reset(seed=0)


@pytest.mark.parametrize(("goal", "reached"), [((0.5, 0.5), True), ((0.9, 0.9), False)])
def test_episodes_of_the_curriculum_are_truncated_and_must_reach_their_goal_in_any_step(goal, reached):
    env, ends = gym.make("her_envs/PointReach-v0", max_steps=90), []
    made = starts([episode([0] * 3 + [1])])
    made.choose = lambda rng: (0, 2)
    made.reset = lambda env, *start: env.reset(options={"state": [0.5, 0.5], "goal": goal})
    made.end = lambda *start, success: ends.append((*start, success))
    wrapper = StartWrapper(lambda: env, made)
    wrapper.reset(seed=0)
    actions = [np.zeros(2, np.float32)] + [np.array([-1, 0], np.float32)] * SLACK
    assert [wrapper.step(action)[3] for action in actions] == [False] * SLACK + [True]
    assert ends == [(0, 2, reached)]


@pytest.mark.parametrize("options", [{}, {"start_source": "run", "demos": None}])
def test_a_resumed_run_equals_an_uninterrupted_one(options, tmp_path):
    config = counted(
        agent={"epsilon": 1.0}, env_kwargs={"length": 60}, steps=250, steps_per_epoch=125, **options
    )
    resumed = assert_resumes(config, tmp_path)
    assert options or resumed.history[0]["curriculum"] > 0


def test_evaluations_begin_as_usual():
    with closing(epochs(counted(start_share=1.0, start_source="demos"))) as run:
        with closing(epochs(counted(start_share=0.0))) as other:
            pass
        assert run.history[0]["mean_length"] == other.history[0]["mean_length"]
        assert START not in next(other.buffer.episodes()).infos


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"start_share": 1.5}, "start_share"),
        ({"start_share": -0.1}, "start_share"),
        ({"start_source": "end"}, "start_source"),
        ({"demos": None}, "demos"),
        ({"workers": 1}, "workers"),
        ({"offline": "folder"}, "offline"),
    ],
)
def test_options_that_do_not_fit_are_errors(options, match):
    with pytest.raises(ValueError, match=match):
        counted(**options)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"start_state": "state"}, "start_state must be a key"),
        ({"start_state": HERE + "none"}, "start_state"),
        ({"start_state": HERE + "without_result"}, "observation and an info"),
        ({"on_device": True, "demos": None, "start_source": "run"}, "simulator"),
    ],
)
def test_states_that_cannot_be_set_are_errors(options, match):
    with pytest.raises(ValueError, match=match):
        train(counted(**{"start_share": 1.0} | options), on_epoch=None)


@pytest.mark.parametrize(("option", "key"), [("state", "achieved_goal"), ("goal", "desired_goal")])
def test_an_environment_that_ignores_the_options_is_an_error(option, key):
    recorded = record(Drift(), 2, seeds=3, info_keys=["is_success", "state"])
    made = starts(recorded, Drift(), "state", start_share=1.0, info_keys=("state",))
    with pytest.raises(ValueError, match=f"'{option}'.*'{key}'"):
        StartWrapper(lambda: Deaf(option), made).reset(seed=0)


def test_demonstrations_without_success_have_no_curriculum():
    with pytest.raises(ValueError, match="curriculum"):
        starts([episode([0, 1, 0])])
    assert len(starts([episode([0, 1, 0])], start_source="demos").choose(np.random.default_rng(3))) == 2
