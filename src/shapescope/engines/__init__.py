"""Adapters to engines, found by entry point."""
