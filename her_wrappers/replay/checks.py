"""EpisodeChecks: warnings of situations in which relabeling recorded episodes gives wrong transitions."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from her_wrappers.arguments import require_count
from her_wrappers.files import Json
from her_wrappers.goal_in_observation import find_goal_in_observation
from her_wrappers.goal_interface import GOAL_KEYS
from her_wrappers.recording.episodes import Episodes
from her_wrappers.replay.relabeling import Bools, Relabeler, remedy_for_infos, watched_keys
from her_wrappers.replay.rows import FIRST, RowStorage
from her_wrappers.success_flag import FLAG_NAMES
from her_wrappers.trees import NUMBERS, leaf_arrays
from her_wrappers.user_warning import warn_user

FIRST_EPISODES = 10  # number of episodes at the begin of which each is checked
LATER_EPISODES = 4  # number of episodes that are checked from each power of two on
STORED_EPISODES = 32  # most episodes that are compared with each other
STORED_BYTES = 2**22  # most bytes of them
TOLERANCE = 1e-4  # relative and absolute, of rewards: observations may be rounded to float32
MAX_COMPONENTS = 256  # of a part of a goal, such as an image, that are compared
JUMP = 3.0  # size of a jump, in sizes of the largest other change of a state in a step


class EpisodeChecks:
    """Checks the first episodes, and then a few at powers of two; each check warns once."""

    def __init__(self, relabeler: Relabeler) -> None:
        self._relabeler = relabeler
        self.reset()

    def reset(self) -> None:
        """Forget all episodes and warnings."""
        self.state: dict[str, Json] = {"added": 0, "stored": 4, "agreed": 0, "warned": []}
        self._messages: list[str] = []

    def load_state(self, saved: dict[str, Json]) -> None:
        """Restore `state` and the state of the relabeler."""
        self._relabeler.load_state(saved)
        state = saved["checks"]
        for name in ("added", "stored", "agreed"):
            require_count(name, state[name], at_least=0)
        self.state = {name: state[name] for name in self.state} | {"warned": list(map(str, state["warned"]))}

    def inspect(self, episodes: Episodes) -> None:
        """Compare new episodes with the functions; raise ValueError if a function returns a wrong result."""
        before, count = self.state["added"], len(episodes)
        power = 1 << before.bit_length()  # the first one above `before`
        part = None
        if before < FIRST_EPISODES:
            part = episodes[: FIRST_EPISODES - before]
        elif before >= 16 and before - power // 2 < LATER_EPISODES:
            part = episodes[: LATER_EPISODES - before + power // 2]
        elif before + count > power:
            part = episodes[power - before : power - before + LATER_EPISODES]
        self._find_kept_terminations(episodes)
        if part is not None:
            self._compare_rewards(part)
            self._find_missing_terminations(part)
        self.state["added"] = before + count
        self._emit()

    def inspect_stored(self, storage: RowStorage) -> None:
        """Compare the newest stored episodes with each other, after 4, 8, 32, 128, .. episodes."""
        if self.state["added"] < self.state["stored"]:
            return
        self.state["stored"] = 8 if self.state["added"] < 8 else 32
        while self.state["stored"] <= self.state["added"]:
            self.state["stored"] *= 4
        with contextlib.suppress(Exception):  # the episodes are stored already, and a batch will raise again
            self._compare_stored(storage)
        self._emit()

    def _compare_stored(self, storage: RowStorage) -> None:
        ends = np.append(np.unique(storage.stored_runs()[:, FIRST]), storage.stored.end)
        row = sum(matrix.width * matrix.dtype.itemsize for matrix in storage.matrices)
        ends = ends[-STORED_EPISODES - 1 :]
        ends = ends[ends >= ends[-1] - STORED_BYTES // max(row, 1)]
        if len(ends) < 3:
            return
        episodes, goal_independent = storage.read_episodes(int(ends[0]), int(ends[-1]))
        self._find_ends_at_goals(episodes, goal_independent)
        self._find_jumps(episodes)
        number = np.arange(len(episodes)).repeat(episodes.lengths + 1)
        clause = find_goal_in_observation(episodes.observations, number)
        if clause:
            self._warn(
                "goal in observation",
                f"{clause}, and relabeling does not change it: the observations of relabeled transitions "
                "contradict their goals; leave such values out of the observation, since agents get the "
                "desired goal as well",
            )

    def warn_of_kept_terminations(self, episodes: Episodes) -> None:
        """Warn if episodes end at their goals, and the user has chosen no rule for terminations."""
        self._find_kept_terminations(episodes)
        self._emit()

    def _find_kept_terminations(self, episodes: Episodes) -> None:
        terminated = episodes.terminated
        is_chosen = self._relabeler.termination != "keep by default"
        if is_chosen or not terminated.any() or "kept terminations" in self.state["warned"]:
            return
        if self._is_at_goal(episodes, episodes.ends[1:][terminated] - 1).any():
            self._warn(
                "kept terminations",
                "an episode terminated at its goal, but relabeled steps that achieve theirs do not "
                'terminate; pass termination="success" (sparse rewards), "recompute" (with '
                'compute_terminated), a function, or "keep" to keep the recorded terminations without '
                "this warning",
            )

    def _is_at_goal(self, episodes: Episodes, steps: NDArray[np.intp] | None = None) -> Bools:
        """Return after which steps the goal is achieved: another goal would not give another reward."""
        pair = (self._relabeler.rewards_of(episodes, key, steps) for key in ("desired_goal", "achieved_goal"))
        return np.equal(*pair)

    def _compare_rewards(self, episodes: Episodes) -> None:
        """Warn if recorded rewards differ from the computed rewards."""
        name, recorded = self._relabeler.reward_name, episodes.rewards.astype(np.float32)
        with watched_keys() as missing:
            computed = self._relabeler.rewards_of(episodes, "desired_goal")
            keys = sorted(missing - set(FLAG_NAMES))
        agree = np.isclose(recorded, computed, rtol=TOLERANCE, atol=TOLERANCE)
        if agree.all():
            self.state["agreed"] += len(episodes)
            return
        i = agree.argmin()
        t = i - episodes.ends[episodes.state_of_step[i] - i]
        changes = _changes(episodes.observations["desired_goal"], episodes.state_of_step[[i]])
        if keys:
            cause = f"{name} reads infos that this buffer does not store; {remedy_for_infos(keys)}"
        elif changes.any():
            cause = (
                "the desired goal changed in this step, so likely the step is a reset, such as that of "
                f"gymnasium.wrappers.Autoreset, or {name} was called with the former goal"
            )
        elif self.state["agreed"] >= FIRST_EPISODES:
            cause = (
                f"they agreed in {self.state['agreed']} earlier episodes; likely causes are an environment "
                f"that changed since, by a curriculum, set_attr() or call(), while {name} belongs to a local "
                "copy (AsyncVectorEnv) or to the first environment; or a rare cost outside of "
                f"{name}; pass compute_reward= a function that follows the change"
            )
        else:
            cause = (
                f"likely causes are a reward wrapper, a cost outside of {name}, a reward that depends on the "
                "info (pass info_keys=; Stable-Baselines3: copy_info_dict=True), or attributes that were "
                "set in the environments and not in the one "
                f"whose {name} is called: the first one, or a local copy (AsyncVectorEnv)"
            )
        self._warn(
            "rewards",
            f"step {t} of an episode has the reward {recorded[i]:g}, but {name} returns {computed[i]:g}, "
            f"as it will for relabeled steps; {cause}",
        )

    def _find_missing_terminations(self, episodes: Episodes) -> None:
        """Warn if episodes continue where ``compute_terminated`` returns True."""
        if self._relabeler.termination != "recompute" or "missing terminations" in self.state["warned"]:
            return
        expected = self._relabeler.terminated_by_goal(episodes, np.arange(len(episodes.rewards)))
        expected[episodes.ends[1:][episodes.terminated] - 1] = False
        if expected.any():
            i = expected.argmax()
            t = i - episodes.ends[episodes.state_of_step[i] - i]
            self._warn(
                "missing terminations",
                f"step {t} of an episode did not terminate, but compute_terminated returns True, so "
                "relabeled steps terminate where recorded ones do not; likely a wrapper hides "
                "terminations, or attributes of the environments differ; make them agree, or pass "
                'termination= a function, or "never" if episodes do not end at their goals',
            )

    def _find_ends_at_goals(self, episodes: Episodes, goal_independent: Bools) -> None:
        """Warn if episodes end exactly at their goals, and relabeled ones do not."""
        last = episodes.ends[1:] - 1
        is_end = np.zeros(len(episodes.rewards), np.bool_)
        is_end[last] = True
        at_goal = self._is_at_goal(episodes)
        if at_goal[~is_end].any():
            return
        at_goal = at_goal[last]
        contradicts = at_goal & episodes.terminated & goal_independent
        if self._relabeler.termination == "recompute" and contradicts.sum() >= 3:
            with watched_keys() as missing:
                self._relabeler.terminated_by_goal(episodes, last)
                keys = sorted(missing)
            fix = (
                f"it reads infos: {remedy_for_infos(keys)}"
                if keys
                else 'pass termination="success" (sparse rewards) or a function if episodes end on success, '
                "for example by a wrapper"
            )
            self._warn(
                "terminations",
                f"{contradicts.sum()} of {len(last)} episodes terminated at their goals, but "
                f"compute_terminated returns False there, so relabeled successes do not terminate; {fix}",
            )
        is_cut = at_goal & episodes.truncated & ~episodes.terminated
        if is_cut.sum() >= 3 and len(np.unique(episodes.lengths[is_cut])) > 1:
            self._warn(
                "truncations",
                f"{is_cut.sum()} of {len(last)} episodes were truncated as soon as they achieved their "
                "goals, so values are estimated beyond the end; return terminated=True if the task ends "
                "at the goal",
            )

    def _find_jumps(self, episodes: Episodes) -> None:
        """Warn if the desired goal changes in a step in which the achieved goal jumps."""
        before = episodes.state_of_step
        achieved, desired = (_changes(episodes.observations[key], before) for key in GOAL_KEYS[1:])
        is_new = desired.max(1) > 0
        if is_new.mean() > 0.5:  # goals that always move: only large changes count
            scale = np.quantile(desired, 0.9, axis=0)
            is_new = (desired > JUMP * scale + 1e-9).any(1)
        if not is_new.any() or is_new.all():
            return
        usual = achieved[~is_new].max(0)
        jumps = is_new & (achieved > JUMP * usual + 1e-6 * achieved.max(0)).any(1)
        larger = is_new & (achieved > 1.2 * usual + 1e-6 * achieved.max(0)).any(1)
        if jumps.any() or (larger.sum() >= 3 and larger.sum() > 0.5 * is_new.sum()):
            i = (jumps if jumps.any() else larger).argmax()
            numbers = before - np.arange(len(before))
            t = i - episodes.ends[numbers[i]]
            self._warn(
                "jumps",
                f"at step {t} of an episode the desired goal changed and the achieved goal jumped, by up to "
                f"{achieved[i].max():g} instead of {usual[achieved[i].argmax()]:g}, in "
                f"{len(np.unique(numbers[larger]))} of {len(episodes)} episodes: such episodes contain a "
                "reset; likely causes are evaluation in the training environment, one environment object in "
                "several slots, a reset within step() or gymnasium.wrappers.Autoreset (put EpisodeRecorder "
                "inside of it); record each episode by itself",
            )

    def _warn(self, check: str, message: str) -> None:
        if check not in self.state["warned"]:
            self.state["warned"] = [*self.state["warned"], check]
            self._messages.append(message)

    def _emit(self) -> None:
        """Emit the warnings, after all states are set, since a filter may turn warnings into errors."""
        messages, self._messages = self._messages, []
        for message in messages:
            warn_user(message)


def _changes(tree: Any, before: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return how much each component of a tree of states changes in each step."""
    leaves = [leaf.reshape(len(leaf), -1) for leaf in leaf_arrays(tree) if leaf.dtype.kind in NUMBERS]
    parts = [leaf[:, :: leaf.shape[1] // MAX_COMPONENTS + 1] for leaf in leaves]
    values = np.concatenate([np.zeros((len(leaves[0]), 1)), *parts], 1)
    with np.errstate(invalid="ignore"):
        changes: NDArray[np.float64] = np.nan_to_num(np.abs(values[before + 1] - values[before]))
    return changes
