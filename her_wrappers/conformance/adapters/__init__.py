"""Adapters that test her-toolkit's replay buffer, and its versions for SB3, RLlib and TorchRL."""
