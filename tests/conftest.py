"""Settings of SDL, torch and hypothesis for all tests."""

import os

from hypothesis import settings

# Windows of the render mode `human` open in memory. SDL reads these when pygame is imported.
os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
os.environ.setdefault("SDL_AUDIODRIVER", "dummy")

# With the small networks of the tests, one thread is fastest. torch reads this when it is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# The time of an example depends on the machine.
settings.register_profile("suite", deadline=None, max_examples=50)
settings.load_profile("suite")
