"""Digests of batches that version 0.1 sampled: later versions have to sample bit-identical batches.

Each configuration makes a buffer, adds episodes and samples batches; everything is seeded. The digests in
`tests/data/v0.1/reference_batches.json` and the saved buffers in the same folder were written with the code
of version 0.1 on the path (``git worktree add ../v0.1 93e902e``)::

    PYTHONPATH=../v0.1 python tests/support/reference_batches.py

Version 0.1 calls `resample_achieved_goals` ``skip_trivial``.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import her_wrappers
from her_wrappers import Batch, Geometric, HindsightReplayBuffer, Mixture, Priority
from tests.support.random_episodes import (
    SPACES,
    effort_reward,
    is_reached,
    random_episode,
    recorded_effort_reward,
    recorded_reward,
    recorded_reward_minus_cost,
    sparse_reward,
    sparse_reward_minus_cost,
    terminated_if_reached,
)

DATA = Path(__file__).parents[1] / "data" / "v0.1"
DIGESTS = DATA / "reference_batches.json"

FIELDS = (
    "observations", "actions", "rewards", "next_observations", "terminations", "truncations", "discounts",
    "weights", "relabeled", "index", "episode", "goal_index", "strategy",
)  # fmt: skip

# --- configurations -------------------------------------------------------------------------------


def halfway(t, length, rng):
    """Select a state in the second half of the states after step ``t``."""
    return rng.integers((t + length) // 2 + 1, length + 1)


LENGTHS = (4, 1, 7, 20, 1, 1, 13, 9, 30, 2)
SIZES = (1, 7, 7, 64, 64, 64, 256, 1)


@dataclass(frozen=True)
class Configuration:
    """Options of a buffer, the episodes to add, and the batches to sample.

    Attributes:
        options: Arguments of the buffer.
        space: Key of `SPACES`.
        lengths: Steps of the first episodes.
        sizes: Sizes of the batches sampled next. Afterwards, an episode is added and two batches of 64 are
            sampled; this is done twice.
        goal_changes: Whether desired goals change in the middle of episodes.
        infos: Whether episodes have infos.
        reward: Rewards of the episodes.
        between: Called with the buffer and the batch after each of these batches; returns the next buffer.
    """

    options: dict[str, Any] = field(default_factory=dict)
    space: str = "vector"
    lengths: tuple[int, ...] = LENGTHS
    sizes: tuple[int, ...] = SIZES
    goal_changes: bool = False
    infos: bool = False
    reward: Callable[..., np.ndarray] = recorded_reward
    between: Callable[[HindsightReplayBuffer, Batch], HindsightReplayBuffer] | None = None

    def episodes(self):
        """Iterate over an endless sequence of episodes, the first ones with ``lengths`` steps."""
        rng = np.random.default_rng(123)
        for length in itertools.chain(self.lengths, itertools.repeat(11)):
            yield random_episode(
                *SPACES[self.space],
                length,
                rng,
                goal_changes=self.goal_changes,
                infos=self.infos,
                reward=self.reward,
            )

    def functions(self):
        """Return the functions of the buffer: arguments that saved files do not contain."""
        compute_reward = None if "reward_fn" in self.options else sparse_reward
        functions = {"compute_reward": compute_reward, "compute_terminated": terminated_if_reached}
        return functions | {name: self.options[name] for name in functions if name in self.options}

    def buffer(self):
        """Return an empty buffer."""
        options = {"buffer_size": 500, "seed": 5} | self.options | self.functions()
        return HindsightReplayBuffer(*SPACES[self.space], **options)

    def batches(self):
        """Return the batches, as arrays."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about default terminations, and options that were renamed
            return [batch.to_numpy() for batch in self._sample()]

    def _sample(self):
        buffer, episodes = self.buffer(), self.episodes()
        buffer.add_episodes([next(episodes) for _ in self.lengths[:-1]])
        buffer.add_episode(next(episodes))
        for size in self.sizes:
            batch = buffer.sample(size)
            yield batch
            buffer = self.between(buffer, batch) if self.between else buffer
        for _ in range(2):
            buffer.add_episode(next(episodes))
            yield buffer.sample(64)
            yield buffer.sample(64)


def update_priorities(buffer, batch):
    """Give the rows of a batch new priorities; multiples of 1/4, some of them 0."""
    index = np.asarray(batch.index)
    buffer.update_priorities(index, (index * 7 % 13) / 4)
    return buffer


def save_and_load(buffer, batch):
    """Save a buffer, and return the loaded one."""
    with tempfile.TemporaryDirectory() as folder:
        buffer.save(Path(folder) / "buffer")
        return HindsightReplayBuffer.load(
            Path(folder) / "buffer", compute_reward=sparse_reward, compute_terminated=terminated_if_reached
        )


def save_update_and_load(buffer, batch):
    return update_priorities(save_and_load(buffer, batch), batch)


def never_terminated(achieved, desired, info):
    return is_reached(achieved, desired) & False


MIXTURE = Mixture({"future": 0.5, "random": 0.3, "original": 0.2})
IN_EPISODE = Mixture({Geometric(0.5): 0.5, "final": 0.25, halfway: 0.25})
CPU = {"device": "cpu"}
ALPHA_1 = Priority(alpha=1.0, beta=1.0)
COST = {"compute_reward": sparse_reward_minus_cost, "info_keys": ["cost"]}
COLUMNS = COST | {"info_keys": ["cost", "force"], "info_format": "columns"}
WITH_COST = {"infos": True, "reward": recorded_reward_minus_cost}
EFFORT = {"reward_fn": effort_reward}

CONFIGURATIONS = {
    # goal selection
    "future": Configuration(),
    "final": Configuration({"goal_selection_strategy": "final", "n_sampled_goal": 1}),
    "episode": Configuration({"goal_selection_strategy": "episode", "her_ratio": 0.7}),
    "geometric": Configuration({"goal_selection_strategy": "geometric", "her_ratio": 1}),
    "geometric of another gamma": Configuration({"goal_selection_strategy": Geometric(0.8)}),
    "random": Configuration({"goal_selection_strategy": "random"}),
    "user function": Configuration({"goal_selection_strategy": halfway}),
    "mixture": Configuration({"goal_selection_strategy": MIXTURE}),
    "mixture in episode": Configuration({"goal_selection_strategy": IN_EPISODE, "her_ratio": 0.5}),
    "plain replay": Configuration({"n_sampled_goal": 0}),
    "plain replay without functions": Configuration({
        "n_sampled_goal": 0,
        "compute_reward": None,
        "compute_terminated": None,
    }),
    "all relabeled": Configuration({"her_ratio": 1.0}),
    "skip trivial": Configuration({"resample_achieved_goals": True}),
    "skip trivial, mixture": Configuration({
        "resample_achieved_goals": True,
        "goal_selection_strategy": MIXTURE,
    }),
    # spaces
    "float32": Configuration(space="float32"),
    "nested": Configuration(space="nested"),
    "discrete": Configuration(space="discrete"),
    "multi": Configuration(space="multi"),
    "image": Configuration(space="image"),
    "image, goals change": Configuration(space="image", goal_changes=True),
    "scalar": Configuration(space="scalar"),
    "goals change": Configuration(goal_changes=True),
    # terminations
    "termination success": Configuration({"termination": "success", "compute_terminated": None}),
    "termination keep": Configuration({"termination": "keep"}),
    "termination never": Configuration({"termination": "never"}),
    "termination default without a function": Configuration({"compute_terminated": None}),
    "termination function": Configuration({"termination": never_terminated}),
    # n-step returns
    "n_steps 3": Configuration({"n_steps": 3}),
    "n_steps 5": Configuration({"n_steps": 5, "gamma": 0.5}),
    "n_steps 3, goals change": Configuration({"n_steps": 3}, goal_changes=True),
    "n_steps 3, termination success": Configuration({"n_steps": 3, "termination": "success"}),
    "n_steps 5, mixture": Configuration({"n_steps": 5, "goal_selection_strategy": MIXTURE}),
    "n_steps 3, plain replay": Configuration({"n_steps": 3, "n_sampled_goal": 0}),
    "n_steps 3, reward_fn": Configuration(EFFORT | {"n_steps": 3}, reward=recorded_effort_reward),
    "n_steps 3, infos": Configuration(COST | {"n_steps": 3}, **WITH_COST),
    # rewards
    "infos as a list": Configuration(COST, **WITH_COST),
    "infos as columns": Configuration(COLUMNS, **WITH_COST),
    "reward_fn": Configuration(EFFORT, reward=recorded_effort_reward),
    # priorities
    "prioritized": Configuration({"prioritized": Priority()}, between=update_priorities),
    "prioritized, alpha 1": Configuration({"prioritized": ALPHA_1}, between=update_priorities),
    "prioritized, n_steps 3": Configuration(
        {"prioritized": Priority(), "n_steps": 3, "goal_selection_strategy": MIXTURE},
        between=update_priorities,
    ),
    "prioritized, wraps": Configuration(
        {"prioritized": ALPHA_1, "buffer_size": 40}, between=update_priorities
    ),
    # the ring
    "wraps": Configuration({"buffer_size": 40}),
    "wraps, n_steps 3, image": Configuration({"buffer_size": 35, "n_steps": 3}, space="image"),
    "grows": Configuration({"buffer_size": 70}, lengths=(1, 2) * 60),
    "one-step episodes": Configuration(lengths=(1,) * 50),
    "one episode": Configuration(lengths=(12,)),
    # save and load between batches
    "saved": Configuration(between=save_and_load),
    "saved, n_steps 3, wraps": Configuration({"n_steps": 3, "buffer_size": 40}, between=save_and_load),
    "saved, prioritized": Configuration({"prioritized": ALPHA_1}, between=save_update_and_load),
    "saved, mixture, nested": Configuration(
        {"goal_selection_strategy": MIXTURE}, space="nested", between=save_and_load
    ),
    # tensors
    "cpu": Configuration(CPU),
    "cpu, mixture, skip trivial": Configuration(
        CPU | {"goal_selection_strategy": MIXTURE, "resample_achieved_goals": True}
    ),
    "cpu, nested, goals change": Configuration(CPU, space="nested", goal_changes=True),
    "cpu, image": Configuration(CPU, space="image"),
    "cpu, n_steps 3": Configuration(CPU | {"n_steps": 3}),
    "cpu, prioritized": Configuration(CPU | {"prioritized": Priority()}, between=update_priorities),
    "cpu, infos": Configuration(CPU | COLUMNS, **WITH_COST),
    "cpu, reward_fn": Configuration(CPU | EFFORT, reward=recorded_effort_reward),
    "cpu, termination success": Configuration(CPU | {"termination": "success"}),
    "cpu, wraps": Configuration(CPU | {"buffer_size": 40}),
}


# --- digests --------------------------------------------------------------------------------------


def digests_of(batches):
    """Return digests of dtypes, shapes and bytes: of each field of all batches, and of each batch."""
    return {
        "fields": {name: _digest([getattr(batch, name) for batch in batches]) for name in FIELDS},
        "batches": [_digest([getattr(batch, name) for name in FIELDS]) for batch in batches],
    }


def _digest(trees):
    sha256 = hashlib.sha256()
    for path, array in _leaves(tuple(trees)):
        sha256.update(f"{path} {array.dtype.str} {array.shape} ".encode())
        sha256.update(np.ascontiguousarray(array).tobytes())
    return sha256.hexdigest()[:16]


def _leaves(tree, path=""):
    if isinstance(tree, dict | tuple):
        for key, part in sorted(tree.items()) if isinstance(tree, dict) else enumerate(tree):
            yield from _leaves(part, f"{path}/{key}")
    else:
        yield path, np.asarray(tree)


# --- saved buffers --------------------------------------------------------------------------------

SAVED = {
    "uniform.buffer": Configuration(
        {"buffer_size": 60, "goal_selection_strategy": MIXTURE}, goal_changes=True
    ),
    "prioritized.buffer": Configuration(
        COST | {"prioritized": Priority(), "buffer_size": 60, "info_format": "columns"}, **WITH_COST
    ),
}


def saved_buffer(configuration):
    """Return a buffer that has wrapped, was sampled from, and has an open episode of five steps."""
    buffer, episodes = configuration.buffer(), configuration.episodes()
    buffer.add_episodes([next(episodes) for _ in configuration.lengths])
    for _ in range(3):
        batch = buffer.sample(16)
        if configuration.options.get("prioritized"):
            update_priorities(buffer, batch)
    for transition in steps_of(next(episodes), range(5)):
        buffer.add(*transition)
    return buffer


def steps_of(episode, steps):
    """Yield some steps of an episode, as arguments of `add`."""
    for t in steps:
        obs, next_obs = ({key: rows[i] for key, rows in episode.observations.items()} for i in (t, t + 1))
        info = {key: values[t] for key, values in episode.infos.items()}
        is_last = t == len(episode) - 1
        flags = episode.terminated and is_last, episode.truncated and is_last
        yield obs, episode.actions[t], episode.rewards[t], next_obs, *flags, info


def main():
    """Write the digests and the saved buffers with the imported package, whose path is printed."""
    print(her_wrappers.__file__)
    DATA.mkdir(parents=True, exist_ok=True)
    written = {name: digests_of(each.batches()) for name, each in CONFIGURATIONS.items()}
    DIGESTS.write_text(json.dumps(written, indent=1) + "\n")
    for name, configuration in SAVED.items():
        saved_buffer(configuration).save(DATA / name)


if __name__ == "__main__":
    main()
