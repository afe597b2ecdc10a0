"""Vector environments: run them all at once, then read each environment's own episodes from the batches.

What comes out is a tape like that of a single environment, so that all rules hold for both. The three ways to
begin the next episode are those of `gymnasium.vector.AutoresetMode`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.vector import AutoresetMode

from her_wrappers.checker.tape import Runner, Start, Step, Tape
from her_wrappers.trees import map_tree

if TYPE_CHECKING:
    from her_wrappers.checker.tape import Policy


class VectorRunner(Runner):
    """Runs a vector environment; the tape holds batches.

    What it calls an episode lasts from one call of ``reset`` to the next: as long as a run, but for the mode
    DISABLED.
    """

    def _run_episode(self, policy: Policy, limit: int) -> int:
        disabled = autoreset_mode(self._env, self.tape) is AutoresetMode.DISABLED
        observation = self._reset().observation
        for t in range(limit):
            step = self._step(t, observation, policy(observation))
            observation = step.observation
            ended = ended_rows(step)
            self.tape.ended_episodes += int(ended.sum())
            if disabled and ended.any():
                observation = self._reset({"reset_mask": ended}).observation
        return limit


def autoreset_mode(env: Any, tape: Tape) -> AutoresetMode:
    """Return how an environment begins its next episodes, by its metadata, else by what its infos show."""
    mode = declared_mode(env)
    if mode is not None:
        return mode
    shows_final = any(final_key(step.info) for step in tape.steps)
    return AutoresetMode.SAME_STEP if shows_final else AutoresetMode.NEXT_STEP


def declared_mode(env: Any) -> AutoresetMode | None:
    """Return the mode in the metadata, or None where there is no valid one."""
    mode = env.metadata.get("autoreset_mode")
    return mode if isinstance(mode, AutoresetMode) else None


def ended_rows(step: Step) -> np.ndarray:
    """Return which environments ended their episode: (N,) bool."""
    ended: np.ndarray = np.logical_or(step.terminated, step.truncated)
    return ended


def final_key(infos: Any) -> str | None:
    """Return the name under which infos hold final observations, or None."""
    names = ("final_obs", "final_observation")
    return next((name for name in names if isinstance(infos, dict) and name in infos), None)


def split(batches: Tape, env: Any) -> Tape:
    """Return the tape of the single environments.

    Args:
        batches: The tape of the vector environment.
        env: The vector environment.
    """
    return _Splitter(batches, autoreset_mode(env, batches), env.num_envs).split()


class _Splitter:
    """Follows each environment through the batches."""

    def __init__(self, batches: Tape, mode: AutoresetMode, num_envs: int) -> None:
        self._batches = batches
        self._mode = mode
        self._num_envs = num_envs
        self._tape = Tape(
            failure=batches.failure, cut_off=batches.cut_off, ended_episodes=batches.ended_episodes
        )
        self._episode = [0] * num_envs
        self._t = [0] * num_envs
        self._ended = np.zeros(num_envs, bool)

    def split(self) -> Tape:
        """Read all batches."""
        starts = iter(self._batches.starts)
        run = -1
        for step in self._batches.steps:
            while run < step.episode:
                self._read_start(next(starts))
                run += 1
            self._read_step(step)
        return self._tape

    def _read_start(self, start: Start) -> None:
        mask = (start.options or {}).get("reset_mask", np.ones(self._num_envs, bool))
        for i in np.flatnonzero(mask).tolist():
            self._begin(i, start)

    def _begin(self, i: int, record: Start | Step) -> None:
        self._episode[i], self._t[i] = len(self._tape.starts), 0
        self._ended[i] = False
        self._tape.starts.append(
            Start(
                self._episode[i],
                None,
                None,
                row(record.observation, i),
                info_row(record.info, i),
                row(record.live_observation, i),
                info_row(record.live_info, i),
            )
        )

    def _read_step(self, step: Step) -> None:
        ended = ended_rows(step)
        for i in range(self._num_envs):
            if self._ended[i]:
                self._begin(i, step)  # the row of NEXT_STEP that is no transition
                continue
            same_step = bool(ended[i]) and self._mode is AutoresetMode.SAME_STEP
            self._add(i, step, same_step=same_step)
            if same_step:
                self._begin(i, step)
            elif self._mode is AutoresetMode.NEXT_STEP:
                self._ended[i] = ended[i]

    def _add(self, i: int, step: Step, *, same_step: bool) -> None:
        observation, live = row(step.observation, i), row(step.live_observation, i)
        info, live_info = info_row(step.info, i), info_row(step.live_info, i)
        if same_step:
            observation, live = final_row(step.info, i), final_row(step.live_info, i)
            info, live_info = (_final_info(infos, i) for infos in (step.info, step.live_info))
            if observation is None:
                return  # reported by final-obs-missing
        self._tape.steps.append(
            Step(
                self._episode[i],
                self._t[i],
                row(step.before, i),
                row(step.action, i),
                observation,
                step.reward[i],
                bool(step.terminated[i]),
                bool(step.truncated[i]),
                info,
                row(step.live_action, i),
                live,
                live_info,
            )
        )
        self._t[i] += 1


def row(batch: Any, i: int) -> Any:
    """Return what belongs to environment ``i``."""
    return map_tree(lambda leaf: leaf[i], batch)


def final_row(infos: Any, i: int) -> Any:
    """Return the last observation of environment ``i``'s episode, or None where the infos lack it.

    It stands in an array of dicts (Gymnasium), or in a dict of arrays (others).
    """
    key = final_key(infos)
    if key is None:
        return None
    final = infos[key]
    return row(final, i) if isinstance(final, dict) else final[i]


def _final_info(infos: Any, i: int) -> Any:
    return info_row(infos["final_info"], i) if isinstance(infos.get("final_info"), dict) else {}


def info_row(infos: Any, i: int) -> dict[str, Any]:
    """Return the info of environment ``i``: the keys whose mask is set, or that have no mask."""
    found = {}
    for key, value in infos.items():
        mask = infos.get(f"_{key}")
        if key.startswith(("_", "final_")) or (mask is not None and not mask[i]):
            continue
        found[key] = info_row(value, i) if isinstance(value, dict) else _item(value[i])
    return found


def _item(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
