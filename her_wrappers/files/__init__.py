"""Files: named arrays on disk, whole or not at all, read without trust."""
