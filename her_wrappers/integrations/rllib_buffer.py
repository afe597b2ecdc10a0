"""RLlib: the replay buffer of `HerDQN` and `HerSAC`, and how observations become inputs of the networks."""

from __future__ import annotations

from functools import reduce
from operator import getitem
from typing import TYPE_CHECKING, Any

import numpy as np
import tree
from gymnasium import spaces
from ray.rllib.core.columns import Columns
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger
from ray.rllib.utils.replay_buffers import PrioritizedEpisodeReplayBuffer
from ray.rllib.utils.replay_buffers.base import ReplayBufferInterface
from ray.rllib.utils.spaces.space_utils import batch as stack

from her_wrappers.data.infos import missing_info
from her_wrappers.data.spaces import leaf_spaces
from her_wrappers.goals.interface import require_goal_space
from her_wrappers.recording.episode import Episode
from her_wrappers.replay.batch import window_lengths
from her_wrappers.replay.buffer import HindsightReplayBuffer
from her_wrappers.replay.saving import load_same, to_bytes

if TYPE_CHECKING:
    from ray.rllib.env.single_agent_episode import SingleAgentEpisode

    from her_wrappers.data.trees import Tree
    from her_wrappers.goals.interface import AnyEnv
    from her_wrappers.replay.batch import Batch

INPUT_KEYS = ("observation", "desired_goal")  # keys of the parts of an observation that the networks get


class NetworkInputs:
    """Concatenates observation and desired goal to one vector, the input of the networks.

    Discrete values become one-hot vectors; other arrays are flattened. All values become float32.

    Args:
        space: Dict space of ``observation``, ``achieved_goal`` and ``desired_goal``.

    Raises:
        ValueError: ``space`` is not the observation space of a goal environment.

    Attributes:
        space: Box space of one vector, of length D.
    """

    def __init__(self, space: spaces.Space[Any]) -> None:
        goal_space = require_goal_space(space)
        self._leaves = [
            (path, leaf) for key in INPUT_KEYS for path, leaf in leaf_spaces(goal_space[key], (key,)).items()
        ]
        widths = [
            leaf.n if isinstance(leaf, spaces.Discrete) else np.prod(leaf.shape or (), dtype=np.int64)
            for _, leaf in self._leaves
        ]
        self.space = spaces.Box(-np.inf, np.inf, (int(sum(widths)),), np.float32)

    def __call__(self, observations: Tree, rows: int) -> np.ndarray:
        """Convert observations to (rows, D) float32. With ``rows=1``, the observation needs no batch axis."""
        parts = []
        for path, leaf in self._leaves:
            values = np.asarray(reduce(getitem, path, observations)).reshape(rows, -1)
            if isinstance(leaf, spaces.Discrete):  # one-hot vectors
                values = values == np.arange(leaf.start, leaf.start + leaf.n)
            parts.append(values)
        vectors: np.ndarray = np.concatenate(parts, axis=1, dtype=np.float32, casting="unsafe")
        return vectors


class SampledTransitions:
    """A batch of transitions, which RLlib's learners can slice as if the batch were an episode.

    Args:
        columns: Dict from RLlib's names of columns to (B, ...) arrays.
    """

    def __init__(self, columns: dict[str, np.ndarray]) -> None:
        self.columns = columns

    def __len__(self) -> int:
        """Return the number of transitions, B."""
        return len(self.columns[Columns.REWARDS])

    def __getitem__(self, rows: slice) -> SampledTransitions:
        """Return a slice of the transitions, such as the part for one of several learners."""
        return SampledTransitions({name: values[rows] for name, values in self.columns.items()})

    def slice(self, rows: slice, len_lookback_buffer: int | None = None) -> SampledTransitions:
        """Return ``self[rows]``; RLlib slices episodes with this method. Ignore ``len_lookback_buffer``."""
        return self[rows]


def _as_episode(chunks: list[Any], *, terminated: bool = False, truncated: bool = True) -> Episode:
    """Join the chunks of an episode into an `Episode`, which is truncated by default."""
    observations, actions, rewards, infos = joined(chunks)
    return Episode(observations, actions, rewards, bool(terminated), bool(truncated), infos)


def _as_arrays(values: Any) -> Tree:
    return stack(values) if isinstance(values, list) else values


def joined(trees: list[Any]) -> Any:
    """Return one tree whose leaves are the leaves of all ``trees``, concatenated along the first axis."""
    return tree.map_structure(lambda *parts: np.concatenate(parts), *trees)


class HerEpisodeReplayBuffer(ReplayBufferInterface):  # type: ignore[misc] # RLlib has no annotations
    """The replay buffer of `HerDQN` and `HerSAC`, which relabels goals in hindsight while sampling.

    Env runners pass episodes in chunks; an episode can be sampled once it has ended. If a chunk is missing,
    the steps before it are stored as a truncated episode, and the steps after it as another episode.

    Args:
        env: Goal environment whose spaces and goal functions are used.
        capacity: Maximal number of transitions.
        num_envs: Number of environments of all env runners together. An env runner that restarts can leave
            more open episodes than that; then the episode whose latest chunk is the oldest is truncated.
        n_step: Maximum number of steps of n-step returns; all rewards of one return are for the same goal.
        gamma: Discount factor of n-step returns.
        **options: Other arguments of `HindsightReplayBuffer`, such as ``n_sampled_goal``.

    Raises:
        TypeError: ``env`` is not an environment, or an option is unknown.
        ValueError: ``env`` has no goal interface, or an option has a wrong value.

    Attributes:
        her_buffer: The `HindsightReplayBuffer`, with ``statistics()`` and ``episodes()``.
        last_batch: The `Batch` of the last call of `sample`, or None.
        metrics: RLlib's logger of the numbers of stored transitions and episodes.
    """

    def __init__(
        self,
        env: AnyEnv,
        *,
        capacity: int = 1_000_000,
        num_envs: int = 1,
        n_step: int = 1,
        gamma: float = 0.99,
        **options: Any,
    ) -> None:
        self._env, self._num_envs, self._gamma = env, num_envs, gamma
        self._options = {**options, "buffer_size": capacity, "n_steps": n_step, "gamma": gamma}
        self.her_buffer = HindsightReplayBuffer.for_env(env, **self._options)
        self._inputs = NetworkInputs(self.her_buffer.observation_space)
        # By id of an open episode: the step at which its next chunk begins, and its chunks, each of which
        # is a tuple of observations, actions, rewards and infos.
        self._open: dict[str, tuple[int, list[tuple[Tree, ...]]]] = {}
        self.last_batch: Batch | None = None
        self.metrics = MetricsLogger(root=False)

    def __len__(self) -> int:
        """Return the number of transitions that can be sampled."""
        return len(self.her_buffer)

    def add(self, batch: SingleAgentEpisode | list[SingleAgentEpisode], **kwargs: Any) -> None:
        """Add chunks of episodes, as env runners return them.

        If a chunk is not valid, its episode is dropped, and the chunks after this chunk are ignored. If an
        episode that ends in this call is not valid, all episodes that end in this call are dropped.

        Args:
            batch: The chunks. All chunks of an episode have the same id, and are in order.
            **kwargs: Ignored.

        Raises:
            ValueError: A chunk lacks an info of ``info_keys``, its episode exceeds the capacity, or an
                episode that ends in this call is not valid.
        """
        ended: list[Episode] = []
        try:
            for chunk in batch if isinstance(batch, list) else [batch]:
                self._add_chunk(chunk, ended)
        finally:  # also store the episodes that ended before an invalid chunk
            self.her_buffer.add_episodes(ended)

    def _add_chunk(self, chunk: SingleAgentEpisode, ended: list[Episode]) -> None:
        """Append a chunk to the open episode with its id; append all episodes that end now to ``ended``."""
        if not len(chunk):
            return
        next_step, chunks = self._open.pop(chunk.id_, (chunk.t_started, []))
        observations = _as_arrays(chunk.get_observations())
        if chunks and next_step != chunk.t_started:  # RLlib dropped the chunk between them
            ended.append(_as_episode(chunks))
            chunks = []
        if chunks:  # a chunk begins with the last observation of the previous one
            observations = tree.map_structure(lambda rows: rows[1:], observations)
        actions, rewards = _as_arrays(chunk.get_actions()), np.asarray(chunk.get_rewards(), np.float64)
        infos = {}
        for key in self.her_buffer.info_keys:
            for t, info in enumerate(found := chunk.get_infos()[1:]):
                if key not in info:
                    raise ValueError(missing_info(key, f"at step {chunk.t_started + t}", sorted(info)))
            infos[key] = np.stack([np.asarray(info[key]) for info in found])
        chunks.append((observations, actions, rewards, infos))
        if chunk.is_done:
            ended.append(_as_episode(chunks, terminated=chunk.is_terminated, truncated=chunk.is_truncated))
            return
        num_steps = sum(len(rewards) for _, _, rewards, _ in chunks)
        if num_steps >= self.her_buffer.buffer_size:
            raise ValueError(
                f"an episode must end after at most {self.her_buffer.buffer_size} steps (the capacity of the "
                f"buffer), but an episode continues after {num_steps} steps; increase "
                'replay_buffer_config["capacity"], or give the environment a time limit'
            )
        self._open[chunk.id_] = chunk.t, chunks
        if len(self._open) > self._num_envs:
            ended.append(_as_episode(self._open.pop(next(iter(self._open)))[1]))

    def sample(
        self,
        num_items: int,
        *,
        beta: float | None = None,
        **kwargs: Any,
    ) -> list[SampledTransitions]:
        """Sample transitions with replacement; relabeled transitions come first in the batch.

        Args:
            num_items: Number of transitions, B.
            beta: Exponent of the importance weights of this batch; by default ``prioritized.beta``.
            **kwargs: Ignored; RLlib passes arguments of its own buffers.

        Returns:
            A list with one batch, which the learner connector converts to tensors.

        Raises:
            ValueError: No episode is complete, or ``num_items`` is below 1.
        """
        batch = self.last_batch = self.her_buffer.sample(num_items, beta)
        columns = {
            Columns.OBS: self._inputs(batch.observations, num_items),
            Columns.NEXT_OBS: self._inputs(batch.next_observations, num_items),
            Columns.ACTIONS: batch.actions,
            Columns.REWARDS: batch.rewards,
            Columns.TERMINATEDS: batch.terminations,
            Columns.TRUNCATEDS: batch.truncations,
            "weights": batch.weights,
            "n_step": window_lengths(batch.discounts, self._gamma).astype(np.float32),
        }
        return [SampledTransitions({name: np.ascontiguousarray(each) for name, each in columns.items()})]

    def update_priorities(self, priorities: np.ndarray, module_id: str | None = None) -> None:
        """Set the priorities of the last batch; do nothing if the buffer has no priorities.

        Args:
            priorities: (B,) temporal difference errors, whose absolute values become the priorities.
            module_id: Ignored; RLlib passes the id of its module.

        Raises:
            ValueError: ``priorities`` does not have one value for each transition of the batch.
        """
        if self._options.get("prioritized") is not None and self.last_batch is not None:
            self.her_buffer.update_priorities(self.last_batch.index, np.abs(priorities))

    def get_metrics(self) -> dict[str, Any]:
        """Return the numbers of stored transitions and episodes, for the results of RLlib's ``train``."""
        self.metrics.log_value("num_env_steps_stored", len(self), reduce="item")
        self.metrics.log_value("num_episodes_stored", self.her_buffer.num_episodes, reduce="item")
        reduced: dict[str, Any] = self.metrics.reduce()
        return reduced

    def get_state(self) -> dict[str, Any]:
        """Return the state: a saved `HindsightReplayBuffer` as bytes, and the open episodes.

        Open episodes are truncated in the state, since a restored algorithm resets its environments.
        """
        unfinished = [vars(_as_episode(chunks)) for _, chunks in self._open.values()]
        return {"hindsight": to_bytes(self.her_buffer), "unfinished": unfinished}

    def set_state(self, state: dict[str, Any]) -> None:
        """Replace the content by a state that `get_state` of a buffer with the same options returned.

        Raises:
            CorruptFileError: The state is damaged.
            ValueError: The saved buffer has other spaces or options.
        """
        self.her_buffer = load_same(self.her_buffer, state["hindsight"])
        self.her_buffer.add_episodes([Episode(**attributes) for attributes in state["unfinished"]])
        self._open, self.last_batch = {}, None

    def close(self) -> None:
        """Close the environment."""
        self._env.close()


# RLlib calls `update_priorities` of subclasses of this class only.
PrioritizedEpisodeReplayBuffer.register(HerEpisodeReplayBuffer)
