"""Replay buffers: complete episodes are added, and relabeled transitions are sampled."""
