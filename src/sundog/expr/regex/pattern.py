"""Parser of Java's regular expressions, for the subset that RE2 and Python's `re` can also express.

Spark evaluates patterns with java.util.regex. The engines agree on literals, classes, groups, alternation and greedy or
lazy quantifiers, and differ on nearly everything else. Even `.`, `$`, `\\s` and `\\d` stand for other characters in
each. So `parse` reads a pattern by Java's rules into a tree, in which every class lists its characters; `engines.py`
writes the tree in the syntax of RE2 or `re`. `parse` raises `Unsupported` for a pattern outside the subset.

    accepted    characters, `\\.` and other escaped signs, `\\t \\n \\r \\f`, `.`, `\\d \\w \\s` and their negations,
                `[a-z_]`, `[^...]`, `(...)`, `(?:...)`, `|`, `^`, `$`, `? * + {n} {n,} {n,m}`, each also lazy
    refused     flags, lookaround, back references, possessive quantifiers, `\\b`, `\\p{..}`, `[a[b]]`, `[a&&b]`, and
                quantified groups that may be empty (engines end such loops in different ways) or repeat without
                end (Java runs them by recursion and ends in a StackOverflowError on a long text)

Java matches code points of UTF-16 and may begin a match inside a surrogate pair. That makes no difference if every
class contains all characters from U+D800 on or none of them, and no match is empty. Then any match from the second half
of a pair is also a match from the first half, which is found first. All other patterns are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

MAX_PATTERN = 1000  # characters
MAX_GROUPS = 100  # each is some Python calls inside those of the group around it
MAX_REPETITIONS = 100  # of {n,m}; RE2 copies what is repeated
LAST = 0x10FFFF
FIRST_SURROGATE = 0xD800

Range = tuple[int, int]


class Unsupported(ValueError):
    """A pattern that is not valid in Java, or may mean something else in RE2 or `re`. The message names the
    construct."""


@dataclass(frozen=True)
class Chars:
    """A character class: one character in `ranges`, which are sorted and neither overlap nor touch."""

    ranges: tuple[Range, ...]


@dataclass(frozen=True)
class Start:
    """`^`: matches at the start of the text."""


@dataclass(frozen=True)
class End:
    """`$`: matches at the end of the text, or before a line break at its end."""


@dataclass(frozen=True)
class Sequence:
    """Parts that match one after the other."""

    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Alternatives:
    """`a|b`: alternatives, tried from left to right; the first that leads to a match counts."""

    options: tuple[Part, ...]


@dataclass(frozen=True)
class Group:
    """A group in parentheses. Its `number` counts capturing groups from 1; 0 means not capturing."""

    number: int
    body: Part


@dataclass(frozen=True)
class Repeat:
    """A quantifier: `body` from `least` to `most` times (None: no limit). `lazy` tries few repetitions first."""

    body: Part
    least: int
    most: int | None
    lazy: bool


Part = Chars | Start | End | Sequence | Alternatives | Group | Repeat


@dataclass(frozen=True)
class Pattern:
    """A parsed pattern: its tree, the number of capturing groups, and the numbers of those inside a repetition. Engines
    keep different captures of a group in a repetition, so no function may refer to these groups."""

    body: Part
    groups: int
    repeated: frozenset[int]

    @property
    def may_be_empty_anywhere(self) -> bool:
        """Whether the pattern may have an empty match after the start of the text."""
        body = self.body
        anchored = isinstance(body, Sequence) and bool(body.parts) and isinstance(body.parts[0], Start)
        return may_be_empty(body) and not anchored

    def parts(self) -> Iterator[Part]:
        """All nodes of the tree, in no particular order."""
        waiting = [self.body]
        while waiting:
            part = waiting.pop()
            yield part
            match part:
                case Sequence(parts) | Alternatives(parts):
                    waiting += parts
                case Group(body=body) | Repeat(body=body):
                    waiting.append(body)


def may_be_empty(part: Part) -> bool:
    """Whether a part may match no character."""
    match part:
        case Chars():
            return False
        case Sequence(parts):
            return all(map(may_be_empty, parts))
        case Alternatives(options):
            return any(map(may_be_empty, options))
        case Group(body=body):
            return may_be_empty(body)
        case Repeat(body=body, least=least):
            return least == 0 or may_be_empty(body)
        case _:
            return True


@lru_cache(maxsize=256)
def parse(text: str) -> Pattern:
    """Parse a pattern by Java's rules. Raises `Unsupported` if it is invalid or outside the common subset."""
    if len(text) > MAX_PATTERN:
        raise Unsupported(f"a pattern of over {MAX_PATTERN} characters")
    if text.count("(") > MAX_GROUPS:
        raise Unsupported(f"over {MAX_GROUPS} groups")
    beyond = next((char for char in text if ord(char) >= FIRST_SURROGATE), None)
    if beyond is not None:
        raise Unsupported(f"the character U+{ord(beyond):04X}")
    parser = _Parser(text)
    body = parser.choice()
    if parser.peek():
        raise Unsupported("a ) without (")
    return Pattern(body, parser.groups, frozenset(_repeated(body, False)))


def _repeated(part: Part, inside: bool) -> Iterable[int]:
    match part:
        case Sequence(parts) | Alternatives(parts):
            for each in parts:
                yield from _repeated(each, inside)
        case Repeat(body=body, most=most):
            yield from _repeated(body, inside or most != 1)
        case Group(number=number, body=body):
            if inside and number:
                yield number
            yield from _repeated(body, inside)


def merged(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """Normalize ranges: the same characters in sorted ranges that neither overlap nor touch."""
    found: list[Range] = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(high, found[-1][1]))
        else:
            found.append((low, high))
    return tuple(found)


def complement(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """All characters that are in none of the ranges."""
    found: list[Range] = []
    next_low = 0
    for low, high in merged(ranges):
        if low > next_low:
            found.append((next_low, low - 1))
        next_low = high + 1
    if next_low <= LAST:
        found.append((next_low, LAST))
    return tuple(found)


DIGITS: tuple[Range, ...] = ((0x30, 0x39),)
WORD: tuple[Range, ...] = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
SPACES: tuple[Range, ...] = ((0x09, 0x0D), (0x20, 0x20))
LINE_BREAKS: tuple[Range, ...] = ((0x0A, 0x0A), (0x0D, 0x0D), (0x85, 0x85), (0x2028, 0x2029))
CLASSES = {
    "d": DIGITS,
    "D": complement(DIGITS),
    "w": WORD,
    "W": complement(WORD),
    "s": SPACES,
    "S": complement(SPACES),
}
CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
QUANTIFIERS = {"?": (0, 1), "*": (0, None), "+": (1, None)}


class _Parser:
    """Recursive descent parser. Its depth is that of nested groups, which Java limits too."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.groups = 0

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def take(self) -> str:
        char = self.peek()
        if not char:
            raise Unsupported("a pattern that ends too early")
        self.at += 1
        return char

    def choice(self) -> Part:
        options = [self.sequence()]
        while self.peek() == "|":
            self.take()
            options.append(self.sequence())
        return options[0] if len(options) == 1 else Alternatives(tuple(options))

    def sequence(self) -> Part:
        parts: list[Part] = []
        while self.peek() not in ("", "|", ")"):
            parts.append(self.quantified(self.atom()))
        return Sequence(tuple(parts))

    def atom(self) -> Part:
        match char := self.take():
            case "^":
                return Start()
            case "$":
                return End()
            case ".":
                return Chars(complement(LINE_BREAKS))
            case "(":
                return self.group()
            case "[":
                return Chars(self.char_class())
            case "\\":
                return Chars(self.escaped())
            case "?" | "*" | "+" | "{" | "}" | "]":
                raise Unsupported(f"{char} where a character is expected")
            case _:
                return Chars(((ord(char), ord(char)),))

    def group(self) -> Part:
        number = 0
        if self.peek() == "?":
            self.take()
            if (sign := self.take()) != ":":
                raise Unsupported(f"a group that begins with (?{sign}")
        else:
            self.groups += 1
            number = self.groups
        body = self.choice()
        if self.take() != ")":
            raise Unsupported("a ( without )")
        return Group(number, body)

    def quantified(self, part: Part) -> Part:
        char = self.peek()
        if char in QUANTIFIERS:
            self.take()
            least, most = QUANTIFIERS[char]
        elif char == "{":
            self.take()
            least, most = self.counts()
        else:
            return part
        if isinstance(part, Start | End):
            raise Unsupported("a quantifier behind ^ or $")
        if isinstance(part, Group) and most is None:
            raise Unsupported("a group that repeats without end")
        if isinstance(part, Group) and may_be_empty(part):
            raise Unsupported("a quantified group that may be empty")
        lazy = self.peek() == "?"
        if lazy:
            self.take()
        if self.peek() in ("?", "*", "+", "{"):
            raise Unsupported(f"{self.peek()} behind a quantifier")
        return Repeat(part, least, most, lazy)

    def counts(self) -> tuple[int, int | None]:
        least = self.number()
        most: int | None = least
        if self.peek() == ",":
            self.take()
            most = None if self.peek() == "}" else self.number()
        if self.take() != "}" or max(least, most or 0) > MAX_REPETITIONS or (most is not None and most < least):
            raise Unsupported(f"counts other than {{n}}, {{n,}} and {{n,m}} up to {MAX_REPETITIONS}")
        return least, most

    def number(self) -> int:
        digits = ""
        while self.peek() in tuple("0123456789"):
            digits += self.take()
        if not 0 < len(digits) < 5:
            raise Unsupported("a { that begins no count")
        return int(digits)

    def escaped(self) -> tuple[Range, ...]:
        """The characters that an escape stands for. The backslash has been read."""
        char = self.take()
        if char in CLASSES:
            return CLASSES[char]
        char = CONTROLS.get(char, char)
        if char.isalnum() or ord(char) > 0x7F:
            raise Unsupported(f"\\{char}")
        return ((ord(char), ord(char)),)

    def char_class(self) -> tuple[Range, ...]:
        negated = self.peek() == "^"
        if negated:
            self.take()
        if self.peek() == "]":
            raise Unsupported("a ] at the start of a class")
        ranges: list[Range] = []
        while self.peek() != "]":
            ranges += self.class_item()
        self.take()
        found = complement(ranges) if negated else merged(ranges)
        if not found:
            raise Unsupported("a class of no characters")
        return found

    def class_item(self) -> tuple[Range, ...]:
        """An item of a class in brackets: a character, a range `a-z`, or an escaped class such as `\\d`."""
        first = self.class_char()
        if self.peek() != "-" or self.text[self.at + 1 : self.at + 2] in ("]", ""):
            return first
        self.take()
        last = self.class_char()
        low, high = first[0][0], last[-1][1]
        if first != ((low, low),) or last != ((high, high),) or high < low:
            raise Unsupported("a range in a class that is not one of characters")
        return ((low, high),)

    def class_char(self) -> tuple[Range, ...]:
        char = self.take()
        if char == "[" or (char == "&" and self.peek() == "&"):
            raise Unsupported(f"{char} in a class")
        return self.escaped() if char == "\\" else ((ord(char), ord(char)),)
