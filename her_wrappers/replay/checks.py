"""EpisodeChecks: warnings of situations in which relabeling recorded episodes gives wrong transitions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from her_wrappers.goal_in_observation import find_goal_in_observation
from her_wrappers.goal_interface import GOAL_KEYS
from her_wrappers.recording.episodes import Episodes
from her_wrappers.replay.relabeling import Bools, Relabeler, remedy_for_infos
from her_wrappers.replay.rows import FIRST, RowStorage
from her_wrappers.success_flag import FLAG_NAMES
from her_wrappers.trees import NUMBERS, leaf_arrays
from her_wrappers.user_warning import warn_user

CHECKED_EPISODES = 4  # number of episodes that are checked from each power of two on
BLOCK_EPISODES = 10  # number of these episodes if they are added in one call
STORED_EPISODES = 32  # most episodes that are compared with each other
STORED_BYTES = 2**22  # largest size of these episodes
TOLERANCE = 1e-4  # relative and absolute, of rewards: observations may be rounded to float32
MAX_COMPONENTS = 256  # most components that are compared of a part of a goal, such as an image
JUMP = 3.0  # a change in one step is a jump if it is this many times the largest other change


class EpisodeChecks:
    """Checks the first episodes, and a few more after 2, 4, 8, ... episodes; each check warns once."""

    def __init__(self, relabeler: Relabeler) -> None:
        self._relabeler = relabeler
        self.subject = ""  # first words of each warning
        self._added = 0  # number of episodes
        self._agreed = 0  # number of checked episodes with correct rewards
        self.warned: set[str] = set()  # names of checks

    def inspect(self, episodes: Episodes) -> None:
        """Check new episodes by calling the goal functions; raise ValueError if a result is not valid."""
        before = self._added
        power = 1 << before.bit_length() >> 1  # the last one up to `before`
        begin = 0 if before - power < CHECKED_EPISODES else 2 * power - before
        self.warn_of_kept_terminations(episodes)
        if begin < len(episodes):
            part = episodes[begin : begin + BLOCK_EPISODES]
            self._compare_rewards(part)
            self._find_missing_terminations(part)
        self._added += len(episodes)

    def inspect_stored(self, storage: RowStorage, added: int) -> None:
        """Check the newest episodes together, if the last ``added`` episodes include number 2, 8, 32, ..."""
        before = self._added - added
        if self._added.bit_length() // 2 == before.bit_length() // 2:
            return
        ends = np.append(np.unique(storage.stored_runs()[:, FIRST]), storage.stored.end)
        ends = ends[-STORED_EPISODES - 1 :]
        row = sum(matrix.width * matrix.dtype.itemsize for matrix in storage.matrices)
        ends = ends[ends >= ends[-1] - STORED_BYTES // max(row, 1)]
        if len(ends) < 3:
            return
        episodes, goal_independent = storage.read_episodes(int(ends[0]), int(ends[-1]))
        with np.errstate(all="ignore"):  # recorded numbers may be infinite or NaN
            try:
                at_goal = self._are_at_goals(episodes)
            except Exception:  # the episodes are stored already, and a batch will raise again
                return
            self._find_ends_at_goals(episodes, goal_independent, at_goal)
            self._find_jumps(episodes)
            if before >= STORED_EPISODES:  # an environment either has goals in all observations or never
                return
            clause = find_goal_in_observation(
                episodes.observations, np.arange(len(episodes)).repeat(episodes.lengths + 1)
            )
            if clause:
                self._warn(
                    "goal in observation",
                    f"{clause}, and relabeling does not change it, so observations of relabeled transitions "
                    "contradict their new goals; leave such values out of the observation: agents get the "
                    "desired goal anyway",
                )

    def warn_of_kept_terminations(self, episodes: Episodes) -> None:
        """Warn if episodes end at their goals, and the user has chosen no rule for terminations."""
        terminated = episodes.terminated
        is_chosen = self._relabeler.termination != "keep by default"
        if is_chosen or not terminated.any() or "kept terminations" in self.warned:
            return
        if self._are_at_goals(episodes, episodes.ends[1:][terminated] - 1).any():
            self._warn(
                "kept terminations",
                "an episode terminated at its goal, but relabeled steps that achieve theirs do not "
                'terminate; pass termination="success" (sparse rewards), "recompute" (with '
                'compute_terminated), a function, or "keep" to keep the recorded terminations without '
                "this warning",
            )

    def _are_at_goals(self, episodes: Episodes, steps: NDArray[np.intp] | None = None) -> Bools:
        """Return which steps get the same reward if their achieved goal becomes their desired goal."""
        pair = (self._relabeler.rewards_of(episodes, key, steps) for key in ("desired_goal", "achieved_goal"))
        return np.equal(*pair)

    def _compare_rewards(self, episodes: Episodes) -> None:
        """Warn if recorded rewards differ from the computed rewards."""
        name, recorded = self._relabeler.reward_name, episodes.rewards.astype(np.float32)
        computed = self._relabeler.rewards_of(episodes, "desired_goal")
        with np.errstate(all="ignore"):
            agree = np.abs(recorded - computed) <= TOLERANCE * (1 + np.abs(computed))
        if agree.all():
            self._agreed += len(episodes)
            return
        if "rewards" in self.warned:
            return
        i = int(agree.argmin())
        keys = set(self._relabeler.missing_infos(name, episodes)) - set(FLAG_NAMES)
        if keys:
            cause = f"{name} reads infos that this buffer does not store; {remedy_for_infos(keys)}"
        elif _changes(episodes.observations["desired_goal"], episodes.state_of_step[[i]]).any():
            cause = (
                "the desired goal changed in this step, so likely the step is a reset, such as that of "
                f"gymnasium.wrappers.Autoreset, or {name} was called with the former goal"
            )
        elif self._agreed >= BLOCK_EPISODES:
            cause = (
                f"both agreed in {self._agreed} earlier episodes; likely causes are an environment that was "
                f"changed since (a curriculum, set_attr(), call()) while {name} belongs to a local copy "
                f"(AsyncVectorEnv) or to the first environment, or a rare cost outside of {name}; pass "
                "compute_reward= a function that follows the change"
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
            f"step {_step(episodes, i)} of an episode has the reward {recorded[i]:g}, but {name} returns "
            f"{computed[i]:g}, as it will for relabeled steps; {cause}",
        )

    def _find_missing_terminations(self, episodes: Episodes) -> None:
        """Warn if episodes continue where ``compute_terminated`` returns True."""
        if self._relabeler.termination != "recompute" or "missing terminations" in self.warned:
            return
        expected = self._relabeler.terminated_by_goal(episodes, np.arange(len(episodes.rewards)))
        expected[episodes.ends[1:][episodes.terminated] - 1] = False
        if expected.any():
            self._warn(
                "missing terminations",
                f"step {_step(episodes, int(expected.argmax()))} of an episode did not terminate, but "
                "compute_terminated returns True, so relabeled steps terminate where recorded ones do not; "
                "likely a wrapper hides terminations, or attributes of the environments differ; make them "
                'agree, or pass termination= a function, or "never" if episodes do not end at their goals',
            )

    def _find_ends_at_goals(self, episodes: Episodes, goal_independent: Bools, at_goal: Bools) -> None:
        """Warn if episodes end once they achieve their goals, but relabeled transitions do not terminate."""
        ends_at_goal = at_goal[episodes.ends[1:] - 1]
        if at_goal.sum() > ends_at_goal.sum():  # success does not end episodes: some continue at their goals
            return
        count, contradicts = len(episodes), ends_at_goal & episodes.terminated & goal_independent
        if self._relabeler.termination == "recompute" and contradicts.sum() >= 3:
            keys = self._relabeler.missing_infos("compute_terminated", episodes)
            fix = (
                f"it reads infos: {remedy_for_infos(keys)}"
                if keys
                else 'pass termination="success" (sparse rewards) or a function if episodes end on success, '
                "for example by a wrapper"
            )
            self._warn(
                "terminations",
                f"{contradicts.sum()} of {count} episodes terminated at their goals, but "
                f"compute_terminated returns False there, so relabeled successes do not terminate; {fix}",
            )
        is_cut = ends_at_goal & episodes.truncated & ~episodes.terminated
        if is_cut.sum() >= 3 and len(np.unique(episodes.lengths[is_cut])) > 1:
            self._warn(
                "truncations",
                f"{is_cut.sum()} of {count} episodes were truncated as soon as they achieved their "
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
            numbers = before - np.arange(len(before))  # number of each step's episode
            i = int((jumps if jumps.any() else larger).argmax())
            self._warn(
                "jumps",
                f"at step {_step(episodes, i)} of an episode the desired goal changed and the achieved goal "
                f"jumped by {achieved[i].max():g} (usual: up to {usual[achieved[i].argmax()]:g}), as in "
                f"{len(np.unique(numbers[larger]))} of {len(episodes)} episodes; such episodes contain a "
                "reset; likely causes are evaluation in the training environment, one environment object in "
                "several slots, a reset within step() or gymnasium.wrappers.Autoreset (put EpisodeRecorder "
                "inside of it); record each episode separately",
            )

    def _warn(self, check: str, message: str) -> None:
        if check not in self.warned:
            self.warned.add(check)
            warn_user(self.subject + message)


def _step(episodes: Episodes, i: int) -> int:
    """Return the number of a step in its episode, given its index among the steps of all episodes."""
    return i - int(episodes.ends[episodes.state_of_step[i] - i])


def _changes(tree: Any, before: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return how much each component of a tree of states changes in each step."""
    leaves = [leaf.reshape(len(leaf), -1) for leaf in leaf_arrays(tree) if leaf.dtype.kind in NUMBERS]
    parts = [leaf[:, :: leaf.shape[1] // MAX_COMPONENTS + 1] for leaf in leaves]
    values = np.concatenate([np.zeros((len(leaves[0]), 1)), *parts], 1)
    changes: NDArray[np.float64] = np.nan_to_num(np.abs(values[before + 1] - values[before]))
    return changes
