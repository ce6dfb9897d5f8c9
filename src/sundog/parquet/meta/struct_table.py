"""Fields of many Thrift structs at once, as arrays, from which footers are read; and the errors of an inconsistent
footer."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sundog.kernels.pages.thrift_values import BROKEN, KIND, PARENT, VALUE_FIELDS, gather_fields, read_values

Ints = npt.NDArray[np.int64]

_MAX_VALUES = 1 << 24  # of a footer: 640 MB of table, 440,000 column chunks as Arrow writes them
NONE = -1


class Broken(ValueError):
    """The footer is inconsistent."""


class Encrypted(Broken):
    """It cannot be read without a key."""


def table_of(data: bytes) -> Ints:
    """The values of the footer: usually one for each three of its bytes."""
    raw = np.frombuffer(data, np.uint8)
    table = np.empty((min(len(data) // 2, _MAX_VALUES), VALUE_FIELDS), np.int64)
    count = int(read_values(raw, table))
    if count == BROKEN:
        raise Broken("its footer is no Thrift struct")
    if count > _MAX_VALUES:
        raise Broken(f"its footer has {count} values")
    if count > len(table):
        table = np.empty((count, VALUE_FIELDS), np.int64)
        read_values(raw, table)
    return table[:count]


def demand(sentence: str, holds: npt.NDArray[np.bool_]) -> None:
    if not holds.all():
        raise Broken(sentence)


class Structs:
    """Some fields of structs of one kind: an array for each field, with a slot for each struct."""

    def __init__(self, table: Ints, structs: Ints, kinds: dict[int, int]) -> None:
        """`kinds`: the wanted fields and their types; a field of another type makes the footer broken."""
        self._places = {field: place for place, field in enumerate(kinds)}
        self._fields = np.empty((len(kinds), len(structs), 3), np.int64)
        wanted = np.array(list(kinds), np.int64), np.array(list(kinds.values()), np.int64)
        if gather_fields(table, structs, *wanted, self._fields) == BROKEN:
            raise Broken("a field of its footer is of another type")

    @property
    def count(self) -> int:
        return int(self._fields.shape[1])

    def has(self, field: int) -> npt.NDArray[np.bool_]:
        found: npt.NDArray[np.bool_] = self._fields[self._places[field], :, 0] != NONE
        return found

    def numbers(self, field: int, default: int | None = None) -> Ints:
        """The values of a field, which must be present unless there is a default."""
        return self._column(field, 1, default)

    def sizes(self, field: int, default: int | None = None) -> Ints:
        """Bytes of strings, or items of lists."""
        return self._column(field, 2, default)

    def containers(self, field: int) -> Ints:
        """The numbers of the structs or lists in a field, which must be present."""
        return self._column(field, 0, None)

    def some(self, field: int) -> tuple[Ints, Ints]:
        """The numbers of the structs or lists that are present, and to which struct each belongs."""
        slots = np.flatnonzero(self.has(field))
        return self._fields[self._places[field], slots, 0], slots

    def _column(self, field: int, what: int, default: int | None) -> Ints:
        column = self._fields[self._places[field]]
        missing = column[:, 0] == NONE
        if missing.any():
            if default is None:
                raise Broken(f"field {field} of a struct in its footer is missing")
            return np.where(missing, default, column[:, what])
        result: Ints = column[:, what].copy()
        return result


def items_of(table: Ints, lists: Ints, kind: int) -> Ints:
    """The numbers of the items of all the lists, list after list."""
    is_list = np.zeros(len(table) + 1, np.bool_)
    is_list[lists] = True
    found = np.flatnonzero(is_list[table[:, PARENT]])
    if (table[found, KIND] != kind).any():
        raise Broken("the items of a list are of another type")
    return found


def text_of(data: bytes, structs: Structs, field: int) -> str:
    at, size = structs.numbers(field, 0), structs.sizes(field, 0)
    return data[int(at[0]) : int(at[0] + size[0])].decode("utf-8", "replace")


def strings(data: bytes, at: Ints, sizes: Ints) -> list[bytes]:
    return [data[start : start + size] for start, size in zip(at.tolist(), sizes.tolist(), strict=True)]
