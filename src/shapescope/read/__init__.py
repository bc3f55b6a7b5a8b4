"""Traces of anybody, decoded into columns and tables."""
