"""TensorEpisodes: the episodes of a `TaskVectorEnv` on a torch device. Only this module imports torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from her_envs.arrays import as_numpy
from her_envs.base import action_bounds
from her_envs.starts import replace_rows, sample_starts
from her_envs.task import State


class TensorRandom:
    """Random tensors on a device, by methods with the arguments of `numpy.random.Generator`."""

    def __init__(self, device: torch.device) -> None:
        self.generator = torch.Generator(device)
        self._options: dict[str, Any] = {"device": device, "generator": self.generator}

    def random(self, size: Any = (), dtype: Any = np.float64) -> torch.Tensor:
        """Return numbers that are uniform over [0, 1)."""
        return torch.rand(size, dtype=getattr(torch, np.dtype(dtype).name), **self._options)

    def uniform(self, low: float = 0.0, high: float = 1.0, size: Any = ()) -> torch.Tensor:
        """Return float64 numbers that are uniform over [low, high)."""
        return low + (high - low) * self.random(size)

    def integers(self, low: int, high: int | None = None, size: Any = ()) -> torch.Tensor:
        """Return int64 numbers that are uniform over low..high - 1, or over 0..low - 1 without ``high``."""
        bounds = (0, low) if high is None else (low, high)
        return torch.randint(*bounds, (size,) if isinstance(size, int) else size, **self._options)


class TensorEpisodes:
    """The current episodes of a `TaskVectorEnv`, as tensors. `step` never waits for the device."""

    def __init__(self, env: Any, device: Any) -> None:
        try:
            self.device = torch.empty(0, device=device).device  # with its index, as tensors have it
            self._random: Any = TensorRandom(self.device)
        except (RuntimeError, TypeError, AssertionError) as error:  # torch without CUDA raises AssertionError
            raise ValueError(f"device must be None or usable by torch, got {device!r}: {error}") from error
        self._env, self._task = env, env.task.to(self.device)
        self._rows = torch.arange(env.num_envs, device=self.device)
        self.elapsed, self._ended = torch.zeros_like(self._rows), self._rows < 0
        bounds = action_bounds(env.single_action_space)
        self._lowest, self._highest = (torch.as_tensor(bound, device=self.device) for bound in bounds)

    def reset(self, state: State | None, options: Any, rng: Any) -> tuple[State, tuple[State, State]]:
        """Start episodes, with a seed from ``rng``; return the new state, and the environment's results."""
        given = options.pop("reset_mask", None)
        mask = torch.as_tensor(self._rows >= 0 if given is None else given, device=self.device).clone()
        if mask.shape != self._rows.shape or mask.dtype != torch.bool:
            raise ValueError(f"reset option 'reset_mask' must be {len(self._rows)} bools, got {mask}")
        self._random.generator.manual_seed(int(rng.integers(2**63 - 1)))
        starts = self._sample_starts()
        if options:  # the task's code for arrays validates and completes them
            rows = np.flatnonzero(as_numpy(mask))
            given = sample_starts(self._env.task, len(mask), rng, options, rows)[0]
            arrays = replace_rows({name: as_numpy(starts[name]) for name in given}, rows, given)
            starts = {name: torch.as_tensor(values, device=self.device) for name, values in arrays.items()}
        state = self._replace(state or starts, mask, starts)
        observations, goals = self._observe(state)
        infos = {"is_success": self._task.success(*goals) & mask, "_is_success": mask}
        return state, (observations, infos)

    def step(self, state: State, actions: Any) -> tuple[State, tuple[State, Any, Any, Any, dict[str, Any]]]:
        """Take one step in each environment; return the new state, and the environment's results."""
        mode, restarted = self._env.autoreset_mode, self._ended
        state = self._task.step(state, self._validate_actions(actions), self._random)
        self.elapsed = self.elapsed + 1
        if mode is AutoresetMode.NEXT_STEP:
            state = self._replace(state, restarted, self._sample_starts())
        observations, goals = self._observe(state)
        success, rewards = self._task.outcome(*goals, self._env.reward_type)
        terminations = success & self._env.terminate_on_success
        truncations = (self.elapsed >= self._env.max_steps) & ~terminations
        ended = terminations | truncations
        infos: dict[str, Any] = {}
        if mode is AutoresetMode.NEXT_STEP:
            rewards = rewards.masked_fill(restarted, 0.0)
            self._ended = ended
        elif mode is AutoresetMode.SAME_STEP:
            infos = {"final_obs": observations, "final_info": {"is_success": success, "_is_success": ended}}
            infos |= {"_final_obs": ended, "_final_info": ended}
            state = self._replace(state, ended, self._sample_starts())
            observations, success = self._observe(state)[0], success & ~ended
        infos |= {"is_success": success, "_is_success": torch.ones_like(success)}
        return state, (observations, rewards.float(), terminations, truncations, infos)

    def _sample_starts(self) -> State:
        """Sample 3/2 N + 64 starts; return the first N unsolved ones, repeated if there are fewer."""
        state = self._task.reset(len(self._rows) * 3 // 2 + 64, self._random)
        unsolved = (~self._task.success(*self._observe(state)[1])).cumsum(0)
        # The nth unsolved sample is the first sample at which the count of unsolved samples is n.
        chosen = torch.searchsorted(unsolved, 1 + self._rows % unsolved[-1].clip(1))
        return {name: values[chosen.clip(None, len(unsolved) - 1)] for name, values in state.items()}

    def _replace(self, state: State, mask: torch.Tensor, starts: State) -> State:
        """Return the state with ``starts`` in the environments where ``mask``, (N,) bool, is True."""
        self.elapsed, self._ended = self.elapsed * ~mask, self._ended & ~mask
        return {
            name: torch.where(mask.view(-1, *[1] * (values.ndim - 1)), starts[name], values)
            for name, values in state.items()
        }

    def _observe(self, state: State) -> tuple[State, tuple[Any, Any]]:
        """Return observations and both goals; raise TypeError unless all are tensors on the device."""
        observations = self._task.observe(state)
        for name, value in [*state.items(), *observations.items()]:
            if getattr(value, "device", None) != self.device:
                raise TypeError(
                    f"{name!r} of {type(self._task).__name__} must be a tensor on device {self.device}, "
                    f"got {type(value)}; its functions must support tensors, see her_envs.arrays"
                )
        return observations, (observations["achieved_goal"], observations["desired_goal"])

    def _validate_actions(self, given: Any) -> Any:
        kind = "int" if isinstance(self._env.single_action_space, spaces.Discrete) else "float"
        found = [getattr(given, name, None) for name in ("device", "shape", "dtype")]
        if found[:2] != [self.device, self._env.action_space.shape] or kind not in str(found[2]):
            raise ValueError(
                f"actions must be a tensor of {kind}, {self._env.action_space.shape}, on {self.device}, "
                f"got {type(given)} with device, shape and dtype {found}"
            )
        return given.detach().clip(self._lowest, self._highest).to(self._lowest.dtype)
