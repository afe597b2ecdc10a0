"""CollectedTraining: a run whose episodes come from the workers of a `Collector`.

In a round, each environment of the workers plays one episode. While the agent learns from the episodes of one
round, the workers play the next round. The result depends on the number of workers, but not on the machines
that run the workers, on timing, or on restarts of killed workers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from her_agents.algorithms.registry import make_agent
from her_agents.training.run import Training
from her_wrappers.collecting import Collector
from her_wrappers.data.arrays import as_corrupt

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from gymnasium import spaces

    from her_agents.algorithms.base import Agent
    from her_agents.training.config import Config


class ExploringPolicy:
    """An agent that explores, as the policy of the workers of a `Collector`."""

    def __init__(
        self,
        config: Config,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        agent: type[Agent] | None,
    ) -> None:
        self._arguments = config, observation_space, action_space, agent
        self._agent = make_agent(config, observation_space, action_space, agent=agent, device="cpu")

    def __reduce__(self) -> tuple[Any, ...]:
        # Without the weights: each worker gets the current weights by `load_state_dict`.
        return ExploringPolicy, self._arguments

    def __call__(self, observations: Any) -> Any:
        """Return the actions for N observations."""
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # as in worker processes; more threads round differently
        try:
            return self._agent.act(observations, explore=True)
        finally:
            torch.set_num_threads(threads)

    def seed(self, seed: int) -> None:
        """Seed the random generator of the exploration."""
        self._agent.seed(seed)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load ``state``, which `Agent.policy_state` of the learner's agent returned."""
        self._agent.load_policy_state(state)


class CollectedTraining(Training):
    """A run whose episodes come from the workers of a `Collector`.

    Each of ``config.workers`` workers steps ``config.num_envs`` environments. The agent is updated after each
    round, not after each step; a round is one episode of each environment.
    """

    def _open(self, buffer_file: Path | None) -> None:
        config = self.config
        self.buffer = self._make_buffer(self._evaluation_env, buffer_file)
        self._collector = Collector(
            self._env_factory(),
            ExploringPolicy(config, *self._spaces, self._agent_class),
            num_workers=config.workers,
            backend=self._backend,
            address=self._address,
            seed=config.seed,
            info_keys=self._info_keys,
            fresh_envs=config.fresh_envs,
            deterministic=config.deterministic,
        )
        self._rounds = self._collector.rounds()

    def _step(self) -> None:
        """Add one round of episodes to the buffer."""
        if self.counts.env_steps:  # not in the first round; later, the agent was updated since the last round
            self._collector.update(self.agent.policy_state())
        episodes = next(self._rounds).episodes
        self._add(episodes)
        self.counts.env_steps += episodes.num_steps

    def state_dict(self) -> dict[str, Any]:
        """Return the content of a checkpoint, including the state of the collector."""
        return super().state_dict() | {"collector": self._collector.state_dict()}

    def load_state_dict(self, path: Path, state: Mapping[str, Any]) -> None:
        """Restore the content of a checkpoint, including the state of the collector."""
        super().load_state_dict(path, state)
        with as_corrupt(f"{path} is damaged"):
            self._collector.load_state_dict(state["collector"])
        self._rounds = self._collector.rounds()

    def close(self) -> None:
        """Stop the workers, and close the environments."""
        self._collector.close()
        super().close()
