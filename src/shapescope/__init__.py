"""Which kernels serve production at every batch size: record, read and judge the graph capture of LLM servers."""

from __future__ import annotations

__version__ = "0.1.0"
