"""The run of an environment within a budget of steps, with three policies that search for successes."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from her_wrappers.checker.comparing import to_arrays
from her_wrappers.checker.goal_calls import flat
from her_wrappers.checker.records import (
    OUTCOME,
    FailedCall,
    ResetRecord,
    Rollout,
    StepRecord,
    ended_rows,
    row_of,
    split_batches,
    wrong_shapes,
)
from her_wrappers.data.infos import final_observations
from her_wrappers.data.trees import copy_tree, leaf_arrays
from her_wrappers.goals.action_masks import valid_action
from her_wrappers.goals.autoreset import declared_mode
from her_wrappers.support.arguments import require_function
from her_wrappers.support.policies import PolicyError, choose_action

Policy: TypeAlias = Callable[[Any], Any]

MAX_ROLLOUT_BYTES = 2**30  # a run stops early if its observations and their copies need more bytes
SHORT_EPISODES, SHORT_STEPS = 3, 10  # the first episodes are short so that replays contain resets
MAX_GOAL_SIZE = 64  # most values of a goal for steering; the model is slow for larger goals
MODEL_ERRORS = (IndexError, KeyError, TypeError, ValueError, np.linalg.LinAlgError)  # for faulty observations


@dataclass(frozen=True)
class Budget:
    """Steps, time, policy and seed of a run. Wrong values raise TypeError or ValueError."""

    max_steps: int  # this and the next five are arguments of `check_goal_env`
    max_seconds: float | None = None
    policy: Policy | None = None
    reset_options: Sequence[dict[str, Any]] = ()
    seed: int = 0
    on_step: Callable[[], None] = field(default=lambda: None)
    episode_share: float = 0.3  # an episode is stopped after this share of ``max_steps``

    def __post_init__(self) -> None:
        if self.policy is not None:
            require_function("policy", self.policy, "an observation")
        limit = self.max_seconds
        if limit is not None and not (isinstance(limit, int | float) and 0 < limit < math.inf):
            raise ValueError(f"max_seconds must be a positive number of seconds or None, got {limit!r}")


def roll_out(env: Any, budget: Budget) -> Rollout:
    """Run a single or vector environment with several policies, one after another, to see more states."""
    num_envs = env.num_envs if isinstance(env, gym.vector.VectorEnv) else None
    total = max(4, budget.max_steps // (num_envs or 1))
    rng = np.random.default_rng(budget.seed)
    random = random_policy(env.action_space, budget.seed)
    runner = _Runner(env, budget, num_envs)
    names = ("observation_space", "action_space")
    spaces_before = [getattr(env, name) for name in names]
    try:
        if budget.policy is not None:
            runner.run(budget.policy, total)
        else:
            runner.run(random, total - 2 * (total // 4))
            runner.run(repeating_policy(env.action_space, rng), total // 4)
            if num_envs is None:
                steer = steering_policy(runner.rollout.steps, env.action_space, rng, random)
            else:
                steer = _row_policies(env, runner.rollout, rng, random)
            runner.run(steer, total // 4)
    except PolicyError as error:
        runner.rollout.policy_error, runner.rollout.cut_off = error, str(error)
    except _StoppedRunError:
        pass
    runner.rollout.spaces_replaced = [
        name for name, space in zip(names, spaces_before, strict=True) if getattr(env, name) is not space
    ]
    return runner.rollout


class _StoppedRunError(Exception):
    """The run stopped early: a call raised, a limit was reached, or a vector environment omitted rows."""


class _Runner:
    """Runs and records an environment; each call of ``reset`` of a vector environment begins an episode."""

    def __init__(self, env: Any, budget: Budget, num_envs: int | None) -> None:
        self.rollout = Rollout()
        self._env, self._budget, self._num_envs = env, budget, num_envs
        self._seed: int | None = budget.seed
        self._episode_cap = max(1, int(budget.episode_share * budget.max_steps) // (num_envs or 1))
        self._deadline = time.monotonic() + (budget.max_seconds or math.inf)
        self._bytes_left = MAX_ROLLOUT_BYTES
        self._rng = np.random.default_rng(budget.seed)

    def run(self, policy: Policy, steps: int) -> None:
        """Take ``steps`` steps in new episodes, or raise _StoppedRunError if the run stops early."""
        while steps > 0:
            cap = self._episode_cap if len(self.rollout.resets) >= SHORT_EPISODES else SHORT_STEPS
            steps -= self._run_episode(policy, min(steps, cap))

    def _run_episode(self, policy: Policy, limit: int) -> int:
        is_vector = self._num_envs is not None
        is_disabled = is_vector and autoreset_mode(self._env, self.rollout) is AutoresetMode.DISABLED
        last: ResetRecord | StepRecord = self._reset()
        for t in range(limit):
            action = choose_action(policy, copy_tree(last.observation), self._env.action_space)
            if policy is not self._budget.policy:
                action = valid_action(action, self._env, last.observation, last.info, self._rng)
            last = step = self._step(t, last.observation, action)
            ended = ended_rows(step) if is_vector else np.array([bool(step.terminated or step.truncated)])
            self.rollout.ended_episodes += int(ended.sum())
            if ended.any() and not is_vector:
                return t + 1
            if ended.any() and is_disabled:
                last = self._reset({"reset_mask": ended})
        return limit

    def _require_all_rows(self, record: ResetRecord | StepRecord) -> None:
        if self._num_envs is not None and any(wrong_shapes(record, self._num_envs)):
            raise _StoppedRunError  # GE603 reports the missing rows

    def _reset(self, options: dict[str, Any] | None = None) -> ResetRecord:
        episode = len(self.rollout.resets)
        choices = self._budget.reset_options
        if options is None and choices and episode % 2:
            options = choices[episode // 2 % len(choices)]
        seed, self._seed = self._seed, None
        returned = self._call(f"episode {episode}", "reset", lambda: call_reset(self._env, seed, options))
        record = ResetRecord.of(episode, seed, options, returned)
        self.rollout.resets.append(record)
        self._require_all_rows(record)
        return record

    def _step(self, t: int, before: Any, action: Any) -> StepRecord:
        episode = len(self.rollout.resets) - 1
        passed, place = copy_tree(action), f"episode {episode}, step {t}"
        returned = self._call(place, "step", lambda: call_step(self._env, passed))
        step = StepRecord.of((episode, t), before, to_arrays(action), to_arrays(passed), returned)
        self.rollout.steps.append(step)
        if has_diverged(self._env):
            self.rollout.diverged.append(step.place)
        self._budget.on_step()
        self._bytes_left -= 2 * sum(getattr(leaf, "nbytes", 0) for leaf in leaf_arrays(step.observation))
        if self._bytes_left < 0:
            self.rollout.cut_off = f"the observations need more than {MAX_ROLLOUT_BYTES >> 20} MiB"
        elif time.monotonic() > self._deadline:
            self.rollout.cut_off = "max_seconds has passed"
        if self.rollout.cut_off:
            raise _StoppedRunError
        self._require_all_rows(step)
        return step

    def _call(self, place: str, name: str, function: Callable[[], Any]) -> Any:
        try:
            return self._validated(*function())
        except Exception as error:
            self.rollout.failure = FailedCall(place, f"{name}()", error)
            raise _StoppedRunError from error

    def _validated(self, *values: Any) -> Any:
        """Return the values of ``reset`` or ``step``; raise TypeError if flags or infos have a wrong type."""
        if self._num_envs is not None and not isinstance(values[-1], dict):
            got = type(values[-1]).__name__
            raise TypeError(f"infos must be a dict of arrays, got {got}; merge the infos key by key")
        flags = zip(OUTCOME[1:], values[2:4], strict=True) if len(values) == 5 else ()
        for name, flag in flags if self._num_envs is None else ():
            if np.size(flag) != 1:
                raise TypeError(f"the value {name!r} of step() must be a single bool, got {flag!r}")
        return values


def has_diverged(env: Any) -> bool:
    """Whether MuJoCo found a bad position, velocity or acceleration since the last reset of its data."""
    try:
        return bool(np.any(env.unwrapped.data.warning.number[4:7]))  # mjWARN_BADQPOS to mjWARN_BADQACC
    except Exception:  # not an environment of MuJoCo
        return False


def autoreset_mode(env: Any, rollout: Rollout) -> AutoresetMode:
    """Return the autoreset mode that ``env`` declares or, without one, the mode that the infos suggest."""
    if mode := declared_mode(env):
        return mode
    has_final = any(final_observations(step.info) is not None for step in rollout.steps)
    return AutoresetMode.SAME_STEP if has_final else AutoresetMode.NEXT_STEP


def random_policy(space: spaces.Space[Any], seed: int) -> Policy:
    """Return a policy that samples from a copy of the space, so that the space keeps its random state."""
    copied = copy.deepcopy(space)
    copied.seed(seed)
    return lambda observation: copied.sample()


def walk(
    env: Any, budget: Budget, offset: int = 0, *, options: Any = None, seeds_reset: bool = True
) -> Iterator[Any]:
    """Run episodes without end; yield (t, observation, info, has_ended) after each reset (t=0) and step."""
    seed, policy = budget.seed + offset, budget.policy
    random, rng = random_policy(env.action_space, seed), np.random.default_rng(seed)
    observation, info = call_reset(env, seed if seeds_reset else None, options)
    while True:
        t, has_ended = 0, False
        yield t, observation, info, has_ended
        while not has_ended:
            action = choose_action(policy or random, copy_tree(observation), env.action_space)
            if policy is None:
                action = valid_action(action, env, observation, info, rng)
            observation, _, terminated, truncated, info = call_step(env, action)
            t, has_ended = t + 1, bool(np.any(terminated) or np.any(truncated))
            yield t, observation, info, has_ended
        observation, info = call_reset(env)


def repeating_policy(space: spaces.Space[Any], rng: np.random.Generator) -> Policy:
    """Return a policy that repeats each random action for 1 to 20 steps, to reach more distant states."""
    sample = random_policy(space, int(rng.integers(2**31)))
    remaining, action = 0, None

    def policy(observation: Any) -> Any:
        nonlocal remaining, action
        if remaining == 0:
            remaining, action = int(rng.integers(1, 21)), sample(observation)
        remaining -= 1
        return action

    return policy


def steering_policy(
    steps: Sequence[StepRecord], space: spaces.Space[Any], rng: np.random.Generator, fallback: Policy
) -> Policy:
    """Return a policy that steers to the goal by a linear model, or ``fallback`` if the model fails."""
    fit = {spaces.Box: _fit_box, spaces.Discrete: _fit_discrete}.get(type(space))
    try:
        goals = [flat(step.before["achieved_goal"]) for step in steps]
        if fit is None or not goals or goals[0].size > MAX_GOAL_SIZE:
            return fallback
        before = np.stack(goals)
        moves = np.stack([flat(step.observation["achieved_goal"]) for step in steps]) - before
        steer = fit(space, np.stack([np.asarray(step.action) for step in steps]), before, moves)
    except MODEL_ERRORS:
        return fallback
    explore = random_policy(space, int(rng.integers(2**31)))

    def policy(observation: Any) -> Any:
        if rng.random() < 0.1:  # else the policy could get stuck
            return explore(observation)
        try:
            action = steer(flat(observation["achieved_goal"]), flat(observation["desired_goal"]))
        except MODEL_ERRORS:
            return fallback(observation)
        # A goal of NaN gives an action of NaN, which must not reach a simulator or a robot.
        return action if np.isfinite(action).all() and space.contains(action) else fallback(observation)

    return policy


def _row_policies(env: Any, rollout: Rollout, rng: np.random.Generator, fallback: Policy) -> Policy:
    """Return `steering_policy` for each row of a vector environment, or ``fallback`` for other actions."""
    space = getattr(env, "single_action_space", None)
    if not isinstance(space, spaces.Box | spaces.Discrete):
        return fallback
    steps = split_batches(rollout, autoreset_mode(env, rollout), env.num_envs).steps
    policy = steering_policy(steps, space, rng, random_policy(space, int(rng.integers(2**31))))
    return lambda observation: np.stack([policy(row_of(observation, i)) for i in range(env.num_envs)])


def _fit_box(space: Any, actions: np.ndarray, goals_before: np.ndarray, goal_changes: np.ndarray) -> Any:
    """Fit goal change = action @ gain + drift; return a function (achieved, desired goal) -> action."""
    rows = np.concatenate([actions.reshape(len(actions), -1), np.ones((len(actions), 1))], axis=1)
    model = np.linalg.lstsq(rows, goal_changes, rcond=None)[0]
    inverse, drift = np.linalg.pinv(model[:-1]), model[-1]

    def steer(achieved: np.ndarray, desired: np.ndarray) -> np.ndarray:
        action = ((desired - achieved - drift) @ inverse).reshape(space.shape)
        return np.asarray(np.clip(action, space.low, space.high), dtype=space.dtype)

    return steer


def _fit_discrete(space: Any, actions: np.ndarray, goals_before: np.ndarray, goal_changes: np.ndarray) -> Any:
    """Fit a linear model of goal changes for each action; return a function (achieved, desired) -> action."""
    # This is exact for actions that flip bits, where each change is a linear function of the achieved goal.
    rows = np.concatenate([goals_before, np.ones((len(goals_before), 1))], axis=1)
    models = np.stack([
        np.linalg.lstsq(rows[actions == action], goal_changes[actions == action], rcond=None)[0]
        for action in range(space.start, space.start + space.n)
    ])

    def steer(achieved: np.ndarray, desired: np.ndarray) -> int:
        after = achieved + np.append(achieved, 1.0) @ models
        return int(space.start + ((after - desired) ** 2).sum(-1).argmin())

    return steer


def call_reset(env: Any, seed: int | None = None, options: Any = None) -> Any:
    """Call ``reset``, and return observation and info; raise TypeError unless it returns a pair."""
    return _arrays(env.reset(seed=seed, options=copy_tree(options)), 2)


def call_step(env: Any, action: Any) -> Any:
    """Call ``step``, and return its five values; raise TypeError unless it returns a tuple of 5 values."""
    return _arrays(env.step(action), 5)


def _arrays(returned: Any, length: int) -> Any:
    """Convert tensors in ``returned`` to arrays; raise TypeError unless it is a tuple of this ``length``."""
    if not isinstance(returned, tuple) or len(returned) != length:
        count = f"{len(returned)} values" if isinstance(returned, tuple) else type(returned).__name__
        raise TypeError(f"expected {length} values in a tuple, got {count}")
    return to_arrays(returned)
