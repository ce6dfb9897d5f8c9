"""upper() and lower() as Spark 4.3 does them: ICU 78's full case mapping, which follows Unicode 17.

Python's str.upper and str.lower are full mappings too ('ß' becomes 'SS', a final 'Σ' becomes 'ς') and agree with ICU on
every character that Unicode 14, the version of Python 3.11, knew; a test compares all of them with Spark. What Unicode
15 to 17 added is in the tables here, so that the result does not depend on the Python it runs on: 55 pairs of letters,
and characters that have become cased or case-ignorable, which decide whether a sigma beside them is final.
"""

from __future__ import annotations

import re

_PAIRS = [  # (upper, lower, how many in a row)
    (0x1C89, 0x1C8A, 1),
    (0xA7CB, 0x0264, 1),
    (0xA7CC, 0xA7CD, 1),
    (0xA7CE, 0xA7CF, 1),
    (0xA7D2, 0xA7D3, 1),
    (0xA7D4, 0xA7D5, 1),
    (0xA7DA, 0xA7DB, 1),
    (0xA7DC, 0x019B, 1),
    (0x10D50, 0x10D70, 22),
    (0x16EA0, 0x16EBB, 25),
]
_CASED = [(0x1DF25, 0x1DF2A)]
_NO_LONGER_EITHER = [0x0295, 0x1171E]
_IGNORABLE = [
    (0x0897, 0x0897),
    (0x0ECE, 0x0ECE),
    (0x1ACF, 0x1ADD),
    (0x1AE0, 0x1AEB),
    (0xA7F1, 0xA7F1),
    (0x10D4E, 0x10D4E),
    (0x10D69, 0x10D6D),
    (0x10D6F, 0x10D6F),
    (0x10EC5, 0x10EC5),
    (0x10EFA, 0x10EFF),
    (0x11241, 0x11241),
    (0x113BB, 0x113C0),
    (0x113CE, 0x113CE),
    (0x113D0, 0x113D0),
    (0x113D2, 0x113D2),
    (0x113E1, 0x113E2),
    (0x11B60, 0x11B60),
    (0x11B62, 0x11B64),
    (0x11B66, 0x11B66),
    (0x11DD9, 0x11DD9),
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
    (0x16FF2, 0x16FF3),
    (0x1E030, 0x1E06D),
    (0x1E08F, 0x1E08F),
    (0x1E4EB, 0x1E4EF),
    (0x1E5EE, 0x1E5EF),
    (0x1E6E3, 0x1E6E3),
    (0x1E6E6, 0x1E6E6),
    (0x1E6EE, 0x1E6EF),
    (0x1E6F5, 0x1E6F5),
    (0x1E6FF, 0x1E6FF),
]

_TO_UPPER = {lower + i: upper + i for upper, lower, count in _PAIRS for i in range(count)}
_TO_LOWER = {upper: lower for lower, upper in _TO_UPPER.items()}
_CASED_LETTER, _IGNORABLE_MARK, _NEITHER = ord("a"), ord("."), ord("1")
# Stand-ins of one character each, whose properties every Python knows, for finding out about the sigmas between them.
_STAND_IN = (
    dict.fromkeys([*_TO_UPPER, *_TO_LOWER, *(c for low, high in _CASED for c in range(low, high + 1))], _CASED_LETTER)
    | dict.fromkeys([c for low, high in _IGNORABLE for c in range(low, high + 1)], _IGNORABLE_MARK)
    | dict.fromkeys(_NO_LONGER_EITHER, _NEITHER)
    | {ord("İ"): _CASED_LETTER}  # the one letter that becomes two
)
_RECENT = re.compile("[" + "".join(map(chr, _STAND_IN)) + "]")


def upper(text: str) -> str:
    return text.upper().translate(_TO_UPPER)


def lower(text: str) -> str:
    if "Σ" in text and _RECENT.search(text):
        known = text.translate(_STAND_IN).lower()
        text = "".join(known[place] if char == "Σ" else char for place, char in enumerate(text))
    return text.lower().translate(_TO_LOWER)
