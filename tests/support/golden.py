"""Golden files: one small file of each format, with content that `tests/test_golden_files.py` expects.

``python -m tests.support.golden tests/golden/1.1`` writes the files of a new version. The content must not
change, since the files of earlier versions have it too; a new version may add files. State t of episode e
has position (e, t), and its achieved goal is 10 e + t; the desired goal is that of the last state.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from unittest import mock

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec

from her_agents import export_policy, load_agent, train
from her_agents.training.config import make_config
from her_wrappers import (
    Demonstrations,
    DeviceReplayBuffer,
    Episode,
    EpisodeArchive,
    EpisodeRecorder,
    Geometric,
    HindsightReplayBuffer,
    Mixture,
    Priority,
    SimulatorStep,
)
from her_wrappers.data.trees import map_tree
from tests.support.buffers import stacked, step_of

LENGTHS = (2, 3, 4)
"""Number of steps of each episode."""

DEMONSTRATION, OPEN = (7, 2), (8, 3)
"""Number and length of a demonstration, and of an episode that has one step so far."""

GOAL = spaces.Box(-np.inf, np.inf, (1,), np.float32)
POSITION = spaces.Box(-np.inf, np.inf, (2,), np.float32)
SPACE = spaces.Dict(
    observation=spaces.Dict(level=spaces.Discrete(4), position=POSITION),
    achieved_goal=GOAL,
    desired_goal=GOAL,
)
ACTIONS = spaces.Box(-10, 10, (2,), np.float32)

PRIORITIES = np.arange(1.0, 1 + sum(LENGTHS))
"""Priorities of the steps, from the oldest on."""

RUN = {
    "env": "her_envs/BitFlipping-v0", "env_kwargs": {"n_bits": 3}, "algo": "dqn",
    "agent": {"hidden": [4], "learning_rate": 0.01}, "prioritized": True, "n_steps": 2, "gamma": 0.9,
    "goal_selection_strategy": {"future": 0.8, "original": 0.2}, "num_envs": 2, "seed": 1,
    "steps": 40, "steps_per_epoch": 20, "updates_per_step": 0.5, "learning_starts": 4, "batch_size": 8,
    "buffer_size": 1_000, "evaluation_episodes": 2, "clip_targets": True,
}  # fmt: skip
"""Options of the run."""

AGENTS = {"td3": ".pt", "sac": ".pt", "ddpg": ".policy", "tqc": ".policy", "iql": ".policy"}
"""Other algorithms, and the kind of the file; policy files are small."""

REACH = {
    **{name: RUN[name] for name in ("agent", "num_envs", "steps", "batch_size", "learning_starts", "seed")},
    "env": "her_envs/PointReach-v0", "env_kwargs": {"max_steps": 5}, "evaluation_episodes": 2,
    "steps_per_epoch": 40, "updates_per_step": 0.5,
}  # fmt: skip
"""Options of their runs."""


def episode(number: int, length: int, *, reset_info: bool = False) -> Episode:
    """Return the episode ``number``; even ones terminate, odd ones are truncated."""
    t = np.arange(length + 1)
    position = np.stack([np.full(length + 1, number), t], 1).astype(np.float32)
    achieved = (10 * position[:, :1] + position[:, 1:]).astype(np.float32)
    rewards = np.full(length, -1.0)
    rewards[-1] = 0
    infos = {"force": number + t / 4, "name": np.array([f"é{number}.{step}" for step in t])}
    return Episode(
        observations={
            "observation": {"level": t % 4, "position": position},
            "achieved_goal": achieved,
            "desired_goal": np.full_like(achieved, achieved[-1, 0]),
        },
        actions=position[:-1],
        rewards=rewards,
        terminated=number % 2 == 0,
        truncated=number % 2 == 1,
        infos={key: values[1:] for key, values in infos.items()},
        reset_info={key: np.asarray(values[0]) for key, values in infos.items()} if reset_info else {},
    )


def episodes(**options: bool) -> list[Episode]:
    """Return the episodes of the archive and of the buffer."""
    return [episode(number, length, **options) for number, length in enumerate(LENGTHS)]


def transition(number: int, length: int, t: int) -> tuple:
    """Return the arguments of `HindsightReplayBuffer.add` for step t of an episode."""
    return step_of(
        replace(episode(number, length), infos={"force": episode(number, length).infos["force"]}), t
    )


def compute_reward(achieved_goal, desired_goal, info):
    return (achieved_goal == desired_goal)[..., 0] * 1.0 - 1


OPTIONS = {
    "compute_reward": compute_reward, "termination": "keep", "info_keys": ["force"],
    "n_steps": 2, "gamma": 0.9, "seed": 0,
}  # fmt: skip
"""Options of both buffers."""


class GoldenEnv(gym.Env):
    """The environment of the archive, which is never stepped."""

    observation_space, action_space = SPACE, ACTIONS
    spec = EnvSpec(
        "Golden-v0",
        entry_point="golden:Env",
        max_episode_steps=9,
        kwargs={"size": 3, "bounds": [0.5, None], "shape": (1, 2)},
    )


def write_buffer(path: Path) -> None:
    buffer = HindsightReplayBuffer(
        SPACE,
        ACTIONS,
        buffer_size=50,
        goal_selection_strategy=Mixture({"future": 0.5, Geometric(0.9): 0.2, "original": 0.3}),
        prioritized=Priority(alpha=0.5, beta=1.0),
        demonstrations=Demonstrations([episode(*DEMONSTRATION)], share=0.25),
        **OPTIONS,
    )
    buffer.add_episodes(episodes())
    buffer.add(*transition(*OPEN, 0))
    first = DEMONSTRATION[1]  # the steps of demonstrations come first
    buffer.update_priorities(first + np.arange(len(PRIORITIES)), PRIORITIES)
    buffer.sample(8)
    buffer.save(path)


def write_device_buffer(path: Path) -> None:
    """Save a buffer of two environments, with episodes 0 and 1, and with one step of episodes 2 and 3."""
    buffer = DeviceReplayBuffer(
        SPACE,
        ACTIONS,
        2,
        steps_per_env=10,
        goal_selection_strategy=Mixture({"future": 0.6, "original": 0.4}),
        demonstrations=Demonstrations([episode(*DEMONSTRATION)], share=0.25),
        **OPTIONS,
    )

    in_torch = lambda pair: map_tree(torch.from_numpy, stacked(pair))  # noqa: E731
    plays = [[(number, 3, t) for t in range(3)] + [(number + 2, 3, 0)] for number in range(2)]
    steps = [[transition(*each) for each in play] for play in plays]
    for t, (one, other) in enumerate(zip(*steps, strict=True)):
        parts = [in_torch(pair) for pair in zip(one, other, strict=True)]
        first, action, reward, last, terminated, truncated, info = parts
        following = in_torch([play[t + 1][0] for play in steps]) if t == 2 else last
        flags = terminated, truncated
        first_observation = first if t == 0 else None
        buffer.add(SimulatorStep(following, action, reward.float(), *flags, last, info, first_observation))
    buffer.sample(8)
    buffer.save(path)


def observations_of(space: spaces.Dict) -> dict[str, np.ndarray]:
    """Return four observations of bits or numbers in [0, 1]."""
    rng = np.random.default_rng(0)
    numbers = {key: rng.random((4, *part.shape)) for key, part in space.items()}
    return {key: (each.round() if space[key].dtype.kind != "f" else each) for key, each in numbers.items()}


def actions_of(path: Path) -> list:
    """Return the actions of the agent in a file for `observations_of` its environment."""
    options = REACH if path.stem in AGENTS else RUN
    env = gym.make(options["env"], **options["env_kwargs"])
    return load_agent(path).act(observations_of(env.observation_space)).tolist()


def write(folder: Path) -> None:
    """Write all golden files into a folder."""
    write_buffer(folder / "buffer.replay")
    write_device_buffer(folder / "device_buffer.replay")
    with EpisodeArchive(folder / "archive", env=GoldenEnv(), shard_steps=5) as archive:
        archive.add_episodes(episodes(reset_info=True))
    train(make_config(RUN), folder=folder / "run", tensorboard=False, on_epoch=None)
    reach = gym.make(REACH["env"], **REACH["env_kwargs"])
    with EpisodeArchive(folder / "reach", env=reach) as archive:
        reach = EpisodeRecorder(reach, archive)
        reach.reset(seed=0)
        while not any(reach.step(reach.action_space.high)[2:4]):
            pass
    for algo, suffix in AGENTS.items():
        config = make_config(REACH, {"algo": algo}, {"offline": "reach"} if algo == "iql" else {})
        train(config, folder=folder / algo, tensorboard=False, on_epoch=None)
        if suffix == ".pt":
            shutil.copy(folder / algo / "latest.pt", folder / f"{algo}.pt")
        else:
            export_policy(folder / algo / "latest.pt", folder / f"{algo}.policy")
        shutil.rmtree(folder / algo)
    shutil.rmtree(folder / "reach")
    names = [*(algo + suffix for algo, suffix in AGENTS.items()), "run/latest.pt", "run/best.pt"]
    actions = {name: actions_of(folder / name) for name in names}
    (folder / "actions.json").write_text(json.dumps(actions, indent=2) + "\n")
    for lock in folder.rglob("lock"):
        lock.unlink()


def main(target: Path) -> None:
    """Write the files with a fixed clock, and at a fixed place, which checkpoints contain; then copy them."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch("time.perf_counter", side_effect=itertools.count(0.0, 0.25)))
        stack.enter_context(mock.patch("secrets.token_hex", return_value="0123456789abcdef"))
        folder = Path(tempfile.gettempdir(), "golden")
        folder.mkdir()
        stack.callback(shutil.rmtree, folder)
        stack.enter_context(contextlib.chdir(folder))
        write(folder)
        shutil.copytree(folder, target)


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
