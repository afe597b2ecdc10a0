"""Storage: episodes as records in memory, and their steps copied out again."""
