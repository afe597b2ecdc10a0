"""Demonstrations: a second replay with the options of the buffer, which supplies a fixed share of each batch.

Sources: Nair et al. 2018, section IV, https://arxiv.org/abs/1709.10089; Ball et al. 2023, section 4.1,
https://arxiv.org/abs/2302.02948
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from gymnasium import spaces

from her_wrappers.goals.success_flag import FLAG_NAMES
from her_wrappers.replay.batch import Batch, Provenance
from her_wrappers.replay.options import BufferOptions
from her_wrappers.replay.relabeled_replay import RelabeledReplay
from her_wrappers.support.arguments import require_count


class MixedReplay(RelabeledReplay):
    """The replay of a buffer with demonstrations: ``share`` of the rows of each batch are demonstrations."""

    demonstrations: RelabeledReplay
    share: float

    def __init__(
        self,
        observation_space: spaces.Dict,
        action_space: spaces.Space[Any],
        options: BufferOptions,
        demonstrations: RelabeledReplay,
        share: float,
    ) -> None:
        super().__init__(observation_space, action_space, options, first=len(demonstrations))
        self.demonstrations, self.share = demonstrations, share
        demonstrations.is_fixed = True  # its step numbers end where those of this replay begin
        self.share_rng = np.random.default_rng(None if options.seed is None else (options.seed, 1))

    def sample(self, batch_size: int, beta: float | None) -> Batch:
        """Sample a batch with ``share`` of demonstrations; raise ValueError if no other steps are stored."""
        if not len(self):
            return super().sample(batch_size, beta)  # raises ValueError
        batch_size = require_count("batch_size", batch_size, at_least=1)
        count = int(batch_size * self.share + self.share_rng.random())
        sources = (super().sample, batch_size - count), (self.demonstrations.sample, count)
        batches = [sample(size, beta) for sample, size in sources if size]
        return _merge(batches, len(self.demonstrations))

    def update_priorities(self, index: np.ndarray, priorities: np.ndarray) -> int:
        """Set the priorities of steps; return how many steps in ``index`` are no longer stored."""
        is_demonstration = (index >= 0) & (index < len(self.demonstrations))
        ignored = super().update_priorities(index[~is_demonstration], priorities[~is_demonstration])
        self.demonstrations.update_priorities(index[is_demonstration], priorities[is_demonstration])
        return ignored


def make_replay(
    observation_space: spaces.Dict, action_space: spaces.Space[Any], options: BufferOptions
) -> RelabeledReplay:
    """Return the replay of a new buffer; raise ValueError if its demonstrations are not valid episodes."""
    given, all_spaces = options.demonstrations, (observation_space, action_space)
    if given is None:
        return RelabeledReplay(*all_spaces, options)
    episodes = given.read()
    # Recorders record success flags by default, but episodes from other sources may lack them.
    recorded = set.intersection(*(set(episode.infos) for episode in episodes))
    keys = tuple(key for key in options.info_keys if key in recorded or key not in FLAG_NAMES)
    sizes = {"buffer_size": sum(map(len, episodes)), "info_keys": keys}
    replay = RelabeledReplay(*all_spaces, options_of_demonstrations(options, **sizes))
    if replay.checks is not None:
        replay.checks.subject = "demonstrations: "
    try:
        replay.add(episodes)
    except ValueError as error:
        raise ValueError(f"demonstrations: {error}") from error
    return MixedReplay(*all_spaces, options, replay, given.share)


def options_of_demonstrations(options: BufferOptions, **changes: Any) -> BufferOptions:
    """Return the options for the demonstrations of a buffer, with another seed and with ``changes``."""
    seed = options.seed
    if seed is not None:
        seed = int(np.random.SeedSequence((seed, 2)).generate_state(1)[0])
    return replace(options, demonstrations=None, **{"seed": seed} | changes)


def _merge(batches: list[Batch], num_demonstrations: int) -> Batch:
    """Return the rows of several batches as one batch, in which relabeled rows come first."""
    order = (~np.concatenate([batch.relabeled for batch in batches])).argsort(kind="stable")

    def join(*parts: Any) -> Any:
        if isinstance(parts[0], dict):
            return {key: join(*(part[key] for part in parts)) for key in parts[0]}
        if isinstance(parts[0], tuple):
            return tuple(map(join, *parts))
        return np.concatenate(parts)[order]

    names, origins = Batch.__match_args__[:-1], [batch.provenance for batch in batches if batch.provenance]
    merged = Batch(*[join(*(getattr(batch, name) for batch in batches)) for name in names])
    episode, goal_index, component = join(*(each[:3] for each in origins))
    merged.provenance = Provenance(episode, goal_index, component, origins[0].names, num_demonstrations)
    return merged
