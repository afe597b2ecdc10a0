"""Backends: where workers run. Each runs the same `Worker`, and reports workers that are lost."""

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
"""Seconds in which idle worker processes may close their environments before they are killed."""


class Backend(Protocol):
    """The workers of a collector, by number."""

    def start(self, worker: int) -> None:
        """Start a worker, or replace it by a new one without tasks."""

    def submit(self, worker: int, task: Task, state: bytes | None) -> None:
        """Give a worker a task; tasks of one worker are done in their order."""

    def receive(self) -> tuple[int, bytes | None]:
        """Wait for a worker; return its number and what `Worker.run` returned, or None if it is lost."""

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
        """Start a worker, or replace it by a new one without tasks."""
        self._tasks = deque(task for task in self._tasks if task[0] != worker)
        if worker in self._workers:
            self._workers[worker].close()
        self._workers[worker] = Worker(self._setup)

    def submit(self, worker: int, task: Task, state: bytes | None) -> None:
        """Add a task to the queue of a worker."""
        self._tasks.append((worker, task, state))

    def receive(self) -> tuple[int, bytes | None]:
        """Do the next task; return the worker's number and the result of `Worker.run`."""
        worker, task, state = self._tasks.popleft()
        return worker, self._workers[worker].run(task, state)

    def close(self) -> None:
        """Close all environments."""
        for worker in self._workers.values():
            worker.close()


class ProcessBackend:
    """Workers in processes of their own on this machine.

    Each process is a new Python interpreter that is connected to this process by a socket. It exits when the
    socket is closed, which the operating system does when this process is killed.

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
        """Start a process, or replace it by a new one without tasks."""
        self._kill(worker)
        ours, theirs = socket.socketpair()
        with theirs:
            self._processes[worker] = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, str(theirs.fileno()), *sys.path],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                process_group=0,  # Ctrl-C in a terminal reaches the learner only
                env=os.environ | {"OMP_NUM_THREADS": "1"},  # the same bits wherever the worker runs
            )
        self._connections[worker] = connection.Connection(ours.detach())
        self._send(worker, self._setup)

    def submit(self, worker: int, task: Task, state: bytes | None) -> None:
        """Send a task to a process."""
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
        """Stop the processes: idle ones close their environments and exit, the others are killed."""
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
