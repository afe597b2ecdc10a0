"""Episodes and histories for the tests of the diagnosis, healthy or with one planted cause for each rule."""

from dataclasses import replace

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from her_agents.training.config import with_defaults
from her_wrappers import Episode

RADIUS = 0.08
STUCK = {"success_rate": [0.0] * 10, "collected_success": [0.0] * 10}

# --- episodes and histories of a healthy run ------------------------------------------------------


def at_random(rng, *_):
    return rng.uniform(-1, 1, 2)


def towards_goal(rng, position, goal):
    return np.clip((goal - position) / 0.06, -1, 1)


def often_towards_goal(rng, *place):
    return (towards_goal if rng.random() < 0.4 else at_random)(rng, *place)


def _in_square(rng):
    return rng.uniform(0, 1, 2)


def healthy(
    count=40, steps=30, *, seed=0, goal=_in_square, start=_in_square, act=often_towards_goal, step=0.06
):
    """Return episodes of a point that moves in the unit square, mostly truncated in its goal.

    Components of an action after the second one have no effect.
    """
    rng = np.random.default_rng(seed)
    episodes = []
    for _ in range(count):
        position, desired = start(rng), goal(rng)
        positions, actions = [position], []
        for _ in range(steps):
            actions.append(act(rng, positions[-1], desired))
            positions.append((positions[-1] + step * actions[-1][:2]).clip(0, 1))
        observations = {
            "observation": np.array(positions),
            "achieved_goal": np.array(positions),
            "desired_goal": np.tile(desired, (steps + 1, 1)),
        }
        episodes.append(
            Episode(observations, np.array(actions), np.zeros(steps), terminated=False, truncated=True)
        )
    return judged(episodes)


def judged(episodes, radius=RADIUS):
    """Return episodes with the rewards and the success flags of goals of a radius."""
    return changed(
        episodes,
        rewards=lambda each, i: (distances(each)[1:] <= radius) - 1.0,
        is_success=lambda each, i: distances(each)[1:] <= radius,
    )


def missed(episodes, radius=RADIUS):
    """Return those of the episodes that have no success."""
    return [each for each in judged(episodes, radius) if not each.infos["is_success"].any()]


def distances(episode):
    return np.linalg.norm(
        episode.observations["achieved_goal"] - episode.observations["desired_goal"], axis=1
    )


def history(epochs=10, **columns):
    """Return the evaluations of a run that learns; ``columns`` replaces the values in some columns."""
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


# --- changes of episodes --------------------------------------------------------------------------


def changed(episodes, **changes):
    """Return episodes with other ``rewards``, ``actions``, success flags (``is_success``) or observations.

    Each change is a function of an episode and its number.
    """

    def change(each, i):
        values = {name: function(each, i) for name, function in changes.items()}
        parts = {name: values.pop(name) for name in ("rewards", "actions") if name in values}
        if "is_success" in values:
            parts["infos"] = {"is_success": values.pop("is_success")}
        return replace(each, observations=each.observations | values, **parts)

    return [change(each, i) for i, each in enumerate(episodes)]


def mapped(episodes, function, *keys):
    """Return episodes with ``function`` of some observations, and the flags and rewards of before."""
    return changed(
        episodes, **{key: lambda each, i, key=key: function(each.observations[key]) for key in keys}
    )


def with_goal_component(episodes, **values):
    """Return failed episodes whose goals have a third component, a function of an episode and its number."""

    def appended(key):
        return lambda each, i: np.column_stack([
            each.observations[key],
            np.broadcast_to(values[key](each, i), len(each) + 1),
        ])

    return judged(changed(episodes, **{key: appended(key) for key in values}), radius=-1)


def rows_of(episode, states, steps):
    """Return an episode of some states and steps of an episode, two indices of arrays."""
    return replace(
        episode,
        observations={key: rows[states] for key, rows in episode.observations.items()},
        actions=episode.actions[steps],
        rewards=episode.rewards[steps],
        infos={key: rows[steps] for key, rows in episode.infos.items()},
    )


def joined(episodes, count=4):
    """Return episodes, each of which consists of several of the given ones."""
    groups = [episodes[i : i + count] for i in range(0, len(episodes), count)]
    return [
        Episode(
            {
                key: np.concatenate([each.observations[key][:-1] for each in group] + [last[-1:]])
                for key, last in group[-1].observations.items()
            },
            np.concatenate([each.actions for each in group]),
            np.concatenate([each.rewards for each in group]),
            terminated=False,
            truncated=True,
            infos={"is_success": np.concatenate([each.infos["is_success"] for each in group])},
        )
        for group in groups
    ]


def cut(episodes, steps=30):
    """Return parts of episodes, as episodes."""
    return [
        rows_of(each, slice(begin, begin + steps + 1), slice(begin, begin + steps))
        for each in episodes
        for begin in range(0, len(each), steps)
    ]


def tiled(episode, key):
    """Return the first value of an observation, for all states."""
    return np.tile(episode.observations[key][0], (len(episode) + 1, 1))


def later(rows, first):
    """Return rows that come one step later; the first row is ``first``."""
    return np.concatenate([np.full_like(rows[:1], first), rows[:-1]])


def held(rows, period=5):
    """Return rows of which each is repeated until the next multiple of a number of steps."""
    return rows[np.arange(len(rows)) // period * period]


def with_other_last_states(episodes, *, position=0):
    """Return episodes whose last state is the first one of another episode, or the one at ``position``."""

    def other(key):
        return lambda each, i: np.concatenate([
            each.observations[key][:-1],
            episodes[i - 1].observations[key][[position]],
        ])

    return changed(episodes, **{key: other(key) for key in episodes[0].observations})


def resting(episodes):
    """Return episodes whose last steps, in different numbers, repeat one state, with actions of 0."""

    def states(key):
        return lambda each, i: each.observations[key][np.minimum(np.arange(len(each) + 1), 5 + i % 20)]

    return judged(
        changed(
            episodes,
            observation=states("observation"),
            achieved_goal=states("achieved_goal"),
            actions=lambda each, i: each.actions * _is_acting(each, i)[:, None],
        )
    )


def _is_acting(episode, number):
    return np.arange(len(episode)) < 5 + number % 20


def padded(episodes):
    """Return episodes whose last rows repeat the state, with rewards, flags and actions of 0."""
    return changed(
        resting(episodes),
        rewards=lambda each, i: each.rewards * _is_acting(each, i),
        is_success=lambda each, i: each.infos["is_success"] & _is_acting(each, i),
    )


def passed_goals(end=1.0):
    """Return episodes of a point that passes all goals on its way to the right, up to ``end``."""
    return healthy(
        goal=lambda rng: np.array([0.5, rng.uniform(0.48, 0.52)]),
        start=lambda rng: np.array([0, rng.uniform(0.48, 0.52)]),
        act=lambda rng, position, _: np.array([rng.random() * (position[0] < end), 0.1 * rng.normal()]),
    )


def _past_far_goals(rng, position, goal):
    return towards_goal(rng, position, goal if goal[0] < 0.6 else np.array([goal[0], (goal[1] + 0.5) % 1]))


def _with_rare_moves(*keys):
    """Return episodes; in 14 of 15, some observations keep their first values."""
    keep = {
        key: lambda each, i, key=key: tiled(each, key) if i % 15 else each.observations[key] for key in keys
    }
    return judged(changed(healthy(), **keep))


def _shuffled():
    """Return episodes with the desired goals of other episodes."""
    episodes = healthy()
    return changed(episodes, desired_goal=lambda each, i: tiled(episodes[i - 7], "desired_goal"))


# --- planted causes -------------------------------------------------------------------------------

EPISODES = {
    "GD101": lambda: _with_rare_moves("achieved_goal", "observation"),
    "GD102": lambda: _with_rare_moves("achieved_goal"),
    "GD103": lambda: missed(healthy(goal=lambda rng: rng.choice([0, 1], 2), act=at_random), radius=0.03),
    "GD104": lambda: healthy(act=lambda *_: np.array([0.2, 0.1])),
    "GD105": lambda: healthy(step=0.0005, act=at_random),
    "GD106": lambda: healthy(
        act=lambda rng, *place: np.append(often_towards_goal(rng, *place), rng.random())
    ),
    "GD201": lambda: healthy(goal=lambda rng: rng.uniform(1.5, 2.5, 2)),
    "GD202": lambda: healthy(goal=lambda rng: np.array([0.5, 0.5])),
    "GD203": lambda: judged(
        changed(healthy(), desired_goal=lambda each, i: tiled(each, "achieved_goal") + 0.01)
    ),
    "GD204": lambda: judged(
        mapped(healthy(), lambda rows: rows[np.minimum(np.arange(len(rows)), 2)], "achieved_goal")
    ),
    "GD206": lambda: with_goal_component(
        changed(healthy(), way=lambda each, i: np.linspace(0, 1, len(each) + 1)[:, None]),
        achieved_goal=lambda each, i: np.linspace(0, 5000, len(each) + 1),
        desired_goal=lambda each, i: 100 * i,
    ),
    "GD207": lambda: healthy(count=100, act=_past_far_goals, start=lambda rng: rng.uniform(0, (0.1, 1))),
    "GD208": lambda: judged(healthy(), radius=0.01),
    "GD210": passed_goals,
    "GD302": lambda: changed(healthy(), rewards=lambda each, i: each.rewards + 1),
    "GD303": lambda: changed(
        healthy(), rewards=lambda each, i: -distances(each)[1:] if i % 2 else each.rewards
    ),
    "GD304": lambda: changed(healthy(), rewards=lambda each, i: distances(each)[1:]),
    "GD402": lambda: healthy(steps=4),
    "GD403": lambda: healthy(steps=1),
    "GD404": lambda: [replace(each, terminated=True, truncated=False) for each in healthy()],
    "GD405": lambda: [
        replace(each, terminated=True)
        for number in range(40)
        for each in missed(healthy(count=1, steps=5 + number % 20, seed=number, act=at_random))
    ],
    "GD501": lambda: changed(healthy(), observation=lambda each, i: np.ones((len(each) + 1, 2))),
    "GD502": lambda: changed(
        healthy(), observation=lambda each, i: each.observations["observation"] * (1 if i else np.nan)
    ),
    "GD503": lambda: mapped(healthy(), lambda rows: rows * [1, 1e5], "observation"),
    "GD504": lambda: healthy() + healthy(count=10),
    "GD506": lambda: changed(
        healthy(),
        observation=lambda each, i: np.hstack([
            each.observations["achieved_goal"],
            each.observations["desired_goal"] - each.observations["achieved_goal"],
        ]),
    ),
    "GD507": _shuffled,
    "GD508": lambda: with_other_last_states(healthy()),
    "GD509": lambda: changed(healthy(), actions=lambda each, i: later(each.actions, 0)),
    "GD510": lambda: changed(
        healthy(), observation=lambda each, i: np.random.default_rng(i).normal(size=(len(each) + 1, 2))
    ),
    "GD511": lambda: mapped(healthy(), held, "achieved_goal"),
    "GD512": lambda: cut(healthy(10, 120)),
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
    "GD605": {"history": history(**STUCK, critic_loss=np.geomspace(1, 0.01, 10))},
    "GD606": {"history": history(**STUCK, updates=range(10)), "batch_size": 128},
    "GD607": {"history": history(success_rate=[0.1] * 10, collected_success=np.linspace(0, 0.9, 10))},
    "GD608": {"history": history(critic_loss=[1.0] * 9 + [np.nan])},
    "GD609": {"relabeled_share": 0.0, "options": with_defaults({})},
    "GD610": {"history": history(40, **dict.fromkeys(STUCK, np.linspace(0, 0.2, 40)))},
}
"""For rules about a run, options and history with the cause, for episodes of `EPISODES` or healthy ones."""

# --- environments ---------------------------------------------------------------------------------

PLACE = spaces.Box(-10, 10, (2,), np.float64)


class PointEnv(gym.Env):
    """A correct environment of a point, in which subclasses plant a fault."""

    observation_space = spaces.Dict(observation=PLACE, achieved_goal=PLACE, desired_goal=PLACE)
    action_space = spaces.Box(-1, 1, (2,), np.float64)
    speed, radius, offset = 0.06, RADIUS, 0.0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.position, self.goal = np.array([[0], [self.offset]]) + self.np_random.uniform(0, 1, (2, 2))
        self.steps = 0
        return self._observe(), {"is_success": False}

    def _observe(self):
        places = {"observation": self.position, "achieved_goal": self.position, "desired_goal": self.goal}
        return {key: place.copy() for key, place in places.items()}

    def step(self, action):
        self.position = (self.position + self.speed * action).clip(0, 1)
        self.steps += 1
        reward = float(self.compute_reward(self.position, self.goal, {}))
        return self._observe(), reward, False, self.steps >= 40, {"is_success": reward == 0}

    def compute_reward(self, achieved_goal, desired_goal, info):
        return -(np.linalg.norm(achieved_goal - desired_goal, axis=-1) > self.radius).astype(float)


class NoEffect(PointEnv):
    speed = 0


class NeverSuccess(PointEnv):
    radius = -RADIUS


class Unreachable(PointEnv):
    offset = 3


class WrongSign(PointEnv):
    """It rewards misses, and has no success flag."""

    def step(self, action):
        return *super().step(action)[:4], {}

    def compute_reward(self, achieved_goal, desired_goal, info):
        return -1 - super().compute_reward(achieved_goal, desired_goal, info)


FAULTY_ENVS = {"GD101": NoEffect, "GD304": WrongSign, "GD507": NeverSuccess}
"""For some rules, an environment with the cause."""
