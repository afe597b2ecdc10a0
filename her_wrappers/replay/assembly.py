"""Assembly: the parts of a buffer, made to fit each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from her_wrappers.recording.episode_accumulator import EpisodeAccumulator
from her_wrappers.replay.arrays import require_torch
from her_wrappers.replay.backend import Backend
from her_wrappers.replay.intake import Intake
from her_wrappers.replay.priorities.stored import NoPriorities, Priorities, make_priorities
from her_wrappers.replay.relabeling.relabeling import AnyRelabeling, Relabeling
from her_wrappers.replay.relabeling.rewards import make_reward_rule
from her_wrappers.replay.relabeling.stand_ins import MissingFunctions, NoRelabeling, missing_reward
from her_wrappers.replay.relabeling.termination import make_termination
from her_wrappers.replay.sampling.batches import Batches
from her_wrappers.replay.sampling.draws import Draws
from her_wrappers.replay.storage.contents import Contents
from her_wrappers.replay.storage.episode_storage import EpisodeStorage
from her_wrappers.replay.storage.infos import InfoLayout
from her_wrappers.replay.storage.step_layout import StepLayout

if TYPE_CHECKING:
    import torch
    from gymnasium import spaces

    from her_wrappers.goal_interface import GoalFunction
    from her_wrappers.replay.options import Options
    from her_wrappers.replay.relabeling.rewards import BatchFunction


class Functions(NamedTuple):
    """What users give for relabeling, see `HindsightReplayBuffer`."""

    compute_reward: GoalFunction | None
    reward_fn: BatchFunction | None
    compute_terminated: GoalFunction | None


class Parts(NamedTuple):
    """The parts of a buffer.

    Attributes:
        layout: How steps become records.
        backend: Where they are.
        relabeling: What they earn under new goals.
        priorities: Which are drawn how often.
        draws: Which make up the next batches.
        batches: Makes those.
        intake: How they come in.
    """

    layout: StepLayout
    backend: Backend
    relabeling: AnyRelabeling
    priorities: Priorities | NoPriorities
    draws: Draws
    batches: Batches
    intake: Intake

    def contents(self) -> Contents:
        """Return the episodes that are stored."""
        return Contents(self.backend.storage, self.layout)

    def clear(self) -> None:
        """Drop everything stored and learned.

        Raises:
            MemoryError: There is not so much memory as beginning anew takes; all stays as it was.
        """
        self.backend.storage.clear()
        self.draws.forget()
        self.priorities.forget()
        self.intake.open_episode.discard()
        self.relabeling.forget()


def assemble(
    observation_space: spaces.Dict,
    action_space: spaces.Space[Any],
    options: Options,
    functions: Functions,
    *,
    seed: int | None,
    device: str | torch.device | None,
) -> Parts:
    """Make the parts of a buffer, see `HindsightReplayBuffer` for the arguments.

    Raises:
        ImportError: There is no torch for the ``device``.
        MemoryError: There is not so much memory.
        TypeError: A space has elements that are not arrays of one shape, or of a dtype that torch has not.
        ValueError: An argument has a value that it cannot have, or a function is missing.
    """
    shares, buffer_size, rng = options.shares(), options.buffer_size, _make_generator(seed)
    infos = InfoLayout(options.info_keys, options.info_format)
    layout = StepLayout(observation_space, action_space, infos)
    relabeling = _make_relabeling(functions, options, layout)
    backend = _make_backend(device, layout, buffer_size, relabeling)
    storage = backend.storage
    priorities = make_priorities(options.prioritized, storage, buffer_size)
    draws = Draws(
        storage,
        shares,
        rng,
        priorities=priorities,
        skip_trivial=options.skip_trivial,
        windowed=options.n_steps > 1,
        gamma=options.gamma,
    )
    batches = Batches(
        storage=storage,
        layout=layout,
        relabeling=relabeling,
        priorities=priorities,
        windows=backend.windows,
        n_steps=options.n_steps,
        gamma=options.gamma,
        names=shares.names,
    )
    intake = Intake(
        storage=storage,
        layout=layout,
        relabeling=relabeling,
        draws=draws,
        open_episode=EpisodeAccumulator(observation_space, action_space, infos.keys),
        buffer_size=buffer_size,
    )
    return Parts(layout, backend, relabeling, priorities, draws, batches, intake)


def _make_generator(seed: int | None) -> np.random.Generator:
    """Make the source of all randomness.

    Raises:
        ValueError: The seed is none.
    """
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError) as error:
        raise ValueError(f"seed must be a whole number >= 0 or None, got {seed!r}") from error


def _make_relabeling(functions: Functions, options: Options, layout: StepLayout) -> AnyRelabeling:
    """Make what asks the functions, if there is anything to relabel.

    Raises:
        TypeError: A function is none.
        ValueError: One is missing or given twice, or there is no such rule for terminations.
    """
    rewards = make_reward_rule(functions.compute_reward, functions.reward_fn)
    relabels = options.shares().relabels
    if rewards is None and relabels:
        raise ValueError(
            "relabeling needs compute_reward(achieved_goal, desired_goal, info); "
            "pass compute_reward= or reward_fn=, or n_sampled_goal=0 for plain replay"
        )
    goal_space = layout.observation_space["achieved_goal"]
    rule = make_termination(options.termination, functions.compute_terminated, goal_space)
    if functions.reward_fn is missing_reward:
        return MissingFunctions()
    if rewards is None or not relabels:
        return NoRelabeling()
    return Relabeling(layout, rewards, rule, options.gamma)


def _make_backend(
    device: str | torch.device | None, layout: StepLayout, buffer_size: int, relabeling: AnyRelabeling
) -> Backend:
    """Make what keeps the transitions.

    Raises:
        ImportError: There is no torch for the device.
        MemoryError: There is not so much memory.
        TypeError: Torch does not have a dtype of the spaces.
        ValueError: There is no such device.
    """
    if device is None:
        return Backend(EpisodeStorage(layout, buffer_size))
    require_torch(f"device={str(device)!r}", otherwise="leave device out")
    from her_wrappers.replay.devices.choice import choose_backend  # noqa: PLC0415 - imports torch

    return choose_backend(device, layout, buffer_size, relabeling)
