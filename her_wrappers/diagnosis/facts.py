"""Facts: numbers about recorded episodes, which are read in one pass, and about their run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from her_wrappers.diagnosis.action_effects import MIN_STEPS, action_effects
from her_wrappers.diagnosis.columns import MAX_GOAL_SIZE, columns_of, range_of, split_goals
from her_wrappers.recording.episode import Episode
from her_wrappers.recording.episodes import Episodes
from her_wrappers.rules import RuleSet, Severity

DIAGNOSIS_RULES = RuleSet(
    families="532416",
    chains=(
        # states and bounds of the recorded episodes, then rewards and successes
        ("GD511", "GD508", "GD509 GD512"),
        ("GD101 GD511", "GD501", "GD510"),
        ("GD509", "GD106"),
        ("GD512", "GD403", "GD402 GD404"),
        ("GD404", "GD405", "GD103"),
        ("GD304 GD512", "GD507", "GD203 GD204 GD207 GD208 GD210"),
        ("GD303 GD304", "GD302"),
        # exploration, then goals and horizons
        ("GD104", "GD101 GD504"),
        ("GD105 GD203", "GD101 GD102", "GD201 GD204"),
        ("GD201", "GD208 GD402", "GD103"),
        ("GD105", "GD401"),
        # metrics of learning
        ("GD502", "GD608"),
        ("GD204 GD401 GD402 GD602 GD609", "GD601", "GD605"),
        ("GD603 GD606 GD607", "GD605"),
    ),
)
"""All rules of the diagnosis. In a report, families with possible causes come before those with effects."""

rule = DIAGNOSIS_RULES.rule

FEW_EPISODES = 10  # smallest number of episodes for which rules judge shares of the episodes

SOLVED = 0.9
"""Success rate from which a run counts as solved; rules with the need "unsolved" then do not apply."""

SAMPLED_EPISODES = 200
"""Number of episodes, the first ones, in which effects of the desired goal and of actions are searched."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Facts:
    """Facts about n episodes (or 0) of T steps in total, with goals of G components, and about their run."""

    name: str  # of the target
    # The columns of the episodes; see `columns_of`
    lengths: np.ndarray  # (n,) int64, steps of each episode
    terminated: np.ndarray  # (n,) bool
    truncated: np.ndarray  # (n,) bool
    desired: np.ndarray  # (n, G) float64, desired goal of the first state
    starts: np.ndarray  # (n, G) float64, achieved goal of the first state
    finals: np.ndarray  # (n, G) float64, achieved goal of the last state
    moves: np.ndarray  # (n,) float64, largest distance of the achieved goal from that of the first state
    is_observation_moved: np.ndarray  # (n,) bool, whether the observation without goals ever changes
    start_distances: np.ndarray  # (n,) float64, distance of achieved and desired goal in the first state
    episode_hashes: np.ndarray  # (n,) int64, of the first observation without its goals, and all actions
    start_hashes: np.ndarray  # (n,) int64, of the first observation with its goals
    end_hashes: np.ndarray  # (n,) int64, of the last observation with its goals
    # The columns of the steps
    rewards: np.ndarray  # (T,) float32; 0 instead of NaN and infinity
    flags: np.ndarray  # (T,) int8, success flag of each step; -1 where it was not recorded
    distances: np.ndarray  # (T,) float32, distance of achieved and desired goal after each step
    speeds: np.ndarray  # (T,) float32, distance by which the achieved goal moves in each step
    # (T,) float32, distance of the achieved goals before the step and in a random later state
    future_distances: np.ndarray
    not_finite: np.ndarray  # (T, 4) bool, whether observation, goals, action or reward have NaN or infinity
    # (2, K) float64, the smallest and the largest value of each of K components of "achieved_goal",
    # "desired_goal", "action", and of each array of numbers in the observation, whose name begins with "/"
    ranges: Mapping[str, np.ndarray]
    sample: Episodes | None  # the first `SAMPLED_EPISODES` episodes; None without episodes
    # The run or the environment
    gamma: float | None = None  # discount per step; None if unknown
    clip_targets: bool | None = None  # to the returns of rewards in [-1, 0]; None if unknown
    time_limit: int | None = None  # largest number of steps of an episode; None if unknown
    batch_size: int | None = None  # number of transitions in an update; None if unknown
    relabeled_share: float | None = None  # share of a batch with achieved goals as goals; None if unknown
    options: Mapping[str, Any] = field(default_factory=dict)  # of a run: (value, default, usual range)
    normalizes: bool = False  # whether the agent normalizes its inputs, as all agents of `her train` do
    history: Sequence[Mapping[str, float]] = ()  # a row for each evaluation, as in ``progress.csv``
    is_environment: bool = False  # whether the policies of the checker collected the episodes

    @classmethod
    def of(cls, name: str, blocks: Iterable[Episodes], **others: Any) -> Facts:
        """Read the episodes in ``blocks``, perhaps none, in one pass; ``others`` sets more fields."""
        rng, parts, sampled = np.random.default_rng(0), [], list[Episode]()
        for block in blocks:
            parts.append(columns_of(block, rng))
            if len(sampled) < SAMPLED_EPISODES:
                part = block[: SAMPLED_EPISODES - len(sampled)]
                sampled += replace(part, infos={}, reset_infos=())  # infos of several files can differ
        columns: Any = {
            key: np.concatenate([found[key] for found, _ in parts]) if parts else np.zeros(0, np.int64)
            for key in COLUMNS
        }
        names = parts[0][1] if parts else ()
        ranges = {key: range_of(np.concatenate([found[key] for _, found in parts])) for key in names}
        sample = Episodes.of(sampled) if sampled else None
        return cls(name=name, ranges=ranges, sample=sample, **columns, **others)

    def __len__(self) -> int:
        """Return the number of episodes."""
        return len(self.lengths)

    def with_options(self, **given: Any) -> Facts:
        """Return a copy with ``given`` values of fields, such as ``gamma``; None leaves a field unchanged."""
        return replace(self, **{name: value for name, value in given.items() if value is not None})

    def missing(self, need: str) -> str:
        """Return why the facts do not meet ``need``, a key of `NEEDS`, or an empty text if they meet it."""
        is_met, reason = NEEDS[need]
        return "" if is_met(self) else reason.format(count=len(self))

    @property
    def exploration_severity(self) -> Severity:
        """Severity of exploration findings: "warning" if the target is an environment, else "error"."""
        return "warning" if self.is_environment else "error"

    @property
    def horizon(self) -> float:
        """Number of steps after which rewards count little, 1 / (1 - gamma); infinite if gamma is unknown."""
        return np.inf if self.gamma is None or self.gamma >= 1 else 1 / (1 - self.gamma)

    def column(self, name: str) -> np.ndarray:
        """Return the finite values of the metric ``name`` in the history, (m,) float64."""
        values = np.array([row[name] for row in self.history if name in row], np.float64)
        return values[np.isfinite(values)]

    @cached_property
    def success_rate(self) -> float | None:
        """Success rate of the last evaluation, else of the last quarter of the episodes; None if unknown."""
        rates = self.column("success_rate")[-1:]
        if not rates.size and len(self) and not self.missing("success"):
            rates = self.final_success[-(len(self) // 4 + 1) :]
        return float(rates.mean()) if rates.size else None

    @property
    def outcome(self) -> str:
        """The success rate in words, such as "success rate 0.50 in the last of 4 evaluations"."""
        if self.success_rate is None:
            return "success rate unknown"
        evaluations = self.column("success_rate").size
        count = f"of {evaluations} evaluations" if evaluations else f"quarter of {len(self)} episodes"
        return f"success rate {self.success_rate:.2f} in the last {count}"

    @cached_property
    def is_solved(self) -> bool:
        """Whether the success rate is at least `SOLVED`; False if an environment, not a run, is diagnosed."""
        return not self.is_environment and (self.success_rate or 0) >= SOLVED

    @cached_property
    def offsets(self) -> np.ndarray:
        """(n + 1,) int64: episode i has the steps ``offsets[i]`` to ``offsets[i + 1] - 1``."""
        return np.concatenate([[0], np.cumsum(self.lengths)])

    @cached_property
    def goal_width(self) -> np.ndarray:
        """(G,) float64, largest minus smallest value of each goal component, achieved or desired."""
        both = np.concatenate([self.ranges["achieved_goal"], self.ranges["desired_goal"]])
        return np.asarray(np.ptp(both, axis=0))

    @cached_property
    def unit_factor(self) -> int:
        """Power of ten by which desired goals are larger than achieved goals: 2, 3, -2, -3, or 0 if none."""
        with np.errstate(all="ignore"):
            powers = np.log10(np.abs(self.desired).mean(axis=0) / np.abs(self.starts).mean(axis=0))
        powers = powers[~np.isnan(powers)]  # 0 / 0
        mean = float(powers.mean()) if np.isfinite(powers).all() and powers.size else 0.0
        is_near = abs(round(mean)) in {2, 3} and abs(mean - round(mean)) <= 0.3 and np.ptp(powers) <= 0.5
        return round(mean) if is_near else 0

    @cached_property
    def has_moved(self) -> np.ndarray:
        """(n,) bool, whether the achieved goal was ever farther than 1 % of a scale from its first value.

        The scale is the diagonal of the range of achieved goals, clipped to [m / 100, m], where m is the
        median of ``start_distances``.
        """
        way = float(np.median(self.start_distances))
        scale = max(min(way, float(np.linalg.norm(np.ptp(self.ranges["achieved_goal"], axis=0)))), 0.01 * way)
        return np.asarray(self.moves > 0.01 * scale)

    @cached_property
    def is_projected(self) -> bool:
        """Whether goals were projected, since they have more than `MAX_GOAL_SIZE` components."""
        return self.sample is not None and split_goals(self.sample.observations)[0].shape[1] > MAX_GOAL_SIZE

    @property
    def observation_ranges(self) -> dict[str, np.ndarray]:
        """Ranges of the arrays of numbers in the observation, without the goals, by name."""
        return {key[1:]: values for key, values in self.ranges.items() if key.startswith("/")}

    @cached_property
    def effects(self) -> Any:
        """`action_effects` of the sampled episodes; None if they cannot be measured."""
        return None if self.sample is None else action_effects(self.sample)

    @property
    def has_fractions(self) -> bool:
        """Whether some achieved goals at the start are not integers; False for bits and grid cells."""
        return bool((self.starts % 1).any())

    @cached_property
    def num_rewards(self) -> int:
        """Number of different rewards, after rounding to 6 decimal places."""
        return len(np.unique(np.round(self.rewards.astype(np.float64), 6)))

    @cached_property
    def has_flags(self) -> bool:
        """Whether success flags were recorded in all steps."""
        return bool((self.flags >= 0).all())

    @cached_property
    def sparse_pair(self) -> tuple[float, float] | None:
        """(Reward of a miss, of a success), (-1, 0) or else (0, 1); None for other rewards."""
        return next((pair for pair in ((-1.0, 0.0), (0.0, 1.0)) if np.isin(self.rewards, pair).all()), None)

    @cached_property
    def success(self) -> np.ndarray:
        """(T,) bool, whether each step was a success, from the flags or else from sparse rewards."""
        if self.has_flags:
            return self.flags > 0
        return np.asarray(self.rewards == (np.nan if self.sparse_pair is None else self.sparse_pair[1]))

    @cached_property
    def is_success_episode(self) -> np.ndarray:
        """(n,) bool, whether each episode had at least one successful step."""
        return np.asarray(np.logical_or.reduceat(self.success, self.offsets[:-1]))

    @cached_property
    def final_success(self) -> np.ndarray:
        """(n,) bool, whether the last step of each episode was a success."""
        return np.asarray(self.success[self.offsets[1:] - 1])

    @cached_property
    def success_steps(self) -> np.ndarray:
        """(m,) int64, steps up to the first success, if any, of episodes that do not begin at the goal."""
        begins = self.offsets[:-1].repeat(self.lengths)
        steps = np.where(self.success, np.arange(len(begins)) - begins + 1, np.iinfo(np.int64).max)
        first: np.ndarray = np.minimum.reduceat(steps, self.offsets[:-1])
        return first[self.is_success_episode & (self.start_distances > self.tolerance)]

    @cached_property
    def radius(self) -> float:
        """Estimated success radius: the largest distance of a success, at most `nearest_miss`; or 0."""
        return min(float(self.distances[self.success].max(initial=0)), self.nearest_miss)

    @cached_property
    def nearest_miss(self) -> float:
        """Smallest distance to the goal in a step that is not a success; infinite without such a step."""
        return float(self.distances[~self.success].min(initial=np.inf))

    @cached_property
    def tolerance(self) -> float:
        """Goals within this distance count as equal: `radius`, or nearly 0 if no step succeeded."""
        return self.radius if self.success.any() else 1e-6 * float(self.goal_width.max(initial=0))

    @cached_property
    def steps_needed(self) -> np.ndarray:
        """(n,) float64, steps needed to reach the goal at the largest speed; 0 if it is 0."""
        fastest = float(self.speeds.max(initial=0))
        if fastest <= 0:
            return np.zeros(len(self))
        return np.maximum(0, self.start_distances - self.radius) / fastest


COLUMNS = tuple(each.name for each in fields(Facts) if each.type == "np.ndarray")
"""Names of the columns of episodes and steps."""

NEEDS: dict[str, tuple[Callable[[Facts], bool], str]] = {
    "episode": (lambda facts: len(facts) > 0, "the target has no episodes"),
    "episodes": (
        lambda facts: len(facts) >= FEW_EPISODES,
        f"the target has {{count}} episodes, but rules about shares of episodes need {FEW_EPISODES}",
    ),
    "success": (
        lambda facts: facts.has_flags or facts.sparse_pair is not None,
        "success is unknown: is_success was not recorded, and rewards are not sparse",
    ),
    "components": (lambda facts: not facts.is_projected, "goals have too many components to judge each"),
    "unsolved": (lambda facts: not facts.is_solved, "the run is solved"),
    "effects": (
        lambda facts: facts.effects is not None,
        f"to find effects of actions, {MIN_STEPS} steps with float actions and without images are needed",
    ),
    "options": (lambda facts: facts.relabeled_share is not None, "the target has no config.json of a run"),
    "history": (lambda facts: len(facts.history) > 0, "the target has no progress.csv of a run"),
    "gamma": (lambda facts: facts.gamma is not None, "gamma is unknown; pass --gamma"),
    "clip_targets": (
        lambda facts: bool(facts.clip_targets),
        "the agent does not clip targets, or this is unknown; if it does, pass --clip-targets",
    ),
}
"""Needs of rules, by name: a test of whether the facts meet the need, and the reason if they do not."""
