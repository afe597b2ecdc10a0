"""Collector: workers play a round of episodes while the learner learns from the previous round.

Time goes from left to right. The policy state of a round is in parentheses: ``s-`` is the initial state, and
``s1`` is the state that the learner passes to `Collector.update` after it has learned from round 1:

    workers   round 0 (s-)   round 1 (s-)   round 2 (s0)   round 3 (s1)
    learner                  learns from 0  learns from 1  learns from 2

The episodes of a worker in a round are a function of the seed, the numbers of the worker and the round, and
the policy state. Therefore, if a worker fails, the collector starts the worker again and submits the same
rounds again, which gives the same episodes.
"""

from __future__ import annotations

import contextlib
import math
import pickle
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import cloudpickle
import gymnasium as gym
import numpy as np

from her_wrappers.collecting.backends import LocalBackend, ProcessBackend
from her_wrappers.collecting.ray_backend import RayBackend
from her_wrappers.collecting.worker import Setup, Task, WorkerFailure, WorkerResult, seeds_of
from her_wrappers.recording.episodes import Episodes
from her_wrappers.support.arguments import (
    require_count,
    require_flag,
    require_function,
    require_keys,
    require_number,
)
from her_wrappers.support.user_warning import warn_user

BACKENDS = ("local", "process", "ray")

MAX_ATTEMPTS = {
    "raised": 3,  # an exception in the worker
    "lost": 20,  # the worker process ended
    "hung": 3,  # the worker had no result within the timeout
    "final": 1,  # a `NotRepeatableError`
}
"""Number of failures of a worker in one round after which `CollectorError` is raised, by kind of failure."""

PATIENCE = 60.0  # seconds after which a warning names a worker without a result, if there is no timeout
MAX_WAIT = 1e4  # seconds of one call of `receive`; the operating system does not accept infinity


class CollectorError(RuntimeError):
    """A worker failed too often, or is not repeatable; ``__cause__`` is the exception in it, if any."""


class WorkerTraceback(Exception):  # noqa: N818 - the cause of an error, never raised
    """The traceback of an exception in a worker, as a text."""


@dataclass(frozen=True)
class Round:
    """The episodes of all workers in one round, and how they were collected.

    Attributes:
        number: Number of the round, from 0.
        episodes: The episodes of worker 0, followed by the episodes of worker 1, and so on.
        policy_age: Age in rounds of the policy state that was used: ``number - k`` if `Collector.update` got
            this state after round k, ``number + 1`` for the initial state. If `update` is called after
            each round, the age is 1 in round 0 and 2 later: workers play one round ahead of the learner.
        steps_per_second: (W,) float64, steps of the episodes per second, for each worker.
        seconds_waiting: Seconds for which the learner waited for this round.
        lost_workers: Number of times that a worker was lost while it played this round, and was replaced.
            Losses in the next round that occurred before this round was complete count in both rounds.
    """

    number: int
    episodes: Episodes
    policy_age: int
    steps_per_second: np.ndarray
    seconds_waiting: float
    lost_workers: int


class _PolicyState(NamedTuple):
    """A policy state, and the number of the last round that was delivered before `update` got the state."""

    pickled: bytes | None = None  # None: the initial state
    after_round: int = -1  # -1: before round 0


class Collector:
    """Collects episodes in rounds, with workers in this process, in other processes, or in a Ray cluster.

    In each round, each worker plays ``episodes_per_env`` episodes in each of its environments. The episodes
    depend only on the seed, the worker, the round and the state of the policy. They are bit-identical for all
    backends and timings, even if workers are killed and replaced, provided that all processors are of one
    type, all packages have the same versions, and the policy computes in one thread.

    While the learner works with round r - 1, the workers play round r, with the state that `update` got after
    round r - 2. Rounds 0 and 1 use the initial state of the policy, unless `update` is called before round 0.
    If `update` is not called after a round, the latest state is used again.

    After ``reset(seed=...)``, an environment must depend only on this seed and the actions. The actions of a
    policy must depend only on the observations, the state of the policy and ``seed(n)``. Each worker plays
    round 0 twice, and collecting ends with an error if the episodes differ. For a simulator that cannot
    repeat an episode, ``deterministic=False`` leaves out this comparison: episodes still are complete and are
    delivered once, but they differ between runs, backends and repeated rounds.

    Args:
        make_env: Function that returns a new environment or a new vector environment; called in the workers.
        policy: Function that returns the actions for the N observations of a vector environment. A policy
            that learns needs a method ``load_state_dict(state)``, one that explores a method ``seed(n)``,
            which is called with an int at the start of each round. The policy is pickled at once.
        num_workers: Number of workers, W.
        num_envs: Number of environments of each worker, N. None means the number in the vector environment
            that ``make_env`` returns, or 1 for a single environment.
        backend: ``"local"``: in this process. ``"process"``: in processes on this machine. ``"ray"``: in a
            Ray cluster.
        seed: Seed of environments and policies.
        info_keys: Keys of the infos to record; each must exist at every step.
        fresh_envs: Whether to make new environments for each round, for environments that remember earlier
            episodes, or that are seeded only when they are made. If ``make_env`` has a parameter ``seed``,
            each call gets an int that depends on the seed of the collector, worker, round and environment.
        deterministic: Whether each worker plays round 0 twice, and the episodes must be equal.
        address: Address of a Ray cluster; by default the environment variable ``RAY_ADDRESS``. If neither is
            given, a new Ray instance is started on this machine. If the program has already initialized Ray,
            the collector uses that instance, and ignores the address.
        timeout: Number of seconds after which a worker that has not finished its round is replaced, for
            simulators that sometimes never return. None waits without end, but warns after a minute. The
            timeout has no effect with ``backend="local"``.

    Raises:
        ConnectionError: No Ray cluster answers at ``address``.
        ImportError: ``backend`` is ``"ray"``, and Ray is not installed.
        OSError: ``backend`` is ``"process"``, and the operating system is not POSIX.
        TypeError: ``make_env`` or ``policy`` is not a function or cannot be pickled, or another argument has
            a wrong type.
        ValueError: A number is out of range, the backend does not exist, or ``address`` is given without Ray.

    Example:
        >>> import gymnasium as gym, her_envs, numpy as np
        >>> def make_env():
        ...     return gym.make("her_envs/PointReach-v0", max_steps=10)
        >>> def policy(observations):
        ...     return observations["desired_goal"] - observations["achieved_goal"]
        >>> with Collector(make_env, policy, num_workers=2, num_envs=3) as collector:
        ...     for round in collector.rounds(episodes_per_env=2):
        ...         print(round.number, len(round.episodes), round.episodes.num_steps)
        ...         if round.number == 1:
        ...             break
        0 12 120
        1 12 120
    """

    def __init__(
        self,
        make_env: Callable[[], Any],
        policy: Callable[[Any], Any],
        *,
        num_workers: int = 1,
        num_envs: int | None = None,
        backend: str = "local",
        seed: int = 0,
        info_keys: Iterable[str] = (),
        fresh_envs: bool = False,
        deterministic: bool = True,
        address: str | None = None,
        timeout: float | None = None,
    ) -> None:
        self._timeout = None if timeout is None else require_number("timeout", timeout, "(0, inf)")
        self._patience = self._timeout or PATIENCE  # seconds
        require_function("make_env", make_env, takes="no arguments that returns an environment")
        require_function("policy", policy, takes="observations that returns actions")
        if backend not in BACKENDS:
            raise ValueError(f"backend must be one of {', '.join(map(repr, BACKENDS))}, got {backend!r}")
        if address is not None and backend != "ray":
            raise ValueError(f"address={address!r} needs backend='ray', got backend={backend!r}")
        self._num_workers = require_count("num_workers", num_workers, at_least=1)
        self._setup = Setup(
            make_env=_pickle("make_env", make_env),
            policy=_pickle("policy", policy),
            num_envs=None if num_envs is None else require_count("num_envs", num_envs, at_least=1),
            seed=require_count("seed", seed, at_least=0),
            info_keys=require_keys("info_keys", info_keys),
            fresh_envs=require_flag("fresh_envs", fresh_envs),
            deterministic=require_flag("deterministic", deterministic),
            sys_path=tuple(sys.path),
            registered=tuple(_pickle_registered()),
        )
        setup = self._setup
        self._identity = {"seed": setup.seed, "num_envs": setup.num_envs, "num_workers": self._num_workers}
        self._has_state = hasattr(policy, "load_state_dict")
        self._next = 0  # the round that is delivered next
        self._state = _PolicyState()
        self._submitted: dict[int, _PolicyState] = {}  # the state of each round that workers play
        self._episodes_per_env = 0
        self._results: dict[tuple[int, int], WorkerResult] = {}  # by round and worker
        self._attempts: Counter[tuple[str, int, int]] = Counter()  # failures, by kind, round and worker
        self._since: dict[int, float] = {}  # time since when each busy worker has had no result
        self._is_consistent = False  # False: start all workers again
        self._is_closed = False
        self._backend: LocalBackend | ProcessBackend | RayBackend
        if backend == "ray":
            self._backend = RayBackend(self._setup, self._num_workers, address)
        else:
            self._backend = (LocalBackend if backend == "local" else ProcessBackend)(self._setup)

    def rounds(self, episodes_per_env: int = 1) -> Iterator[Round]:
        """Collect rounds without end.

        Args:
            episodes_per_env: Number of episodes that each environment plays in a round. An environment that
                has played its episodes continues until all have; its additional episodes are dropped.

        Yields:
            The next round. Calling this method again continues with the next round.

        Raises:
            CollectorError: In the same round, a worker raised an exception or exceeded the timeout three
                times, or was lost 20 times; or the episodes of round 0 differed when it was repeated.
            RuntimeError: The collector is closed.
            ValueError: The arrays of workers have different keys or shapes, or ``episodes_per_env`` is out of
                range or differs from its value in earlier rounds.
        """
        count = require_count("episodes_per_env", episodes_per_env, at_least=1)
        if self._submitted and count != self._episodes_per_env:
            raise ValueError(
                f"episodes_per_env must stay {self._episodes_per_env}, got {count}, as workers already play "
                f"round {self._next}; create a new Collector for another value"
            )
        self._episodes_per_env = count
        while True:
            round_ = self._collect()
            self._next = round_.number + 1
            yield round_

    def update(self, state: Any) -> None:
        """Give the policy a new state.

        After round r was delivered, the new state is used from round r + 2 on, since round r + 1 was already
        submitted with an earlier state. Before the first round, the new state is used from round 0 on.

        Args:
            state: Argument of ``policy.load_state_dict``. The state is copied at once.

        Raises:
            TypeError: The policy has no ``load_state_dict``, or the state cannot be pickled.
        """
        if not self._has_state:
            raise TypeError(
                "update() needs a policy with the method load_state_dict(state), but this policy has none"
            )
        self._state = _PolicyState(_pickle("state", state), self._next - 1)

    def state_dict(self) -> dict[str, Any]:
        """Return the state from which a new collector with equal arguments continues with equal episodes."""
        states = self._submitted.get(self._next, self._state), self._state
        return {
            **self._identity,
            "round": self._next,
            "episodes_per_env": self._episodes_per_env,
            "states": [None if each.pickled is None else pickle.loads(each.pickled) for each in states],
            "after_rounds": [each.after_round for each in states],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from the state that `state_dict` of another collector returned.

        Raises:
            ValueError: The other collector had another seed, or other numbers of workers or environments.
        """
        for name, value in self._identity.items():
            if state[name] != value:
                raise ValueError(
                    f"the state dict comes from a collector with {name}={state[name]}, but this collector "
                    f"has {name}={value}; create this collector with {name}={state[name]}"
                )
        pending, self._state = (
            _PolicyState(None if each is None else _pickle("state", each), after_round)
            for each, after_round in zip(state["states"], state["after_rounds"], strict=True)
        )
        self._is_consistent = False
        self._next, self._episodes_per_env = state["round"], state["episodes_per_env"]
        self._submitted = {self._next: pending} if self._episodes_per_env else {}
        self._results = {}

    def close(self) -> None:
        """Stop the workers. A later call of `rounds` raises RuntimeError."""
        if not self._is_closed:
            self._is_closed = True
            self._backend.close()

    def __enter__(self) -> Collector:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _collect(self) -> Round:
        """Submit the next two rounds unless this was already done; wait for the first one, and return it."""
        if self._is_closed:
            raise RuntimeError("the collector is closed; make a new Collector")
        started, number = time.perf_counter(), self._next
        # The results of rounds that were delivered, and the records of their failures, are dropped.
        self._submitted = {key: state for key, state in self._submitted.items() if key >= number}
        self._results = {key: result for key, result in self._results.items() if key[0] >= number}
        self._attempts = Counter({key: n for key, n in self._attempts.items() if key[1] >= number})
        if not self._is_consistent:
            for worker in range(self._num_workers):
                self._restart(worker)
        self._is_consistent = False  # until this round is complete: an error or Ctrl-C may come at any moment
        for each in (number, number + 1):
            if each not in self._submitted:
                self._submitted[each] = self._state
                for worker in range(self._num_workers):
                    self._submit(worker, each)
        while any((number, worker) not in self._results for worker in range(self._num_workers)):
            self._receive()
        self._is_consistent = True
        results = [self._results[number, worker] for worker in range(self._num_workers)]
        return Round(
            number=number,
            episodes=Episodes.of(each for result in results for each in result.episodes),
            policy_age=number - self._submitted[number].after_round,
            steps_per_second=np.array([each.episodes.num_steps / each.seconds for each in results]),
            seconds_waiting=time.perf_counter() - started,
            lost_workers=sum(count for (kind, *_), count in self._attempts.items() if kind == "lost"),
        )

    def _restart(self, worker: int) -> None:
        """Start or replace a worker, and submit all tasks of this worker that have no result yet."""
        self._backend.start(worker)
        self._since.pop(worker, None)
        for number in sorted(self._submitted):
            if (number, worker) not in self._results:
                self._submit(worker, number)

    def _submit(self, worker: int, number: int) -> None:
        self._since.setdefault(worker, time.monotonic())
        task = Task(worker, number, self._episodes_per_env)
        self._backend.submit(worker, task, self._submitted[number].pickled)

    def _receive(self) -> None:
        """Store the next result. Replace a failed worker, or raise an error if one failed too often."""
        slowest = min(self._since, key=self._since.__getitem__)
        end = self._since[slowest] + self._patience
        received = self._backend.receive(min(max(0.0, end - time.monotonic()), MAX_WAIT))
        if received is None and time.monotonic() < end:
            return
        worker, message = received or (slowest, None)
        missing = [each for each in sorted(self._submitted) if (each, worker) not in self._results]
        if message is None:
            number = missing[0] if missing else self._next
            kind, reason, trace = "lost", "the process was killed, or its machine was lost", ""
            if received is None:
                kind, reason = "hung", f"it did not finish within timeout={self._timeout} seconds"
                if self._timeout is None:
                    warn_user(
                        f"worker {worker} has not finished round {number} for {PATIENCE:.0f} seconds; if it "
                        "never does, pass timeout=, after which a worker is replaced"
                    )
                    self._patience = math.inf
                    return
        else:
            outcome: WorkerResult | WorkerFailure = pickle.loads(message)
            number = outcome.task.round
            if isinstance(outcome, WorkerResult):
                self._results[number, worker] = outcome
                self._since[worker] = time.monotonic()
                if missing == [number]:  # the worker has no other task
                    del self._since[worker]
                return
            kind = "final" if outcome.is_final else "raised"
            reason, trace = outcome.reason, outcome.trace
        self._attempts[kind, number, worker] += 1
        count = self._attempts[kind, number, worker]
        if count >= MAX_ATTEMPTS[kind]:
            seed, _ = seeds_of(self._setup.seed, worker, number)
            attempts = "" if kind == "final" else f" {count} times"
            raise CollectorError(
                f"worker {worker} failed{attempts} in round {number}, whose environments are reset with "
                f"seed={seed}: {reason}"
            ) from (WorkerTraceback(f"\n{trace}") if trace else None)
        self._restart(worker)


def _pickle(name: str, value: Any) -> bytes:
    """Return the pickled argument ``name``; functions of the main program are pickled by value."""
    try:
        pickled: bytes = cloudpickle.dumps(value, protocol=5)
    except Exception as error:  # __reduce__ of a user's class can raise any exception
        raise TypeError(
            f"{name} must be picklable, because each worker gets a copy, but pickling {value!r} failed "
            f"({error}); remove parts such as locks and open files"
        ) from error
    return pickled


def _pickle_registered() -> Iterator[bytes]:
    """Yield the pickled specs of registered environments, except Gymnasium's own and unpicklable specs."""
    for spec in gym.registry.values():
        if not str(spec.entry_point).startswith("gymnasium."):
            with contextlib.suppress(TypeError):
                yield _pickle(spec.id, spec)
