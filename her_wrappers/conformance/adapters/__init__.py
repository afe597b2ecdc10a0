"""Adapters for the replay buffer of her-toolkit and for its forms in other libraries."""
