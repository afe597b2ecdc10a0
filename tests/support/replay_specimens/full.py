"""The reference with returns of several steps and priorities."""

from __future__ import annotations

import numpy as np

from her_wrappers.conformance.adapter import OFFERS
from tests.support.replay_specimens.reference import Reference


class Full(Reference):
    """`Reference` with all offers except the strategy geometric."""

    offers = frozenset(OFFERS) - {"geometric"}

    def __init__(self, env, *, n_steps=1, gamma=1.0, prioritized=False, **options):
        super().__init__(env, **options)
        self.n, self.gamma = n_steps, gamma
        self.priorities = {}
        self.serials = 0

    def store(self, episode):
        for step in episode:
            step["serial"] = np.array(self.serials)
            self.serials += 1
        super().store(episode)

    def choose(self):
        """Return a random stored transition, in proportion to the priorities once they are set."""
        while True:
            episode, t = self.rows[self.rng.integers(len(self.rows))]
            if not self.priorities or self.rng.random() < self.priority(episode[t]) / 20:
                return episode, t

    def priority(self, step):
        return self.priorities.get(int(step["serial"]), 20.0)

    def is_relabeled(self, step):
        return self.rng.random() < self.k / (self.k + 1)

    def update_priorities(self, index, priorities):
        self.priorities |= dict(zip(index.tolist(), priorities.tolist(), strict=True))

    def sample(self, batch_size):
        rows = [self.sample_row(i, batch_size) for i in range(batch_size)]
        windows = [row.pop("window") for row in rows]
        batch = {key: np.array([row[key] for row in rows]) for key in rows[0] if key != "info"}
        batch.pop("relabeled")
        steps = [(step, row) for row, window in zip(rows, windows, strict=True) for step in window]
        relabeled = np.array([bool(row["relabeled"]) for _, row in steps])
        recomputed = self.env.compute_reward(
            np.array([step["next_obs"]["achieved_goal"] for step, _ in steps]),
            np.array([row["desired_goal"] for _, row in steps]),
            [step["info"] for step, _ in steps],
        )
        rewards = np.where(relabeled, recomputed, [float(step["reward"]) for step, _ in steps])
        lengths = np.array([len(window) for window in windows])
        offset = np.arange(len(steps)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        number = np.repeat(np.arange(len(rows)), lengths)
        batch["reward"] = np.bincount(number, self.power(offset) * rewards, len(rows))
        batch["discount"] = self.discount(lengths) * ~batch["terminated"].astype(bool)
        return batch

    def power(self, offset):
        return self.gamma**offset

    def discount(self, lengths):
        return self.gamma**lengths

    def sample_row(self, i, batch_size):
        episode, t = self.choose()
        relabeled = self.is_relabeled(episode[t])
        goal = self.goal(episode, t) if relabeled else episode[t]["obs"]["desired_goal"]
        window = self.window(episode, t, goal, relabeled)
        row = self.row(episode[t], goal, relabeled)
        last = self.row(window[-1], goal, relabeled)
        row |= {
            key: last[key] for key in last if key.startswith("next_") or key in {"terminated", "truncated"}
        }
        return row | {"index": episode[t]["serial"], "window": window}

    def window(self, episode, t, goal, relabeled):
        steps = []
        for step in episode[t : t + self.n]:
            steps.append(step)
            if relabeled and self.terminated(step, goal):
                break
        return steps
