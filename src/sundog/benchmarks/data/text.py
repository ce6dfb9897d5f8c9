"""Strings made in bulk: words of a fixed vocabulary, joined by Arrow, never row by row in Python.

Half of the vocabulary is Cyrillic, as in the real `hits`: lengths in characters and in bytes then differ, which reveals
an engine that orders or counts the wrong one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

_LATIN = ("ka", "lo", "mi", "ten", "ru", "sal", "vor", "pi", "dan", "que", "fir", "o", "gra", "bel", "zu", "ne")
_CYRILLIC = ("ка", "ло", "ми", "тен", "ру", "сал", "вор", "пи", "дан", "ше", "фир", "о", "гра", "бел", "зу", "не")

VOCABULARY_BITS = 11


def _word(number: int) -> str:
    syllables = _LATIN if number % 2 else _CYRILLIC
    return "".join(syllables[(number >> (1 + 4 * place)) % 16] for place in range(2 + number % 3))


def _vocabulary() -> pa.Array:
    """2,048 different words of two to four syllables."""
    words: dict[str, None] = {}
    number = 0
    while len(words) < 1 << VOCABULARY_BITS:
        words[_word(number)] = None
        number += 1
    return pa.array(list(words))


VOCABULARY = _vocabulary()
LATIN_WORDS = pa.array([word for word in VOCABULARY.to_pylist() if word.isascii()])


def pick(strings: pa.Array, indexes: NDArray[Any]) -> pa.Array:
    """`strings[index]` for each index, modulo the number of strings."""
    return strings.take(pa.array(indexes.astype(np.int64) % len(strings)))


def pick_one(strings: Sequence[str], indexes: NDArray[Any]) -> pa.Array:
    return pick(pa.array(strings), indexes)


def number_text(numbers: NDArray[Any]) -> pa.Array:
    return pa.array(numbers).cast(pa.string())


def padded_number(prefix: str, numbers: NDArray[Any], width: int) -> pa.Array:
    """`id007`: prefix and zero-padded number."""
    return join(pa.scalar(prefix), pc.utf8_lpad(number_text(numbers), width=width, padding="0"))


def join(*parts: Any, separator: str = "") -> pa.Array:
    return pc.binary_join_element_wise(*parts, separator)


def choose(condition: NDArray[np.bool_], when_true: Any, when_false: Any) -> pa.Array:
    return pc.if_else(pa.array(condition), when_true, when_false)
