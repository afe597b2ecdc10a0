"""Collector: rounds of episodes from workers, while the learner learns from the previous round.

Time goes from left to right. ``s-`` is the initial state of the policy, and ``s1`` is the state that
`Collector.update` gets after round 1:

    workers   round 0 (s-)   round 1 (s-)   round 2 (s0)   round 3 (s1)
    learner                  learns from 0  learns from 1  learns from 2

The episodes of a worker in a round are a function of the seed, the numbers of the worker and the round, and
the policy state. Therefore, after the failure of a worker, the collector starts the worker again, and submits
the same rounds again.
"""

from __future__ import annotations

import contextlib
import io
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

from her_wrappers.arguments import require_count, require_flag, require_function, require_keys
from her_wrappers.collecting.backends import LocalBackend, ProcessBackend
from her_wrappers.collecting.ray_backend import RayBackend
from her_wrappers.collecting.worker import Setup, Task, WorkerFailure, WorkerResult, seeds_of
from her_wrappers.goal_interface import require_distinct
from her_wrappers.recording.episodes import Episodes

BACKENDS = ("local", "process", "ray")

RAISED, LOST, FINAL = "raised", "lost", "final"

MAX_ATTEMPTS = {RAISED: 3, LOST: 20, FINAL: 1}
"""Number of failed attempts of a worker at one round at which `CollectorError` is raised, by kind of failure.

``RAISED``: an exception in the worker. ``LOST``: the worker ended. ``FINAL``: a `NotRepeatableError`.
"""


class CollectorError(RuntimeError):
    """A worker failed too often in the same round, or its episodes are not repeatable.

    If the worker raised an exception, ``__cause__`` has the traceback of the worker.
    """


class WorkerTraceback(Exception):  # noqa: N818 - the cause of an error, never raised
    """The traceback of an exception in a worker, as a text."""


@dataclass(frozen=True)
class Round:
    """The episodes of all workers in one round, and how they were collected.

    Attributes:
        number: Number of the round, from 0.
        episodes: The episodes: those of worker 0, then those of worker 1, and so on.
        policy_age: Age of the policy in rounds: ``number`` minus the number of the round after which
            `Collector.update` got its state, or ``number + 1`` for the initial state. If `update` is called
            after each round, the age is 2 from round 1 on.
        steps_per_second: (W,) float64, steps of the episodes per second, for each worker.
        seconds_waiting: Seconds for which the learner waited for this round.
        lost_workers: Number of times that a worker was lost and replaced until this round was complete. A
            worker that was already playing the next round is counted again in that round.
    """

    number: int
    episodes: Episodes
    policy_age: int
    steps_per_second: np.ndarray
    seconds_waiting: float
    lost_workers: int


class _PolicyState(NamedTuple):
    """A pickled policy state (None: the initial state), and the round after which `update` got the state."""

    pickled: bytes | None = None
    after_round: int = -1


class Collector:
    """Collects episodes in rounds, with workers in this process, in other processes, or in a Ray cluster.

    In each round, each worker plays ``episodes_per_env`` episodes in each of its environments. The episodes
    depend only on the seed, the worker, the round and the state of the policy. They are bit-identical for all
    backends and timings, even if workers are killed and replaced, provided that all processors are of one
    type, all packages have the same versions, and the policy computes in one thread.

    While the learner works with round r - 1, the workers play round r, with the state that `update` got after
    round r - 2. Rounds 0 and 1 use the initial state of the policy. If `update` is not called after a round,
    the latest state is used again.

    After ``reset(seed=...)``, an environment must depend only on this seed and the actions. The actions of a
    policy must depend only on the observations, the state of the policy and ``seed(n)``. Each worker plays
    round 0 twice, and collecting ends with an error if the episodes differ. For a simulator that cannot
    repeat an episode, ``deterministic=False`` leaves out this comparison: episodes still are complete and are
    delivered once, but they differ between runs, backends and repeated rounds.

    Args:
        make_env: Function that returns a new environment or a new vector environment; called in the workers.
        policy: Function that returns the actions for the N observations of a vector environment. A policy
            that learns needs a method ``load_state_dict(state)``, one that explores a method ``seed(n)``,
            which is called with an int at the start of each round. The collector pickles the policy when it
            is made.
        num_workers: Number of workers, W.
        num_envs: Number of environments of each worker, N. None uses the number of environments in the vector
            environment that ``make_env`` returns, or 1 if ``make_env`` returns a single environment.
        backend: ``"local"``: in this process. ``"process"``: in processes on this machine. ``"ray"``: in a
            Ray cluster.
        seed: Seed of environments and policies.
        info_keys: Keys of the infos to record; each must exist at every step.
        fresh_envs: Whether to make new environments for each round, for environments that remember earlier
            episodes, or that are seeded only when they are made. If ``fresh_envs`` is True and ``make_env``
            has a parameter ``seed``, each call gets an int that depends on the seed of the collector, the
            worker, the round and the environment.
        deterministic: Whether the same seeds give the same episodes. With True, each worker plays round 0
            twice, and a comparison finds state that is kept from earlier episodes; with False, only once.
        address: Address of a Ray cluster; by default the environment variable ``RAY_ADDRESS``. If
            this is not set either, a new Ray is started on this machine. If the program has already
            initialized Ray, the collector uses that Ray instead.

    Raises:
        ConnectionError: No Ray cluster answers at ``address``.
        ImportError: ``backend`` is ``"ray"``, and Ray is not installed.
        OSError: ``backend`` is ``"process"``, and the operating system is not POSIX.
        TypeError: ``make_env`` or ``policy`` is not a function or cannot be pickled, ``info_keys`` is not a
            list of strings, or ``fresh_envs`` or ``deterministic`` is not a bool.
        ValueError: A number is out of range, the backend does not exist, ``address`` is given for a backend
            other than ``"ray"``, or ``make_env`` returns one environment object for several of ``num_envs``.

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
    ) -> None:
        require_function("make_env", make_env, takes="no arguments")
        require_function("policy", policy, takes="observations")
        if backend not in BACKENDS:
            raise ValueError(f"backend must be one of {', '.join(map(repr, BACKENDS))}, got {backend!r}")
        if address is not None and backend != "ray":
            raise ValueError(f"address needs backend='ray', got {address!r} with backend={backend!r}")
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
        if (self._setup.num_envs or 1) > 1 and _has_env(make_env):  # other functions make new environments
            copy_of_make_env = pickle.loads(self._setup.make_env)
            require_distinct([copy_of_make_env() for _ in range(2)])
        numbers = {"seed": self._setup.seed, "num_envs": self._setup.num_envs}
        self._identity = {**numbers, "num_workers": self._num_workers}
        self._has_state = hasattr(policy, "load_state_dict")
        self._next = 0  # the round that is delivered next
        self._state = _PolicyState()
        self._submitted: dict[int, _PolicyState] = {}  # the state of each round that workers play
        self._episodes_per_env = 0
        self._results: dict[tuple[int, int], WorkerResult] = {}  # by round and worker
        self._attempts: Counter[tuple[str, int, int]] = Counter()  # failures, by kind, round and worker
        self._spaces: tuple[Any, Any] | None = None
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
            episodes_per_env: Number of episodes that each environment plays in a round. Environments whose
                episodes are short continue until the others are done; their additional episodes are dropped.

        Yields:
            The next round. Calling this method again continues with the next round.

        Raises:
            CollectorError: A worker raised an exception three times in the same round, was lost 20 times in
                the same round, or played different episodes when it repeated round 0.
            RuntimeError: The collector is closed.
            ValueError: Workers have different spaces, or ``episodes_per_env`` is out of range or differs from
                its value in earlier rounds.
        """
        count = require_count("episodes_per_env", episodes_per_env, at_least=1)
        if self._submitted and count != self._episodes_per_env:
            raise ValueError(
                f"episodes_per_env must stay {self._episodes_per_env}, since the workers play round "
                f"{self._next} with this number already, got {count}; make a new Collector for another number"
            )
        self._episodes_per_env = count
        while True:
            round_ = self._collect()
            self._next = round_.number + 1
            yield round_

    def update(self, state: Any) -> None:
        """Give the policy a new state, which workers use from the second round after this call.

        A state that is given before the first round is used from round 0.

        Args:
            state: Argument of ``policy.load_state_dict``. The state is copied at once.

        Raises:
            TypeError: The policy has no ``load_state_dict``, or the state cannot be pickled.
        """
        if not self._has_state:
            raise TypeError(
                "policy must have a method load_state_dict(state) to be updated; define this method"
            )
        self._state = _PolicyState(_pickle("state", state), self._next - 1)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of this collector.

        The state contains the number of the next round, the policy states of the next two rounds,
        ``episodes_per_env``, and the arguments of this collector that `load_state_dict` compares.

        With `load_state_dict`, another collector with the same arguments continues with the same episodes.
        """
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

        Args:
            state: Returned by `state_dict`.

        Raises:
            ValueError: The other collector had another seed, or other numbers of workers or environments.
        """
        for name, value in self._identity.items():
            if state[name] != value:
                raise ValueError(
                    f"the state must come from a collector with the same {name}, {value}, "
                    f"got {name}={state[name]}; make both collectors with the same arguments"
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
        """Stop the workers; afterwards, `rounds` raises RuntimeError."""
        if not self._is_closed:
            self._is_closed = True
            self._backend.close()

    def __enter__(self) -> Collector:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _collect(self) -> Round:
        """Return the next round, after submitting the round that follows it to the workers."""
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
            lost_workers=sum(count for (kind, *_), count in self._attempts.items() if kind == LOST),
        )

    def _restart(self, worker: int) -> None:
        """Start or replace a worker, and submit the rounds for which it has returned no result."""
        self._backend.start(worker)
        for number in sorted(self._submitted):
            if (number, worker) not in self._results:
                self._submit(worker, number)

    def _submit(self, worker: int, number: int) -> None:
        task = Task(worker, number, self._episodes_per_env)
        self._backend.submit(worker, task, self._submitted[number].pickled)

    def _receive(self) -> None:
        """Store the next result of any worker; replace a worker that failed, unless it failed too often."""
        worker, message = self._backend.receive()
        if message is None:
            number = min((n for n in self._submitted if (n, worker) not in self._results), default=self._next)
            kind, reason, trace = LOST, "the process was killed, or its machine was lost", ""
        else:
            outcome: WorkerResult | WorkerFailure = pickle.loads(message)
            number = outcome.task.round
            if isinstance(outcome, WorkerResult):
                self._spaces = self._spaces or outcome.spaces
                if outcome.spaces != self._spaces:
                    raise ValueError(
                        f"all workers must have the same spaces, got {outcome.spaces} from worker {worker}, "
                        f"and {self._spaces} from another one; use the same versions of all packages on all "
                        "machines"
                    )
                self._results[number, worker] = outcome
                return
            kind, reason, trace = FINAL if outcome.is_final else RAISED, outcome.reason, outcome.trace
        self._attempts[kind, number, worker] += 1
        count = self._attempts[kind, number, worker]
        if count >= MAX_ATTEMPTS[kind]:
            seed, _ = seeds_of(self._setup.seed, worker, number)
            attempts = "" if kind == FINAL else f" {count} times"
            raise CollectorError(
                f"worker {worker} failed{attempts} in round {number}, whose environments are reset with "
                f"seed={seed}: {reason}"
            ) from (WorkerTraceback(f"\n{trace}") if trace else None)
        self._restart(worker)


def _pickle(name: str, value: Any) -> bytes:
    """Return a pickled argument; functions of the main program are pickled by value."""
    try:
        pickled: bytes = cloudpickle.dumps(value, protocol=5)
    except Exception as error:  # __reduce__ of a user's class can raise any exception
        raise TypeError(
            f"{name} must be picklable, since workers need copies of it, got {value!r}: {error}"
        ) from error
    return pickled


def _has_env(make_env: Callable[[], Any]) -> bool:
    """Whether a function holds an environment: in a closure variable, a default value or an attribute."""
    found = False

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc] # has no annotations
        def persistent_id(self, value: Any) -> None:
            nonlocal found
            found = found or isinstance(value, gym.Env)

    Pickler(io.BytesIO(), protocol=5).dump(make_env)
    return found


def _pickle_registered() -> Iterator[bytes]:
    """Pickle the specs of registered environments, except Gymnasium's own and unpicklable ones."""
    for spec in gym.registry.values():
        if not str(spec.entry_point).startswith("gymnasium."):
            with contextlib.suppress(TypeError):
                yield _pickle(spec.id, spec)
