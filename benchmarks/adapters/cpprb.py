"""Adapter for cpprb's ``HindsightReplayBuffer``, which relabels when an episode ends."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import cpprb
import numpy as np

from benchmarks.scoreboard_claims import offers_of
from her_wrappers.conformance.adapter import ReplayAdapter

if TYPE_CHECKING:
    import gymnasium as gym

STATE = 3


class Cpprb(ReplayAdapter):
    """Adapter with states that concatenate observation and achieved goal.

    ``goal_func`` returns the achieved goal of a state. ``size`` includes the relabeled copies of each
    transition. Batches have no terminations, since cpprb stores flags only in columns that the user defines,
    and does not recompute them.
    """

    name = f"cpprb {version('cpprb')}"
    offers = offers_of("cpprb:Cpprb")
    termination = None
    samples_open_episodes, evicts = False, "steps"

    def __init__(
        self, env: gym.Env[Any, Any], *, buffer_size: int, n_sampled_goal: int, **options: Any
    ) -> None:
        functions: Any = env
        space: Any = env.observation_space
        self._goal_shape = space["desired_goal"].shape
        size = STATE + self._goal_shape[0]
        self._goal: Any = None

        def reward(next_state: np.ndarray, action: np.ndarray, goal: np.ndarray) -> Any:
            return functions.compute_reward(next_state[:, STATE:], goal, [{}] * len(goal))

        self.buffer = cpprb.HindsightReplayBuffer(
            buffer_size * (n_sampled_goal + 1),
            {
                "obs": {"shape": size, "dtype": np.float64},
                "act": {"shape": 1},
                "next_obs": {"shape": size, "dtype": np.float64},
            },
            max_episode_len=options["max_episode_steps"],
            reward_func=reward,
            goal_func=lambda state: state[:, STATE:],
            goal_shape=self._goal_shape,
            strategy=options["strategy"],
            additional_goals=n_sampled_goal,
            prioritized=options.get("prioritized", False),
        )

    def add(self, *transition: Any, env_index: int = 0) -> None:
        """Add a transition; at the end of an episode, also relabel the episode."""
        obs, action, _, next_obs, terminated, truncated, _ = transition
        state, next_state = (
            np.concatenate([each["observation"], each["achieved_goal"]]) for each in (obs, next_obs)
        )
        self.buffer.add(obs=state, act=action, next_obs=next_state)
        self._goal = obs["desired_goal"].copy()
        if terminated or truncated:
            self.end_episode()

    def end_episode(self, env_index: int = 0) -> None:
        """End the episode; cpprb then adds the original and the relabeled transitions."""
        self.buffer.on_episode_end(self._goal)

    def sample(self, batch_size: int) -> dict[str, Any]:
        """Return a batch in the format of `ReplayAdapter.sample`."""
        batch = self.buffer.sample(batch_size)
        names = {"index": "indexes", "weight": "weights"}
        optional = {name: batch[key] for name, key in names.items() if key in batch}
        return optional | {
            "observation": batch["obs"][:, :STATE],
            "achieved_goal": batch["obs"][:, STATE:],
            "desired_goal": batch["goal"],
            "action": batch["act"],
            "reward": batch["rew"][:, 0],
            "next_observation": batch["next_obs"][:, :STATE],
            "next_achieved_goal": batch["next_obs"][:, STATE:],
            "next_desired_goal": batch["goal"],
        }

    def update_priorities(self, index: np.ndarray, priorities: np.ndarray) -> None:
        """Set the priorities of sampled transitions."""
        self.buffer.update_priorities(index, priorities)
