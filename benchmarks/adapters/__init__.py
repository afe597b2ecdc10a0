"""Adapters for the replay buffers of other libraries, for the scoreboard."""
