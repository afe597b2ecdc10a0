"""Backends, which run the workers of a `Collector` in this process or in other processes on this machine.

`ray_backend` has the backend for a Ray cluster. All backends run the same class, `Worker`.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import socket
import subprocess
import sys
import time
from collections import deque
from multiprocessing import connection
from typing import TYPE_CHECKING, Protocol

from her_wrappers.collecting.worker import Worker

if TYPE_CHECKING:
    from her_wrappers.collecting.worker import Setup, Task

GRACE = 0.5
"""Seconds for which `ProcessBackend.close` waits for the worker processes to exit, before it kills them."""


class Backend(Protocol):
    """Runs the workers of a collector, which have the numbers 0 to W - 1."""

    def start(self, worker: int) -> None:
        """Start a worker. If it already exists, replace it by a new worker without tasks.

        Args:
            worker: Number of the worker.
        """

    def submit(self, worker: int, task: Task, state: bytes | None) -> None:
        """Submit a task to a started worker, which runs its tasks in the order of submission.

        Args:
            worker: Number of the worker.
            task: The task.
            state: Pickled state of the policy, or None for the initial state.
        """

    def receive(self) -> tuple[int, bytes | None]:
        """Wait until a worker has completed a task or is lost.

        Returns:
            The number of the worker; and the result of `Worker.run`, or None if the worker is lost.
        """

    def close(self) -> None:
        """Stop all workers."""


class LocalBackend:
    """Workers that take turns in this process.

    Args:
        setup: The environments and the policy.
    """

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._workers: dict[int, Worker] = {}
        self._tasks: deque[tuple[int, Task, bytes | None]] = deque()

    def start(self, worker: int) -> None:
        """Start a worker, or replace it by a new worker without tasks; see `Backend`."""
        self._tasks = deque(task for task in self._tasks if task[0] != worker)
        if worker in self._workers:
            self._workers[worker].close()
        self._workers[worker] = Worker(self._setup)

    def submit(self, worker: int, task: Task, state: bytes | None) -> None:
        """Add a task of a worker to the queue of all workers; see `Backend`."""
        self._tasks.append((worker, task, state))

    def receive(self) -> tuple[int, bytes | None]:
        """Run the next task of the queue; return the worker's number and the result of `Worker.run`."""
        worker, task, state = self._tasks.popleft()
        return worker, self._workers[worker].run(task, state)

    def close(self) -> None:
        """Close all environments."""
        for worker in self._workers.values():
            worker.close()


class ProcessBackend:
    """Workers in processes of their own on this machine.

    Each worker process is a new Python interpreter that is connected to this process by a socket. A worker
    process exits when the socket is closed. The operating system closes the socket if this process is killed.

    Args:
        setup: The environments and the policy.

    Raises:
        OSError: The operating system is not POSIX.
    """

    def __init__(self, setup: Setup) -> None:
        if os.name != "posix":
            raise OSError("backend='process' needs Linux or macOS; use backend='ray' or 'local'")
        self._setup = pickle.dumps(setup)
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._connections: dict[int, connection.Connection] = {}

    def start(self, worker: int) -> None:
        """Start the process of a worker, or replace it by a new process without tasks; see `Backend`."""
        self._kill(worker)
        ours, theirs = socket.socketpair()
        with theirs:
            self._processes[worker] = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, str(theirs.fileno()), *sys.path],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                process_group=0,  # Ctrl-C in a terminal reaches the learner only
                env=os.environ | {"OMP_NUM_THREADS": "1"},  # as Ray does; more threads round differently
            )
        self._connections[worker] = connection.Connection(ours.detach())
        self._send(worker, self._setup)

    def submit(self, worker: int, task: Task, state: bytes | None) -> None:
        """Send a task to the process of a worker; see `Backend`."""
        self._send(worker, pickle.dumps((task, state), protocol=5))

    def receive(self) -> tuple[int, bytes | None]:
        """Wait for a process; return the worker's number and its result, or None if the process ended."""
        ready = connection.wait(self._connections.values())
        worker, link = next(each for each in self._connections.items() if each[1] in ready)
        try:
            return worker, link.recv_bytes()
        except (EOFError, OSError):
            return worker, None

    def close(self) -> None:
        """Stop the processes: idle ones close their environments and exit; the others are killed."""
        for worker in self._connections:
            self._send(worker, b"")
        end = time.monotonic() + GRACE
        for worker, process in self._processes.items():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, end - time.monotonic()))
            self._kill(worker)

    @property
    def pids(self) -> dict[int, int]:
        """The process id of each worker."""
        return {worker: process.pid for worker, process in self._processes.items()}

    def _send(self, worker: int, message: bytes) -> None:
        with contextlib.suppress(OSError):  # the worker is lost, as `receive` will report
            self._connections[worker].send_bytes(message)

    def _kill(self, worker: int) -> None:
        if worker in self._processes:
            self._processes[worker].kill()
            self._processes[worker].wait()
        if worker in self._connections:
            self._connections[worker].close()


_PROGRAM = (
    "import sys; sys.path[:] = sys.argv[2:]; "
    "from her_wrappers.collecting.worker_process import run_worker; run_worker(int(sys.argv[1]))"
)
