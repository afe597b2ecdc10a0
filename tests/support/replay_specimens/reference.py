"""A HER replay buffer made of dictionaries and lists."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import ClassVar

import numpy as np

from her_wrappers.conformance import ReplayAdapter
from her_wrappers.conformance.adapter import OFFERS


def copy_step(value):
    return {k: copy_step(v) for k, v in value.items()} if isinstance(value, dict) else np.array(value)


class Reference(ReplayAdapter):
    """A correct buffer whose episodes are lists of dictionaries, one for each step."""

    name: ClassVar[str] = "reference"
    offers: ClassVar[set[str]] = set(OFFERS) - {"geometric", "n-step", "priorities"}

    def __init__(self, env, *, buffer_size, strategy, n_sampled_goal, max_episode_steps, num_envs=1, seed=0):
        self.env, self.buffer_size, self.strategy, self.k = env, buffer_size, strategy, n_sampled_goal
        self.rng = np.random.default_rng(seed)
        self.open = [[] for _ in range(num_envs)]
        self.episodes, self.rows = [], []

    def add(  # noqa: PLR0917 - as in the base class
        self, obs, action, reward, next_obs, terminated, truncated, info, env_index=0
    ):
        step = {"obs": obs, "action": action, "reward": reward, "next_obs": next_obs, "info": info}
        step |= {"terminated": terminated, "truncated": truncated}
        step["crashed"] = terminated and not self.is_reached(next_obs, next_obs["desired_goal"])
        self.open[env_index].append(copy_step(step))
        if terminated or truncated:
            self.end_episode(env_index)

    def is_reached(self, next_obs, goal):
        return bool(self.env.compute_terminated(next_obs["achieved_goal"], goal, {}))

    def end_episode(self, env_index=0):
        self.store(self.open[env_index])
        self.open[env_index] = []

    def store(self, episode):
        self.episodes.append(episode)
        self.rows += [(episode, t) for t in range(len(episode))]
        while len(self.rows) > self.buffer_size:
            self.evict()

    def evict(self):
        del self.rows[: len(self.episodes.pop(0))]

    def sample(self, batch_size):
        rows = [self.sample_row(i, batch_size) for i in range(batch_size)]
        batch = {key: np.array([row[key] for row in rows]) for key in rows[0] if key != "info"}
        new = np.flatnonzero(batch.pop("relabeled"))
        if len(new):
            batch["reward"][new] = self.rewards(
                {key: values[new] for key, values in batch.items()}, [rows[i]["info"] for i in new]
            )
        return batch

    def sample_row(self, i, batch_size):
        episode, t = self.rows[self.rng.integers(len(self.rows))]
        relabeled = self.rng.random() < self.k / (self.k + 1)
        goal = self.goal(episode, t) if relabeled else episode[t]["obs"]["desired_goal"]
        return self.row(episode[t], goal, relabeled)

    def goal(self, episode, t):
        if self.strategy == "random":
            other, s = self.rows[self.rng.integers(len(self.rows))]
            return other[s]["next_obs"]["achieved_goal"]
        first = {"future": t, "final": len(episode) - 1, "episode": 0}[self.strategy]
        return episode[self.rng.integers(first, len(episode))]["next_obs"]["achieved_goal"]

    def row(self, step, goal, relabeled):
        row = {key: step["obs"][key] for key in ("observation", "achieved_goal")}
        row |= {f"next_{key}": step["next_obs"][key] for key in ("observation", "achieved_goal")}
        row |= {"desired_goal": goal, "next_desired_goal": goal, "relabeled": relabeled}
        row |= {key: step[key] for key in ("action", "reward", "truncated", "info")}
        return row | {"terminated": self.terminated(step, goal) if relabeled else step["terminated"]}

    def terminated(self, step, goal):
        return self.is_reached(step["next_obs"], goal) or step["crashed"]

    def rewards(self, batch, infos):
        return self.env.compute_reward(batch["next_achieved_goal"], batch["desired_goal"], infos)

    def save(self, path):
        Path(path).write_bytes(pickle.dumps((self.episodes, self.rng)))

    def load(self, path):
        episodes, self.rng = pickle.loads(Path(path).read_bytes())
        for episode in episodes:
            self.store(episode)
