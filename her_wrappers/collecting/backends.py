"""Backends, which run the workers of a `Collector` in this process or in other processes on this machine.

The backends here and in `ray_backend` have the same methods. A worker runs its tasks in the order of
submission, each with a pickled state of the policy (None for the initial state).
"""

from __future__ import annotations

import contextlib
import os
import pickle
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from multiprocessing import connection
from queue import SimpleQueue

from her_wrappers.collecting.worker import Setup, Task, Worker

GRACE = 0.5  # seconds for which `ProcessBackend.close` waits for its processes, before it kills them
CHECK_PARENT = 1.0  # seconds after which a worker process checks again that the learner's process exists


class LocalBackend:
    """Workers that take turns in this process."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._workers: dict[int, Worker] = {}
        self._tasks: deque[tuple[int, Task, bytes | None]] = deque()

    def start(self, worker: int) -> None:
        """Start a worker, or replace it by a new worker without tasks."""
        self._tasks = deque(task for task in self._tasks if task[0] != worker)
        if worker in self._workers:
            self._workers[worker].close()
        self._workers[worker] = Worker(self._setup)

    def submit(self, worker: int, task: Task, state: bytes | None) -> None:
        """Append a task to the queue of all workers."""
        self._tasks.append((worker, task, state))

    def receive(self, timeout: float) -> tuple[int, bytes | None] | None:
        """Run the next task in the queue; return the worker's number and its result. Ignore ``timeout``."""
        worker, task, state = self._tasks.popleft()
        return worker, self._workers[worker].run(task, state)

    def close(self) -> None:
        """Close all environments."""
        for worker in self._workers.values():
            worker.close()


class ProcessBackend:
    """Workers that are new Python interpreters, which exit when their socket to this process is closed."""

    def __init__(self, setup: Setup) -> None:
        if os.name != "posix":
            raise OSError("backend='process' needs Linux or macOS; use backend='ray' or 'local'")
        self._setup = pickle.dumps(setup)
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._connections: dict[int, connection.Connection] = {}

    def start(self, worker: int) -> None:
        """Start the process of a worker, or replace it by a new process without tasks."""
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
        """Send a task to the process of a worker."""
        self._send(worker, pickle.dumps((task, state), protocol=5))

    def receive(self, timeout: float) -> tuple[int, bytes | None] | None:
        """Wait for a worker's result or end; return (its number, result or None), or None at the timeout."""
        ready = connection.wait(self._connections.values(), timeout)
        if not ready:
            return None
        worker, link = next(each for each in self._connections.items() if each[1] in ready)
        try:
            return worker, link.recv_bytes()
        except (EOFError, OSError):
            return worker, None

    def close(self) -> None:
        """Stop the processes: idle processes close their environments and exit; busy processes are killed."""
        for worker in self._connections:
            self._send(worker, b"")
        end = time.monotonic() + GRACE
        for worker, process in self._processes.items():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, end - time.monotonic()))
            self._kill(worker)

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
    "from her_wrappers.collecting.backends import run_worker; run_worker(int(sys.argv[1]))"
)


def run_worker(file_number: int) -> None:
    """Play rounds: the first message is a `Setup`, each further one a task and state, the last one empty."""
    link = connection.Connection(file_number)
    messages: SimpleQueue[bytes] = SimpleQueue()

    def read() -> None:  # in a thread, so that the process also exits during a task
        parent = os.getppid()
        with contextlib.suppress(EOFError, OSError):
            while os.getppid() == parent:
                if link.poll(CHECK_PARENT):
                    messages.put(link.recv_bytes())
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    worker = Worker(pickle.loads(messages.get()))
    while message := messages.get():
        link.send_bytes(worker.run(*pickle.loads(message)))
    worker.close()
