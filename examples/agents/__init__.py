"""Agents, one readable file each: ``act(observation)``, ``update(batch)``, ``state_dict()``.

To use one elsewhere, copy its file, ``networks.py`` and ``normalizer.py``. All but ``iql.py``, which learns
from records alone, are for `examples.train`.
"""
