"""Programs for the developers of this repository."""
