"""RayBackend: workers on the machines of a Ray cluster."""

from __future__ import annotations

import logging
import os
from typing import Any

from her_wrappers.collecting.worker import Setup, Task, Worker


class RayBackend:
    """Workers that are Ray actors with one logical CPU each; `init_ray` explains ``address``."""

    def __init__(self, setup: Setup, num_workers: int, address: str | None) -> None:
        self._ray, self._is_owner = init_ray(address, num_workers)
        self._make_actor = self._ray.remote(num_cpus=1, scheduling_strategy="SPREAD")(Worker).remote
        self._setup = self._ray.put(setup)
        self._actors: dict[int, Any] = {}
        self._workers: dict[Any, int] = {}  # numbers of workers, by Ray's references to the pending results
        self._latest_state: tuple[bytes | None, Any] = None, None

    def start(self, worker: int) -> None:
        """Start the actor of a worker, or replace it by a new actor without tasks."""
        self._kill(worker)
        self._actors[worker] = self._make_actor(self._setup)

    def submit(self, worker: int, task: Task, state: bytes | None) -> None:
        """Submit a task to an actor; successive tasks with the same state share one copy of it in Ray."""
        if state is not self._latest_state[0]:
            self._latest_state = state, self._ray.put(state)
        result = self._actors[worker].run.remote(task, self._latest_state[1])
        self._workers[result] = worker

    def receive(self, timeout: float) -> tuple[int, bytes | None] | None:
        """Wait for a worker's result or loss; return (its number, result or None), or None at the timeout."""
        ready, _ = self._ray.wait(list(self._workers), timeout=timeout)
        if not ready:
            return None
        worker = self._workers.pop(ready[0])
        try:
            return worker, bytes(self._ray.get(ready[0]))
        except self._ray.exceptions.RayError:
            return worker, None

    def close(self) -> None:
        """Stop the actors; disconnect from Ray unless the program had initialized it."""
        if self._ray.is_initialized():
            for worker in list(self._actors):
                self._kill(worker)
            if self._is_owner:
                self._ray.shutdown()

    def _kill(self, worker: int) -> None:
        self._workers = {result: other for result, other in self._workers.items() if other != worker}
        actor = self._actors.pop(worker, None)
        if actor is not None:
            self._ray.kill(actor)


def init_ray(address: str | None, num_cpus: int) -> tuple[Any, bool]:
    """Return the module ``ray``, initialized, and whether the caller has to shut Ray down."""
    try:
        import ray  # noqa: PLC0415 - an optional dependency
    except ImportError as error:
        raise ImportError("backend='ray' needs ray; run: pip install \"her-toolkit[ray]\"") from error
    if ray.is_initialized():
        return ray, False
    address = address or os.environ.get("RAY_ADDRESS")
    if not address:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        ray.init(
            "local",
            num_cpus=max(num_cpus, os.cpu_count() or 1),
            include_dashboard=False,
            logging_level=logging.WARNING,
            _node_ip_address="127.0.0.1",
        )
        return ray, True
    try:
        ray.init(address=address, logging_level=logging.WARNING)
    except Exception as error:  # Ray raises ConnectionError, RuntimeError, ValueError and others
        raise ConnectionError(
            f"cannot connect to a Ray cluster at {address!r}: {error}; run `ray status` to see whether the "
            "cluster runs, and install the same Ray and Python versions on all machines"
        ) from error
    return ray, True
