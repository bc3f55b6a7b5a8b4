"""Decode a profiler trace, whatever its state: a file of Chrome-trace JSON, plain or gzipped, into columns.

    decode(path) -> [Trace, ..]    one for each JSON document; nearly every file has one

The file is never in memory as a whole.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shapescope.errors import InputError
from shapescope.read.blocks import BLOCK_BYTES, Blocks
from shapescope.read.columns import PythonFrames, Trace
from shapescope.read.document import BLANK, Document, Reader, begins_document
from shapescope.read.fallback import FallbackReader

_MOST_DOCUMENTS = 1000
_SMALL_BLOCK = 1 << 16

READER: type[Reader]
try:
    from shapescope.read.compiled import CompiledReader as READER
except ImportError:  # not built on this platform: the same columns, at a fraction of the speed
    READER = FallbackReader


def decode(path: Path | str, *, python: PythonFrames = "modules") -> list[Trace]:
    """All that a trace file holds.

    `python` says which Python frames (category `python_function`) are kept: those of modules (`nn.Module: ..`), all, or
    none. Damage does not raise: what can be read is returned with its `losses`. InputError: the file cannot be opened,
    or is no profiler trace.
    """
    return decode_with(READER, Path(path), python)


def decode_with(
    reader: type[Reader], path: Path, python: PythonFrames = "modules", block_bytes: int = BLOCK_BYTES
) -> list[Trace]:
    """`decode` through a given reader, in blocks of a given size."""
    blocks = Blocks(path, block_bytes)
    try:
        with _paused_collector():
            documents = _documents(blocks, reader, python)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from error
    behind = documents.pop() if len(documents) > 1 and not documents[-1].is_trace else None
    last = len(documents) - 1
    return [
        document.trace(
            path,
            member,
            damage=blocks.damage if member == last else None,
            bytes_behind=behind.head_bytes if behind and member == last else 0,
        )
        for member, document in enumerate(documents)
    ]


def _documents(blocks: Blocks, reader: type[Reader], python: PythonFrames) -> list[Document]:
    """All documents of a file, closed. What follows the last one and is none itself is the last of the list."""
    documents = [Document(reader, python)]
    for text, begins in _texts(blocks):
        if begins and documents[-1].begun and not documents[-1].complete:
            _feed(documents, documents[-1].close(), reader, python)
            documents.append(Document(reader, python))
        _feed(documents, text, reader, python)
    while behind := documents[-1].close().lstrip(BLANK):
        if len(documents) > _MOST_DOCUMENTS:
            break
        documents.append(Document(reader, python))
        _feed(documents, behind, reader, python)
    return documents


def _feed(documents: list[Document], text: bytes, reader: type[Reader], python: PythonFrames) -> None:
    """Give text to the last document, and what follows its end to a new one."""
    while text:
        if documents[-1].complete:
            text = text.lstrip(BLANK)
            if not text or len(documents) > _MOST_DOCUMENTS:
                return
            documents.append(Document(reader, python))
        text = documents[-1].feed(text)


def _texts(blocks: Blocks) -> Iterator[tuple[bytes, bool]]:
    """Blocks, and whether a gzip member with a document of its own begins. Small ones are put together: some files come in
    very many members, and each piece costs a call."""
    held = bytearray()
    enough = min(blocks.size, _SMALL_BLOCK)
    begins = False
    for block, starts_member in blocks:
        begins_here = starts_member and begins_document(block)
        if held and (begins_here or len(held) + len(block) > enough):
            yield bytes(held), begins
            held.clear()
        if not held:
            begins = begins_here
        if len(block) >= enough:
            yield block, begins
        else:
            held += block
    if held:
        yield bytes(held), begins


@contextmanager
def _paused_collector() -> Iterator[None]:
    """Decoding makes many objects and no cycles: looking for them would take a tenth of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
