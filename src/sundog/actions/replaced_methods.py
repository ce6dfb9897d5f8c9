"""Methods of pyspark's classes that sundog has replaced, and the originals to restore."""

from __future__ import annotations

from typing import Any

_INHERITED = object()


class ReplacedMethods:
    """The methods replaced so far; false if there are none."""

    def __init__(self) -> None:
        self._originals: dict[tuple[Any, str], Any] = {}

    def __bool__(self) -> bool:
        return bool(self._originals)

    def replace(self, owner: Any, name: str, replacement: Any) -> None:
        self._originals[owner, name] = owner.__dict__.get(name, _INHERITED)
        setattr(owner, name, replacement)

    def put_back(self) -> None:
        for (owner, name), original in self._originals.items():
            if original is _INHERITED:
                delattr(owner, name)
            else:
                setattr(owner, name, original)
        self._originals.clear()
