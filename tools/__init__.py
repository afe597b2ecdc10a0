"""Programs of developers."""
