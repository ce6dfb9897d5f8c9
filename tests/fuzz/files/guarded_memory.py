"""Memory between two inaccessible pages: an access outside of it ends the process, which a test in a parent process
sees."""

from __future__ import annotations

import ctypes
import mmap

import pyarrow as pa

_PAGE = mmap.PAGESIZE
_PROT_NONE = 0
_libc = ctypes.CDLL(None, use_errno=True)


def guarded(content: bytes | int, at_end: bool = True) -> pa.Buffer:
    """A buffer with this content or of this size, directly before or after a page that must not be accessed."""
    size = content if isinstance(content, int) else len(content)
    room = (size + _PAGE - 1) // _PAGE * _PAGE
    memory = mmap.mmap(-1, room + 2 * _PAGE)
    first = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for page in (first, first + _PAGE + room):
        if _libc.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(_PAGE), _PROT_NONE):
            raise OSError(ctypes.get_errno(), "mprotect")
    start = _PAGE + (room - size if at_end else 0)
    if not isinstance(content, int):
        memory[start : start + size] = content
    return pa.py_buffer(memoryview(memory)[start : start + size])
