"""The program of a worker process: reads tasks from a socket, plays them, and writes the results."""

from __future__ import annotations

import os
import pickle
import threading
from multiprocessing.connection import Connection
from queue import SimpleQueue

from her_wrappers.collecting.worker import Worker

CHECK_PARENT = 1.0
"""Largest number of seconds between checks that the process of the learner exists."""


def run_worker(file_number: int) -> None:
    """Play rounds until the learner closes the connection or ends.

    Args:
        file_number: File descriptor of the socket to the learner. The first message is a pickled `Setup`;
            each further message is a pickled tuple of a `Task` and the pickled policy state or None, or it is
            empty to stop the worker.
    """
    connection = Connection(file_number)
    messages: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_read, args=(connection, messages), daemon=True).start()
    worker = Worker(pickle.loads(messages.get()))
    while message := messages.get():
        connection.send_bytes(worker.run(*pickle.loads(message)))
    worker.close()


def _read(connection: Connection, messages: SimpleQueue[bytes]) -> None:
    """Put messages into a queue; exit, even during a task, when the learner ended or disconnected."""
    parent = os.getppid()
    try:
        while os.getppid() == parent:
            if connection.poll(CHECK_PARENT):
                messages.put(connection.recv_bytes())
    except (EOFError, OSError):
        pass
    os._exit(0)
