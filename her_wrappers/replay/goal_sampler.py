"""Goal sampling: the strategy of each row of a batch, and the state or step whose goal it gets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from her_wrappers.arguments import require_count
from her_wrappers.replay.goal_selection import (
    STRATEGIES,
    Geometric,
    Strategy,
    ValidatedStrategy,
    uniform_below,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from her_wrappers.replay.episode_index import EpisodeIndex, StepRefs
    from her_wrappers.replay.goal_selection import Ints
    from her_wrappers.replay.storage import EpisodeStorage

RANDOM = "random"
"""Name of the strategy that samples the achieved goal of any stored transition."""

DESIRED = "desired"
"""Name of the strategy that samples the desired goal of any stored transition."""

ORIGINAL = "original"
"""Name of the rows that are not relabeled."""

DEFAULT_SAMPLED_GOALS = 4
"""Relabeled transitions per original one; the best value in section 4.5 of the HER paper."""


@dataclass(frozen=True)
class Mixture:
    """Several goal selection strategies, each for a share of the batch.

    Attributes:
        shares: Share of each strategy, by name or function; ``"random"`` and ``"desired"`` are allowed. With
            the key ``"original"``, for rows that are not relabeled, these are shares of all rows; without it,
            shares of the relabeled rows.

    Raises:
        TypeError: ``shares`` is not a dict.
        ValueError: A share is not in (0, 1], or the shares do not sum to 1.

    Example:
        >>> mixture = Mixture({"future": 0.5, "desired": 0.3, "original": 0.2})
    """

    shares: Mapping[str | Strategy, float]

    def __post_init__(self) -> None:
        if not isinstance(self.shares, Mapping):
            raise TypeError(f"shares of a Mixture must be a dict of strategies, got {self.shares!r}")
        for name, share in self.shares.items():
            if not (isinstance(share, Real) and 0 < share <= 1):
                raise ValueError(f"shares of a Mixture must lie in (0, 1], got {share!r} for {name!r}")
        if not np.isclose(sum(self.shares.values()), 1, rtol=0, atol=1e-9):
            total = float(sum(self.shares.values()))
            raise ValueError(
                f"shares of a Mixture must sum to 1, got {total!r}; divide each share by this sum"
            )
        # As Python floats: a float32 share would make other batches than the same share from a saved file.
        object.__setattr__(self, "shares", {name: float(share) for name, share in self.shares.items()})


GoalSelection: TypeAlias = str | Strategy | Mixture
"""Type of the argument ``goal_selection_strategy``."""


@dataclass(frozen=True)
class MixtureComponent:
    """Rows of a batch that get their goals by the same strategy.

    Attributes:
        name: Name of the strategy.
        select: The strategy within the episode, None for ``"random"`` and ``"desired"``.
        share: Share of all rows.
    """

    name: str
    select: Strategy | None
    share: float

    @property
    def takes_desired(self) -> bool:
        """Whether new goals are desired goals of stored transitions."""
        return self.select is None and self.name == DESIRED


class GoalMixture:
    """The components of a batch; all other rows are original.

    Args:
        strategy: A strategy or a `Mixture`.
        n_sampled_goal: Relabeled rows per original one, or None.
        her_ratio: Share of relabeled rows, or None.

    Raises:
        TypeError: ``strategy`` is not a name, a function or a `Mixture`.
        ValueError: The strategy is unknown, or the share is given twice or is out of range.

    Attributes:
        components: The components of relabeled rows; ``"desired"``, if it is one of them, is the last.
        num_achieved: Number of components whose new goals are achieved goals: all except ``"desired"``.
        names: Names of the components, and ``"original"``.
    """

    def __init__(self, strategy: GoalSelection, n_sampled_goal: int | None, her_ratio: float | None) -> None:
        if not (isinstance(strategy, str | Mixture) or callable(strategy)):
            raise TypeError(
                f"goal_selection_strategy must be a name, a function or a Mixture, got {strategy!r}"
            )
        mixture = strategy if isinstance(strategy, Mixture) else Mixture({strategy: 1.0})
        total = _relabeled_share(mixture, n_sampled_goal, her_ratio)
        shares = {key: share for key, share in mixture.shares.items() if key != ORIGINAL}
        scale = total / sum(shares.values()) if shares else 0.0
        components = [_component(key, share * scale) for key, share in shares.items()]
        # As the last component, "desired" is next to the original rows, whose goals are desired goals too.
        self.components = sorted(components, key=lambda each: each.takes_desired) if total else []
        self.num_achieved = sum(not component.takes_desired for component in self.components)
        self.names = (*(component.name for component in self.components), ORIGINAL)
        self._ends = np.cumsum([component.share for component in self.components])

    @property
    def relabels(self) -> bool:
        """Whether any row is relabeled."""
        return bool(self.components)

    def sample_components(self, batches: int, batch_size: int, rng: np.random.Generator) -> np.ndarray:
        """Sample how many rows of each batch belong to each component.

        One random number per batch determines the sizes of the components. The size of a component is exact
        in expectation, and differs from its share by less than one row.

        Args:
            batches: Number of batches.
            batch_size: Number of rows of each batch.
            rng: Source of all randomness.

        Returns:
            (batches, batch_size) index of each row's component, ascending; original rows come last.
        """
        ends = np.floor(batch_size * self._ends + rng.random((batches, 1))).astype(np.int64)
        rows = np.arange(batch_size)
        if len(self.components) == 1:
            return (rows >= ends).view(np.uint8)
        component = np.zeros((batches, batch_size), np.min_scalar_type(len(self.components)))
        for end in ends.T:
            component += rows >= end[:, None]
        return component


class GoalRefs(NamedTuple):
    """The stored goals that n rows get. Rows that are not relabeled keep the goals of their segments.

    Attributes:
        states: (n,) offsets of the states whose achieved goals are the new goals; any value in other rows.
        segment_slots: (n,) slots of the segments whose desired goals the rows of ``"desired"`` get, and of
            their own segments in rows that are not relabeled; any value in other rows.
        serials: (n,) serial numbers of the steps that led to those states, or had those desired goals; any
            value in rows that are not relabeled.
    """

    states: np.ndarray
    segment_slots: np.ndarray
    serials: np.ndarray


class GoalSampler:
    """Samples the states and steps whose goals become the new desired goals.

    Args:
        mixture: Components of a batch.
        resample_achieved_goals: Whether a goal that was already achieved before the step is sampled once
            more.
    """

    def __init__(self, mixture: GoalMixture, *, resample_achieved_goals: bool) -> None:
        self._components = mixture.components
        self._num_achieved = mixture.num_achieved
        self._resample = resample_achieved_goals

    def sample(
        self, storage: EpisodeStorage, refs: StepRefs, component: Ints, rng: np.random.Generator
    ) -> GoalRefs:
        """Sample a goal for each step.

        Args:
            storage: The stored episodes.
            refs: (n,) steps.
            component: (n,) index of each step's component, a higher number for original rows.
            rng: Source of all randomness.
        """
        index = storage.memory.index
        if len(self._components) == self._num_achieved == 1:
            # Sampling goals for all rows is faster than selecting the relabeled rows first.
            sampled = _sample_by(self._components[0].select, index, refs, rng)
            goals = sampled._replace(segment_slots=refs.segment_slots)
        else:
            states, serials = np.zeros_like(refs.serials), np.zeros_like(refs.serials)
            goals = GoalRefs(states, refs.segment_slots.copy(), serials)
            self._sample_into(goals, index, refs, component, rng)
        if self._resample:
            achieved = self._already_achieved(storage, goals, refs, component)
            self._sample_into(goals, index, refs, achieved, rng)
        return goals

    def _already_achieved(
        self, storage: EpisodeStorage, goals: GoalRefs, refs: StepRefs, component: Ints
    ) -> Ints:
        """Return the components of steps whose goal was already achieved; "original" for all other steps."""
        order = component.argsort(kind="stable")
        counts = component[order].searchsorted((self._num_achieved, len(self._components)))
        rows, of_states, of_segments = order[: counts[1]], order[: counts[0]], order[counts[0] : counts[1]]
        same = storage.same_goals(
            refs.states[rows], goals.states[of_states], goals.segment_slots[of_segments]
        )
        components = np.full_like(component, len(self._components))
        components[rows[same]] = component[rows[same]]
        return components

    def _sample_into(
        self,
        goals: GoalRefs,
        index: EpisodeIndex,
        refs: StepRefs,
        component: Ints,
        rng: np.random.Generator,
    ) -> None:
        for each, rows in _rows_by_component(self._components, component):
            sampled = _sample_by(each.select, index, refs.take(rows), rng)
            for column, values in zip(goals, sampled, strict=True):
                column[rows] = values


def select_goals(
    mixture: GoalMixture, t: Ints, length: int, num_desired: int, rng: np.random.Generator
) -> tuple[Ints, Ints]:
    """Sample a strategy for each of n steps of an episode, and a goal of this strategy.

    Args:
        mixture: Components that `require_no_other_episodes` accepts.
        t: (n,) steps of the episode.
        length: Number of steps of the episode.
        num_desired: Number of desired goals that ``"desired"`` samples from.
        rng: Source of all randomness.

    Returns:
        (n,) index of the component of each step, and (n,) goals: the number of a state, 1 to ``length``, or
        in rows of ``"desired"``, ``length`` + 1 + the number of a desired goal.
    """
    shares = np.array([component.share for component in mixture.components])
    components = rng.choice(len(shares), len(t), p=shares / shares.sum())
    goals = np.empty_like(t)
    for each, rows in _rows_by_component(mixture.components, components):
        if each.select is None:
            goals[rows] = length + 1 + uniform_below(num_desired, len(rows), rng)
        else:
            goals[rows] = each.select(t[rows], np.full(len(rows), length), rng)
    return components, goals


def require_no_other_episodes(mixture: GoalMixture, *, has_desired_goals: bool) -> None:
    """Check that one episode, and desired goals if they are given, can supply all goals.

    Args:
        mixture: The components.
        has_desired_goals: Whether desired goals are given for ``"desired"``.

    Raises:
        ValueError: A component needs other episodes.
    """
    for each in mixture.components:
        if each.select is None and not (each.takes_desired and has_desired_goals):
            fix = "pass desired_goals=" if each.takes_desired else "use another strategy"
            raise ValueError(f"strategy must select states of the same episode, got {each.name!r}; {fix}")


def _rows_by_component(
    components: Sequence[MixtureComponent], component: Ints
) -> Iterator[tuple[MixtureComponent, np.ndarray]]:
    for number, each in enumerate(components):
        rows = np.flatnonzero(component == number)
        if len(rows):
            yield each, rows


def _sample_by(
    select: Strategy | None, index: EpisodeIndex, refs: StepRefs, rng: np.random.Generator
) -> GoalRefs:
    """Sample goals by a strategy within the episode, or from all stored steps if ``select`` is None."""
    if select is None:
        steps = index.locate(index.sample(len(refs.serials), rng))
        return GoalRefs(steps.states + 1, steps.segment_slots, steps.serials)
    first_step = refs.segments["first_step"]
    t = refs.serials - first_step
    s = select(t, refs.segments["length"], rng)
    return GoalRefs(refs.states - t + s, refs.segment_slots, first_step + s - 1)


def _relabeled_share(mixture: Mixture, n_sampled_goal: int | None, her_ratio: float | None) -> float:
    given = {"n_sampled_goal": n_sampled_goal, "her_ratio": her_ratio}
    names = [name for name, value in given.items() if value is not None]
    names += ["Mixture with a share of 'original'"] * (ORIGINAL in mixture.shares)
    if len(names) > 1:
        raise ValueError(f"the relabeled share must be given once, got {' and '.join(names)}")
    if ORIGINAL in mixture.shares:
        return 1 - mixture.shares[ORIGINAL]
    if her_ratio is not None:
        if not (isinstance(her_ratio, Real) and 0 <= her_ratio <= 1):
            raise ValueError(f"her_ratio must lie in [0, 1], got {her_ratio!r}")
        return float(her_ratio)
    k = DEFAULT_SAMPLED_GOALS if n_sampled_goal is None else n_sampled_goal
    k = require_count("n_sampled_goal", k, at_least=0)
    return k / (k + 1)


def _component(strategy: str | Strategy, share: float) -> MixtureComponent:
    """Return the component of a strategy's name or of the user's function."""
    if callable(strategy):
        select = strategy if isinstance(strategy, Geometric) else ValidatedStrategy(strategy)
        return MixtureComponent(getattr(strategy, "__name__", repr(strategy)), select, share)
    if not isinstance(strategy, str) or strategy not in (*STRATEGIES, RANDOM, DESIRED):
        names = ", ".join(map(repr, [*STRATEGIES, RANDOM, DESIRED]))
        raise ValueError(
            f"unknown goal_selection_strategy {strategy!r}; "
            f"choose from {names}, a Mixture of them, or a function"
        )
    return MixtureComponent(strategy, STRATEGIES.get(strategy), share)
