"""The shape of a demangled C++ name: a path of segments with template arguments. Linear in its length.

No full grammar: return types, qualifiers and parameters are passed over, because two kernels never differ by
them alone. Names that a tool cut off, or that never were C++, give what can be read and no error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

MAX_DEPTH = 64

TOKEN = re.compile(
    r"operator\(\)|operator[-+*/%^&|~!=]{1,3}"
    r"|[A-Za-z_$~][\w$]*|\d[\w.]*"
    r"|::|->|[<>(){}\[\],&-]"
)
QUALIFIERS = frozenset({"const", "volatile", "struct", "class", "typename", "enum", "restrict", "__restrict__"})
WORD_TYPES = frozenset({"unsigned", "signed", "long", "short", "int", "char", "double", "__int128"})
CLOSING_OF = {"<": ">", "(": ")", "{": "}", "[": "]"}
OPENING_OF = {closing: opening for opening, closing in CLOSING_OF.items()}
OPENING, CLOSING = frozenset(CLOSING_OF), frozenset(OPENING_OF)
LAMBDA = "lambda"
CALL = "operator()"


@dataclass(frozen=True, slots=True)
class Segment:
    """One step of a path; `parameters` are kept for a lambda only, whose types tell instances apart."""

    identifier: str
    arguments: tuple[Name, ...] = ()
    parameters: tuple[Name, ...] = ()


@dataclass(frozen=True, slots=True)
class Name:
    """A path, or a literal: `value` is `4`, `true`; `cast` its enum; `function` for `&f<..>`."""

    path: tuple[Segment, ...] = ()
    value: str = ""
    cast: str = ""
    function: bool = False

    @property
    def identifier(self) -> str:
        return self.path[-1].identifier if self.path else ""

    @property
    def arguments(self) -> tuple[Name, ...]:
        return self.path[-1].arguments if self.path else ()

    def walk(self) -> Iterator[Name]:
        """This name and all names inside its template arguments, outermost and leftmost first."""
        stack = [self]
        while stack:
            name = stack.pop()
            yield name
            for segment in reversed(name.path):
                stack.extend(reversed(segment.arguments))


def parse(text: str) -> Name:
    """The name that `text` spells, without its return type and parameters."""
    return _Parser(TOKEN.findall(text)).name(0)


class _Parser:
    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def name(self, depth: int) -> Name:
        """One name, up to the `,` or the closing bracket that ends it."""
        path: list[Segment] = []
        value = cast = ""
        joined = function = False
        while (token := self.peek()) and token != "," and token not in CLOSING:
            self.at += 1
            if token == "(" and (joined or not path):
                inner = self.group(")", depth + 1)
                if inner and self._casts():
                    cast = inner[0].identifier or cast
                elif inner and self.peek() != "::":
                    path, function = list(inner[0].path), True
            elif token in OPENING:
                self._bracket(token, path, depth)
                joined = False
            elif token == "::":
                joined = True
            elif token == "&":
                function = function or not path
            elif token == "-" or token[0].isdigit():
                value = ("-" if value == "-" else "") + token.rstrip("uUlL")
            elif token not in QUALIFIERS:
                _append(path, token, joined)
                joined = False
        if not value and len(path) == 1 and path[0].identifier in ("true", "false"):
            return Name((), path[0].identifier, cast)
        return Name(tuple(path), value, cast, function and bool(path))

    def _casts(self) -> bool:
        """Whether the parenthesis that was just closed is a cast: an operand follows."""
        follower = self.peek()
        return follower[:1].isalnum() or follower[:1] in ("-", "_", "(")

    def _bracket(self, opening: str, path: list[Segment], depth: int) -> None:
        """Template arguments, parameters or a closure after, or as part of, a path."""
        if opening in "{[":
            path.append(self._closure(CLOSING_OF[opening], depth))
        elif opening == "<":
            arguments = self.group(">", depth + 1)
            if path:
                path[-1] = Segment(path[-1].identifier, arguments)
        elif path[-1].identifier == LAMBDA and not path[-1].parameters:
            path[-1] = Segment(LAMBDA, path[-1].arguments, self.group(")", depth + 1))
        else:
            self.skip(")")

    def group(self, closing: str, depth: int) -> tuple[Name, ...]:
        """The names up to the closing bracket, which is consumed. Inside parentheses a stray `>` compares."""
        if depth > MAX_DEPTH:
            self.skip(closing)
            return ()
        names: list[Name] = []
        while token := self.peek():
            if token in CLOSING and closing not in (token, ")"):
                break
            if token == "," or token in CLOSING:
                self.at += 1
                if token == closing:
                    break
                continue
            names.append(self.name(depth))
        return tuple(names)

    def skip(self, closing: str) -> None:
        """Pass over the group that has just been opened, counting its own kind of bracket."""
        opening, depth = OPENING_OF[closing], 1
        while depth and (token := self.peek()):
            depth += (token == opening) - (token == closing)
            self.at += 1

    def _closure(self, closing: str, depth: int) -> Segment:
        """`{lambda(float)#1}`, `[lambda(int) (instance 1)]`, `{unnamed type#1}`; the bracket is open."""
        parameters: tuple[Name, ...] = ()
        if self.peek() == LAMBDA:
            self.at += 1
            if self.peek() == "(":
                self.at += 1
                parameters = self.group(")", depth + 1)
        self.skip(closing)
        return Segment(LAMBDA, (), parameters)


def _append(path: list[Segment], token: str, joined: bool) -> None:
    """Extend the path after `::`; else a new word starts a new name: what stood before was a return type."""
    if not joined and len(path) == 1 and token in WORD_TYPES and path[0].identifier.split()[-1] in WORD_TYPES:
        path[0] = Segment(f"{path[0].identifier} {token}")
        return
    if not joined:
        path.clear()
    path.append(Segment(token))
