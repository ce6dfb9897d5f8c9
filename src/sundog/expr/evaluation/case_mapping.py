"""upper() and lower() like Spark's: ICU's full case mapping, by the Unicode version of the ICU in each Spark.

Spark 4.2 and newer include ICU 78, which follows Unicode 17; 4.0 and 4.1 include ICU 76 and 77, which follow Unicode
16. Python's str.upper and str.lower are full mappings too ('ß' becomes 'SS', a final 'Σ' becomes 'ς'). They agree with
ICU on every character of Unicode 13, the version of Python 3.10; a test compares all of them with Spark. Later
characters are in the tables here, so that the result does not depend on the Python version. The tables have pairs of
letters, and characters that have become cased or case-ignorable: these decide whether an adjacent sigma is final.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

NEWEST_UNICODE = 17

_PAIRS_OF_16 = [  # (upper, lower, how many in a row)
    (0x1C89, 0x1C8A, 1),
    (0x2C2F, 0x2C5F, 1),
    (0xA7C0, 0xA7C1, 1),
    (0xA7CB, 0x0264, 1),
    (0xA7CC, 0xA7CD, 1),
    (0xA7D0, 0xA7D1, 1),
    (0xA7D6, 0xA7D7, 1),
    (0xA7D8, 0xA7D9, 1),
    (0xA7DA, 0xA7DB, 1),
    (0xA7DC, 0x019B, 1),
    (0x10570, 0x10597, 11),
    (0x1057C, 0x105A3, 15),
    (0x1058C, 0x105B3, 7),
    (0x10594, 0x105BB, 2),
    (0x10D50, 0x10D70, 22),
]
_PAIRS_OF_17 = [
    (0xA7CE, 0xA7CF, 1),
    (0xA7D2, 0xA7D3, 1),
    (0xA7D4, 0xA7D5, 1),
    (0x16EA0, 0x16EBB, 25),
]
_CASED = [(0xA7D3, 0xA7D3), (0xA7D5, 0xA7D5), (0x1DF00, 0x1DF09), (0x1DF0B, 0x1DF1E), (0x1DF25, 0x1DF2A)]
_NEITHER_IN_16 = [0x1734, 0x1171E]
_NEITHER_IN_17 = [0x0295]
_IGNORABLE_IN_16 = [
    (0x0888, 0x0888),
    (0x0890, 0x0891),
    (0x0897, 0x089F),
    (0x08C9, 0x08D2),
    (0x0C3C, 0x0C3C),
    (0x0ECE, 0x0ECE),
    (0x180F, 0x180F),
    (0x1AC1, 0x1ACE),
    (0x1DFA, 0x1DFA),
    (0xA7F2, 0xA7F4),
    (0xFBC2, 0xFBC2),
    (0x10780, 0x10785),
    (0x10787, 0x107B0),
    (0x107B2, 0x107BA),
    (0x10D4E, 0x10D4E),
    (0x10D69, 0x10D6D),
    (0x10D6F, 0x10D6F),
    (0x10EFC, 0x10EFF),
    (0x10F82, 0x10F85),
    (0x11070, 0x11070),
    (0x11073, 0x11074),
    (0x110C2, 0x110C2),
    (0x11241, 0x11241),
    (0x113BB, 0x113C0),
    (0x113CE, 0x113CE),
    (0x113D0, 0x113D0),
    (0x113D2, 0x113D2),
    (0x113E1, 0x113E2),
    (0x11F00, 0x11F01),
    (0x11F36, 0x11F3A),
    (0x11F40, 0x11F40),
    (0x11F42, 0x11F42),
    (0x11F5A, 0x11F5A),
    (0x13439, 0x13440),
    (0x13447, 0x13455),
    (0x1611E, 0x16129),
    (0x1612D, 0x1612F),
    (0x16D40, 0x16D42),
    (0x16D6B, 0x16D6C),
    (0x1AFF0, 0x1AFF3),
    (0x1AFF5, 0x1AFFB),
    (0x1AFFD, 0x1AFFE),
    (0x1CF00, 0x1CF2D),
    (0x1CF30, 0x1CF46),
    (0x1E030, 0x1E06D),
    (0x1E08F, 0x1E08F),
    (0x1E2AE, 0x1E2AE),
    (0x1E4EB, 0x1E4EF),
    (0x1E5EE, 0x1E5EF),
]
_IGNORABLE_IN_17 = [
    (0x1ACF, 0x1ADD),
    (0x1AE0, 0x1AEB),
    (0xA7F1, 0xA7F1),
    (0x10EC5, 0x10EC5),
    (0x10EFA, 0x10EFB),
    (0x11B60, 0x11B60),
    (0x11B62, 0x11B64),
    (0x11B66, 0x11B66),
    (0x11DD9, 0x11DD9),
    (0x16FF2, 0x16FF3),
    (0x1E6E3, 0x1E6E3),
    (0x1E6E6, 0x1E6E6),
    (0x1E6EE, 0x1E6EF),
    (0x1E6F5, 0x1E6F5),
    (0x1E6FF, 0x1E6FF),
]
_CASED_LETTER, _IGNORABLE_MARK, _NEITHER = ord("a"), ord("."), ord("1")


@dataclass(frozen=True)
class _Edition:
    """The facts of one Unicode version about characters that some Python versions do not know.

    `stand_in` has characters whose properties every Python knows, to decide about the sigmas between them.
    """

    to_upper: dict[int, int]
    to_lower: dict[int, int]
    stand_in: dict[int, int]
    recent: re.Pattern[str]


def _edition(pairs: list[tuple[int, int, int]], ignorable: list[tuple[int, int]], neither: Iterable[int]) -> _Edition:
    to_upper = {lower + i: upper + i for upper, lower, count in pairs for i in range(count)}
    to_lower = {upper: lower for lower, upper in to_upper.items()}
    stand_in = (
        dict.fromkeys([*to_upper, *to_lower, *_characters(_CASED)], _CASED_LETTER)
        | dict.fromkeys(_characters(ignorable), _IGNORABLE_MARK)
        | dict.fromkeys(neither, _NEITHER)
        | {ord("İ"): _CASED_LETTER}  # the one letter that becomes two
    )
    return _Edition(to_upper, to_lower, stand_in, re.compile("[" + "".join(map(chr, stand_in)) + "]"))


def _characters(ranges: list[tuple[int, int]]) -> list[int]:
    return [code for low, high in ranges for code in range(low, high + 1)]


_EDITIONS = {
    16: _edition(_PAIRS_OF_16, _IGNORABLE_IN_16, _NEITHER_IN_16),
    17: _edition(_PAIRS_OF_16 + _PAIRS_OF_17, _IGNORABLE_IN_16 + _IGNORABLE_IN_17, _NEITHER_IN_16 + _NEITHER_IN_17),
}


def upper(text: str, unicode: int = NEWEST_UNICODE) -> str:
    return text.upper().translate(_EDITIONS[unicode].to_upper)


def lower(text: str, unicode: int = NEWEST_UNICODE) -> str:
    edition = _EDITIONS[unicode]
    if "Σ" in text and edition.recent.search(text):
        known = text.translate(edition.stand_in).lower()
        text = "".join(known[place] if char == "Σ" else char for place, char in enumerate(text))
    return text.lower().translate(edition.to_lower)


def recent_characters() -> list[str]:
    """The characters that some Python version, or the ICU of some Spark, does not know."""
    return [chr(code) for code in _EDITIONS[NEWEST_UNICODE].stand_in]
