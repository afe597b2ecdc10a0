"""TorchRL: `HindsightReplayBuffer` as a replacement for a ``TensorDictReplayBuffer``.

``docs/torchrl.md`` shows complete programs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from gymnasium import spaces

from her_wrappers.data.spaces import SpaceSpec, leaf_spaces
from her_wrappers.data.trees import equal_rows, leaf_arrays
from her_wrappers.recording.episode import Episode
from her_wrappers.replay.batch import window_lengths
from her_wrappers.replay.buffer import HindsightReplayBuffer
from her_wrappers.replay.saving import load_same, to_bytes
from her_wrappers.support.user_warning import warn_user

try:
    import torch
    from tensordict import TensorDict, TensorDictBase
except ImportError as error:
    raise ImportError(
        'her_wrappers.integrations.torchrl needs TorchRL; run: pip install "her-toolkit[torchrl]"'
    ) from error

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping

    from her_wrappers.data.trees import Path
    from her_wrappers.goals.interface import AnyEnv

NestedKey = str | tuple[str, ...]

KEYS: dict[str, NestedKey] = {
    "observation": "observation",
    "achieved_goal": "achieved_goal",
    "desired_goal": "desired_goal",
    "action": "action",
    "reward": "reward",
    "priority": "td_error",
    "trajectory": ("collector", "traj_ids"),
    "mask": ("collector", "mask"),
}
"""Default keys in tensordicts by their content: those of TorchRL's environments, losses and collectors."""

PATIENCE = 16
"""An open trajectory is truncated if it got no steps in this many calls of ``extend``. Only calls in which
another trajectory begins are counted."""


class HindsightTensorDictReplayBuffer:
    """A replay buffer for TorchRL that relabels goals in hindsight while sampling.

    Tensordicts have the keys of TorchRL: observations and ``action`` at the root; next observations,
    ``reward``, ``done``, ``terminated`` and ``truncated`` under ``"next"``. Other entries are ignored. A step
    can be sampled once its episode has ended.

    Args:
        observation_space: Dict of ``observation``, ``achieved_goal``, ``desired_goal`` of one environment.
        action_space: Action space of one environment.
        batch_size: Default number of transitions that `sample` returns; also an attribute.
        device: Device of the batches.
        keys: Dict from names in `KEYS` to keys of your tensordicts. Names left out keep their default keys.
        **options: Other arguments of `HindsightReplayBuffer`, such as ``buffer_size``, ``compute_reward`` and
            ``n_sampled_goal``.

    Raises:
        TypeError: A space is or contains a Tuple, or ``options`` has an unknown name.
        ValueError: ``keys`` has an unknown name, or an argument of `HindsightReplayBuffer` is not valid.

    Attributes:
        her_buffer: The `HindsightReplayBuffer`, with ``statistics()`` and ``episodes()``.
    """

    _storage = None  # TorchRL's collectors with workers look for it before `shared`

    def __init__(
        self,
        observation_space: spaces.Dict,
        action_space: spaces.Space[Any],
        *,
        batch_size: int | None = None,
        device: torch.device | str = "cpu",
        keys: Mapping[str, NestedKey] | None = None,
        **options: Any,
    ) -> None:
        if unknown := set(keys or {}) - set(KEYS):
            raise ValueError(f"keys= has the unknown name {min(unknown)!r}; choose from {list(KEYS)}")
        self._has_priorities = options.get("prioritized") is not None
        self._n_steps, self._gamma = options.get("n_steps", 1), options.get("gamma", 0.99)
        self.batch_size = batch_size
        self._device = torch.device(device)
        self._keys = KEYS | dict(keys or {})
        self._states = _SpaceKeys("observation", observation_space, self._keys)
        self._actions = _SpaceKeys("action", action_space, self._keys)
        self._num_begun = 0  # number of calls that began a trajectory
        self.write_count = 0
        self._use(HindsightReplayBuffer(observation_space, action_space, **options))

    @classmethod
    def for_env(cls, env: AnyEnv, **options: Any) -> HindsightTensorDictReplayBuffer:
        """Make a buffer with the spaces and goal functions of a Gymnasium environment.

        Args:
            env: A goal environment of Gymnasium, not yet wrapped in TorchRL's ``GymWrapper``.
            **options: Other arguments of the class, such as ``batch_size``.

        Raises:
            TypeError: ``env`` is not a Gymnasium environment.
            ValueError: ``env`` has no goal interface, or an argument is not valid.
        """
        # This class takes the same arguments, and others, which the function passes on.
        make = HindsightReplayBuffer.for_env.__func__  # type: ignore[attr-defined] # of a class method
        buffer: HindsightTensorDictReplayBuffer = make(cls, env, **options)
        return buffer

    def _use(self, her_buffer: HindsightReplayBuffer) -> None:
        """Store steps in ``her_buffer``, whose ``save`` also stores which Discrete values are one-hot."""
        saved: Any = her_buffer._attachment.get("one_hot", {})  # noqa: SLF001 - made for integrations
        for keys in (self._states, self._actions):
            keys.one_hot |= saved.get(keys.name, {})
        forms: Any = {keys.name: keys.one_hot for keys in (self._states, self._actions)}
        her_buffer._attachment = {"one_hot": forms}  # noqa: SLF001
        self.her_buffer = her_buffer
        # By trajectory: the value of `_num_begun` at its last step, and its pieces.
        self._open: dict[int, tuple[int, list[TensorDictBase]]] = {}
        self._warned_of_reuse = False

    def __len__(self) -> int:
        """Return the number of transitions that can be sampled."""
        return len(self.her_buffer)

    def extend(self, data: TensorDictBase) -> None:
        """Add steps, as a collector returns them; episodes may continue in the next call.

        Args:
            data: Tensordict of shape (T,) with T consecutive steps, or (N, T) with T consecutive steps of
                each of N environments. With trajectory ids, all steps with the same id are one episode, and
                the rows may be in any order. Without trajectory ids, row i continues row i of the previous
                call. If a step does not begin in the state in which the step before it ended, the open
                episode is truncated, and another one begins. Steps whose mask is False are padding, and are
                ignored.

        Raises:
            KeyError: A key is missing.
            ValueError: ``data`` has another shape; a value does not fit its space; the state after the last
                step of an episode is all zeros, which means that it is missing; or a row without trajectory
                ids seems to mix the steps of several environments: two consecutive steps do not continue the
                steps before them. In all cases, episodes that end in ``data`` are not stored.
        """
        if data.ndim not in {1, 2}:
            shape = tuple(data.shape)
            raise ValueError(f"data must have shape (steps,) or (environments, steps), got {shape}")
        steps, ids, mask = self._select(data if data.ndim == 2 else data.unsqueeze(0))
        self.write_count += int(mask.sum())
        begins = ids is not None and not set(ids[mask].tolist()) <= self._open.keys()
        ended: list[Episode] = []
        for row, is_step in enumerate(mask):
            kept = steps[row, torch.from_numpy(is_step)]
            numbers = np.full(len(kept), row) if ids is None else ids[row, is_step]
            is_last = kept["done"].numpy().copy()  # of consecutive steps of one episode
            is_last[:-1] |= ~_same(kept["state/next"][:-1], kept["state"][1:]) | (numbers[1:] != numbers[:-1])
            is_last[-1:] = True
            ends = (np.flatnonzero(is_last) + 1).tolist()
            for begin, end in zip([0, *ends], ends, strict=False):
                ended.extend(self._continue(int(numbers[begin]), kept[begin:end], has_ids=ids is not None))
        if ids is not None:
            self._num_begun += begins
            lost = [key for key, (begun, _) in self._open.items() if begun < self._num_begun - PATIENCE]
            ended.extend(self._close(key) for key in lost)  # their environment was reset
        self.her_buffer.add_episodes(ended)

    def add(self, data: TensorDictBase) -> None:
        """Add one step, a tensordict of shape (); see `extend`."""
        self.extend(data.unsqueeze(0))

    def sample(self, batch_size: int | None = None) -> TensorDict:
        """Sample transitions with replacement; relabeled transitions come first in the batch.

        Args:
            batch_size: Number of transitions, B; None uses the attribute ``batch_size``.

        Returns:
            Tensordict of shape (B,) on ``device``: the entries that `extend` stores, except infos;
            ``index`` (step numbers); ``relabeled`` (bool); with priorities, ``priority_weight``; with
            ``n_steps`` above 1, ``steps_to_next_obs``, which the value estimators of TorchRL read.

        Raises:
            ValueError: No batch size is given, or no episode has ended.
        """
        size = self.batch_size if batch_size is None else batch_size
        if size is None:
            raise ValueError("batch_size is missing; pass it to sample() or when you make the buffer")
        batch = self.her_buffer.sample(size).to_torch(self._device)
        entries: list[tuple[NestedKey, torch.Tensor]] = [
            *self._states.write(batch.observations, ()),
            *self._actions.write(batch.actions, ()),
            *self._states.write(batch.next_observations, ("next",)),
            (("next", *_path(self._keys["reward"])), batch.rewards[:, None]),
            (("next", "done"), (batch.terminations | batch.truncations)[:, None]),
            (("next", "terminated"), batch.terminations[:, None]),
            (("next", "truncated"), batch.truncations[:, None]),
            ("index", batch.index),
            ("relabeled", batch.relabeled),
        ]
        if self._has_priorities:
            entries.append(("priority_weight", batch.weights))
        if self._n_steps > 1:
            lengths = window_lengths(np.asarray(batch.discounts.cpu()), self._gamma)
            entries.append(("steps_to_next_obs", torch.from_numpy(lengths)[:, None]))
        sampled = TensorDict({}, batch_size=[size], device=self._device)
        for key, value in entries:
            sampled.set(key, value)
        return sampled

    def update_tensordict_priority(self, data: TensorDictBase) -> None:
        """Set the priorities of sampled transitions; do nothing if the buffer has no priorities.

        Args:
            data: Tensordict that `sample` returned, with one more entry: the priorities, (B,) or (B, 1)
                non-negative numbers. Their key is ``td_error``, unless the argument ``keys`` of the buffer
                sets another key for ``priority``.

        Raises:
            KeyError: ``index`` or the priority is missing.
            ValueError: A priority is negative or not finite.
        """
        if self._has_priorities:
            priorities = _require(data, self._keys["priority"]).detach().reshape(len(data))
            self.her_buffer.update_priorities(_require(data, "index").cpu(), priorities.cpu())

    def truncate_open_episodes(self) -> None:
        """Store the open episodes as truncated, for example after ``collector.reset()``."""
        self.her_buffer.add_episodes([self._close(key) for key in list(self._open)])

    def empty(self) -> None:
        """Remove all episodes, including the open ones."""
        self._open = {}
        self.her_buffer.clear()

    def dumps(self, path: str | os.PathLike[str]) -> None:
        """Write the buffer to a file, without open episodes, see `HindsightReplayBuffer.save`."""
        self.her_buffer.save(path)

    def loads(self, path: str | os.PathLike[str] | bytes) -> None:
        """Replace the content by that of a saved buffer with the same options; drop open episodes.

        Args:
            path: File that `dumps` wrote, or its content as bytes.

        Raises:
            CorruptFileError: The file is damaged.
            ValueError: The saved buffer has other spaces or options than this buffer.
        """
        self._use(load_same(self.her_buffer, path))

    def state_dict(self) -> dict[str, Any]:
        """Return a dict with the bytes that `dumps` writes to a file, and with the number of added steps."""
        return {"hindsight": to_bytes(self.her_buffer), "write_count": self.write_count}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore the state that `state_dict` returned; see `loads` for conditions and errors."""
        self.loads(state_dict["hindsight"])
        self.write_count = state_dict["write_count"]

    shared = False  # collectors then call `share`

    def share(self, shared: bool = True) -> NoReturn:
        """Raise NotImplementedError, since the episodes are in the memory of one process."""
        raise NotImplementedError(
            f"{type(self).__name__} cannot be shared by processes; do not pass it as replay_buffer to a "
            "collector with workers, but call extend() with the data that the collector returns"
        )

    def _select(self, data: TensorDictBase) -> tuple[TensorDict, Any, np.ndarray]:
        """Return the entries to store, the trajectory ids or None, and the mask of steps; (N, T) each."""
        source = data.detach()
        shape = data.shape
        keys = source.keys(True)  # TorchRL's info readers write infos under "next"
        infos = {name: ("next", name) for name in self.her_buffer.info_keys if ("next", name) in keys}
        entries = {
            "action": self._actions.read(source, ()),
            "state": self._states.read(source, ()),
            "state/next": self._states.read(source, ("next",)),
            "info": {name: _require(source, infos.get(name, name)) for name in self.her_buffer.info_keys},
        }
        ends = {
            "reward": _require(source, ("next", *_path(self._keys["reward"]))),
            "done": _require(source, ("next", "done")),
            "terminated": _require(source, ("next", "terminated")),
        }
        ends["truncated"] = source.get(("next", "truncated"), torch.zeros_like(ends["done"]))
        parts = {name: TensorDict(leaves, batch_size=shape) for name, leaves in entries.items()}
        columns = {name: values.reshape(shape) for name, values in ends.items()}
        steps = TensorDict({**parts, **columns}, batch_size=shape)
        ids, mask = (source.get(self._keys[name], None) for name in ("trajectory", "mask"))
        is_step = np.ones(shape, np.bool_) if mask is None else mask.reshape(shape).cpu().numpy()
        return steps.cpu().clone(), None if ids is None else ids.reshape(shape).cpu().numpy(), is_step

    def _continue(self, key: int, piece: TensorDictBase, *, has_ids: bool) -> list[Episode]:
        """Append ``piece`` to the open episode ``key``; return the episodes that end with this call."""
        ended = []
        if piece["done"][-1]:
            before, after = (self._states.to_tree(piece[name][-1:]) for name in ("state", "state/next"))
            if any(map(np.any, leaf_arrays(before["desired_goal"]))) and not any(
                map(np.any, leaf_arrays(after))
            ):
                raise ValueError(
                    "the last observation of an episode has only zeros, since GymEnv(id, num_envs=N) does "
                    "not return it; use SerialEnv(N, lambda: GymEnv(id)) instead"
                )
        _, pieces = self._open.get(key, (0, []))
        if pieces and not _same(pieces[-1]["state/next"][-1:], piece["state"][:1]).all():
            self._warn_of_reuse(pieces[-1], piece)
            ended.append(self._close(key))
            if not has_ids and len(ended[0]) == len(piece) == 1:
                raise ValueError(
                    "data has no trajectory ids, so each row must have consecutive steps of one environment, "
                    "but a step does not begin where the previous one ended. If data has one step of each "
                    "environment, call extend(data.unsqueeze(-1)). If the environment was reset, call "
                    "truncate_open_episodes() before extend()"
                )
            pieces = []
        pieces.append(piece)
        self._open[key] = self._num_begun, pieces
        if piece["done"][-1]:
            ended.append(self._close(key))
        return ended

    def _warn_of_reuse(self, before: TensorDictBase, after: TensorDictBase) -> None:
        """Warn once if the environment seems to return the same array, with other values, in each step."""
        reused = []
        for position, leaf in enumerate(self._states.spec):
            pieces = [
                torch.cat([piece[name, str(position)] for name in ("state", "state/next")])
                for piece in (before, after)
            ]
            is_still = all(bool((piece == piece[0]).all()) for piece in pieces)
            if is_still and bool((pieces[0][0] != pieces[1][0]).any()):
                reused.append(leaf.name)
        if reused and not self._warned_of_reuse:
            self._warned_of_reuse = True
            warn_user(
                f"{', '.join(reused)} is the same in all states of an episode in one call of extend(), but "
                "different in the next call: the environment seems to reuse its arrays, which collectors "
                "do not copy in each step; wrap the environment in her_wrappers.repairs.CopyObservation"
            )

    def _close(self, key: int) -> Episode:
        """Remove the open episode ``key``, and return it; it is truncated unless its last step terminated."""
        steps = TensorDict.cat(self._open.pop(key)[1])
        states = TensorDict.cat([steps["state"], steps["state/next"][-1:]])
        terminated = bool(steps["terminated"][-1])
        return Episode(
            observations=self._states.to_tree(states),
            actions=self._actions.to_tree(steps["action"]),
            rewards=steps["reward"].double().numpy(),
            terminated=terminated,
            truncated=bool(steps["truncated"][-1]) or not terminated,
            infos={name: steps["info", name].numpy() for name in self.her_buffer.info_keys},
        )


class _SpaceKeys:
    """Reads and writes elements of a space in tensordicts, where Discrete values can be one-hot vectors."""

    def __init__(self, name: str, space: spaces.Space[Any], keys: Mapping[str, NestedKey]) -> None:
        self.name, self._keys = name, keys
        self.spec = SpaceSpec.of(name, space)
        self._discrete = {
            path: leaf for path, leaf in leaf_spaces(space).items() if isinstance(leaf, spaces.Discrete)
        }
        self.one_hot: dict[str, str] = {}  # dtypes of one-hot vectors by the positions of their leaves
        if not all(isinstance(part, str) for path in self.spec.paths for part in path):
            fix = "use a Dict space, since a tensordict cannot store tuples"
            raise TypeError(f"{name}_space must not contain a Tuple space, got {space}; {fix}")

    def read(self, data: TensorDictBase, where: tuple[str, ...]) -> dict[str, torch.Tensor]:
        """Return the tensors of the leaves, with keys "0", "1" and so on; one-hot vectors become integers."""
        leaves = {}
        for position, path in enumerate(self.spec.paths):
            value = _require(data, (*where, *self._key(path)))
            choices = self._discrete.get(path)
            if choices is not None and value.shape[data.ndim :] == (choices.n,):
                self.one_hot[str(position)] = str(value.dtype).removeprefix("torch.")
                value = value.to(torch.uint8).argmax(-1) + int(choices.start)
            leaves[str(position)] = value
        return leaves

    def write(self, tree: Any, where: tuple[str, ...]) -> Iterator[tuple[NestedKey, torch.Tensor]]:
        """Yield the key and the tensor of each leaf of ``tree``; the keys begin with ``where``.

        Integers that `read` converted from one-hot vectors are converted back to one-hot vectors.
        """
        for position, leaf in enumerate(self.spec):
            value, dtype = leaf.find(tree, "in the batch"), self.one_hot.get(str(position))
            if dtype is not None:
                choices = self._discrete[leaf.path]
                rows = value.long() - int(choices.start)
                value = torch.nn.functional.one_hot(rows, int(choices.n)).to(getattr(torch, dtype))
            yield (*where, *self._key(leaf.path)), value

    def to_tree(self, steps: TensorDictBase) -> Any:
        """Convert ``steps``, a tensordict of leaves as in `read`, to a tree of arrays as in the space."""
        return self.spec.build([steps[str(position)].numpy() for position in range(len(self.spec.leaves))])

    def _key(self, path: Path) -> tuple[str, ...]:
        """Return the key, in tensordicts, of the leaf at ``path`` in the space."""
        first, *rest = map(str, (self.name, *path) if self.name == "action" else path)
        return (*_path(self._keys.get(first, first)), *rest)


def _path(key: NestedKey) -> tuple[str, ...]:
    return (key,) if isinstance(key, str) else key


def _require(data: TensorDictBase, key: NestedKey) -> torch.Tensor:
    """Return the entry ``key``; raise KeyError if it is missing."""
    value: torch.Tensor | None = data.get(key, None)
    if value is None:
        found = list(data.keys(include_nested=True, leaves_only=True))
        fix = "if your data has this entry under another key, name that key in keys= of the buffer"
        raise KeyError(f"data must have the key {key!r}, got {found}; {fix}")
    return value


def _same(some: TensorDictBase, others: TensorDictBase) -> np.ndarray:
    """Compare T pairs of states; return whether the states of each pair are equal, (T,) bool."""
    pairs = [equal_rows(values.numpy(), others[key].numpy()) for key, values in some.items()]
    same: np.ndarray = np.logical_and.reduce(pairs)
    return same
