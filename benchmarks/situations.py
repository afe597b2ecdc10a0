"""Situations in which relabeling recorded episodes gives wrong transitions, for each way of recording.

For example:

    python -m benchmarks.situations                      all columns whose libraries are installed
    python -m benchmarks.situations TorchRL SB3          the columns whose names begin with TorchRL or SB3

Rows are situations, columns ways to record. For each cell, 30 or more episodes of a test task are
recorded. The state of this task is the achieved goal, so achieved goal, action and desired goal determine the
correct next state, observations, reward and termination of a sampled transition. A cell is "right" if all
are correct, "warned" if some are wrong but a warning names the situation, and "rejected" if an error names
it. "Silently wrong" means wrong transitions without such a warning, and "failed" any other error. "-"
means that the situation cannot occur.

The drop-in buffer for Stable-Baselines3 has `termination="recompute"`.
"""

from __future__ import annotations

import importlib
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from benchmarks.result_page import Grid, Page
from her_wrappers import EpisodeRecorder, HindsightReplayBuffer, VectorEpisodeRecorder
from her_wrappers.collecting import Collector

Record = Callable[[str, ExitStack], HindsightReplayBuffer]
"""Function that records a situation; the stack closes the environments after the buffer was used."""

PAGE = Path("docs/results/situations.md")

NUM_ENVS = 3
ROUND = 50  # steps between two changes of the environments, which do not divide the 20 steps of episodes
ROUNDS = 12
STEP_SIZE, RADIUS, NEW_RADIUS = 0.2, 0.2, 0.6

SITUATIONS: dict[str, tuple[str, str]] = {
    "correct": ("nothing is wrong", "no warning names this situation"),
    "ends at goals": (
        "episodes end at goals, but `compute_terminated` is False",
        "relabeled successes do not",
    ),
    "hidden ends": ("a wrapper hides terminations", "wrapper hides terminations"),
    "truncated at goals": ("success sets `truncated`", "truncated as soon as they achieved"),
    "infos": ("the reward needs an info, without `info_keys`", "effort|depends on the info"),
    "hidden reset": ("a reset inside of `step`", "episodes contain a reset"),
    "autoreset": ("an `Autoreset` wrapper, and no own reset", "contain a reset|likely the step is a reset"),
    "evaluation": ("evaluation in the training environment", "evaluation in the training environment"),
    "goal in observation": ("the observation has goal - position", "the observation"),
    "reused arrays": ("the environment returns the same arrays", "reuses? its arrays"),
    "one reused array": ("only the achieved goal is the same array", "reuses? its arrays"),
    "changed radius": ("the radius of success changes", "changed since|attributes that were set"),
    "stacked frames": ("stacked goals", "changes the shape of goals|the goal's own axes"),
    "shared object": (
        "one object in several slots",
        "object in several slots|are the same .* object|returned the same instance",
    ),
}
"""Title of each situation, and a pattern that matches the warnings and errors about this situation."""


class Reach(gym.Env[Any, Any]):
    """A point in a square moves to a goal within 20 steps; each situation changes one property."""

    def __init__(self, situation: str = "correct") -> None:
        self.situation, self.radius = situation, RADIUS
        goal = spaces.Box(-3, 3, (2,), np.float32)
        seen = spaces.Box(-3, 3, (4 if situation == "goal in observation" else 2,), np.float32)
        self.observation_space = spaces.Dict(observation=seen, achieved_goal=goal, desired_goal=goal)
        self.action_space = spaces.Box(-1, 1, (2,), np.float32)
        self._arrays = {key: np.zeros(part.shape, np.float32) for key, part in self.observation_space.items()}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Draw a start and a goal."""
        super().reset(seed=seed)
        self.elapsed = 0
        self._draw()
        return self._observe(), {"effort": effort(self.position)}

    def step(self, action: Any) -> Any:
        """Move the point."""
        self.elapsed += 1
        self.position = moved(self.position, action)
        if self.situation == "hidden reset" and self.elapsed == 10:
            self._draw()
        info = {"effort": effort(self.position)}
        reward = float(self.compute_reward(self.position, self.goal, info))
        at_goal = bool(distance(self.position, self.goal) < self.radius)
        is_terminated = at_goal and self.situation not in {"hidden ends", "truncated at goals"}
        is_truncated = self.elapsed >= 20 or (at_goal and self.situation == "truncated at goals")
        return self._observe(), reward, is_terminated, is_truncated, info

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        """Return 0 at the goal, else -1; in the situation "infos", minus the effort in the info."""
        reward = (distance(achieved_goal, desired_goal) < self.radius) - 1.0
        if self.situation == "infos":
            infos = [info] if isinstance(info, dict) else info
            reward -= np.array([each.get("effort", 0.0) for each in infos]).reshape(reward.shape)
        return reward

    def compute_terminated(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        """Return whether goals are achieved."""
        never = self.situation in {"ends at goals", "truncated at goals"}
        return (distance(achieved_goal, desired_goal) < self.radius) & (not never)

    def change(self, number: int) -> None:
        """Change the environment after round ``number`` of steps, in situations that contain a change."""
        if self.situation == "changed radius" and number >= ROUNDS // 4:
            self.radius = NEW_RADIUS
        if self.situation == "evaluation":
            self._draw()  # the next step begins where the evaluation ended

    def _draw(self) -> None:
        self.position, self.goal = self.np_random.uniform(-1, 1, (2, 2)).astype(np.float32)

    def _observe(self) -> dict[str, Any]:
        seen = view(self.position, self.goal, self.situation)
        obs = {"observation": seen, "achieved_goal": self.position, "desired_goal": self.goal}
        for key, value in obs.items():
            if self.situation == "reused arrays" or (self.situation, key) == (
                "one reused array",
                "achieved_goal",
            ):
                self._arrays[key][:] = value
            else:
                self._arrays[key] = value.copy()
        return dict(self._arrays)


def moved(position: Any, action: Any) -> Any:
    """Return the positions after actions."""
    return np.clip(position + STEP_SIZE * np.clip(action, -1, 1), -1, 1).astype(np.float32)


def distance(some: Any, others: Any) -> Any:
    """Return the distances of points."""
    return np.linalg.norm(some - others, axis=-1)


def effort(position: Any) -> Any:
    """Return a cost that depends on the position."""
    return 5.0 * (np.abs(position[..., 0]) > 0.5)


def view(position: Any, goal: Any, situation: str) -> Any:
    """Return the entry ``"observation"`` of the environment's observations."""
    return np.concatenate([position, goal - position], -1) if situation == "goal in observation" else position


def wrong_parts(buffer: HindsightReplayBuffer, situation: str) -> list[str]:
    """Return the names of the parts in which sampled transitions differ from the true task."""
    if buffer.num_episodes < 20:
        raise RuntimeError(f"too few episodes were recorded: {buffer.num_episodes}")
    batch = buffer.sample(10_000)
    states, after = batch.observations, batch.next_observations
    goal = after["desired_goal"]
    achieved = moved(states["achieved_goal"], batch.actions)
    is_changed = situation == "changed radius"
    at_goal = distance(achieved, goal) < (NEW_RADIUS if is_changed else RADIUS)
    reward = at_goal - 1.0 - effort(achieved) * (situation == "infos")
    ends = at_goal & (situation != "hidden ends")
    # Recorded rewards and terminations are kept, also those before the change.
    kept = ~batch.relabeled & is_changed
    pairs = {
        "achieved goal": (after["achieved_goal"], achieved),
        "desired goal": (states["desired_goal"], goal),
        "observation": (states["observation"], view(states["achieved_goal"], goal, situation)),
        "next observation": (after["observation"], view(achieved, goal, situation)),
        "reward": (batch.rewards, np.where(kept, batch.rewards, reward)),
        "termination": (batch.terminations, np.where(kept, batch.terminations, ends)),
    }
    return [name for name, pair in pairs.items() if not np.allclose(*pair, atol=1e-5)]


def make_env(situation: str) -> Any:
    """Return an environment with the fault of a situation."""
    env: Any = Reach(situation)
    if situation == "stacked frames":
        return gym.wrappers.FrameStackObservation(env, 3)
    return gym.wrappers.Autoreset(env) if situation == "autoreset" else env


def makers(situation: str, count: int = NUM_ENVS) -> list[Callable[[], Any]]:
    """Return functions that make ``count`` environments."""
    if situation == "shared object":
        env = make_env(situation)
        return [lambda: env] * count
    return [partial(make_env, situation)] * count


def record_single(situation: str, at_end: ExitStack) -> HindsightReplayBuffer:
    """Record with `EpisodeRecorder`."""
    env = make_env(situation)
    buffer = HindsightReplayBuffer.for_env(env, seed=0)
    play(EpisodeRecorder(env, buffer.add_episode), env, situation)
    return buffer


def record_by_add(situation: str, at_end: ExitStack) -> HindsightReplayBuffer:
    """Record with `HindsightReplayBuffer.add`."""
    env = make_env(situation)
    buffer = HindsightReplayBuffer.for_env(env, seed=0)
    play(env, env, situation, buffer.add)
    return buffer


def play(recorder: Any, env: Any, situation: str, add: Any = None) -> None:
    """Step an environment, and pass the transitions to ``add``, if given."""
    obs, _ = recorder.reset(seed=0)
    env.action_space.seed(0)
    for t in range(ROUNDS * ROUND):
        if t % ROUND == ROUND - 1:
            env.unwrapped.change(t // ROUND)
        action = env.action_space.sample()
        after, reward, terminated, truncated, info = recorder.step(action)
        if add is not None:
            add(obs, action, reward, after, terminated, truncated, info)
        is_over = (terminated or truncated) and situation != "autoreset"
        obs = recorder.reset()[0] if is_over else after


def record_vector(kind: Any, mode: AutoresetMode, situation: str, at_end: ExitStack) -> HindsightReplayBuffer:
    """Record with `VectorEpisodeRecorder`."""
    envs = kind(makers(situation), autoreset_mode=mode)
    at_end.callback(envs.close)
    buffer = HindsightReplayBuffer.for_env(envs, seed=0)
    recorder = VectorEpisodeRecorder(envs, buffer.add_episodes)
    recorder.reset(seed=0)
    recorder.action_space.seed(0)
    for t in range(ROUNDS * ROUND):
        if t % ROUND == ROUND - 1:
            envs.call("change", t // ROUND)
        *_, terminated, truncated, _ = recorder.step(recorder.action_space.sample())
        ended = terminated | truncated
        if mode is AutoresetMode.DISABLED and ended.any():
            recorder.reset(options={"reset_mask": ended})
    return buffer


def record_by_collector(situation: str, at_end: ExitStack) -> HindsightReplayBuffer:
    """Record with `Collector`."""
    buffer = HindsightReplayBuffer.for_env(make_env(situation), seed=0)
    with Collector(makers(situation)[0], any_actions, num_envs=NUM_ENVS) as collector:
        for collected in collector.rounds(episodes_per_env=10):
            buffer.add_episodes(collected.episodes)
            if collected.number == 2:
                break
    return buffer


def any_actions(observations: Any) -> Any:
    """Return actions that depend on the observations alone, without a pattern."""
    return np.sin(1e4 * observations["achieved_goal"]).astype(np.float32)


def record_by_sb3(kind: str, situation: str, at_end: ExitStack) -> HindsightReplayBuffer:
    """Record with the drop-in of Stable-Baselines3."""
    from stable_baselines3 import SAC  # noqa: PLC0415 - may be missing
    from stable_baselines3.common import vec_env  # noqa: PLC0415

    from her_wrappers.integrations.sb3 import HerReplayBuffer  # noqa: PLC0415

    kinds = {"Dummy": vec_env.DummyVecEnv, "Subproc": partial(vec_env.SubprocVecEnv, start_method="fork")}
    envs = kinds[kind](makers(situation))
    at_end.callback(envs.close)
    model: Any = SAC(
        "MultiInputPolicy", envs, replay_buffer_class=HerReplayBuffer, learning_starts=10**6, seed=0,
        replay_buffer_kwargs={"termination": "recompute"},
    )  # fmt: skip
    for number in range(ROUNDS):
        model.learn(NUM_ENVS * ROUND, reset_num_timesteps=number == 0)
        envs.env_method("change", number)
    return model.replay_buffer.her_buffer  # type: ignore[no-any-return]


def record_by_torchrl(num_envs: int, situation: str, at_end: ExitStack) -> HindsightReplayBuffer:
    """Record with a collector of TorchRL."""
    import torch  # noqa: PLC0415 - may be missing
    from torchrl.collectors import Collector as TorchCollector  # noqa: PLC0415
    from torchrl.envs import GymWrapper, SerialEnv  # noqa: PLC0415

    from her_wrappers.integrations.torchrl import HindsightTensorDictReplayBuffer  # noqa: PLC0415

    buffer = HindsightTensorDictReplayBuffer.for_env(make_env(situation), buffer_size=10_000, seed=0)
    made: list[Any] = [maker() for maker in makers(situation, num_envs)]
    wrapped: Any = [partial(GymWrapper, env) for env in made]
    env = SerialEnv(num_envs, wrapped) if num_envs > 1 else wrapped[0]()
    env.set_seed(0)
    torch.manual_seed(0)
    frames = NUM_ENVS * ROUND  # of all environments together
    collector = TorchCollector(env, frames_per_batch=frames, total_frames=frames * ROUNDS)
    for number, data in enumerate(collector):
        buffer.extend(data)
        for each in made:
            each.unwrapped.change(number)
    return buffer.her_buffer


def record_by_rllib(situation: str, at_end: ExitStack) -> HindsightReplayBuffer:
    """Record with RLlib's SAC."""
    from ray import tune  # noqa: PLC0415 - may be missing

    from her_wrappers.integrations.rllib import HerSACConfig  # noqa: PLC0415

    make = makers(situation)[0]
    tune.register_env("situation", lambda config: make())
    config = HerSACConfig().environment("situation").debugging(seed=0)
    config.env_runners(num_envs_per_env_runner=NUM_ENVS, rollout_fragment_length=ROUND)
    config.training(num_steps_sampled_before_learning_starts=10**6)
    config.reporting(min_sample_timesteps_per_iteration=1, min_time_s_per_iteration=0)
    algo = config.build_algo()
    at_end.callback(algo.stop)
    for number in range(ROUNDS):
        algo.train()
        algo.env_runner.env.unwrapped.call("change", number)
    return algo.local_replay_buffer.her_buffer  # type: ignore[no-any-return]


COLUMNS: dict[str, tuple[str, Record]] = {
    "EpisodeRecorder": ("gymnasium", record_single),
    **{
        f"{kind.__name__[:-9]} {mode.value}": ("gymnasium", partial(record_vector, kind, mode))
        for kind in (SyncVectorEnv, AsyncVectorEnv)
        for mode in AutoresetMode
    },
    "add": ("gymnasium", record_by_add),
    "Collector": ("gymnasium", record_by_collector),
    "SB3 DummyVecEnv": ("stable_baselines3", partial(record_by_sb3, "Dummy")),
    "SB3 SubprocVecEnv": ("stable_baselines3", partial(record_by_sb3, "Subproc")),
    "TorchRL": ("torchrl", partial(record_by_torchrl, 1)),
    "TorchRL SerialEnv": ("torchrl", partial(record_by_torchrl, NUM_ENVS)),
    "RLlib": ("ray.rllib", record_by_rllib),
}
"""Ways of recording by name: the required package, and the function that records."""


def is_missing(column: str, situation: str) -> bool:
    """Return whether a situation cannot occur in the way of recording of a column."""
    if situation == "shared object":
        return column in {"EpisodeRecorder", "add", "TorchRL", "SB3 SubprocVecEnv"} or "Async" in column
    # A collector resets its environments in each round, and nothing else can step them.
    return column == "Collector" and situation in {"changed radius", "evaluation"}


def judge(situation: str, record: Record) -> tuple[str, str]:
    """Record a situation, and return the text of the cell and the reason for this text."""
    names = SITUATIONS[situation][1]
    with ExitStack() as at_end, warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        try:
            wrong = wrong_parts(record(situation, at_end), situation)
        except Exception as error:  # judged by its text
            is_named = isinstance(error, ValueError | TypeError) and re.search(names, str(error))
            return "rejected" if is_named else "**failed**", f"{type(error).__name__}: {error}"
    said = [str(each.message) for each in found if issubclass(each.category, UserWarning)]
    reason = f"wrong: {', '.join(wrong) or 'nothing'}; warnings: {said}"
    if wrong:
        is_named = any(re.search(names, each) for each in said)
        return "warned" if is_named else "**silently wrong**", reason
    is_alarm = any(re.search(pattern, each) for _, pattern in SITUATIONS.values() for each in said)
    return "**false alarm**" if situation == "correct" and is_alarm else "right", reason


def is_installed(package: str) -> bool:
    """Return whether a package can be imported."""
    try:
        return bool(importlib.import_module(package))
    except ImportError:
        return False


def known_cells() -> dict[tuple[str, str], str]:
    """Return the cells of the existing page, by column and title of the situation."""
    lines = PAGE.read_text(encoding="utf-8").splitlines() if PAGE.exists() else []
    header, *rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line[:1] == "|"]
    return {(column, row[0]): cell for row in rows for column, cell in zip(header, row, strict=True)}


def main(chosen: Sequence[str]) -> None:
    """Run the cells of some columns, and write the page after each column."""
    cells = known_cells()
    for column, (package, record) in COLUMNS.items():
        if (chosen and not column.startswith(tuple(chosen))) or not is_installed(package):
            continue
        for situation, (title, _) in SITUATIONS.items():
            cells[column, title] = "-"
            if not is_missing(column, situation):
                cells[column, title], reason = judge(situation, record)
                print(f"{column}: {title}: {cells[column, title]}; {reason}", flush=True)
        write(cells)


def write(cells: dict[tuple[str, str], str]) -> None:
    """Write the page."""
    titles = [title for title, _ in SITUATIONS.values()]
    rows = [[title, *(cells.get((column, title), "not run") for column in COLUMNS)] for title in titles]
    verdicts = [cell for row in rows for cell in row[1:] if cell not in {"-", "not run"}]
    noticed = sum(cell in {"right", "warned", "rejected"} for cell in verdicts)
    answer = "Situations such as a wrapper that hides terminations were tested with each way of recording. "
    answer += f"{noticed} of {len(verdicts)} combinations give right transitions, or a warning or an error "
    answer += "that names the situation."
    grid = Grid("Situations and ways of recording", ["situation", *COLUMNS], rows)
    method = (__doc__ or "").partition("\n\nFor example:\n\n")[2].partition("\n\n")[2]
    facts = {"command": "`python -m benchmarks.situations`"}
    page = Page("Does the buffer notice wrong recordings?", answer, [grid], facts, method)
    PAGE.write_text(page.markdown(), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
