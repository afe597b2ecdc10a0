"""Random programs for `DeviceReplayBuffer`, judged by the oracle of the buffer in memory."""

from __future__ import annotations

import copy
import tempfile
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from her_wrappers import Batch, DeviceReplayBuffer, SimulatorStep
from her_wrappers.conformance.oracle import StoredEpisode
from her_wrappers.data.trees import map_tree
from tests.support.counting import World
from tests.support.expected_buffer import STATES, ExpectedBuffer
from tests.support.programs import RandomCalls, goal_options


def halfway(t: torch.Tensor, length: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Choose a state in the second half of the states after step ``t``."""
    middle = (t + length) // 2
    return middle + 1 + (torch.rand(len(t), generator=generator) * (length - middle)).long()


GOALS = goal_options(halfway)


class TensorWorld(World):
    """A `World` whose infos are columns of tensors."""

    def infos(self, number: int, t: np.ndarray) -> dict[str, np.ndarray]:
        cost = ((number + 3 * t) % 4 / 4).astype(np.float32)
        return {"cost": cost, "force": np.stack([t / 8, -t / 8], axis=1).astype(np.float32)}

    def costs(self, infos: Any) -> Any:
        return infos["cost"] - infos["force"][:, 1] if self.info_keys else 0.0


class Lane:
    """The rows of one lane in plain Python: each is a state of an episode."""

    def __init__(self, steps: int, states: int) -> None:
        self.max_steps, self.max_states = steps, states
        self.rows: list[tuple[StoredEpisode, int]] = []
        self.num_steps = 0

    def oldest_row(self) -> int:
        return max(0, len(self.rows) - self.max_states)

    def stored(self) -> list[tuple[StoredEpisode, int]]:
        """Return the stored steps as pairs of an episode and a number in it."""
        kept = [(each, t) for each, t in self.rows[self.oldest_row() :] if t < len(each)]
        return kept[-self.max_steps :]

    def first_state(self, episode: StoredEpisode) -> int:
        """Return the number of the oldest stored state of an episode."""
        return min(t for each, t in self.rows[self.oldest_row() :] if each is episode)


class ExpectedLanes(ExpectedBuffer):
    """The oracle of a `DeviceReplayBuffer` of N lanes."""

    def __init__(self, world: World, num_envs: int, steps: int, states: int, **options: Any) -> None:
        super().__init__(world, **options, buffer_size=steps)
        self.lanes = [Lane(steps, states) for _ in range(num_envs)]
        self.num_demonstrations = 0

    def begin(self, env: int, episode: StoredEpisode) -> None:
        lane = self.lanes[env]
        if lane.rows and not lane.rows[-1][0].terminated and len(lane.rows[-1][0]):
            lane.rows[-1][0].truncated = True  # a reset interrupted it
        episode.first, episode.env = lane.num_steps, env
        lane.rows.append((episode, 0))

    def step(self, env: int, whole: StoredEpisode, t: int) -> None:
        lane = self.lanes[env]
        episode = lane.rows[-1][0]
        episode.states.append(whole.states[t + 1])
        episode.actions.append(whole.actions[t])
        episode.rewards.append(whole.rewards[t])
        episode.infos.append(whole.infos[t])
        lane.num_steps += 1
        lane.rows.append((episode, t + 1))
        if t + 1 == len(whole):
            episode.terminated, episode.truncated = whole.terminated, whole.truncated

    def index(self, env: int, number: int) -> int:
        return number * len(self.lanes) + env + self.num_demonstrations

    def stored_steps(self) -> dict[int, tuple[StoredEpisode, int]]:
        return {
            self.index(env, episode.first + t): (episode, t)
            for env, lane in enumerate(self.lanes)
            for episode, t in lane.stored()
        }

    def find(self, index: int) -> tuple[StoredEpisode, int]:
        number, env = divmod(index - self.num_demonstrations, len(self.lanes))
        [found] = [
            (each, t) for each, t in self.lanes[env].rows if each.first + t == number and t < len(each)
        ]
        return found

    def sources(self, strategy: str, episode: StoredEpisode, t: int) -> list[int]:
        if strategy in {"random", "desired"}:
            return list(self.stored_steps())
        first = self.lanes[episode.env].first_state(episode) if strategy in {"episode", "halfway"} else 0
        name = "geometric" if strategy.startswith("Geometric") else strategy
        states = STATES[name](t - first, len(episode) - first)
        return [self.index(episode.env, episode.first + first + s - 1) for s in states]

    def _check_row(self, row: dict[str, Any]) -> None:
        assert row["index"] in self.stored_steps()
        episode, _ = self.find(row["index"])
        super()._check_row(row | {"episode": episode.first})
        assert row["episode"] == self.index(episode.env, episode.first)


class DeviceProgram(RandomCalls):
    """A `DeviceReplayBuffer` and its oracle."""

    world_type = TensorWorld

    def __init__(self, tape: Iterable[int], device: str = "cpu") -> None:
        super().__init__(tape, GOALS)
        self.device, self.num_envs, steps = device, self.integer(1, 4), self.integer(1, 40)
        states = self.pick((None, 2 * steps + 1, steps + 3))
        self.buffer = DeviceReplayBuffer(
            self.world.space, self.world.action_space, self.num_envs,
            steps_per_env=steps, device=device,
            states_per_env=states and max(states, 4), demonstrations=self.given,
            seed=self.integer(0, 99), **self.options,
        )  # fmt: skip
        sizes = self.num_envs, steps, self.buffer.states_per_env
        self.make_oracles(ExpectedLanes(self.world, *sizes, **self.options), self.options)
        self.oracle.checks_shares = not self.given  # demonstrations do not have each share
        if self.demonstrations is not None:
            self.oracle.num_demonstrations = self.demonstrations.next_step
            self.demonstrations.checks_shares = False
        self.playing: list[tuple[Any, StoredEpisode, int]] = []  # of each lane: episode, the same, next step

    def new_episode(self) -> tuple[Any, StoredEpisode, int]:
        self.number += 1
        episode = self.world.episode(self.number, self.pick((1, 2, 3, 5, 5, 8, 12, 50)))
        return episode, ExpectedBuffer.stored(episode), 0

    def tensors(self, trees: list[Any]) -> Any:
        """Return the trees of N environments as one tree of (N, ...) tensors."""
        if isinstance(trees[0], dict):
            return {key: self.tensors([tree[key] for tree in trees]) for key in trees[0]}
        if isinstance(trees[0], tuple):
            return tuple(self.tensors(list(parts)) for parts in zip(*trees, strict=True))
        return torch.from_numpy(np.stack(trees)).to(self.device)

    def states(self) -> Any:
        rows = [map_tree(lambda leaf, t=t: leaf[t], each.observations) for each, _, t in self.playing]
        return self.tensors(rows)

    def begin(self, env: int) -> None:
        self.playing[env] = self.new_episode()
        self.oracle.begin(env, StoredEpisode(self.playing[env][1].states[:1]))

    def step(self) -> None:
        first = None
        if not self.playing or self.integer(0, 30) == 0:
            self.playing = self.playing or [None] * self.num_envs  # type: ignore[list-item]
            for env in range(self.num_envs):
                self.begin(env)
            first = self.states()
        now = self.playing
        action = self.tensors([map_tree(lambda leaf, t=t: leaf[t], each.actions) for each, _, t in now])
        reward = self.tensors([np.float32(each.rewards[t]) for each, _, t in now])
        info = self.tensors([{k: v[t] for k, v in each.infos.items()} for each, _, t in now])
        ends = [t + 1 == len(each) for each, _, t in now]
        flags = [
            torch.tensor([end and getattr(each, name) for end, (each, _, _) in zip(ends, now, strict=True)])
            for name in ("terminated", "truncated")
        ]
        self.playing = [(each, whole, t + 1) for each, whole, t in now]
        last = self.states()
        for env, (_, whole, t) in enumerate(now):
            self.oracle.step(env, whole, t)
            if ends[env]:
                self.begin(env)
        step = SimulatorStep(self.states(), action, reward, *flags, last, info, first)
        self.buffer.add(step)
        map_tree(lambda leaf: leaf.fill_(1), (step.observation, last, action, reward, *flags, info))

    def run(self) -> list[Batch]:
        batches = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the recorded rewards are not those of the function
            while self.tape:
                for _ in range(self.integer(1, 20)):
                    self.step()
                if self.integer(0, 9) == 0:
                    self.save_and_load()
                assert len(self.buffer) == len(self.oracle.stored_steps())
                size = self.pick((7, 1, 2, 30))
                batches.append(self.check(self.buffer.sample(size), size))
        return batches

    def save_and_load(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "buffer"
            self.buffer.save(path)
            loaded = DeviceReplayBuffer.load(path, device=self.device, **self.again)
        one, other = self.buffer.sample(9).to_numpy(), loaded.sample(9).to_numpy()
        for name in ("index", "goal_index", "rewards", "relabeled"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
        self.buffer = loaded

    def check(self, batch: Any, size: int) -> Batch:
        self.check_batch(batch, size)
        arrays = copy.deepcopy(batch.to_numpy())
        np.testing.assert_array_equal(arrays.lane[arrays.is_demonstration], self.num_envs)
        batch.map(lambda leaf: leaf.fill_(1))  # must not change the buffer
        return arrays
