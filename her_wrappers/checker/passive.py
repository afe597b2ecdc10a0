"""GoalEnvChecker: watches an environment while it is in use."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from her_wrappers.checker.check import name_of, quiet
from her_wrappers.checker.evidence import Evidence
from her_wrappers.checker.judge import apply, errors_first, findings_of, without_implied
from her_wrappers.checker.probe import probe
from her_wrappers.checker.registry import RULES
from her_wrappers.checker.report import Finding, NotExercised, Report
from her_wrappers.checker.rollout import ResetRecord, Rollout, StepRecord
from her_wrappers.checker.values import arrays_in, close
from her_wrappers.goal_interface import GoalInterface
from her_wrappers.trees import copy_tree
from her_wrappers.user_warning import warn_user

WATCHED_CLOSELY = 1000
"""Number of first steps that are all checked, with their resets; later one step in `STRIDE` is."""

STRIDE = 16

HELD = 8
"""Number of later steps that are judged together: applying the rules costs more than recording the steps."""

CHANGES_LATER = RULES["GE301"]
"""Applied to each record when the next one comes."""

CLOSE_RULES = [rule for rule in RULES.values() if rule.passive and rule is not CHANGES_LATER]

LASTING_RULES = [rule for rule in CLOSE_RULES if rule.code != "GE302"]
"""The rules after `WATCHED_CLOSELY` steps: memory is shared from the beginning or never."""


class GoalEnvChecker(gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs):
    """Checks an environment while it is used, and warns once for each finding.

    The first 1000 steps are all checked, later one in 16, in groups of eight or when `report` or `close` is
    called. Only the steps taken are checked, so fewer rules apply than in `check_goal_env`:
    observations outside of their space (GE005), rewards that differ from ``compute_reward`` (GE101), changed
    arguments (GE109), rewards that are not finite (GE114), success and termination that contradict them
    (GE202, GE205), data that changes later (GE301), shared memory (GE302), and goals that change (GE303).
    Actions, observations and infos are passed on unchanged.

    Args:
        env: The goal environment.

    Raises:
        TypeError: ``env`` is not a single environment.
        ValueError: ``env`` is not a goal environment.

    Example:
        >>> import her_envs
        >>> env = GoalEnvChecker(gym.make("her_envs/PointReach-v0"))
        >>> observation, info = env.reset(seed=0)
        >>> _ = env.step(env.action_space.sample())
        >>> env.report().findings
        ()
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        if isinstance(env, gym.vector.VectorEnv):
            raise TypeError(
                f"GoalEnvChecker wraps a single environment, got {type(env).__name__}; call "
                "check_goal_env(vector_env), or wrap each environment: "
                "SyncVectorEnv([lambda: GoalEnvChecker(make_env()), ...])"
            )
        gym.utils.RecordConstructorArgs.__init__(self)
        super().__init__(env)
        GoalInterface.of(env)
        self._rewards = _RewardsSeen()
        self._probes = probe(env, "compute_reward"), probe(env, "compute_terminated")
        self._findings: dict[tuple[str, str], Finding] = {}
        self._last: ResetRecord | StepRecord | None = None
        self._held: list[StepRecord] = []
        self._before: Any = None  # a copy of the last observation, where the next step is checked
        self._ended = False
        self._steps = self._successes = self._t = 0
        self._episode = -1

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset the environment, see `gymnasium.Env.reset`."""
        last = self._as_receiver_left_it()
        observation, info = self.env.reset(seed=seed, options=options)
        changed = _changes(last)
        self._episode, self._t, self._ended = self._episode + 1, 0, False
        if self._steps < WATCHED_CLOSELY:
            self._last = ResetRecord(
                self._episode, seed, options, copy_tree(observation), copy_tree(info), observation, info
            )
            self._judge([self._last], [], changed)
        else:
            self._note(changed)
        self._before = self._copy_of_last(observation)
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step the environment, see `gymnasium.Env.step`."""
        is_watching = self._is_watching()
        if is_watching or self._last is not None:
            returned = self._step_and_check(action, is_watching=is_watching)
        else:
            returned = self.env.step(action)
        self._steps, self._t, self._ended = self._steps + 1, self._t + 1, _has_ended(returned)
        self._before = self._copy_of_last(returned[0])
        return returned

    def _step_and_check(
        self, action: Any, *, is_watching: bool
    ) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        last = self._as_receiver_left_it()
        own = copy_tree(action) if is_watching else None
        returned = self.env.step(action)
        changed = _changes(last)
        # A wrapper such as Autoreset returns the first observation of the next episode: not a step.
        is_reset = self._ended and not _has_ended(returned)
        if is_watching and not is_reset:
            self._last = StepRecord.of((self._episode, self._t), self._before, own, action, returned)
            self._watch(self._last, changed)
        else:
            self._note(changed)
        return returned

    def report(self) -> Report:
        """Return the findings so far."""
        self._judge_held()
        experiments = tuple(rule.code for rule in RULES.values() if not rule.passive)
        return Report(
            name_of(self),
            seed=None,
            steps=self._steps,
            episodes=self._episode + 1,
            successes=self._successes,
            findings=tuple(errors_first(without_implied(list(self._findings.values())))),
            not_exercised=(NotExercised("only check_goal_env experiments", experiments),),
        )

    def _is_watching(self) -> bool:
        return self._steps < WATCHED_CLOSELY or self._steps % STRIDE == 0

    def close(self) -> None:
        """Judge the steps that are left, and close the environment."""
        self._judge_held()
        super().close()

    def _as_receiver_left_it(self) -> ResetRecord | StepRecord | None:
        """Return the last record with new copies, to compare after the next call of the environment."""
        last, self._last = self._last, None
        if last is None:
            return None
        return replace(last, observation=copy_tree(last.live_observation), info=copy_tree(last.live_info))

    def _copy_of_last(self, observation: Any) -> Any:
        """Return a copy of the observation just returned, if the next step is checked."""
        if self._last is not None:
            return self._last.observation
        return copy_tree(observation) if self._is_watching() else None

    def _watch(self, step: StepRecord, changed: list[Finding]) -> None:
        if self._steps < WATCHED_CLOSELY:
            self._judge([], [step], changed)
            return
        self._note(changed)
        self._held.append(step)
        if len(self._held) == HELD:
            self._judge_held()

    def _judge_held(self) -> None:
        if self._held:
            held, self._held = self._held, []
            self._judge([], held, [])

    def _judge(self, resets: list[ResetRecord], steps: list[StepRecord], changed: list[Finding]) -> None:
        """Apply the passive rules to a reset or to steps."""
        rollout = Rollout(resets, steps)
        with quiet():
            evidence = WindowEvidence(
                self.env, self.observation_space, rollout, *self._probes, relabels=False, seen=self._rewards
            )
            if resets:  # once an episode, since this is the costliest look
                evidence.state = arrays_in(self.env.unwrapped)
            self._rewards.add(evidence)
            rules = CLOSE_RULES if self._steps < WATCHED_CLOSELY else LASTING_RULES
            findings = apply(rules, evidence)
        self._successes += sum(evidence.reached)
        self._note(findings + changed)

    def _note(self, findings: list[Finding]) -> None:
        for finding in without_implied(findings):
            key = (finding.code, finding.subject)
            known = self._findings.get(key)
            if known is None:
                self._findings[key] = finding
                warn_user(str(finding))
            else:
                self._findings[key] = replace(known, count=known.count + finding.count)


def _changes(record: ResetRecord | StepRecord | None) -> list[Finding]:
    """Return the findings if the live objects of a record differ from their copies."""
    if record is None:
        return []
    rollout = Rollout([record], []) if isinstance(record, ResetRecord) else Rollout([], [record])
    return findings_of(CHANGES_LATER, Evidence(None, spaces.Dict(), rollout, None))


def _has_ended(returned: tuple[Any, ...]) -> bool:
    return _is_true(returned[2]) or _is_true(returned[3])


def _is_true(flag: Any) -> bool:
    return flag if isinstance(flag, bool) else bool(np.any(np.asarray(flag, dtype=object)))


class _RewardsSeen:
    """The different rewards of all steps so far."""

    def __init__(self) -> None:
        self.values: list[float] = []
        self.of_success: float | None = None

    def add(self, evidence: Evidence) -> None:
        """Add the rewards of the steps, and at first that of a goal with itself."""
        if not evidence.recomputed:  # without goals, or without steps
            return
        for step, answer in zip(evidence.steps, evidence.recomputed, strict=True):
            if self.of_success is None and evidence.reward is not None:
                achieved = step.observation["achieved_goal"]
                self.of_success = evidence.reward(achieved, achieved, step.info).number
                self._add(self.of_success)
            self._add(answer.number)

    def _add(self, number: float | None) -> None:
        if number is None or len(self.values) > 2 or any(close(number, value) for value in self.values):
            return
        self.values.append(number)


@dataclass(eq=False)
class WindowEvidence(Evidence):
    """Evidence of the records since the last judgment, with the reward values of all earlier records."""

    seen: _RewardsSeen = field(default_factory=_RewardsSeen)

    def missing(self, need: str) -> str:
        """Return why something that a rule needs is missing; a reset alone can show a wrong success flag."""
        if need == "sparse" and self.has_goals and self.is_sparse:
            return ""
        return super().missing(need)

    @property
    def reward_values(self) -> list[float]:
        """Up to three different finite rewards of all records so far."""
        return self.seen.values

    @property
    def success_reward(self) -> float | None:
        """Reward of a goal with itself."""
        return self.seen.of_success
