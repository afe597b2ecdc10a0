"""Check whether a replay buffer relabels correctly: ``python -m examples.check_your_buffer``.

Replace ``Buffer`` with your buffer, or run ``her check-replay your_module:YourAdapter``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from her_wrappers import ReplayAdapter, check_replay

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    import gymnasium as gym


class Buffer(ReplayAdapter):
    """A buffer that stores a list of episodes and relabels with the strategy future. It has one fault."""

    name: ClassVar[str] = "my buffer"
    offers: ClassVar[AbstractSet[str]] = {"future"}

    def __init__(
        self,
        env: gym.Env[Any, Any],
        *,
        buffer_size: int,
        strategy: str,
        n_sampled_goal: int,
        max_episode_steps: int,
        num_envs: int = 1,
        seed: int = 0,
        **options: Any,
    ) -> None:
        self.env: Any = env
        self.buffer_size, self.her_ratio = buffer_size, n_sampled_goal / (n_sampled_goal + 1)
        self.rng = np.random.default_rng(seed)
        self.episodes: list[list[dict[str, Any]]] = [[]]

    def add(  # noqa: PLR0917 - as in the base class
        self,
        obs: dict[str, Any],
        action: np.ndarray,
        reward: float,
        next_obs: dict[str, Any],
        terminated: bool,
        truncated: bool,
        info: dict[str, Any],
        env_index: int = 0,
    ) -> None:
        """Add a transition to the unfinished episode, which is the last episode in the list."""
        step = {key: np.array(value) for key, value in obs.items()}
        step |= {f"next_{key}": np.array(value) for key, value in next_obs.items()}
        self.episodes[-1].append(step | {"action": action.copy(), "reward": reward, "terminated": terminated})
        if terminated or truncated:
            self.episodes.append([])
        while sum(map(len, self.episodes)) > self.buffer_size:
            self.episodes.pop(0)

    def sample(self, batch_size: int) -> dict[str, Any]:
        """Return a batch in which each transition is relabeled with probability ``her_ratio``."""
        complete = [(episode, t) for episode in self.episodes[:-1] for t in range(len(episode))]
        rows = [self.row(*complete[i]) for i in self.rng.integers(len(complete), size=batch_size)]
        return {key: np.stack([row[key] for row in rows]) for key in rows[0]}

    def row(self, episode: list[dict[str, Any]], t: int) -> dict[str, Any]:
        """Return a transition, relabeled with probability ``her_ratio``."""
        row = dict(episode[t])
        if self.rng.random() < self.her_ratio:
            goal = episode[self.rng.integers(t, len(episode))]["next_achieved_goal"]
            row |= {"desired_goal": goal, "next_desired_goal": goal}
            row["reward"] = self.env.compute_reward(row["next_achieved_goal"], goal, {})
            # fault: "terminated" is still the flag for the original goal
        return row


if __name__ == "__main__":
    print(check_replay(Buffer).text())  # in a test: report.raise_if_errors()
