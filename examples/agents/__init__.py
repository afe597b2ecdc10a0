"""Agents, one readable file each: ``act(observation)``, ``update(batch)``, ``state_dict()``."""
