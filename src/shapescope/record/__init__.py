"""Evidence from a running capture."""
