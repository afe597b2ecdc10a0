"""Oracle in plain Python: the steps that a correct replay buffer contains, and the values of each row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

Eviction: TypeAlias = Literal["episodes", "steps"]

SOURCES: dict[str, Callable[[int, int], Sequence[int]]] = {
    "future": lambda t, length: range(t + 1, length + 1),
    "geometric": lambda t, length: range(t + 1, length + 1),
    "final": lambda t, length: [length],
    "episode": lambda t, length: range(1, length + 1),
}
"""For each strategy, a function that returns the states s whose goal ag_s may replace the goal of step t."""


@dataclass
class StoredEpisode:
    """An episode of T steps: T + 1 states, T actions, rewards and infos; it may still be open."""

    states: list[dict[str, Any]]  # with the key desired_goal
    actions: list[Any] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    infos: list[Any] = field(default_factory=list)
    terminated: bool = False
    truncated: bool = False
    first: int = -1  # number of step 0, counted over all complete episodes; -1 while the episode is open
    env: int = 0  # index of the environment
    was_interrupted: bool = False  # whether a reset ended the episode
    saved_at: int = -1  # steps of the open episode when it was saved, else -1; loading may end it there

    def __len__(self) -> int:
        return len(self.actions)


class ExpectedRow(NamedTuple):
    """The expected values of a row, which follow from its first step and its goal."""

    end: int  # index of the next state in the episode
    reward: float  # discounted sum of the rewards of the window
    terminated: bool
    truncated: bool
    discount: float  # gamma**m after m steps, 0 if terminated


class Oracle:
    """The expected content of a replay buffer. States, goals, actions and infos can be any values.

    Args:
        reward: Function ``(observation, action, next_achieved_goal, goal, info) -> reward`` of one step.
        reaches: Function ``(next_achieved_goal, goal, info)`` that returns whether a step ends the task.
        buffer_size: Capacity in steps.
        n_steps: Number of steps of a return.
        gamma: Discount factor.
        termination, samples_open, evicts: As the attributes of `ReplayAdapter`.
    """

    def __init__(
        self,
        reward: Callable[[Any, Any, Any, Any, Any], float],
        reaches: Callable[[Any, Any, Any], bool],
        *,
        buffer_size: int,
        n_steps: int = 1,
        gamma: float = 0.99,
        termination: str | None = "recompute",
        samples_open: bool | None = False,
        evicts: Eviction | None = "episodes",
    ) -> None:
        self._reward, self._reaches = reward, reaches
        self.buffer_size, self.n_steps, self.gamma = buffer_size, n_steps, gamma
        self.termination, self.samples_open, self.evicts = termination, samples_open, evicts
        self.episodes: list[StoredEpisode] = []  # complete ones of which steps may be stored, oldest first
        self.open: dict[int, StoredEpisode] = {}  # by index of the environment
        self.next_step = self._longest = 0

    def __len__(self) -> int:
        """Return the number of steps of the complete episodes."""
        return self.next_step - self.episodes[0].first if self.episodes else 0

    # --- the calls of a buffer --------------------------------------------------------------------

    def add(self, whole: StoredEpisode, t: int, env: int = 0) -> StoredEpisode:
        """Add step ``t`` of the episode ``whole`` to the open episode of an environment; return that one."""
        episode = self.open.setdefault(env, StoredEpisode(whole.states[:1], env=env))
        episode.states.append(whole.states[t + 1])
        episode.actions.append(whole.actions[t])
        episode.rewards.append(whole.rewards[t])
        episode.infos.append(whole.infos[t])
        if t + 1 == len(whole):
            episode.terminated, episode.truncated = whole.terminated, whole.truncated
            self.add_episode(self.open.pop(env))
        return episode

    def end_episode(self, env: int = 0) -> None:
        """Store the open episode of an environment as truncated."""
        episode = self.open.pop(env)
        episode.truncated = episode.was_interrupted = True
        self.add_episode(episode)

    def add_episode(self, episode: StoredEpisode) -> None:
        """Store a complete episode, and evict the oldest episodes as far as needed."""
        episode.first = self.next_step
        self.next_step += len(episode)
        self.episodes.append(episode)
        self._longest = max(self._longest, len(episode))
        self.resize(self.buffer_size)

    def resize(self, buffer_size: int) -> list[StoredEpisode]:
        """Change the capacity; return the evicted episodes, whose steps must not be sampled any more."""
        self.buffer_size, stored, evicted = buffer_size, len(self), []
        # If single steps are evicted, an episode is evicted together with its last step.
        room = buffer_size + (self._longest if self.evicts is None else 0)
        while stored > room if self.evicts == "episodes" else stored - len(self.episodes[0]) >= room:
            stored -= len(self.episodes[0])
            evicted.append(self.episodes.pop(0))
        return evicted

    # --- the rows that a buffer returns -----------------------------------------------------------

    def may_be_sampled(self) -> Iterator[StoredEpisode]:
        """Yield the episodes whose steps a buffer may return; of the oldest, perhaps only the last steps."""
        yield from self.episodes
        for episode in self.open.values():
            if self.samples_open is not False or episode.saved_at >= 0:  # saving may have ended it
                yield episode

    def must_be_sampled(self) -> list[StoredEpisode]:
        """Return, newest first, the episodes of which each step must have a chance to be sampled.

        A buffer must store the newest episode, but it may evict one episode more than it has to.
        """
        room = self.buffer_size
        if self.evicts != "episodes":  # steps of open episodes may occupy places of old steps
            room -= sum(map(len, self.open.values()))
        found: list[StoredEpisode] = []
        for episode in reversed(self.episodes):
            room -= len(episode)
            if room < (self._longest if found else 0):
                break
            found.append(episode)
        return found

    def row(self, episode: StoredEpisode, t: int, goal: Any = None) -> ExpectedRow:
        """Return the values of the relabeled row of step t with ``goal``, or of its original row if None.

        The window of an original row ends before a step at which the desired goal changes.
        """
        returned, terminated, end = 0.0, False, t
        while end < min(t + self.n_steps, len(episode)) and not terminated:
            reward, terminated = episode.rewards[end], episode.terminated and end + 1 == len(episode)
            if goal is not None:
                reward, terminated = self.reward(episode, end, goal), self.terminates(episode, end, goal)
            returned += self.gamma ** (end - t) * reward
            end += 1
            goals = [state["desired_goal"] for state in episode.states[t : end + 2]]
            if goal is None and any(each != goals[0] for each in goals):
                break
        truncated = end == len(episode) and episode.truncated
        return ExpectedRow(end, returned, terminated, truncated, self.gamma ** (end - t) * (not terminated))

    def reward(self, episode: StoredEpisode, t: int, goal: Any) -> float:
        """Return the reward of a step under a goal."""
        observation, achieved = episode.states[t]["observation"], episode.states[t + 1]["achieved_goal"]
        return self._reward(observation, episode.actions[t], achieved, goal, episode.infos[t])

    def terminates(self, episode: StoredEpisode, t: int, goal: Any) -> bool:
        """Return whether a step terminates under a new goal."""
        ended = episode.terminated and t + 1 == len(episode)
        if self.termination in {"keep", "never"}:
            return ended and self.termination == "keep"
        own_goal = episode.states[t + 1]["desired_goal"]
        return self._ends_task(episode, t, goal) or (ended and not self._ends_task(episode, t, own_goal))

    def _ends_task(self, episode: StoredEpisode, t: int, goal: Any) -> bool:
        if self.termination == "success":
            return self.reward(episode, t, goal) == 0
        return self._reaches(episode.states[t + 1]["achieved_goal"], goal, episode.infos[t])
