"""Kernels seen, judged: pure functions over a run's tables."""
