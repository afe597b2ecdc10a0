"""Episodes and histories for the tests of the diagnosis, healthy or with one planted cause for each rule."""

from __future__ import annotations

from dataclasses import replace

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from her_wrappers import Episode

RADIUS = 0.08


def healthy(
    count=40,
    steps=30,
    *,
    seed=0,
    move=0.06,
    goal=lambda rng: rng.uniform(0, 1, 2),
    start=lambda rng: rng.uniform(0, 1, 2),
    act=lambda rng, position, goal: (
        np.clip((goal - position) / 0.06, -1, 1) if rng.random() < 0.4 else rng.uniform(-1, 1, 2)
    ),
    achieved=lambda positions, t: positions[t],
):
    """Return episodes of a point that moves in the unit square; by default, 40 % of actions lead to the goal.

    Args:
        count: Number of episodes.
        steps: Steps of each episode.
        seed: Seed of everything random.
        move: Largest move along each axis.
        goal: Function of a generator that samples goals.
        start: Function of a generator that samples the first positions.
        act: Function of generator, position and goal that returns an action.
        achieved: Function of the list of positions and the step that returns the achieved goal.
    """
    rng = np.random.default_rng(seed)
    episodes = []
    for _ in range(count):
        position, desired = start(rng), goal(rng)
        positions, actions = [position], []
        for _ in range(steps):
            actions.append(act(rng, positions[-1], desired))
            positions.append((positions[-1] + move * actions[-1]).clip(0, 1))
        goals = np.array([achieved(positions, t) for t in range(steps + 1)])
        distance = np.linalg.norm(goals[1:] - desired, axis=1)
        observations = {
            "observation": np.array(positions),
            "achieved_goal": goals,
            "desired_goal": np.tile(desired, (steps + 1, 1)),
        }
        success = distance <= RADIUS
        episodes.append(
            Episode(
                observations,
                np.array(actions),
                success - 1.0,
                terminated=False,
                truncated=True,
                infos={"is_success": success},
            )
        )
    return episodes


def history(epochs=10, **columns):
    """Return rows of a training that learns; ``columns`` replaces the values in some columns."""
    rates = np.linspace(0, 0.8, epochs)
    values = {
        "epoch": range(1, epochs + 1),
        "env_steps": range(4000, 4000 * epochs + 1, 4000),
        "updates": range(1000, 1000 * epochs + 1, 1000),
        "success_rate": rates,
        "collected_success": 0.8 * rates,
        "q_mean": np.linspace(-5, -12, epochs),
        "critic_loss": np.linspace(1, 0.5, epochs),
        "temperature": np.linspace(0.1, 0.02, epochs),
        **columns,
    }
    return [dict(zip(values, map(float, row), strict=True)) for row in zip(*values.values(), strict=True)]


def changed(episodes, **changes):
    """Return episodes with new fields; each change is a function of an episode and its number."""
    return [
        replace(episode, **{name: change(episode, i) for name, change in changes.items()})
        for i, episode in enumerate(episodes)
    ]


def with_observations(episodes, **changes):
    """Return episodes with new observations; each change is a function of episode and number."""
    return changed(
        episodes,
        observations=lambda episode, i: {
            **episode.observations,
            **{key: change(episode, i) for key, change in changes.items()},
        },
    )


def with_goal_component(episodes, achieved, desired):
    """Return episodes whose goals have a third component, a function of an episode and its number."""

    def appended(key, values):
        return lambda episode, i: np.column_stack([
            episode.observations[key],
            np.broadcast_to(values(episode, i), len(episode) + 1),
        ])

    return with_observations(
        episodes,
        achieved_goal=appended("achieved_goal", achieved),
        desired_goal=appended("desired_goal", desired),
    )


def failed(episodes):
    """Return episodes with the rewards and infos of steps that do not reach their goal."""
    return changed(
        episodes,
        rewards=lambda episode, i: np.full(len(episode), -1.0),
        infos=lambda episode, i: {"is_success": np.zeros(len(episode), bool)},
    )


def shortened(episode, steps, **flags):
    """Return the first steps of an episode."""
    return Episode(
        {key: rows[: steps + 1] for key, rows in episode.observations.items()},
        episode.actions[:steps],
        episode.rewards[:steps],
        infos={key: rows[:steps] for key, rows in episode.infos.items()},
        **flags,
    )


def distances(episode):
    observations = episode.observations
    return np.linalg.norm(observations["achieved_goal"] - observations["desired_goal"], axis=1)


def tiled(episode, key):
    """Return the first value of an observation, for all states."""
    return np.tile(episode.observations[key][0], (len(episode) + 1, 1))


def _with_rare_moves(episodes, *keys):
    """Return failed episodes; in 14 of 15, some observations keep their first values."""
    keep = {
        key: lambda each, i, key=key: tiled(each, key) if i % 15 else each.observations[key] for key in keys
    }
    return failed(with_observations(episodes, **keep))


def _with_nan(episodes):
    episodes[3].observations["observation"][5, 0] = np.nan
    return episodes


def _towards_goal(rng, position, goal):
    return np.clip((goal - position) / 0.06, -1, 1)


def _at_random(rng, position, goal):
    return rng.uniform(-1, 1, 2)


def _same_starts(seed):
    """Return six episodes whose starts and goals are the same for all seeds, and whose actions differ."""
    episodes = []
    for number in range(6):
        fixed = np.random.default_rng(number).uniform(0, 1, (2, 2))
        episodes += healthy(
            count=1,
            seed=10 * seed + number,
            start=lambda rng, at=fixed[0]: at,
            goal=lambda rng, at=fixed[1]: at,
        )
    return episodes


STUCK = {"success_rate": [0.0] * 10, "collected_success": [0.0] * 10}

EPISODES = {
    "GD101": lambda: _with_rare_moves(healthy(), "achieved_goal", "observation"),
    "GD102": lambda: _with_rare_moves(healthy(), "achieved_goal"),
    "GD103": lambda: failed(healthy(goal=lambda rng: rng.choice([0, 1], 2), act=_at_random)),
    "GD104": lambda: healthy(act=lambda *_: np.array([0.2, 0.1])),
    "GD201": lambda: healthy(goal=lambda rng: rng.uniform(1.5, 2.5, 2)),
    "GD202": lambda: healthy(goal=lambda rng: np.array([0.5, 0.5])),
    "GD203": lambda: changed(
        with_observations(healthy(), desired_goal=lambda each, i: tiled(each, "achieved_goal") + 0.01),
        infos=lambda each, i: {"is_success": distances(each)[1:] <= RADIUS},
        rewards=lambda each, i: (distances(each)[1:] <= RADIUS) - 1.0,
    ),
    "GD204": lambda: healthy(achieved=lambda positions, t: positions[min(t, 2)]),
    "GD205": lambda: failed(
        with_goal_component(healthy(), lambda *_: 0.4, lambda each, i: 0.4 + 0.02 * i),
    ),
    "GD206": lambda: failed(
        with_goal_component(
            healthy(), lambda each, i: np.linspace(0, 5000, len(each) + 1), lambda _, i: 100 * i
        )
    ),
    "GD207": lambda: [
        failed([each])[0] if each.observations["desired_goal"][0, 0] > 0.6 else each
        for each in healthy(count=100, act=_towards_goal)
    ],
    "GD301": lambda: changed(healthy(), rewards=lambda each, i: np.full(len(each), -1.0)),
    "GD302": lambda: changed(healthy(), rewards=lambda each, i: each.rewards + 1),
    "GD303": lambda: changed(
        healthy(), rewards=lambda each, i: -distances(each)[1:] if i % 2 else each.rewards
    ),
    "GD304": lambda: changed(healthy(), rewards=lambda each, i: distances(each)[1:]),
    "GD402": lambda: healthy(steps=4),
    "GD403": lambda: [shortened(each, 1, terminated=False, truncated=True) for each in healthy()],
    "GD404": lambda: [replace(each, terminated=True, truncated=False) for each in healthy()],
    "GD405": lambda: [
        shortened(each, 5 + i % 20, terminated=True, truncated=False)
        for i, each in enumerate(failed(healthy()))
    ],
    "GD501": lambda: with_observations(healthy(), observation=lambda each, i: np.ones((len(each) + 1, 2))),
    "GD502": lambda: _with_nan(healthy()),
    "GD503": lambda: with_observations(
        healthy(), observation=lambda each, i: each.observations["observation"] * [1, 1e5]
    ),
    "GD504": lambda: healthy() + healthy(count=10),
    "GD505": lambda: [each for seed in range(5) for each in _same_starts(seed)],
}
"""For each rule about episodes, a function that returns episodes with its cause."""

OPTIONS = {
    "GD302": {"clip_targets": True},
    "GD401": {"gamma": 0.5},
    "GD601": {
        "history": history(**STUCK, q_mean=np.linspace(-10, -49.5, 10)),
        "gamma": 0.98,
        "clip_targets": True,
    },
    "GD602": {"history": history(q_mean=np.geomspace(1, 1e4, 10)), "gamma": 0.98},
    "GD603": {"history": history(**STUCK, temperature=np.geomspace(0.1, 1e-6, 10))},
    "GD604": {"history": history(**STUCK, temperature=np.geomspace(0.1, 100, 10))},
    "GD605": {"history": history(**STUCK, critic_loss=np.geomspace(1, 0.01, 10))},
    "GD606": {"history": history(**STUCK, updates=range(10)), "batch_size": 128},
    "GD607": {"history": history(success_rate=[0.1] * 10, collected_success=np.linspace(0, 0.9, 10))},
    "GD608": {"history": history(critic_loss=[1.0] * 9 + [np.nan])},
}
"""For rules about a run, options and history with the cause."""

PLANTED = {
    code: lambda code=code: (EPISODES.get(code, healthy)(), OPTIONS.get(code, {}))
    for code in EPISODES.keys() | OPTIONS.keys()
}
"""For each rule, a function that returns episodes and options with one cause."""


PLACE = spaces.Box(-10, 10, (2,), np.float64)


class PointEnv(gym.Env):
    """A correct environment of a point, in which subclasses plant a fault."""

    observation_space = spaces.Dict(observation=PLACE, achieved_goal=PLACE, desired_goal=PLACE)
    action_space = spaces.Box(-1, 1, (2,), np.float64)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.position, self.goal = self.np_random.uniform(0, 1, (2, 2))
        self.steps = 0
        return self._observe(), {"is_success": False}

    def _observe(self):
        return {
            "observation": self.position.copy(),
            "achieved_goal": self.position.copy(),
            "desired_goal": self.goal.copy(),
        }

    def _move(self, action):
        return (self.position + 0.06 * action).clip(0, 1)

    def step(self, action):
        self.position = self._move(action)
        self.steps += 1
        reward = float(self.compute_reward(self.position, self.goal, {}))
        return self._observe(), reward, False, self.steps >= 40, {"is_success": reward == 0}

    def compute_reward(self, achieved_goal, desired_goal, info):
        return -(np.linalg.norm(achieved_goal - desired_goal, axis=-1) > RADIUS).astype(float)


class NoEffect(PointEnv):
    """A fault: actions do not move the point."""

    def _move(self, action):
        return self.position


class NeverSuccess(PointEnv):
    """A fault: the reward compares the distance with -RADIUS, so no goal is reached."""

    def compute_reward(self, achieved_goal, desired_goal, info):
        return -(np.linalg.norm(achieved_goal - desired_goal, axis=-1) > -RADIUS).astype(float)


class Unreachable(PointEnv):
    """A fault: goals are outside the square in which the point moves."""

    def reset(self, *, seed=None, options=None):
        observation, info = super().reset(seed=seed, options=options)
        self.goal = self.goal + 3
        return {**observation, "desired_goal": self.goal.copy()}, info
