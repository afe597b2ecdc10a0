"""GoalEnvChecker: checks an environment while it is in use."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np

from her_wrappers.checker.check import ignore_warnings
from her_wrappers.checker.comparing import arrays_in, to_arrays
from her_wrappers.checker.lab import GOAL_FUNCTIONS, REWARD, Lab, distinct
from her_wrappers.checker.records import ResetRecord, Rollout, StepRecord
from her_wrappers.checker.rules import GOAL_ENV_RULES
from her_wrappers.data.trees import copy_tree
from her_wrappers.goals.interface import GoalInterface, env_name, find_function
from her_wrappers.rules import Finding, NotExercised, Report, apply_rules
from her_wrappers.support.user_warning import warn_user

WATCHED_CLOSELY = 1000  # first steps that are all checked; resets are checked only during these steps
STRIDE = 40  # after the first `WATCHED_CLOSELY` steps, one in this number of steps is checked
CHANGES_LATER = GOAL_ENV_RULES["GE301"]  # this rule is applied after the next call of the environment
# Rules that are applied to each reset and step when it returns.
RULES = [rule for rule in GOAL_ENV_RULES.values() if rule.passive and rule is not CHANGES_LATER]


class GoalEnvChecker(gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs):
    """Checks an environment while it is used, and warns once for each finding.

    The wrapper checks each of the first 1000 steps, and the resets before and between them. From then on, it
    checks only every 40th step and no reset. The wrapper applies the rules that need no additional steps or
    relabeled goals. These rules find wrong spaces; rewards, success flags and terminations that contradict
    the goal functions; returned arrays that change later or share memory; and goals that change within an
    episode. The wrapper does not change the values that ``reset`` and ``step`` take and return.

    Args:
        env: A single goal environment, with any wrappers.

    Raises:
        TypeError: ``env`` is a vector environment, or its goal functions or goal spaces are invalid.
        ValueError: ``env`` is not a goal environment. `GoalInterface.of` has the details of both errors.

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
                f"env must be a single environment, got {type(env).__name__}; call "
                "check_goal_env(vector_env), or wrap each environment: "
                "SyncVectorEnv([lambda: GoalEnvChecker(make_env()), ...])"
            )
        gym.utils.RecordConstructorArgs.__init__(self)
        super().__init__(env)
        GoalInterface.of(env)
        found = {name: find_function(env, name) for name in GOAL_FUNCTIONS}
        self._functions = {name: function for name, function in found.items() if callable(function)}
        self._reward_values: list[float] = []  # different rewards of the checked steps, at most three
        self._success_reward: float | None = None  # reward if both goals are equal
        self._findings: dict[tuple[str, str], Finding] = {}
        self._last: ResetRecord | StepRecord | None = None
        self._before: Any = None  # a copy of the last observation if the next step is checked
        self._ended = False
        self._steps = self._successes = self._t = 0
        self._episode = -1

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset the environment; during the first 1000 steps, check the observation and info."""
        last = self._take_last_record()
        returned = self.env.reset(seed=seed, options=options)
        self._find_changes(last)
        self._episode, self._t, self._ended = self._episode + 1, 0, False
        if self._steps < WATCHED_CLOSELY:
            self._judge(ResetRecord.of(self._episode, seed, options, to_arrays(returned)))
        self._copy_for_next_step(returned[0])
        return returned

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step the environment; check each of the first 1000 steps, and then every 40th step."""
        is_checked, last = self._is_checked(), self._take_last_record()
        action_copy = copy_tree(to_arrays(action)) if is_checked else None
        returned = self.env.step(action)
        self._find_changes(last)
        has_ended = any(map(_is_true, returned[2:4]))
        # After an end, a wrapper such as Autoreset returns the first observation of the next episode.
        if is_checked and not (self._ended and not has_ended):
            arrays = to_arrays(action), to_arrays(returned)
            self._judge(StepRecord.of((self._episode, self._t), self._before, action_copy, *arrays))
        self._steps, self._t, self._ended = self._steps + 1, self._t + 1, has_ended
        self._copy_for_next_step(returned[0])
        return returned

    def report(self) -> Report:
        """Return a report of all findings so far. Successes are counted only in steps that were checked."""
        findings = GOAL_ENV_RULES.without_hidden(list(self._findings.values()))
        codes = tuple(rule.code for rule in GOAL_ENV_RULES.values() if not rule.passive)
        return Report(
            env_name(self),
            seed=None,
            steps=self._steps,
            episodes=self._episode + 1,
            successes=self._successes,
            findings=tuple(GOAL_ENV_RULES.in_order(findings)),
            not_exercised=(NotExercised("GoalEnvChecker does no experiments; call check_goal_env", codes),),
        )

    def _is_checked(self) -> bool:
        return self._steps < WATCHED_CLOSELY or self._steps % STRIDE == 0

    def _take_last_record(self) -> ResetRecord | StepRecord | None:
        """Return the last record; its values are copied again, so that changes by the user do not count."""
        last, self._last = self._last, None
        return last and replace(last, **copy_tree(last.live))

    def _find_changes(self, record: ResetRecord | StepRecord | None) -> None:
        """Add findings for objects in ``record`` that the environment changed after it had returned them."""
        if record is not None:
            self._add_findings(apply_rules([CHANGES_LATER], self._lab(record)))

    def _copy_for_next_step(self, observation: Any) -> None:
        if self._last is not None:
            self._before = self._last.observation
        else:
            self._before = copy_tree(to_arrays(observation)) if self._is_checked() else None

    def _lab(self, record: ResetRecord | StepRecord) -> Lab:
        rollout = Rollout([record]) if isinstance(record, ResetRecord) else Rollout([], [record])
        return Lab(self.observation_space, rollout, self._functions)

    def _judge(self, record: ResetRecord | StepRecord) -> None:
        """Apply the rules that need no experiments to a reset or a step, and store the findings."""
        self._last, lab = record, self._lab(record)
        with ignore_warnings():
            if isinstance(record, ResetRecord):  # once in an episode, since the search for arrays is slow
                lab.state = arrays_in(self.env.unwrapped)
            for result in lab.step_results(REWARD):
                if self._success_reward is None:
                    achieved = record.observation["achieved_goal"]
                    self._success_reward = lab.call(REWARD, achieved, achieved, record.info).number
                self._reward_values = distinct([*self._reward_values, self._success_reward, result.number])
            lab.reward_values, lab.success_reward = self._reward_values, self._success_reward
            findings = apply_rules(RULES, lab)
        self._successes += len(lab.successes)
        self._add_findings(findings)

    def _add_findings(self, findings: list[Finding]) -> None:
        """Store new findings that no other finding hides, and warn of them; count repeated findings."""
        known = self._findings
        judged = GOAL_ENV_RULES.without_hidden([*known.values(), *findings]) if findings else ()
        codes = {finding.code for finding in judged}
        for finding in findings:
            key = (finding.code, finding.subject)
            if key in known:
                known[key] = replace(known[key], count=known[key].count + finding.count)
            elif finding.code in codes:
                known[key] = finding
                warn_user(str(finding))


def _is_true(flag: Any) -> bool:
    return flag if isinstance(flag, bool) else bool(np.any(np.asarray(to_arrays(flag), dtype=object)))
