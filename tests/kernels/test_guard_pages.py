"""No kernel that is given an address touches a byte outside of the memory that it was given, whatever the bytes are.

Every buffer lies between two inaccessible pages, at the end of its own page and then at its beginning, and kernels run
in a forked child: one byte too far, read or written, ends it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sundog.kernels.strings import (
    MAX_INLINE,
    WRITE_SLACK,
    equal_bytes,
    hash_view,
    less_view,
    long_bytes,
    own_long_strings,
    total_length,
    views_from_offsets,
    write_strings,
)
from sundog.parquet.decode import number_pages
from tests.fuzz.files import bytes_damage, targets
from tests.fuzz.files.children import Death, run_tries
from tests.fuzz.files.guarded_memory import guarded
from tests.fuzz.files.harness import columns_of, exercise
from tests.fuzz.files.seeds import seed_files
from tests.fuzz.files.start_corpus import inputs

VARIANTS = 12  # of each sound input
WORDS = [b"", b"a", b"twelve bytes", b"thirteen byte", b"a string that is far longer than its view", b"x" * 300]


@pytest.fixture(params=[True, False], ids=["before a forbidden page", "behind one"])
def at_end(request) -> bool:
    end: bool = request.param
    return end


def in_child(attempt: Callable[[], object]) -> Death | None:
    return run_tries(lambda number: attempt() and None, 0, 1)


def test_a_byte_too_far_ends_the_child(at_end):
    """Or this page would prove nothing."""
    buffer = guarded(b"content", at_end)
    outside = buffer.address + (buffer.size if at_end else -1)
    assert bytes(buffer) == b"content"
    assert in_child(lambda: ctypes.string_at(outside, 1)) == Death(0, "SIGSEGV")
    assert in_child(lambda: ctypes.memset(outside, 0, 1)) == Death(0, "SIGSEGV")


def page_inputs() -> list[tuple[str, bytes]]:
    """Sound pages, levels, codes and blocks of Snappy."""
    return [(name, data) for name, data in inputs() if not name.startswith(("footer", "page_header"))]


@pytest.mark.parametrize("kind", ["number_chunk", "text_chunk", "levels", "codes", "snappy"])
def test_kernels_that_decode_pages(kind, at_end, monkeypatch):
    given = [data for name, data in page_inputs() if name.startswith(kind)]
    assert len(given) >= 12
    for data in given:
        targets.run(data)  # compiled here, and inherited by the child

    def attempt(number: int) -> None:
        random = np.random.default_rng(number)
        for data in (given[number], *(bytes_damage.damaged(given[number], random) for _ in range(VARIANTS))):
            targets.TARGETS[given[number][0]](data[1:])

    monkeypatch.setattr(targets.MEMORY, "allow", lambda buffer: guarded(bytes(buffer), at_end))
    monkeypatch.setattr(pa, "allocate_buffer", lambda size: guarded(size, at_end))
    death = run_tries(attempt, 0, len(given))
    assert death is None, death


def test_pages_are_really_decoded_in_guarded_memory(monkeypatch):
    """All of what stands in the inputs is accepted there: the buffers are as large as kernels may think."""
    decoded = []
    monkeypatch.setattr(pa, "allocate_buffer", lambda size: guarded(size))
    original = number_pages._decoded
    monkeypatch.setattr(number_pages, "_decoded", lambda *given: decoded.append(original(*given)) or decoded[-1])
    for name, data in page_inputs():
        if name.startswith("number_chunk"):
            targets.run(data)
    assert len(decoded) == 96  # all rows of each, and some
    assert all("n" in each for each in decoded)


@pytest.mark.parametrize("name", ["numbers-snappy-v1", "numbers-none-v2", "texts-snappy-v1", "texts-snappy-v2-plain"])
def test_kernels_that_read_the_file_themselves(name, at_end, monkeypatch, tmp_path):
    path = tmp_path / "file.parquet"
    path.write_bytes(seed_files()[name])
    columns = columns_of(pq.read_schema(path))
    assert exercise(path, columns) == "read"
    monkeypatch.setattr(pa, "allocate_buffer", lambda size: guarded(size, at_end))

    def attempt() -> None:
        assert exercise(path, columns) == "read"

    assert in_child(attempt) is None


def views_of(words: list[bytes], at_end: bool) -> tuple[np.ndarray, pa.Buffer, np.ndarray]:
    """The words as views, made by the kernel from Arrow's layout in guarded memory."""
    offsets = np.cumsum([0, *map(len, words)]).astype(np.int32)
    block = guarded(b"".join(words), at_end)
    views = np.empty((len(words), 2), np.int64)
    views_from_offsets(offsets, block.address, block.size, np.zeros(0, np.uint8), views)
    return views, block, np.array([block.address], np.int64)


@pytest.mark.parametrize("words", [WORDS, WORDS[::-1], [b"12 bytes 345"], [b"0123456789abc"], [b"short", b"er"]])
def test_kernels_that_follow_strings(words, at_end):
    def follow() -> None:
        views, block, blocks = views_of(words, at_end)
        for row in range(len(words)):
            hash_view(views[row, 0], views[row, 1], blocks)
            for other in range(len(words)):
                assert less_view(views, row, other, blocks) == (words[row] < words[other])
        start = 0
        for word in words:
            if len(word) > 8:
                assert equal_bytes(block.address + start, block.address + start, len(word))
            start += len(word)

    follow()
    assert in_child(follow) is None


@pytest.mark.parametrize("words", [WORDS, WORDS[::-1], [b"twelve bytes"], [b"a"], []])
def test_kernels_that_write_strings(words, at_end):
    def write() -> None:
        views, _, blocks = views_of(words, at_end)
        size = total_length(views, 1)
        target = guarded(size + WRITE_SLACK, at_end)
        offsets = np.empty(len(words) + 1, np.int32)
        write_strings(views, blocks, offsets, target.address)
        assert bytes(target)[:size] == b"".join(words)
        owned = guarded(int(long_bytes(views, 0)), at_end)
        own_long_strings(views, 0, blocks, owned.address, 0)
        assert bytes(owned) == b"".join(word for word in words if len(word) > MAX_INLINE)

    write()
    assert in_child(write) is None
