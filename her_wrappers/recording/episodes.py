"""Episodes: many finished episodes, concatenated in shared arrays."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, SupportsIndex, TypeVar, overload

import numpy as np

from her_wrappers.data.spaces import SpaceSpec
from her_wrappers.data.trees import (
    Tree,
    as_array,
    as_leaf,
    concatenate_trees,
    copy_tree,
    equal_rows,
    leaf_arrays,
    map_tree,
    path_name,
    take_rows,
)
from her_wrappers.recording.episode import (
    Episode,
    require_array,
    require_infos,
    require_numbers,
    require_rows,
)
from her_wrappers.support.user_warning import warn_user

AnyEpisodes = TypeVar("AnyEpisodes")


def unchecked(kind: type[AnyEpisodes], **attributes: Any) -> AnyEpisodes:
    """Make an `Episode` or `Episodes` without validating the ``attributes``, which must be valid."""
    made = object.__new__(kind)
    made.__dict__.update(attributes)
    return made


@dataclass(frozen=True, eq=False)
class Episodes(Sequence[Episode]):
    """n episodes of the same spaces, concatenated in shared arrays.

    ``episodes[i]`` is an `Episode`, whose arrays are views. If the episodes have T1, .., Tn steps, the arrays
    contain T = T1 + .. + Tn steps and T + n states.

    Attributes:
        observations: Tree of (T + n, ...) arrays.
        actions: Tree of (T, ...) arrays.
        rewards: (T,) numbers, rewards that the environments returned; float64 if recorders made the episodes.
        lengths: (n,) integers, number of steps of each episode.
        terminated: (n,) bool, whether the last step terminated the episode.
        truncated: (n,) bool, whether the episode was truncated after the last step.
        infos: Arrays (T, ...) of the recorded infos, by key.
        reset_infos: n dicts with the recorded infos of the first states; () if there are none.

    Raises:
        TypeError: An array is not a NumPy array, or ``infos`` is not a dict whose keys are strings.
        ValueError: An array has a wrong number of rows, ``lengths`` is empty or has a number below 1, or
            ``rewards``, ``lengths``, ``terminated`` or ``truncated`` has a wrong dtype or shape.

    Example:
        >>> one = Episode(np.arange(3), np.zeros(2), np.zeros(2), terminated=True, truncated=False)
        >>> two = Episode(np.arange(2), np.zeros(1), np.zeros(1), terminated=False, truncated=True)
        >>> episodes = Episodes.of([one, two])
        >>> episodes.observations, episodes.lengths
        (array([0, 1, 2, 0, 1]), array([2, 1]))
        >>> episodes[1].observations
        array([0, 1])
    """

    observations: Tree
    actions: Tree
    rewards: np.ndarray
    lengths: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    infos: dict[str, np.ndarray] = field(default_factory=dict)
    reset_infos: Sequence[Mapping[str, np.ndarray]] = ()

    def __post_init__(self) -> None:
        for name in ("lengths", "terminated", "truncated"):
            require_array(name, getattr(self, name))
        lengths = self.lengths
        whole = lengths.ndim == 1 and lengths.dtype.kind in "iu"
        if not whole or len(lengths) == 0 or lengths.min() < 1:
            raise ValueError(f"lengths must be a non-empty 1-D array of integers >= 1, got {lengths!r}")
        for name in ("terminated", "truncated"):
            flags = getattr(self, name)
            if flags.shape != lengths.shape or flags.dtype != np.bool_:
                got = f"dtype {flags.dtype} and shape {flags.shape}"
                raise ValueError(f"{name} must be a bool array of shape {lengths.shape}, got {got}")
        if (count := len(self.reset_infos)) not in {0, len(self)}:
            raise ValueError(f"reset_infos must have a dict for each of {len(self)} episodes, got {count}")
        require_numbers("rewards", self.rewards)
        steps = int(self.ends[-1])
        require_rows("rewards", self.rewards, steps)
        require_rows("actions", self.actions, steps)
        require_infos("infos", self.infos)
        require_rows("infos", self.infos, steps)
        require_rows("observations", self.observations, steps + len(self))

    @classmethod
    def of(cls, episodes: Iterable[Episode]) -> Episodes:
        """Return the concatenation of episodes.

        Args:
            episodes: At least one episode. A single episode is not copied, and `Episodes` are returned as
                they are.

        Raises:
            TypeError: An element is not an `Episode`.
            ValueError: ``episodes`` is empty; or the episodes have different keys or shapes; or they have
                different dtypes whose common dtype cannot represent a value exactly, such as a large int64
                value in float64.
        """
        if isinstance(episodes, Episodes):
            return episodes
        listed = list(episodes)
        for number, episode in enumerate(listed):
            if not isinstance(episode, Episode):
                raise TypeError(f"episodes[{number}] must be an Episode, got {type(episode).__name__}")
        if not listed:
            raise ValueError("episodes must contain at least one episode, got none")
        names = "observations", "actions", "rewards", "infos"
        trees = {name: getattr(listed[0], name) for name in names}
        if len(listed) > 1:
            trees = {
                name: concatenate_trees(name, [getattr(each, name) for each in listed]) for name in names
            }
        lengths = [len(each.rewards) for each in listed]
        return unchecked(  # each episode was validated when it was made
            cls,
            **trees,
            lengths=np.array(lengths),
            ends=np.array([0, *itertools.accumulate(lengths)]),  # in a third of the time of the property
            terminated=np.array([each.terminated for each in listed], bool),
            truncated=np.array([each.truncated for each in listed], bool),
            reset_infos=[each.reset_info for each in listed],
        )

    @classmethod
    def from_arrays(
        cls,
        observations: Tree,
        actions: Tree,
        rewards: Any,
        terminals: Any = None,
        timeouts: Any = None,
        *,
        next_observations: Tree = None,
        achieved_goal: Callable[[Any], Any] | None = None,
        desired_goal: Any = None,
    ) -> Episodes:
        """Return the episodes of a dataset with one array of N rows per quantity, as in D4RL and OGBench.

        Without ``next_observations``, the state after the last row of an episode is not known. So this row is
        used only as the last state of the episode, its step is left out, and the episode counts as truncated
        even if ``terminals`` marks the row. The last of the N rows always ends an episode.

        Args:
            observations: (N, ...) array or tree of arrays, the states before the steps.
            actions: (N, ...) array or tree of arrays.
            rewards: (N,) rewards of the steps, or a function ``(achieved_goal, desired_goal, info)``, which
                is called once for each episode and returns the rewards of its T steps.
            terminals: (N,) bools or numbers 0 and 1, whether a row's step terminated the episode. Omit this
                argument if episodes continue after such rows, as after a success in D4RL's AntMaze.
            timeouts: (N,) bools or numbers 0 and 1, whether the episode was truncated after a row's step.
            next_observations: States after the steps, like ``observations``.
            achieved_goal: Function from (n, ...) observations to (n, ...) goals; None if ``observations`` are
                a dict of observations, achieved goals and desired goals.
            desired_goal: (N, ...) goals such as D4RL's ``infos/goal``, or one goal for all rows. With None,
                the desired goal of each episode is the achieved goal of its last state.

        Raises:
            ValueError: The numbers of rows differ, ``terminals`` or ``timeouts`` are not bools or 0 and 1, no
                episode has a step, or ``next_observations`` differ from the next row of ``observations``
                within an episode.

        Example:
            >>> xy = np.array([[0.0, 0.0], [1, 0], [2, 0], [5, 5], [6, 5]])
            >>> flat = {"observations": xy, "actions": xy, "rewards": np.ones(5), "timeouts": [0, 0, 1, 0, 1]}
            >>> episodes = Episodes.from_arrays(**flat, achieved_goal=lambda observations: observations)
            >>> episodes.lengths, episodes[1].observations["desired_goal"].tolist()
            (array([2, 1]), [[6.0, 5.0], [6.0, 5.0]])
        """
        observations, actions, after = (
            map_tree(as_array, tree) for tree in (observations, actions, next_observations)
        )
        count, has_after = len(leaf_arrays(actions)[0]), next_observations is not None

        def column(name: str, values: Any, dtype: Any) -> np.ndarray:
            values = np.zeros(count) if values is None else as_array(values)
            return as_leaf(name, values.reshape(-1), (count,), np.dtype(dtype))

        is_terminal, is_timeout = column("terminals", terminals, bool), column("timeouts", timeouts, bool)
        recorded = None if callable(rewards) else column("rewards", rewards, np.float64)
        named = [("observations", leaf) for leaf in leaf_arrays(observations)]
        named += [("next_observations", leaf) for leaf in leaf_arrays(after)] * has_after
        for name, leaf in named:
            if len(leaf) != count:
                raise ValueError(
                    f"{name} must have {count} rows, one per action, got {len(leaf)} rows; if episodes have "
                    "one more observation than actions, pass all but the last as observations, and all but "
                    "the first as next_observations"
                )
        is_last = is_terminal | is_timeout
        is_last[-1:] = True
        if has_after:
            _require_continuity(observations, after, is_last)
        goals = None if desired_goal is None else as_array(desired_goal)
        parts = np.split(np.arange(count), np.flatnonzero(is_last)[:-1] + 1)
        episodes = []
        for rows in parts:
            steps = rows if has_after else rows[:-1]
            if not len(steps):
                continue
            states = take_rows(observations, rows)
            if has_after:
                states = concatenate_trees("observations", [states, take_rows(after, rows[-1:])])
            if achieved_goal is not None:
                achieved = as_array(achieved_goal(states))
                goal = achieved[-1] if goals is None else goals
                if goal.ndim == achieved.ndim:  # the state after the last step has the goal of this step
                    goal = goal[np.append(rows, rows[-1])[: len(achieved)]]
                desired = np.broadcast_to(goal, achieved.shape).astype(achieved.dtype)
                states = {"observation": states, "achieved_goal": achieved, "desired_goal": desired}
            if recorded is None:
                pairs = states["achieved_goal"][1:], states["desired_goal"][:-1]
                numbers = as_array(rewards(*pairs, [{} for _ in steps]))
            else:
                numbers = recorded[steps]
            terminated = bool(is_terminal[rows[-1]] and has_after)
            episodes.append(Episode(states, take_rows(actions, steps), numbers, terminated, not terminated))
        if skipped := len(parts) - len(episodes):
            warn_user(
                f"{skipped} of {len(parts)} episodes are left out, since they have one state and no step; "
                "omit terminals if it marks successes after which episodes continue"
            )
        return cls.of(episodes)

    def cast(self, observations: SpaceSpec, actions: SpaceSpec) -> Episodes:
        """Return a copy in the dtypes of the specs; only actions, often float64, may be rounded."""
        copied = {name: copy_tree(value) for name, value in vars(self).items()}
        for spec, name in ((observations, "observations"), (actions, "actions")):
            paths = SpaceSpec.of_rows(name, copied[name]).paths
            if set(paths) != set(spec.paths):
                keys, got = (
                    sorted(path_name((name, *path)) for path in each) for each in (spec.paths, paths)
                )
                raise ValueError(f"{name} must have the keys of the space, {keys}, got {got}")
            rows = self.num_steps + (len(self) if name == "observations" else 0)
            copied[name] = spec.check_rows(copied[name], rows, "the episodes", rounding=name == "actions")
        return unchecked(Episodes, **copied)

    @property
    def num_steps(self) -> int:
        """Number of steps of all episodes, T."""
        return len(self.rewards)

    @cached_property
    def ends(self) -> np.ndarray:
        """(n + 1,) int64, beginning with 0: episode i has the steps ``ends[i]`` to ``ends[i + 1] - 1``."""
        ends = np.zeros(len(self.lengths) + 1, np.int64)
        self.lengths.cumsum(out=ends[1:])
        return ends

    @cached_property
    def state_of_step(self) -> np.ndarray:
        """(T,) int64: for each step, the index of the row of ``observations`` with the state before it."""
        lengths, states = self.lengths, np.arange(len(self.rewards))
        if len(lengths) > 1:
            states += np.arange(len(lengths)).repeat(lengths)
        return states

    def __len__(self) -> int:
        """Return the number of episodes, n."""
        return len(self.lengths)

    def __repr__(self) -> str:
        return f"<Episodes episodes={len(self)} steps={self.num_steps}>"

    @overload
    def __getitem__(self, key: SupportsIndex) -> Episode: ...

    @overload
    def __getitem__(self, key: slice) -> Episodes: ...

    def __getitem__(self, key: SupportsIndex | slice) -> Episode | Episodes:
        """Return an `Episode`, or `Episodes` for a slice, of views unless the slice has a step other than 1.

        Raises:
            IndexError: The index is out of range.
            ValueError: The slice is empty.
        """
        if not isinstance(key, slice):
            number = range(len(self))[key]
            part = self[number : number + 1]
            return unchecked(
                Episode,
                observations=part.observations,
                actions=part.actions,
                rewards=part.rewards,
                terminated=bool(part.terminated[0]),
                truncated=bool(part.truncated[0]),
                infos=part.infos,
                reset_info=dict(part.reset_infos[0]) if part.reset_infos else {},
            )
        begin, end, stride = key.indices(len(self))
        if (begin, end, stride) == (0, len(self), 1):
            return self
        if stride != 1:
            return Episodes.of(self[i] for i in range(begin, end, stride))
        if begin >= end:
            raise ValueError(f"a slice must contain at least one episode, got {key} of {len(self)} episodes")
        steps = slice(self.ends[begin], self.ends[end])
        states = slice(steps.start + begin, steps.stop + end)

        def cut(tree: Any, rows: slice) -> Any:
            return map_tree(lambda leaf: leaf[rows], tree)

        return unchecked(
            Episodes,
            observations=cut(self.observations, states),
            actions=cut(self.actions, steps),
            rewards=self.rewards[steps],
            lengths=self.lengths[begin:end],
            terminated=self.terminated[begin:end],
            truncated=self.truncated[begin:end],
            infos=cut(self.infos, steps),
            reset_infos=self.reset_infos[begin:end],
        )


def _require_continuity(observations: Tree, after: Tree, is_last: np.ndarray) -> None:
    for here, there in zip(leaf_arrays(observations), leaf_arrays(after), strict=True):
        jumps = np.flatnonzero(~equal_rows(here[1:], there[:-1]) & ~is_last[:-1])
        if jumps.size:
            raise ValueError(
                f"next_observations[{jumps[0]}] differs from observations[{jumps[0] + 1}], but row "
                f"{jumps[0]} is not marked as the last step of an episode; pass rows in order of time, and "
                "terminals or timeouts that are True at the last step of each episode"
            )
