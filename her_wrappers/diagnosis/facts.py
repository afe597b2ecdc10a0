"""Facts: the numbers that the rules of the diagnosis judge, computed in one pass over the episodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np

from her_wrappers.data.spaces import SpaceSpec
from her_wrappers.data.trees import NUMBERS, Tree, leaf_arrays
from her_wrappers.goals.in_observation import find_goal_in_observation
from her_wrappers.goals.interface import OBSERVATION_KEYS
from her_wrappers.goals.success_flag import flag_name
from her_wrappers.recording.episodes import Episodes
from her_wrappers.rules import RuleSet, Severity

DIAGNOSIS_RULES = RuleSet(families="532416")
"""All rules of the diagnosis, with the order of their families in a report: possible causes before effects.

Faults of the recorded data (GD5xx) can cause findings of all other families. Findings on the metrics of
learning (GD6xx) are only effects.
"""

rule = DIAGNOSIS_RULES.rule
"""Decorator that registers a function of `Facts` as the check of a rule; see `RuleSet.rule`."""

FEW_EPISODES = 10
"""Smallest number of episodes for which rules judge shares of the episodes."""

SOLVED = 0.9
"""Success rate from which a run counts as solved; rules with the need "unsolved" then do not apply."""

MAX_GOAL_SIZE, PROJECTED_SIZE = 64, 16
"""Goals with more than 64 components are multiplied by a random matrix, which leaves 16 components."""

SPARSE_PAIRS = ((-1.0, 0.0), (0.0, 1.0))
"""Usual sparse rewards: pairs of the reward of a missed goal and the reward of a reached goal."""

MOVED = 0.01
"""An achieved goal counts as moved if it moves by more than this share of a scale; see `Facts.has_moved`."""

SAMPLED_EPISODES = 200
"""Effects of the desired goal and of actions are searched in this number of first episodes only."""

MIN_STEPS = 1000
"""Smallest number of steps for which `action_effects` returns a result."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Facts:
    """Facts about n recorded episodes (T steps in total, goals of G components) and about their run.

    Without episodes, the fields about episodes and steps are arrays of length 0. Fields whose names end with
    ``_range`` are (2, K) float64: the smallest and the largest value of each of K components.
    """

    # Of the episodes
    lengths: np.ndarray  # (n,) int64, steps of each episode
    terminated: np.ndarray  # (n,) bool
    truncated: np.ndarray  # (n,) bool
    desired: np.ndarray  # (n, G) float64, desired goal of the first state
    starts: np.ndarray  # (n, G) float64, achieved goal of the first state
    finals: np.ndarray  # (n, G) float64, achieved goal of the last state
    moves: np.ndarray  # (n,) float64, largest distance of the achieved goal from that of the first state
    is_observation_moved: np.ndarray  # (n,) bool, whether the observation without goals ever changes
    # (n,) float64, Euclidean distance of achieved and desired goal in the first state
    start_distances: np.ndarray
    # (n,) uint64, hash of the first observation without its goals, and all actions
    episode_hashes: np.ndarray
    start_hashes: np.ndarray  # (n,) uint64, hash of the first observation with its goals
    # Of the steps
    rewards: np.ndarray  # (T,) float32; 0 instead of NaN and infinity
    flags: np.ndarray  # (T,) int8, success flag of each step; -1 where it was not recorded
    distances: np.ndarray  # (T,) float32, distance of achieved and desired goal after each step
    speeds: np.ndarray  # (T,) float32, distance by which the achieved goal moves in each step
    # (T,) float32, distance of the achieved goals before the step and in a random later state of the
    # episode, which the strategy "future" could choose as the new goal
    future_distances: np.ndarray
    # (T, 4) bool, whether observation, goals, action or reward of a step have NaN or infinity
    not_finite: np.ndarray
    # Of all steps together
    achieved_range: np.ndarray
    desired_range: np.ndarray
    action_range: np.ndarray
    observation_ranges: dict[str, np.ndarray]  # of each array of numbers, without the goals, by name
    is_projected: bool  # whether goals with more than `MAX_GOAL_SIZE` components were projected
    # Of the first `SAMPLED_EPISODES` episodes
    goal_in_observation: str | None = None  # how the observation depends on the desired goal; None if not
    # (2, A) float64, `action_effects` on the achieved goal and on all observations; None if not measured
    effects: Any = None
    # Of the run
    name: str  # of the target
    gamma: float | None = None  # discount per step; None if unknown
    # whether targets are clipped to the returns of rewards in [-1, 0]; None if unknown
    clip_targets: bool | None = None
    time_limit: int | None = None  # largest number of steps of an episode; None if unknown
    batch_size: int | None = None  # number of transitions in an update; None if unknown
    relabeled_share: float | None = None  # share of a batch with achieved goals as goals; None if unknown
    learning_rate: float | None = None  # of the agent; None if unknown
    normalizes: bool = False  # whether the agent normalizes its inputs, as all agents of `her train` do
    # a row for each evaluation of the run, as in ``progress.csv``; () if unknown
    history: Sequence[Mapping[str, float]] = ()
    # whether the policies of the checker collected the episodes from an environment
    is_environment: bool = False
    # (B,) rewards of ``compute_reward`` for desired goals that equal the achieved goals, and (B,)
    # rewards for the same achieved goals and other desired goals; None if unknown
    self_goal_rewards: tuple[np.ndarray, np.ndarray] | None = None

    @classmethod
    def of(cls, name: str, blocks: Iterable[Episodes], **others: Any) -> Facts:
        """Compute the facts of the episodes in ``blocks``, which may be empty; ``others`` sets more fields.

        Raise ValueError if observations lack a goal key, if goals are not numeric, or if achieved and desired
        goals have different sizes.
        """
        rng = np.random.default_rng(0)  # of future_distances
        parts, sample = [], list[Episodes]()
        for block in blocks:
            parts.append(_columns(block, rng))
            missing = SAMPLED_EPISODES - sum(map(len, sample))
            sample += [block[:missing]] if missing else []
        if sample:
            others = {**_dependences(sample), **others}
        # The fields without defaults, except name, are those that `_columns` returns.
        names = {each.name for each in fields(cls) if each.default is MISSING} - {"name"}
        columns: Any = {each: _joined(each, [part[each] for part in parts]) for each in names}
        return cls(name=name, **columns, **others)

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
        """Success rate of the last evaluation or, without evaluations, of the last quarter of the episodes.

        None if success is unknown.
        """
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
        width: np.ndarray = np.ptp(np.concatenate([self.achieved_range, self.desired_range]), axis=0)
        return width

    @cached_property
    def has_moved(self) -> np.ndarray:
        """(n,) bool, whether the achieved goal was ever farther than a limit from its first value.

        The limit is `MOVED` times the diagonal of the bounding box of all achieved goals. The diagonal is
        clipped to [m / 100, m], where m is the median of ``start_distances``.
        """
        way = float(np.median(self.start_distances))
        scale = max(min(way, float(np.linalg.norm(np.ptp(self.achieved_range, axis=0)))), 0.01 * way)
        return np.asarray(self.moves > MOVED * scale)

    @property
    def has_fractions(self) -> bool:
        """Whether any episode starts at a non-integer achieved goal. Bits and grid cells are integers."""
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
        """(Failure, success): the first of `SPARSE_PAIRS` that contains all rewards, or None."""
        return next((pair for pair in SPARSE_PAIRS if np.isin(self.rewards, pair).all()), None)

    @cached_property
    def success(self) -> np.ndarray:
        """(T,) bool, whether each step was a success; all False if this is unknown.

        If success flags were recorded in all steps, they are used. Otherwise, if all rewards are sparse, a
        step is a success if it has the reward of a reached goal; see `sparse_pair`.
        """
        if self.has_flags:
            return self.flags > 0
        reached: np.ndarray = self.rewards == (np.nan if self.sparse_pair is None else self.sparse_pair[1])
        return reached

    @cached_property
    def is_success_episode(self) -> np.ndarray:
        """(n,) bool, whether each episode had at least one successful step."""
        succeeded: np.ndarray = np.logical_or.reduceat(self.success, self.offsets[:-1])
        return succeeded

    @cached_property
    def final_success(self) -> np.ndarray:
        """(n,) bool, whether the last step of each episode was a success."""
        last: np.ndarray = self.success[self.offsets[1:] - 1]
        return last

    @cached_property
    def success_steps(self) -> np.ndarray:
        """(m,) int64, number of steps up to the first success, for each of m episodes.

        These episodes have at least one success, and do not begin with the desired goal already reached.
        """
        begins = self.offsets[:-1].repeat(self.lengths)
        steps = np.where(self.success, np.arange(len(begins)) - begins + 1, np.iinfo(np.int64).max)
        first: np.ndarray = np.minimum.reduceat(steps, self.offsets[:-1])
        return first[self.is_success_episode & (self.start_distances > self.tolerance)]

    @cached_property
    def radius(self) -> float:
        """Estimated distance to the goal within which a step is a success; 0 without successes.

        The estimate is the smaller of two distances to the goal: the largest in a successful step, and the
        smallest in an unsuccessful step.
        """
        return min(float(self.distances[self.success].max(initial=0)), self.nearest_miss)

    @cached_property
    def nearest_miss(self) -> float:
        """Smallest distance to the goal in a step that is not a success; infinite without such a step."""
        return float(self.distances[~self.success].min(initial=np.inf))

    @cached_property
    def tolerance(self) -> float:
        """Goals within this distance count as equal: `radius`, or a tiny number if no step succeeded."""
        return self.radius if self.success.any() else 1e-6 * float(self.goal_width.max(initial=0))

    @cached_property
    def steps_needed(self) -> np.ndarray:
        """(n,) float64, steps needed to reach the goal at the largest speed; 0 if achieved goals never move.

        The number is (d - `radius`) / v, but at least 0, where d is the initial distance to the desired goal,
        and v is the largest distance by which any achieved goal moved in one step.
        """
        fastest = float(self.speeds.max(initial=0))
        if fastest <= 0:
            return np.zeros(len(self))
        return np.maximum(0, self.start_distances - self.radius) / fastest


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
    "unsolved": (lambda facts: not facts.is_solved, "the run succeeds"),
    "environment": (lambda facts: facts.is_environment, "the target is not an environment"),
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


def _columns(block: Episodes, rng: np.random.Generator) -> dict[str, Any]:
    """Compute, for one block of episodes, the fields of `Facts` that `_joined` joins over all blocks."""
    achieved, desired, others = _split_goals(block.observations)
    before, begins = block.state_of_step, block.ends[:-1]
    last = block.ends[1:] + np.arange(len(block))
    first = last - block.lengths
    first_of_state = first.repeat(block.lengths + 1)

    not_finite = []
    for leaves in (others.values(), (achieved, desired)):
        of_state = _not_finite(leaves, len(achieved))
        of_step = of_state[before + 1]
        of_step[begins] |= of_state[before[begins]]  # the first state of an episode belongs to its first step
        not_finite.append(of_step)
    not_finite += [
        _not_finite(leaves, len(before)) for leaves in (leaf_arrays(block.actions), [block.rewards])
    ]

    is_projected = achieved.shape[1] > MAX_GOAL_SIZE
    achieved, desired = _projected(_finite(achieved)), _projected(_finite(desired))
    future = (
        before + 1 + np.floor(rng.random(len(before)) * (last.repeat(block.lengths) - before)).astype(int)
    )

    is_changed = np.zeros(len(achieved), np.bool_)
    for leaf in others.values():
        rows = leaf.reshape(len(leaf), -1)
        is_changed |= (rows != rows[first_of_state]).any(axis=1)
    actions = [_flat(leaf) for leaf in leaf_arrays(block.actions) if leaf.dtype.kind in NUMBERS]
    first_rows = [(leaf, first, first + 1) for leaf in others.values()]
    return {
        "lengths": block.lengths.astype(np.int64),
        "terminated": block.terminated,
        "truncated": block.truncated,
        "desired": desired[first],
        "starts": achieved[first],
        "finals": achieved[last],
        "moves": np.maximum.reduceat(_norm(achieved - achieved[first_of_state]), first),
        "is_observation_moved": np.logical_or.reduceat(is_changed, first),
        "start_distances": _norm(achieved[first] - desired[first]),
        "episode_hashes": _hashes(
            first_rows + [(leaf, begins, block.ends[1:]) for leaf in leaf_arrays(block.actions)]
        ),
        "start_hashes": _hashes([(leaf, first, first + 1) for leaf in leaf_arrays(block.observations)]),
        "rewards": _finite(block.rewards).astype(np.float32),
        "flags": _flags(block),
        "distances": _norm(achieved[before + 1] - desired[before]).astype(np.float32),
        "speeds": _norm(achieved[before + 1] - achieved[before]).astype(np.float32),
        "future_distances": _norm(achieved[before] - achieved[future]).astype(np.float32),
        "not_finite": np.stack(not_finite, axis=1),
        "achieved_range": _range(achieved),
        "desired_range": _range(desired),
        "action_range": _range(np.concatenate(actions, axis=1) if actions else np.zeros((1, 0))),
        "observation_ranges": {
            name: _range(_flat(leaf)) for name, leaf in others.items() if leaf.dtype.kind in NUMBERS
        },
        "is_projected": is_projected,
    }


def _dependences(sample: Sequence[Episodes]) -> dict[str, Any]:
    """Compute the fields of `Facts` that depend only on ``sample``, the first `SAMPLED_EPISODES` episodes."""
    block = Episodes.of(episode for each in sample for episode in replace(each, infos={}, reset_infos=()))
    episode_of_state = np.arange(len(block)).repeat(block.lengths + 1)
    return {
        "goal_in_observation": find_goal_in_observation(block.observations, episode_of_state),
        "effects": action_effects(block),
    }


@np.errstate(invalid="ignore", divide="ignore")  # 0 / 0 is 0, by `_finite`
def action_effects(block: Episodes) -> np.ndarray | None:
    """Return how strongly changes of the state depend on each of A components of the actions, (2, A) float64.

    Row 0 is for changes of the achieved goal, row 1 for changes of the achieved goal or the observation. A
    change is the difference between the state before an action and the state two steps later.

    The value of an action component is its largest partial correlation with a component of the changes, given
    the other action components. Absolute values of actions and of changes are tried too. Episode means are
    subtracted first, since an action that is repeated in a whole episode proves nothing. Correlations that
    chance can explain become 0, and an action component that is constant in each episode gets NaN. The result
    is None for image observations, for actions that are not floats, and for fewer than `MIN_STEPS` steps.
    """
    leaves, (achieved, _, others) = leaf_arrays(block.actions), _split_goals(block.observations)
    observed = [achieved, *(leaf for leaf in others.values() if leaf.dtype.kind in NUMBERS)]
    counts = block.lengths[block.lengths > 1] - 1  # the last step of an episode has no next one
    has_images = any(leaf[0].size > 1000 for leaf in observed)
    if has_images or counts.sum() < MIN_STEPS or any(leaf.dtype.kind != "f" for leaf in leaves):
        return None
    steps = np.setdiff1d(np.arange(block.num_steps), block.ends[1:] - 1)
    before, begins = block.state_of_step[steps], np.cumsum(counts) - counts

    def standardized(rows: np.ndarray) -> np.ndarray:
        rows = np.hstack([rows, abs(rows)])
        size = abs(rows).max(axis=0)
        rows -= (np.add.reduceat(rows, begins) / counts[:, None]).repeat(counts, axis=0)
        spread = np.sqrt((rows**2).mean(axis=0))
        return rows / np.where(spread > 1e-9 * size, spread, np.inf)  # rounded constants are 0

    actions = _finite(np.hstack([_flat(leaf)[steps] for leaf in leaves]).astype(np.float64))
    features = standardized(actions - actions.mean(axis=0))
    states = [_projected(_finite(_flat(leaf).astype(np.float64))) for leaf in observed]
    changes = [standardized(rows[before + 2] - rows[before]) for rows in states]
    outputs = np.hstack(changes)
    inverse = np.linalg.pinv(features.T @ features)
    weights = inverse @ (features.T @ outputs)
    explained = weights**2 / np.diag(inverse)[:, None]  # by each feature alone
    residual = ((outputs - features @ weights) ** 2).sum(axis=0)
    found = _finite(np.sqrt(explained / (explained + residual)))
    found = found.reshape(2, actions.shape[1], -1).max(axis=0)  # (A, changes)
    effects = np.stack([found[:, : changes[0].shape[1]].max(axis=1), found.max(axis=1)])
    effects[effects < 4.5 / np.sqrt(len(steps))] = 0  # 4.5 standard errors
    effects[:, ~features[:, : actions.shape[1]].any(axis=0)] = np.nan
    return effects


def _joined(name: str, parts: list[Any]) -> Any:
    """Return the `Facts` field ``name`` for all episodes; ``parts`` are the values of blocks of episodes."""
    if not parts:
        return np.zeros(0, np.int64)
    if isinstance(parts[0], dict):
        return {key: _range(np.concatenate([part[key] for part in parts])) for key in parts[0]}
    if name.endswith("_range"):
        return _range(np.concatenate(parts))
    return np.concatenate(parts) if isinstance(parts[0], np.ndarray) else parts[0]


def _range(rows: np.ndarray) -> np.ndarray:
    """Return the smallest and the largest value of each column of (N, K) numbers, as (2, K) float64.

    NaN is ignored, unless a column has an infinite value or only NaN. In this case, NaN and infinities count
    as 0 in all columns.
    """
    found = np.stack([np.fmin.reduce(rows, axis=0), np.fmax.reduce(rows, axis=0)]).astype(np.float64)
    return found if np.isfinite(found).all() else _range(_finite(rows))


def _projected(rows: np.ndarray) -> np.ndarray:
    if rows.shape[1] <= MAX_GOAL_SIZE:
        return rows
    projected: np.ndarray = rows @ np.random.default_rng(0).normal(size=(rows.shape[1], PROJECTED_SIZE))
    return projected


def _finite(rows: np.ndarray) -> np.ndarray:
    finite: np.ndarray = np.nan_to_num(rows, nan=0, posinf=0, neginf=0)
    return finite


def _flat(leaf: np.ndarray) -> np.ndarray:
    return leaf.reshape(len(leaf), -1)


def _norm(rows: np.ndarray) -> np.ndarray:
    length: np.ndarray = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    return length


def _split_goals(observations: Tree) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Return achieved and desired goals of S states, (S, G) each, and the other observations by name."""
    missing = [
        key for key in OBSERVATION_KEYS if not isinstance(observations, dict) or key not in observations
    ]
    if not isinstance(observations, dict) or missing:
        raise ValueError(
            f"the observations must have the keys {', '.join(map(repr, OBSERVATION_KEYS))}, but lack "
            f"{', '.join(map(repr, missing))}; `her doctor` needs episodes of a goal environment"
        )
    goals = []
    for key in OBSERVATION_KEYS[1:]:
        leaves = _named_leaves(observations[key])
        if not leaves or any(leaf.dtype.kind not in NUMBERS for leaf in leaves.values()):
            got = f"got dtypes {[str(leaf.dtype) for leaf in leaves.values()]}"
            raise ValueError(f"{key!r} must be a numeric array or a dict of numeric arrays, {got}")
        rows = [_flat(leaf) for _, leaf in sorted(leaves.items())]
        goals.append(np.concatenate(rows, axis=1).astype(np.float64))
    achieved, desired = goals
    if achieved.shape != desired.shape:
        raise ValueError(
            "'achieved_goal' and 'desired_goal' must have the same number of components, got "
            f"{achieved.shape[1]} and {desired.shape[1]}"
        )
    rest = {key: value for key, value in observations.items() if key not in OBSERVATION_KEYS[1:]}
    return achieved, desired, _named_leaves(rest)


def _named_leaves(tree: Tree) -> dict[str, np.ndarray]:
    return {leaf.name: leaf.find(tree, "") for leaf in SpaceSpec.of_rows("", tree)}


def _not_finite(leaves: Iterable[np.ndarray], count: int) -> np.ndarray:
    found = np.zeros(count, np.bool_)
    for leaf in leaves:
        if leaf.dtype.kind == "f":
            found |= ~np.isfinite(leaf).reshape(count, -1).all(axis=1)
    return found


def _flags(block: Episodes) -> np.ndarray:
    name = flag_name(block.infos)
    flags = None if name is None else block.infos[name]
    if flags is None or flags.size != block.num_steps or flags.dtype.kind not in NUMBERS:
        return np.full(block.num_steps, -1, np.int8)
    return np.where(np.isnan(flags), -1, flags > 0.5).reshape(-1).astype(np.int8)


def _hashes(columns: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> np.ndarray:
    """Return one hash for each episode. A column is (array, begins, ends): a range of rows per episode."""
    digests = [blake2b(digest_size=8) for _ in columns[0][1]]
    for leaf, begins, ends in columns:
        for digest, begin, end in zip(digests, begins.tolist(), ends.tolist(), strict=True):
            digest.update(leaf[begin:end].tobytes())
    return np.array([int.from_bytes(digest.digest(), "little") for digest in digests], np.uint64)
