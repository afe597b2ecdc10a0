"""A HER replay buffer made of dictionaries and lists."""

from __future__ import annotations

import pickle
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import numpy as np

from her_wrappers.conformance import REPLAY_RULES, ReplayAdapter, check_replay
from her_wrappers.conformance.adapter import OFFERS
from her_wrappers.conformance.driver import BufferDriver
from her_wrappers.conformance.scenarios import EQUAL_EPISODES, SCENARIOS, Result

FAULTS = []
"""Faulty buffers, each with the code of a rule that it breaks, and with a scenario in which it does."""


@contextmanager
def fewer_rows(part, first=1):
    """Let scenarios sample a part of their batches; the first one adds and samples ``first`` times less."""
    batches = BufferDriver.batches

    def fewer(self, count, rows=128):
        return batches(self, -(-count // part), rows)

    def run(make):
        return Result([make().add_episodes([6] * (200 // part // first)).rows(36 // first)])

    shorter = {EQUAL_EPISODES: SCENARIOS[EQUAL_EPISODES]._replace(run=run)}
    with mock.patch.object(BufferDriver, "batches", fewer), mock.patch.dict(SCENARIOS, shorter):
        yield


def check_quickly(adapter, part=6, **options):
    with fewer_rows(part):
        return check_replay(adapter, **options)


class Reference(ReplayAdapter):
    """A correct buffer whose episodes are lists of dictionaries, one for each step.

    A subclass with the argument ``code`` breaks the rule with this code, by default in its first scenario.
    """

    name, samples_open_episodes, evicts = "reference", False, "episodes"
    offers = frozenset(OFFERS) - {"geometric", "n-step", "priorities"}

    def __init_subclass__(cls, code="", scenario=""):
        if code:
            FAULTS.append((cls, code, scenario or REPLAY_RULES[code].inconclusive_without[0]))

    def __init__(
        self, env, *, buffer_size, strategy, n_sampled_goal, max_episode_steps, num_envs=1, seed=0,
        n_steps=1, gamma=1.0, prioritized=False,
    ):  # fmt: skip
        self.env, self.buffer_size, self.strategy, self.k = env, buffer_size, strategy, n_sampled_goal
        self.rng = np.random.default_rng(seed)
        self.open = [[] for _ in range(num_envs)]
        self.episodes, self.rows = [], []
        self.n, self.gamma, self.prioritized = n_steps, gamma, prioritized
        self.priorities, self.steps_stored, self.is_loaded = {}, 0, False

    @property
    def is_full(self):
        return self.steps_stored > self.buffer_size

    def add(self, *transition, env_index=0):
        obs, action, reward, next_obs, terminated, truncated, info = transition
        obs, next_obs = ({key: np.array(value) for key, value in each.items()} for each in (obs, next_obs))
        step = {"obs": obs, "action": np.array(action), "reward": reward, "next_obs": next_obs}
        step |= {"terminated": terminated, "truncated": truncated, "info": dict(info)}
        step["crashed"] = step["terminated"] and not self.is_reached(next_obs, next_obs["desired_goal"])
        self.open[env_index].append(step)
        if step["terminated"] or step["truncated"]:
            self.end_episode(env_index)

    def is_reached(self, next_obs, goal):
        return bool(self.env.compute_terminated(next_obs["achieved_goal"], goal, {}))

    def end_episode(self, env_index=0):
        self.store(self.open[env_index])
        self.open[env_index] = []

    def store(self, episode):
        for step in episode:
            step["number"] = self.steps_stored
            self.steps_stored += 1
        self.episodes.append(episode)
        self.rows += [(episode, t) for t in range(len(episode))]
        while len(self.rows) > self.buffer_size:
            self.evict()

    def evict(self):
        del self.rows[: len(self.episodes.pop(0))]

    def sample(self, batch_size):
        rows = [self.sample_row(i, batch_size) for i in range(batch_size)]
        batch = self.with_rewards(rows)
        if self.n > 1:
            batch["reward"] = np.zeros(batch_size)
            for m in range(self.n):
                index = [i for i, row in enumerate(rows) if m < len(row["window"])]
                steps = self.with_rewards([self.row_of_window(rows[i], m) for i in index])
                batch["reward"][index] += self.power(m) * steps["reward"]
        lengths = np.array([len(row["window"]) for row in rows])
        batch["discount"] = self.discount(lengths) * ~batch["terminated"].astype(bool)
        batch["weight"] = self.weights(
            np.array([self.priorities.get(i, 20.0) for i in batch["index"].tolist()])
        )
        return batch

    def weights(self, priorities):
        return (priorities.min() / priorities) ** 0.5

    def with_rewards(self, rows):
        """Return the columns of rows, with the rewards of relabeled rows for their goals."""
        batch = {
            key: np.array([row[key] for row in rows]) for key in rows[0] if key not in {"info", "window"}
        }
        new = np.flatnonzero(batch.pop("relabeled"))
        if len(new):
            relabeled = {key: values[new] for key, values in batch.items()}
            batch["reward"][new] = self.rewards(relabeled, [rows[i]["info"] for i in new])
        return batch

    def power(self, m):
        return self.gamma**m

    def discount(self, lengths):
        return self.gamma**lengths

    def sample_row(self, i, batch_size):
        episode, t = self.choose()
        relabeled = self.is_relabeled(episode, t, i, batch_size)
        goal = self.goal(episode, t) if relabeled else episode[t]["obs"]["desired_goal"]
        row = self.row(episode[t], goal, relabeled)
        if self.n > 1:
            row["window"] = self.window(episode, t, goal, relabeled)
            last = self.row_of_window(row, -1)
            row |= {key: last[key] for key in last if key.startswith("next_") or key.endswith("ated")}
        return row

    def choose(self):
        """Return a random stored transition, in proportion to the priorities once they are set."""
        while True:
            episode, t = self.rows[self.rng.integers(len(self.rows))]
            if not self.priorities or self.rng.random() < self.priority(episode[t]) / 20:
                return episode, t

    def is_relabeled(self, episode, t, i, batch_size):
        return self.rng.random() < self.k / (self.k + 1)

    def goal(self, episode, t):
        if self.strategy == "random":
            other, s = self.rows[self.rng.integers(len(self.rows))]
            return other[s]["next_obs"]["achieved_goal"]
        first = {"future": t, "final": len(episode) - 1, "episode": 0}[self.strategy]
        return episode[self.rng.integers(first, len(episode))]["next_obs"]["achieved_goal"]

    def row(self, step, goal, relabeled):
        obs, next_obs = step["obs"], step["next_obs"]
        return {
            "observation": obs["observation"],
            "achieved_goal": obs["achieved_goal"],
            "desired_goal": goal,
            "next_observation": next_obs["observation"],
            "next_achieved_goal": next_obs["achieved_goal"],
            "next_desired_goal": goal if relabeled else next_obs["desired_goal"],
            "action": step["action"],
            "reward": step["reward"],
            "terminated": self.terminated(step, goal) if relabeled else step["terminated"],
            "truncated": step["truncated"],
            "info": step["info"],
            "index": step.get("number", 0),
            "relabeled": relabeled,
            "window": [step],
        }

    def row_of_window(self, row, m):
        return self.row(row["window"][m], row["desired_goal"], row["relabeled"])

    def window(self, episode, t, goal, relabeled):
        steps = []
        for step in episode[t : t + self.n]:
            steps.append(step)
            if relabeled and self.terminated(step, goal):
                break
        return steps

    def terminated(self, step, goal):
        return self.is_reached(step["next_obs"], goal) or step["crashed"]

    def rewards(self, batch, infos):
        return self.env.compute_reward(batch["next_achieved_goal"], batch["desired_goal"], infos)

    def priority(self, step):
        return self.priorities.get(step["number"], 20.0)

    def update_priorities(self, index, priorities):
        self.priorities |= dict(zip(index.tolist(), priorities.tolist(), strict=True))

    def save(self, path):
        Path(path).write_bytes(pickle.dumps(self.state()))

    def state(self):
        return {key: getattr(self, key) for key in ("episodes", "open", "rng", "priorities", "steps_stored")}

    def load(self, path):
        state = pickle.loads(Path(path).read_bytes())
        self.episodes, self.rows, episodes = [], [], state.pop("episodes")
        self.steps_stored = episodes[0][0].get("number", 0)
        for episode in episodes:
            self.store(episode)
        vars(self).update(state, is_loaded=True)


class Full(Reference):
    """`Reference`, checked with n-step returns and priorities too."""

    offers = frozenset(OFFERS) - {"geometric"}
