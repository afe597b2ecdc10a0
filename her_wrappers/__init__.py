"""Hindsight Experience Replay for any Gymnasium goal environment: check, record, relabel."""
