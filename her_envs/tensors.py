"""TensorEpisodes: the episodes of a `TaskVectorEnv` on a torch device. This module imports torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode

from her_envs.arrays import as_numpy
from her_envs.base import action_bounds
from her_envs.starts import replace_rows, sample_starts
from her_envs.task import GoalTask, RewardType, State

Tensors = dict[str, torch.Tensor]


def _get_goals(observations: Tensors) -> tuple[torch.Tensor, torch.Tensor]:
    return observations["achieved_goal"], observations["desired_goal"]


class TensorRandom:
    """Random numbers as tensors on a device, by methods with the arguments of `numpy.random.Generator`.

    Args:
        device: A torch device.
    """

    def __init__(self, device: torch.device) -> None:
        self.generator = torch.Generator(device)
        self._options: dict[str, Any] = {"device": device, "generator": self.generator}

    def random(self, size: Any = (), dtype: Any = np.float64) -> torch.Tensor:
        """Return numbers that are uniform over [0, 1)."""
        return torch.rand(_as_shape(size), dtype=getattr(torch, np.dtype(dtype).name), **self._options)

    def uniform(self, low: float = 0.0, high: float = 1.0, size: Any = ()) -> torch.Tensor:
        """Return float64 numbers that are uniform over [low, high)."""
        return low + (high - low) * self.random(size)

    def normal(self, loc: float = 0.0, scale: float = 1.0, size: Any = ()) -> torch.Tensor:
        """Return float64 numbers with a normal distribution."""
        return loc + scale * torch.randn(_as_shape(size), dtype=torch.float64, **self._options)

    def integers(self, low: int, high: int | None = None, size: Any = ()) -> torch.Tensor:
        """Return int64 numbers that are uniform over low..high - 1, or over 0..low - 1 without ``high``."""
        bounds = (0, low) if high is None else (low, high)
        return torch.randint(*bounds, _as_shape(size), **self._options)


def _as_shape(size: Any) -> tuple[int, ...]:
    return (size,) if isinstance(size, int) else tuple(size)


class TensorEpisodes:
    """The current episodes of N environments, as tensors on a device.

    Nothing in `step` waits for the device: no value is read, and shapes do not depend on values.

    Args:
        task: The task.
        num_envs: Number of environments, N.
        device: A torch device.
        autoreset_mode: When an environment is reset after the end of its episode.
        max_steps: Steps after which an episode is truncated.
        terminate_on_success: Whether success terminates an episode.
        reward_type: ``"sparse"`` or ``"dense"``.

    Attributes:
        device: The device, with its index, as tensors have it.
        state: The current state of the task, or None before the first reset.
        elapsed: Lengths of the current episodes, (N,) int64.

    Raises:
        ValueError: torch cannot use the device.
    """

    def __init__(
        self,
        task: GoalTask,
        num_envs: int,
        device: Any,
        *,
        autoreset_mode: AutoresetMode,
        max_steps: int,
        terminate_on_success: bool,
        reward_type: RewardType,
    ) -> None:
        try:
            self.device = torch.empty(0, device=device).device
            self._random: Any = TensorRandom(self.device)
        except (RuntimeError, TypeError, AssertionError) as error:  # torch without CUDA raises AssertionError
            raise ValueError(
                f"device must be None, or a torch device of this machine, such as 'cpu', "
                f"got {device!r}: {error}"
            ) from error
        self.state: State | None = None
        self.elapsed = torch.zeros(num_envs, dtype=torch.int64, device=self.device)
        self._ended = torch.zeros_like(self.elapsed, dtype=torch.bool)
        self._rows = torch.arange(num_envs, device=self.device)
        self._array_task, self._task = task, task.to(self.device)
        bounds = action_bounds(task.action_space)
        self._lowest, self._highest = (torch.as_tensor(bound, device=self.device) for bound in bounds)
        self._action_shape = (num_envs, *(task.action_space.shape or ()))
        self._action_kind = "int" if isinstance(task.action_space, spaces.Discrete) else "float"
        self._mode, self._max_steps = autoreset_mode, max_steps
        self._terminate_on_success, self._reward_type = terminate_on_success, reward_type

    def reset(self, options: dict[str, Any], rng: np.random.Generator) -> tuple[Tensors, Tensors]:
        """Start episodes, with the reset options of `TaskVectorEnv`; return observations and infos.

        ``rng`` seeds the generator of the device, and samples what the options "goal" and "state" leave open.
        """
        mask = self._as_mask(options.pop("reset_mask", None))
        self._random.generator.manual_seed(int(rng.integers(2**63 - 1)))
        if options:  # the task's code for arrays validates them
            rows, num_envs = np.flatnonzero(as_numpy(mask)), len(mask)
            starts = sample_starts(self._array_task, num_envs, rng, options, rows)[0]
            if self.state is not None:
                starts = replace_rows({name: as_numpy(self.state[name]) for name in starts}, rows, starts)
            starts = {
                name: torch.as_tensor(values.copy(), device=self.device) for name, values in starts.items()
            }
        else:
            starts = self._sample_starts()
        observations = self._observe(self._replace(mask, starts))
        success = self._task.success(*_get_goals(observations))
        return observations, {"is_success": success & mask, "_is_success": mask}

    def step(self, actions: Any) -> tuple[Tensors, torch.Tensor, torch.Tensor, torch.Tensor, dict[str, Any]]:
        """Take one step in every environment, and return the results of `TaskVectorEnv.step`."""
        if self.state is None:
            raise ResetNeeded("step() was called before the first episode; call reset() first")
        state = self.state = self._task.step(self.state, self._validate_actions(actions), self._random)
        self.elapsed = self.elapsed + 1
        restarted = self._ended
        if self._mode is AutoresetMode.NEXT_STEP:
            state = self._replace(restarted, self._sample_starts())
        observations = self._observe(state)
        success, rewards = self._task.outcome(*_get_goals(observations), self._reward_type)
        terminations = success & self._terminate_on_success
        truncations = (self.elapsed >= self._max_steps) & ~terminations
        ended = terminations | truncations
        infos: dict[str, Any] = {}
        if self._mode is AutoresetMode.NEXT_STEP:
            rewards = rewards.masked_fill(restarted, 0.0)
            self._ended = ended
        elif self._mode is AutoresetMode.SAME_STEP:
            infos = {
                "final_obs": observations,
                "_final_obs": ended,
                "final_info": {"is_success": success, "_is_success": ended},
                "_final_info": ended,
            }
            observations = self._observe(self._replace(ended, self._sample_starts()))
            success = success & ~ended
        infos |= {"is_success": success, "_is_success": torch.ones_like(success)}
        return observations, rewards.float(), terminations, truncations, infos

    def _sample_starts(self) -> State:
        """Return a start for each of N environments: of 3/2 N + 64 samples, the N first that are not solved.

        If fewer are not solved, environments share them; if all are solved, all begin at the last sample.
        """
        num_envs = len(self._rows)
        state = self._task.reset(num_envs * 3 // 2 + 64, self._random)
        unsolved = (~self._task.success(*_get_goals(self._observe(state)))).cumsum(0)
        # The nth unsolved sample is the first sample at which the count of unsolved samples is n.
        chosen = torch.searchsorted(unsolved, 1 + self._rows % unsolved[-1].clip(1))
        chosen = chosen.clip(None, len(unsolved) - 1)
        return {name: values[chosen] for name, values in state.items()}

    def _replace(self, mask: torch.Tensor, starts: State) -> State:
        """Begin an episode in each environment where ``mask``, (N,) bool, is True; return the new state."""
        state = starts if self.state is None else self.state
        self.state = {
            name: torch.where(mask.view(-1, *[1] * (values.ndim - 1)), starts[name], values)
            for name, values in state.items()
        }
        self.elapsed, self._ended = self.elapsed * ~mask, self._ended & ~mask
        return self.state

    def _observe(self, state: State) -> Tensors:
        """Return the observations; raise TypeError unless all values are tensors on the device."""
        observations = self._task.observe(state)
        for name, value in [*state.items(), *observations.items()]:
            if getattr(value, "device", None) != self.device:
                raise TypeError(
                    f"with device={str(self.device)!r}, {name!r} of {type(self._task).__name__} must be a "
                    f"tensor on this device, got {type(value)}; use functions for arrays and tensors in the "
                    "task, such as those of her_envs.arrays"
                )
        return observations

    def _validate_actions(self, given: Any) -> torch.Tensor:
        """Return the actions, clipped; raise ValueError if device, shape or dtype are wrong."""
        found = [getattr(given, name, None) for name in ("device", "shape", "dtype")]
        if found[:2] != [self.device, self._action_shape] or self._action_kind not in str(found[2]):
            raise ValueError(
                f"actions must be a tensor of shape {self._action_shape} on device {str(self.device)!r}, of "
                f"type {self._action_kind}, got {type(given)} with device, shape and dtype {found}"
            )
        clipped: torch.Tensor = given.detach().clip(self._lowest, self._highest)
        return clipped.to(self._lowest.dtype)

    def _as_mask(self, given: Any) -> torch.Tensor:
        """Return a copy of the option ``reset_mask``, (N,) bool; True for all environments by default."""
        if given is None:
            return self._rows >= 0
        mask = torch.as_tensor(given, device=self.device).clone()
        first = self.state is None
        if mask.shape != self._rows.shape or mask.dtype != torch.bool or (first and not mask.all()):
            raise ValueError(
                f"reset option 'reset_mask' must have dtype bool and shape {tuple(self._rows.shape)}, and be "
                "True for all environments in the first reset, "
                f"got dtype {mask.dtype} and shape {tuple(mask.shape)}"
            )
        return mask
