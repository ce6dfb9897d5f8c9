"""`python -m tests.fuzz.files.replay`: the corpus once, over checked memory, without numba."""

from __future__ import annotations

from tests.fuzz.files import checked_memory
from tests.fuzz.files.corpus import entries


def main() -> None:
    checked_memory.install()
    from tests.fuzz.files import targets

    for _, content in entries():
        targets.run(content)


if __name__ == "__main__":
    main()
