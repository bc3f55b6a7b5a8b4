"""Results kept beside what they were made of: asked the same again, a command neither opens the run nor makes the table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import shapescope
from shapescope.read.cache import Cache, cache_folder, entry_name, state
from shapescope.show.result import Result

# The cache is bounded, and larger results would soon fill it.
_MOST_ROWS = 10_000


def kept(run: Path, make: Callable[[], Result], *options: object) -> Result:
    """What `make` makes of the run at this path with these options, from the cache where it was made before."""
    cache = Cache(cache_folder(run))
    name = _name(run, options)
    if (known := cache.load(name, Result)) is not None:
        return known
    result = make()
    if len(result.rows) <= _MOST_ROWS and name == _name(run, options):
        cache.store(name, result)
    return result


def _name(run: Path, options: tuple[object, ...]) -> str:
    return entry_name("result", state(run), options, code=[Path(shapescope.__file__).parent])
