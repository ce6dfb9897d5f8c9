"""The subjects of commits: `area: what it does`, at most 72 characters, then an empty line.

`make check` runs this file over the history. No test does: a test must not fail for what a merge is called.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from itertools import takewhile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MAX_SUBJECT = 72
LAST_OTHER = "Docstrings that name what is returned; unused stage_name removed"  # older commits are not rewritten


def problems(message: str) -> list[str]:
    """What is wrong with a commit's message."""
    subject, *rest = message.split("\n")
    found = []
    if len(subject) > MAX_SUBJECT:
        found.append(f"{len(subject)} characters, at most {MAX_SUBJECT}: {subject}")
    if not re.match(r"(?:[a-z0-9_./-]+(?:, | and )?)+: \S", subject):
        found.append(f"no `area: what it does`: {subject}")
    if rest and rest[0]:
        found.append(f"no empty line below the subject: {subject}")
    return found


def git(*arguments: str) -> str | None:
    """The output of git in this repository; None if it fails."""
    run = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False)
    return run.stdout if run.returncode == 0 else None


def main() -> int:
    """Print the problems of the commits that this clone has, which in a shallow one are the last few."""
    log = git("log", "--no-merges", "--format=%B%x00")
    if log is None:
        print("no history of git here: nothing was checked")
        return 0
    found = [problem for message in since(LAST_OTHER, log.split("\0")) for problem in problems(message)]
    print("\n".join(found) or "all subjects say what they do")
    return 1 if found else 0


def since(subject: str, messages: Iterable[str]) -> list[str]:
    """The messages above the commit of this subject, newest first; all if it is not there. A subject stays the same
    when a history is rewritten, as the hash of a commit does not."""
    stripped = (message.strip() for message in messages)
    return list(takewhile(lambda message: message.split("\n")[0] != subject, filter(None, stripped)))


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("window: sort keys as one 64-bit word", 0),
        ("window: sort keys as one 64-bit word\n\nWhy.", 0),
        ("report/pages: a shorter sentence", 0),
        ("joins, windows: one rule", 0),
        (f"window: {'x' * 64}", 0),
        (f"window: {'x' * 65}", 1),
        ("Columns are no counters", 1),
        ("window: sort keys\nas one word", 1),
    ],
)
def test_what_is_wrong_with_a_message_is_found(message: str, expected: int) -> None:
    assert len(problems(message)) == expected


def test_only_newer_messages_are_checked() -> None:
    log = ["c: new\n\nWhy.\n", "\nb: newer than that\n", "\nOld\n", "\nolder\n", "\n"]
    assert since("Old", log) == ["c: new\n\nWhy.", "b: newer than that"]
    assert since("unknown", log)[2:] == ["Old", "older"]


if __name__ == "__main__":
    sys.exit(main())
