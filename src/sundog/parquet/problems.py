"""Problems of files, as errors that name the file.

Both have the same consequence: Spark runs the whole query. If the file is really broken, Spark raises its own error, or
skips it if an option says so; if only sundog cannot read it, the user still gets the answer. They are picklable, since
tasks on executors raise them too.
"""

from __future__ import annotations

from enum import Enum

from sundog.errors import SundogError


class ProblemKind(Enum):
    """Each value is the beginning of the sentence."""

    MISSING = "The file is gone"
    CORRUPT = "The file cannot be read as Parquet"
    CHANGED = "The file was rewritten while the query was running"
    ENCRYPTED = "The file is encrypted"


class FileProblem(SundogError):
    """A file that a query needs is missing, broken, replaced or encrypted. Run the query again, or repair the file."""

    def __init__(self, kind: ProblemKind, path: str, message: str = "") -> None:
        super().__init__(kind, path, message)
        self.kind = kind
        self.path = path
        self.message = message

    def __str__(self) -> str:
        return f"{self.kind.value}: {self.path}" + (f" ({self.message})" if self.message else "")


class FileSchemaProblem(SundogError):
    """A file is sound, but holds a column in a form that sundog does not read as Spark does. Leave it to Spark."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(path, message)
        self.path = path
        self.message = message

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


class TooLargeForOneArray(FileSchemaProblem):
    """A run holds more string bytes than an Arrow array with 32-bit offsets can. Read fewer rows at a time."""
