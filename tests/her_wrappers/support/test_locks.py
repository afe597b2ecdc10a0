"""A process that is forked while another thread works with a buffer or an archive can use them."""

import copy
import multiprocessing
import threading

import pytest

from her_wrappers import EpisodeArchive
from tests.support.counting import counting_buffer, counting_episode

pytestmark = pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="needs fork")


def buffer_work():
    buffer = counting_buffer()
    buffer.add_episode(counting_episode(0, 9))
    return lambda: buffer.sample(1024), lambda: buffer.sample(4)


def copied_buffer_work():
    buffer = counting_buffer()
    buffer.add_episode(counting_episode(0, 9))
    copied = copy.deepcopy(buffer)
    return lambda: copied.sample(1024), lambda: copied.add_episode(counting_episode(1, 3))


def archive_work(path):
    archive = EpisodeArchive(path)
    return lambda: archive.add_episode(counting_episode(0, 9)), archive.close


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("kind", ["buffer", "copied buffer", "archive"])
def test_a_forked_process_does_not_wait_for_a_thread_that_it_does_not_have(kind, tmp_path):
    make = {"buffer": buffer_work, "copied buffer": copied_buffer_work}
    work, work_in_child = make[kind]() if kind in make else archive_work(tmp_path)
    stop = threading.Event()

    def run():
        while not stop.is_set():
            work()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        for _ in range(3):
            process = multiprocessing.get_context("fork").Process(target=work_in_child)
            process.start()
            process.join(20)
            code = process.exitcode
            process.kill()
            assert code == 0
    finally:
        stop.set()
        thread.join()
