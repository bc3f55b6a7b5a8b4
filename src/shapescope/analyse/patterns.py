"""Dims across sizes: which numbers grow with the size and which stay, so that one op is known again at every size.

`[[64,4096],[4096,4096]]` at 64 and `[[72,4096],[4096,4096]]` at 72 are both `[[N,4096],[4096,4096]]`. A number is
judged by what stands at its place at the other sizes: itself (a constant) or its multiple of the size; what is neither
reads `*`. With one size only, a number that equals it is taken for the size.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache

_NUMBER = re.compile(r"-?\d+")

Seen = dict[int, set[int]]
"""By size, the numbers seen at one place of one op's dims."""


def dims_patterns(calls: Iterable[tuple[str, int, str]]) -> dict[tuple[str, int, str], str]:
    """The pattern of each (op, size, dims), dims as JSON text. A size of 0 gives the dims themselves."""
    distinct = list(dict.fromkeys(calls))
    places: dict[tuple[str, str], list[Seen]] = {}
    for op, size, dims in distinct:
        numbers = _numbers(dims)
        seen = places.setdefault((op, _structure(dims)), [defaultdict(set) for _ in numbers])
        for place, number in zip(seen, numbers, strict=True):
            place[size].add(number)
    return {(op, size, dims): _pattern(dims, size, places[op, _structure(dims)]) for op, size, dims in distinct}


def _pattern(dims: str, size: int, places: list[Seen]) -> str:
    words = iter([_word(number, size, place) for number, place in zip(_numbers(dims), places, strict=True)])
    return _NUMBER.sub(lambda _: next(words), dims)


def _word(number: int, size: int, place: Seen) -> str:
    others = [seen for other, seen in place.items() if other != size]
    multiple = number // size if size > 0 and number > 0 and number % size == 0 else None
    if not others:
        return "N" if number == size else str(number)
    stays = sum(number in seen for seen in others)
    grows = 0
    if multiple is not None:
        grows = sum(multiple * other in seen for other, seen in place.items() if other != size)
    if grows and grows >= stays:
        return "N" if multiple == 1 else f"{multiple}N"
    return str(number) if stays else "*"


@lru_cache(maxsize=65_536)
def _numbers(dims: str) -> tuple[int, ...]:
    return tuple(int(number) for number in _NUMBER.findall(dims))


@lru_cache(maxsize=65_536)
def _structure(dims: str) -> str:
    return _NUMBER.sub("#", dims)
