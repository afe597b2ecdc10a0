"""Replay: episodes in, relabeled transitions out."""
