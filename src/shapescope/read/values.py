"""One JSON value as a file spells it (raw bytes) -> the value of a column, exactly, with a count of what was lost.

This is the definition that the compiled scanner (scanner/number.c, scanner/text.c) follows to the byte.
"""

from __future__ import annotations

import re

LARGEST = (1 << 63) - 1
"""Beyond +-LARGEST a number is lost: the scanner keeps the one value below for null."""

_NUMBER = re.compile(rb"([+-]?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?)(\d+))?")
_LARGEST_EXPONENT = 100_000
_ESCAPE = re.compile(rb"\\(?:u([0-9a-fA-F]{4})(?:\\u([dD][c-fC-F][0-9a-fA-F]{2}))?|(.))", re.DOTALL)
_SIMPLE_ESCAPES = {
    b'"': b'"', b"\\": b"\\", b"/": b"/", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t",
}  # fmt: skip
_CONTROL = re.compile(rb"[\x00-\x1f]")
_UNPAIRED = "\ufffd".encode()


class Values:
    """Convert values; `lost` counts those that were numbers but cannot be kept, and texts that had to be repaired."""

    def __init__(self) -> None:
        self.lost = 0

    def integer(self, raw: bytes | None) -> int | None:
        return self._scaled(raw, 0)

    def nanoseconds(self, raw: bytes | None) -> int | None:
        """Microseconds as decimal text -> ns; what is finer than a ns is rounded, halves away from zero."""
        return self._scaled(raw, 3)

    def text(self, raw: bytes | None) -> str | None:
        """A string's content; of anything else the JSON text itself, since lists are kept raw."""
        if raw is None or raw == b"null":
            return None
        if raw[:1] != b'"':
            return self._utf8(raw, repaired=False) if raw != b"-0" else "0"
        content = raw[1:-1]
        repaired = _CONTROL.search(content) is not None
        if b"\\" in content:
            content, bad = _unescape(content)
            repaired |= bad
        return self._utf8(content, repaired)

    def _scaled(self, raw: bytes | None, scale: int) -> int | None:
        if raw is None or raw == b"null" or raw[:1] in (b"[", b"{"):
            return None
        quoted = raw[:1] == b'"'
        match = _NUMBER.fullmatch(raw[1:-1] if quoted else raw)
        if match is None or not (match[2] or match[3]):
            self.lost += not quoted and raw not in (b"true", b"false")
            return None
        negative, whole, fraction = match[1] == b"-", match[2], match[3] or b""
        exponent = min(int(match[5].lstrip(b"0")[:7] or b"0"), _LARGEST_EXPONENT) if match[5] else 0
        digits = (whole + fraction).lstrip(b"0")
        shift = (-exponent if match[4] == b"-" else exponent) - len(fraction) + scale
        value = _shifted(digits, shift, exact=not scale)
        if value is None or value > LARGEST:
            self.lost += 1
            return None
        return -value if negative else value

    def _utf8(self, content: bytes, repaired: bool) -> str:
        try:
            text = content.decode()
        except UnicodeDecodeError:
            text, repaired = _replace_bad_bytes(content), True
        self.lost += repaired
        return text


def _shifted(digits: bytes, shift: int, exact: bool) -> int | None:
    """digits * 10**shift, rounded half up; None where digits are left over but must not be, or where it is beyond use."""
    if not digits:
        return 0
    if len(digits) + shift > 19:
        return None
    if shift >= 0:
        return int(digits) * int(10**shift)
    kept = max(0, len(digits) + shift)
    whole, left_over = int(digits[:kept] or b"0"), digits[kept:]
    if exact:
        return None if left_over.strip(b"0") else whole
    return whole + (kept == len(digits) + shift and left_over[:1] >= b"5")


def _unescape(content: bytes) -> tuple[bytes, bool]:
    """Resolve escapes; one that JSON does not know stays as written, and half a surrogate pair becomes U+FFFD."""
    bad = False

    def resolve(match: re.Match[bytes]) -> bytes:
        nonlocal bad
        if match[3] is not None:
            simple = _SIMPLE_ESCAPES.get(match[3])
            bad |= simple is None
            return match[0] if simple is None else simple
        first = int(match[1], 16)
        second = int(match[2], 16) if match[2] else None
        if 0xD800 <= first < 0xDC00 and second is not None:
            return chr(0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00)).encode()
        lone = 0xD800 <= first < 0xE000
        bad |= lone or second is not None
        return (_UNPAIRED if lone else chr(first).encode()) + (_UNPAIRED if second is not None else b"")

    return _ESCAPE.sub(resolve, content), bad


def _replace_bad_bytes(content: bytes) -> str:
    """Each byte that is no part of valid UTF-8 becomes one U+FFFD (Python's own `replace` may take several at a time)."""
    parts: list[str] = []
    start = 0
    while start < len(content):
        try:
            parts.append(content[start:].decode())
            break
        except UnicodeDecodeError as error:
            parts += [content[start : start + error.start].decode(), "\ufffd"]
            start += error.start + 1
    return "".join(parts)
