"""Capturing and replaying; knows no profiler, only the observer protocol that it defines."""
