"""Inputs that a coverage-guided fuzzer found worth keeping: each reaches a line or a branch that no other does.

`python -m tests.fuzz.files.corpus unpack FOLDER` writes them, `pack FOLDER` makes a folder the new corpus.
They are one archive, of fixed times and order, so that the same inputs are the same bytes.
"""

from __future__ import annotations

import sys
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

ARCHIVE = Path(__file__).with_name("corpus.zip")


def entries() -> list[tuple[str, bytes]]:
    """Name and content of each input."""
    with ZipFile(ARCHIVE) as archive:
        return [(name, archive.read(name)) for name in archive.namelist()]


def unpack(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in entries():
        (folder / Path(name).name).write_bytes(content)


def pack(folder: Path) -> None:
    with ZipFile(ARCHIVE, "w", ZIP_DEFLATED) as archive:
        for path in sorted(folder.iterdir()):
            archive.writestr(ZipInfo(path.name), path.read_bytes(), ZIP_DEFLATED)


if __name__ == "__main__":
    {"unpack": unpack, "pack": pack}[sys.argv[1]](Path(sys.argv[2]))
