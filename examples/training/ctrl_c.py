"""Ctrl-C as a request that a loop honours when its work is in order, not as an exception in its middle."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType


@contextmanager
def ctrl_c() -> Iterator[threading.Event]:
    """Give the event that the first Ctrl-C sets; the second interrupts as ever.

    Outside of the main thread, which alone gets signals, nothing sets it.
    """
    wanted = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield wanted
        return
    before = signal.getsignal(signal.SIGINT)

    def request(number: int, frame: FrameType | None) -> None:
        wanted.set()
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, request)
    try:
        yield wanted
    finally:
        signal.signal(signal.SIGINT, before)
