"""RLlib: the replay buffer of `her_wrappers.integrations.rllib`, and the inputs of its networks."""

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

from her_wrappers.goal_interface import require_goal_space
from her_wrappers.recording.episode import Episode
from her_wrappers.replay.buffer import HindsightReplayBuffer
from her_wrappers.replay.n_step import window_lengths
from her_wrappers.replay.saving import load_same, to_bytes
from her_wrappers.spaces import leaf_spaces

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ray.rllib.env.single_agent_episode import SingleAgentEpisode

    from her_wrappers.goal_interface import AnyEnv
    from her_wrappers.replay.batch import Batch
    from her_wrappers.trees import Tree

INPUT_KEYS = ("observation", "desired_goal")
"""Parts of an observation that the networks get."""


class NetworkInputs:
    """Concatenates observation and desired goal to vectors: the inputs of the networks.

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
        """Return the (rows, D) float32 vectors of observations, whose leaves have a leading axis."""
        parts = []
        for path, leaf in self._leaves:
            values = np.asarray(reduce(getitem, path, observations)).reshape(rows, -1)
            if isinstance(leaf, spaces.Discrete):  # one-hot vectors
                values = values == np.arange(leaf.start, leaf.start + leaf.n)
            parts.append(values)
        vectors: np.ndarray = np.concatenate(parts, axis=1, dtype=np.float32, casting="unsafe")
        return vectors


class SampledTransitions:
    """A batch of transitions, which RLlib's learners get from the buffer instead of a list of episodes.

    Args:
        columns: (B, ...) arrays by the names that the learners use.
    """

    def __init__(self, columns: dict[str, np.ndarray]) -> None:
        self.columns = columns

    def __len__(self) -> int:
        """Return the number of transitions, B."""
        return len(self.columns[Columns.REWARDS])

    def __getitem__(self, rows: slice) -> SampledTransitions:
        """Return some of the transitions, for one of several learners."""
        return SampledTransitions({name: values[rows] for name, values in self.columns.items()})

    def slice(self, rows: slice, len_lookback_buffer: int | None = None) -> SampledTransitions:
        """Return some of the transitions; RLlib's episodes have a method with this name and arguments."""
        return self[rows]


def _as_episode(chunks: list[Any], *, terminated: bool = False, truncated: bool = True) -> Episode:
    """Return the chunks of an episode as one episode, which is truncated unless flags are given."""
    observations, actions, rewards, infos = joined(chunks)
    return Episode(observations, actions, rewards, bool(terminated), bool(truncated), infos)


def _as_arrays(values: Any) -> Tree:
    """Return the values of an episode as a tree of arrays; RLlib has a list until it calls ``to_numpy``."""
    return stack(values) if isinstance(values, list) else values


def _is_continued(before: Tree, after: Tree) -> bool:
    """Whether the first observation of ``after`` equals the last observation of ``before``."""
    pairs = zip(tree.flatten(before), tree.flatten(after), strict=True)
    return all(np.array_equal(one[-1], other[0], equal_nan=True) for one, other in pairs)


def joined(trees: list[Any]) -> Any:
    """Return trees of arrays as one tree, whose leaves are concatenated along the first axis."""
    return tree.map_structure(lambda *parts: np.concatenate(parts), *trees)


def _info_column(key: str, infos: Sequence[Mapping[str, Any]]) -> np.ndarray:
    for info in infos:
        if key not in info:
            raise ValueError(
                f"every step must return the infos in info_keys, but a step did not return {key!r}, only "
                f"{sorted(info)}; remove {key!r} from info_keys, or let step() return it"
            )
    return np.stack([np.asarray(info[key]) for info in infos])


class HerEpisodeReplayBuffer(ReplayBufferInterface):  # type: ignore[misc] # RLlib has no annotations
    """The replay buffer of `HerDQN` and `HerSAC`, which relabels goals in hindsight while sampling.

    Env runners pass episodes in chunks; an episode can be sampled once it has ended. If a chunk is missing,
    the steps before it are stored as a truncated episode, and the steps after it as another episode.

    Args:
        env: Goal environment whose spaces and goal functions are used.
        capacity: Maximal number of transitions.
        num_envs: Number of environments of all env runners together. If more episodes are open, an env runner
            must have been restarted, and the oldest open episode is stored as truncated.
        n_step: Maximal number of steps whose rewards are summed, all for one goal.
        gamma: Discount factor of these sums.
        **options: Further arguments of `HindsightReplayBuffer`, such as ``n_sampled_goal``.

    Raises:
        TypeError: ``env`` is not an environment, or an option is unknown.
        ValueError: ``env`` has no goal interface, or an option has a wrong value.

    Attributes:
        hindsight: The `HindsightReplayBuffer`, with ``statistics()``, ``episodes()`` and ``verify()``.
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
        self.hindsight = HindsightReplayBuffer.for_env(env, **self._options)
        self._inputs = NetworkInputs(self.hindsight.observation_space)
        # Of each open episode, the number of steps and the chunks: observations, actions, rewards, infos.
        self._open: dict[str, tuple[int, list[tuple[Tree, ...]]]] = {}
        self.last_batch: Batch | None = None
        self.metrics = MetricsLogger(root=False)

    def __len__(self) -> int:
        """Return the number of transitions that can be sampled."""
        return len(self.hindsight)

    def add(self, batch: SingleAgentEpisode | list[SingleAgentEpisode], **kwargs: Any) -> None:
        """Add chunks of episodes, as env runners return them.

        Args:
            batch: The chunks. All chunks of an episode have the same id, and are in order.
            **kwargs: Ignored.

        Raises:
            ValueError: An episode does not fit the spaces or the capacity, or an info is missing; the episode
                is dropped.
        """
        ended: list[Episode] = []
        try:
            for chunk in batch if isinstance(batch, list) else [batch]:
                self._add_chunk(chunk, ended)
        finally:  # a chunk that is rejected does not affect the other episodes
            self.hindsight.add_episodes(ended)

    def _add_chunk(self, chunk: SingleAgentEpisode, ended: list[Episode]) -> None:
        """Add a chunk to its episode, and append the episodes that it ends to ``ended``."""
        if not len(chunk):
            return
        next_step, chunks = self._open.pop(chunk.id_, (chunk.t_started, []))
        observations = _as_arrays(chunk.get_observations())
        if chunks and not (next_step == chunk.t_started and _is_continued(chunks[-1][0], observations)):
            ended.append(_as_episode(chunks))  # RLlib dropped the chunk between them
            chunks = []
        if chunks:  # a chunk begins with the last observation of the previous one
            observations = tree.map_structure(lambda rows: rows[1:], observations)
        actions, rewards = _as_arrays(chunk.get_actions()), np.asarray(chunk.get_rewards(), np.float64)
        infos = {key: _info_column(key, chunk.get_infos()[1:]) for key in self.hindsight.info_keys}
        chunks.append((observations, actions, rewards, infos))
        if chunk.is_done:
            ended.append(_as_episode(chunks, terminated=chunk.is_terminated, truncated=chunk.is_truncated))
            return
        num_steps = sum(len(rewards) for _, _, rewards, _ in chunks)
        if num_steps >= self.hindsight.buffer_size:
            raise ValueError(
                f"an episode must fit the capacity of {self.hindsight.buffer_size} transitions, got "
                f"{num_steps} steps that did not end the episode; raise "
                'replay_buffer_config["capacity"], or give the environment a time limit'
            )
        self._open[chunk.id_] = chunk.t, chunks
        if len(self._open) > self._num_envs:
            ended.append(_as_episode(self._open.pop(next(iter(self._open)))[1]))

    def sample(
        self,
        num_items: int | None = None,
        *,
        batch_length_T: int | None = None,  # noqa: N803 - RLlib's name
        beta: float | None = None,
        **kwargs: Any,
    ) -> list[SampledTransitions]:
        """Sample transitions with replacement; relabeled transitions come first.

        Args:
            num_items: Number of transitions, B.
            batch_length_T: 0 or None; recurrent networks are not supported.
            beta: Exponent of the weights of this batch; by default ``prioritized.beta``.
            **kwargs: Ignored: further arguments of RLlib's buffers.

        Returns:
            A list with one batch, for the learner connector.

        Raises:
            ValueError: No episode is complete, ``num_items`` is below 1, or the networks are recurrent.
        """
        if num_items is None or batch_length_T:
            raise ValueError(
                "sample needs num_items and batch_length_T=0, got "
                f"num_items={num_items}, batch_length_T={batch_length_T}; use networks without an LSTM"
            )
        batch = self.last_batch = self.hindsight.sample(num_items, beta)
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
        """Set the priorities of the transitions of the last batch, if the buffer has priorities.

        Args:
            priorities: (B,) temporal difference errors.
            module_id: Ignored; RLlib passes it.

        Raises:
            ValueError: ``priorities`` does not have one value for each transition of the batch.
        """
        if self._options.get("prioritized") is not None and self.last_batch is not None:
            self.hindsight.update_priorities(self.last_batch.index, np.abs(priorities))

    def get_metrics(self) -> dict[str, Any]:
        """Return the numbers of stored transitions and episodes, for the results of ``train``."""
        self.metrics.log_value("num_env_steps_stored", len(self), reduce="item")
        self.metrics.log_value("num_episodes_stored", self.hindsight.num_episodes, reduce="item")
        reduced: dict[str, Any] = self.metrics.reduce()
        return reduced

    def get_state(self) -> dict[str, Any]:
        """Return the state of the buffer: the content of a file that `HindsightReplayBuffer` saves.

        Open episodes are saved as truncated, since a restored algorithm resets its environments.

        Raises:
            OSError: The file cannot be written.
        """
        unfinished = [vars(_as_episode(chunks)) for _, chunks in self._open.values()]
        return {"hindsight": to_bytes(self.hindsight), "unfinished": unfinished}

    def set_state(self, state: dict[str, Any]) -> None:
        """Replace the content of the buffer by the saved content of a buffer with the same options.

        Args:
            state: State that `get_state` returned.

        Raises:
            CorruptFileError: The state is damaged.
            ValueError: The saved buffer has other spaces or options, or the state does not contain a buffer.
        """
        if "hindsight" not in state:
            raise ValueError(
                f"state must have the keys hindsight and unfinished, got {sorted(state)}; pass the state of "
                "a HerEpisodeReplayBuffer"
            )
        self.hindsight = load_same(self.hindsight, state["hindsight"])
        self.hindsight.add_episodes([Episode(**attributes) for attributes in state["unfinished"]])
        self._open, self.last_batch = {}, None

    def close(self) -> None:
        """Close the environment."""
        self._env.close()


# RLlib calls `update_priorities` of subclasses of this class only.
PrioritizedEpisodeReplayBuffer.register(HerEpisodeReplayBuffer)
