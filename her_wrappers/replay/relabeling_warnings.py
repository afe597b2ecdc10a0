"""EpisodeChecks: warnings if relabeling would make wrong transitions from the recorded episodes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from her_wrappers.data.trees import NUMBERS, leaf_arrays
from her_wrappers.goals.functions import rewards_agree
from her_wrappers.goals.in_observation import find_goal_in_observation
from her_wrappers.goals.interface import OBSERVATION_KEYS
from her_wrappers.goals.success_flag import FLAG_NAMES
from her_wrappers.recording.episodes import Episodes
from her_wrappers.replay.relabeling import Bools, Relabeler, follows_recorded
from her_wrappers.replay.rows import RowStorage
from her_wrappers.support.user_warning import warn_user

CHECKED_EPISODES = 4  # from each power of two on, this number of episodes is checked
BLOCK_EPISODES = 10  # maximum number of checked episodes per call that adds episodes
STORED_EPISODES = 32  # maximum number of episodes that are compared with each other
STORED_BYTES = 2**22  # maximum size of these episodes in bytes
MAX_COMPONENTS = 256  # maximum number of compared components of one part of a goal, such as an image
JUMP = 3.0  # a change in one step is a jump if it is this many times the largest other change


class EpisodeChecks:
    """Checks the first added episodes and a decreasing share of later ones; warns once of each problem."""

    def __init__(self, relabeler: Relabeler) -> None:
        self._relabeler = relabeler
        self.subject = ""  # first words of each warning
        self.num_added = 0  # number of added episodes
        self.warned: set[str] = set()  # names of checks

    def inspect(self, episodes: Episodes) -> None:
        """Compare some of the new ``episodes`` with the results of the goal functions, and warn of errors."""
        before = self.num_added
        power = 1 << before.bit_length() >> 1  # the last one up to `before`
        begin = 0 if before - power < CHECKED_EPISODES else 2 * power - before
        self.warn_of_kept_terminations(episodes)
        if begin < len(episodes):
            part = episodes[begin : begin + BLOCK_EPISODES]
            self._compare_rewards(part)
            self._find_missing_terminations(part)
        self.num_added += len(episodes)

    def inspect_stored(self, storage: RowStorage, added: int) -> None:
        """Check the newest stored episodes, at most 32, when the number of added ones passes 2, 8, 32, ..."""
        before = self.num_added - added
        if self.num_added.bit_length() // 2 == before.bit_length() // 2:
            return
        firsts = storage.episode_firsts()[-STORED_EPISODES - 1 :]
        firsts = firsts[firsts >= firsts[-1] - STORED_BYTES // max(storage.row_size, 1)]
        if len(firsts) < 3:
            return
        episodes, goal_independent = storage.read_episodes(int(firsts[0]), int(firsts[-1]))
        with np.errstate(all="ignore"):  # recorded numbers may be infinite or NaN
            try:
                at_goal = self.are_at_goals(episodes)
            except Exception:  # the episodes are stored already, and a batch will raise again
                return
            self._find_ends_at_goals(episodes, goal_independent, at_goal)
            self._find_jumps(episodes)
            if before >= STORED_EPISODES:  # an environment either has goals in all observations or never
                return
            episode_of_state = np.arange(len(episodes)).repeat(episodes.lengths + 1)
            if clause := find_goal_in_observation(episodes.observations, episode_of_state):
                self._warn(
                    "goal in observation",
                    f"{clause}, but relabeling does not change the observation, so the observation of a "
                    "relabeled transition contradicts its new goal; leave such values out of the "
                    "observation, since agents get the desired goal anyway",
                )

    def warn_of_kept_terminations(self, episodes: Episodes) -> None:
        """Warn if an episode terminates at its goal, and the user did not choose a rule for terminations."""
        terminated = episodes.terminated
        is_chosen = self._relabeler.rule.is_chosen
        if is_chosen or not terminated.any() or "kept terminations" in self.warned:
            return
        if self.are_at_goals(episodes, episodes.ends[1:][terminated] - 1).any():
            self._warn(
                "kept terminations",
                "an episode terminated at its goal, but relabeled steps that achieve their new goal do not "
                'terminate; pass termination="success" (sparse rewards), "recompute" (with '
                'compute_terminated), a function, or "keep" to keep the recorded terminations without '
                "this warning",
            )

    def are_at_goals(self, episodes: Episodes, steps: NDArray[np.intp] | None = None) -> Bools:
        """Return whether each step has the same reward if its achieved goal replaces its desired goal."""
        pair = (self._relabeler.rewards_of(episodes, key, steps) for key in ("desired_goal", "achieved_goal"))
        return np.equal(*pair)

    def _compare_rewards(self, episodes: Episodes) -> None:
        """Warn if recorded rewards differ from those that the reward function computes."""
        name, recorded = self._relabeler.reward_name, episodes.rewards.astype(np.float32)
        computed = self._relabeler.rewards_of(episodes, "desired_goal")
        with np.errstate(all="ignore"):
            agree = rewards_agree(recorded, computed)
        if agree.all() and "recorded outcome" not in self.warned:
            self._find_recorded_outcome(episodes, computed)
        if agree.all() or "rewards" in self.warned:
            return
        i = int(agree.argmin())
        self._warn(
            "rewards",
            f"step {_step(episodes, i)} of an episode has the reward {recorded[i]:g}, but {name} returns "
            f"{computed[i]:g}, and relabeled steps get rewards from {name}; likely causes: a step that is a "
            "reset, such as that of gymnasium.wrappers.Autoreset, a reward for the goal before it changed, a "
            f"reward wrapper, a cost that {name} leaves out, a reward that depends on the info (pass "
            "info_keys= to the buffer; Stable-Baselines3: copy_info_dict=True; `her train`: --info-keys), or "
            "attributes that were set or changed (a curriculum, set_attr(), call()) in other environments "
            f"than the one whose {name} is called (the first, or a local copy for AsyncVectorEnv)",
        )

    def _find_recorded_outcome(self, episodes: Episodes, computed: NDArray[np.float32]) -> None:
        """Warn if the function returns recorded rewards or reads the success flag, both of the old goal."""
        flags = {
            name: (episodes.infos[name] == 0).astype(episodes.infos[name].dtype)
            for name in FLAG_NAMES
            if name in episodes.infos
        }
        is_batch = self._relabeler.reward_name == "reward_fn"
        if not (is_batch or flags):
            return
        changed = replace(episodes, rewards=episodes.rewards + 1, infos=episodes.infos | flags)
        try:
            rewards = self._relabeler.rewards_of(changed, "desired_goal")
        except Exception:  # of a function that does not expect these values
            return
        follows = rewards_agree(rewards, computed + 1).all() if is_batch else (rewards != computed).any()
        if follows:
            self._warn("recorded outcome", follows_recorded(self._relabeler.reward_name, list(flags)))

    def _find_missing_terminations(self, episodes: Episodes) -> None:
        """Warn if a recorded step did not terminate, but a relabeled step with this outcome would."""
        rule = self._relabeler.rule
        if rule.mode not in {"recompute", "success"} or "missing terminations" in self.warned:
            return
        if rule.mode == "success":
            if "recorded outcome" in self.warned:  # then rewards do not show whether a step is at its goal
                return
            expected = self.are_at_goals(episodes)
            expected[episodes.ends[1:] - 1] = False  # a truncated step at its goal has a warning of its own
            cause = 'is at its goal, and with termination="success" relabeled steps terminate there'
            fix = "If episodes do not end at their goals, leave termination= out"
        else:
            expected = self._relabeler.terminated_by_goal(episodes, np.arange(len(episodes.rewards)))
            expected[episodes.ends[1:][episodes.terminated] - 1] = False
            cause = f"{rule.name} returns True, so relabeled steps terminate where recorded steps do not"
            fix = (
                "Likely a wrapper hides terminations, or the recorded environment has other attributes than "
                f"the one whose {rule.name} is called. Correct this, or pass a function as "
                'termination=, or termination="never" if episodes do not end at their goals'
            )
        if expected.any():
            i = int(expected.argmax())
            self._warn(
                "missing terminations",
                f"step {_step(episodes, i)} of an episode did not terminate, but {cause}. {fix}",
            )

    def _find_ends_at_goals(self, episodes: Episodes, goal_independent: Bools, at_goal: Bools) -> None:
        """Warn if success truncates episodes, or terminates them although ``compute_terminated`` is False."""
        ends_at_goal = at_goal[episodes.ends[1:] - 1]
        if at_goal.sum() > ends_at_goal.sum():  # success does not end episodes: some continue at their goals
            return
        count, contradicts = len(episodes), ends_at_goal & episodes.terminated & goal_independent
        if self._relabeler.rule.mode == "recompute" and contradicts.sum() >= 3:
            self._warn(
                "terminations",
                f"{contradicts.sum()} of {count} episodes terminated at their goals, but "
                f"{self._relabeler.rule.name} returns False there, so relabeled successes do not terminate; "
                "if it reads the info, pass info_keys=; if episodes end on success, for example "
                'because of a wrapper, pass termination="success" (sparse rewards) or a function as '
                "termination=",
            )
        is_cut = ends_at_goal & episodes.truncated & ~episodes.terminated
        if is_cut.sum() >= 3 and len(np.unique(episodes.lengths[is_cut])) > 1:
            self._warn(
                "truncations",
                f"{is_cut.sum()} of {count} episodes were truncated as soon as they achieved their "
                "goals, so learners bootstrap beyond the end; if the task ends at the goal, return "
                "terminated=True from step()",
            )

    def _find_jumps(self, episodes: Episodes) -> None:
        """Warn if a step changes the desired goal and makes the achieved goal jump, as a reset would."""
        before = episodes.state_of_step
        achieved, desired = (_changes(episodes.observations[key], before) for key in OBSERVATION_KEYS[1:])
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
                f"{len(np.unique(numbers[larger]))} of {len(episodes)} episodes contain a reset: at step "
                f"{_step(episodes, i)}, the desired goal changed and the achieved goal jumped by "
                f"{achieved[i].max():g} (usually at most {usual[achieved[i].argmax()]:g}). Likely causes: "
                "evaluation in the training environment, one environment object in several slots of a vector "
                "environment, a reset within step(), or gymnasium.wrappers.Autoreset (put EpisodeRecorder "
                "inside of this wrapper)",
            )

    def _warn(self, check: str, message: str) -> None:
        if check not in self.warned:
            self.warned.add(check)
            warn_user(self.subject + message)


def _step(episodes: Episodes, i: int) -> int:
    """Return the number of a step within its episode; ``i`` is its index among the steps of all episodes."""
    return i - int(episodes.ends[episodes.state_of_step[i] - i])


def _changes(tree: Any, before: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return (n, K): the absolute changes, in n steps, of K - 1 numbers of a goal; column 0 is zeros."""
    leaves = [leaf.reshape(len(leaf), -1) for leaf in leaf_arrays(tree) if leaf.dtype.kind in NUMBERS]
    parts = [leaf[:, :: leaf.shape[1] // MAX_COMPONENTS + 1] for leaf in leaves]
    values = np.concatenate([np.zeros((len(leaves[0]), 1)), *parts], 1)
    changes: NDArray[np.float64] = np.nan_to_num(np.abs(values[before + 1] - values[before]))
    return changes
