"""Errors of tasks, from a Python worker to the driver.

Spark brings back nothing but text from a worker that failed: accumulators and rows of a failed task are dropped. So the
error travels inside the text of Spark's own report. That text also quotes the data (`CAST_INVALID_INPUT: The value
'...'`), so anyone who writes a table's cells writes part of it. Therefore:

- **Nothing in the text is executed.** An error is a name from a closed table and strings and lists of strings, as JSON.
  Nothing is unpickled, imported or evaluated, and a name that is not in the table is ignored.
- **Data cannot pass for a worker's error.** Each run has a random key. It is made on the driver and travels to the
  workers only inside the pickled stage function; no text, log, plan or `repr` shows it. The worker signs what it sends
  (HMAC-SHA256). A payload without a valid signature is ordinary text.
- **A payload belongs to one run.** Another run has another key, and the key is forgotten when its run is released. An
  old payload that was logged, stored in a table and read again has no effect.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import secrets
import threading
import traceback
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sundog.errors import InternalError
from sundog.expr.errors import ErrorKind, SparkQueryError
from sundog.operators.array_limits import limit_met
from sundog.parquet.problems import FileProblem, FileSchemaProblem, ProblemKind, TooLargeForOneArray
from sundog.support import Code, Declined, Reason, TooManyBytes

_PAYLOAD = re.compile(r"sundog-error:([0-9a-f]{32}):([0-9a-f]{64}):([A-Za-z0-9+/=]*):")
_MAX_OPEN_CHANNELS = 1024  # results of `accelerate` are never released: the oldest of their channels are forgotten

_lock = threading.Lock()
_open: OrderedDict[str, ErrorChannel] = OrderedDict()


@dataclass(frozen=True)
class ErrorChannel:
    """Signs the errors of one run on its workers, and recognises them on the driver."""

    run: str
    key: bytes = field(repr=False)

    @classmethod
    def open(cls) -> ErrorChannel:
        channel = cls(secrets.token_hex(16), secrets.token_bytes(32))
        with _lock:
            _open[channel.run] = channel
            while len(_open) > _MAX_OPEN_CHANNELS:
                _open.popitem(last=False)
        return channel

    def close(self) -> None:
        """Forget the key: from now on nothing is recognised as an error of this run. May be called twice."""
        with _lock:
            _open.pop(self.run, None)

    def wrap(self, error: Exception) -> Exception:
        """The error to raise in the worker: the same text, and after it the signed payload."""
        payload = json.dumps(_encode(error)).encode()
        body = base64.b64encode(payload).decode()
        return RuntimeError(f"{error}\nsundog-error:{self.run}:{self._sign(payload)}:{body}:")

    def _sign(self, payload: bytes) -> str:
        return hmac.new(self.key, self.run.encode() + payload, hashlib.sha256).hexdigest()

    def open_payload(self, signature: str, body: str) -> Exception | None:
        """The error in a payload that carries this run's signature; None for anything else."""
        try:
            payload = base64.b64decode(body)
        except ValueError:
            return None
        return _decode(json.loads(payload)) if hmac.compare_digest(self._sign(payload), signature) else None


def unwrap_worker_error(error: BaseException) -> BaseException:
    """The error that a worker of a run in progress raised, if `error` is Spark's report of one; else `error` itself.

    The worker's payload comes after the text that may quote data, so the last valid one counts.
    """
    for run, signature, body in reversed(_PAYLOAD.findall(str(error))):
        channel = _open.get(run)
        original = None if channel is None else channel.open_payload(signature, body)
        if original is not None:
            return original
    return error


# --- the closed table ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _JsonForm:
    """How errors of one class become JSON values, and errors again."""

    fields: Callable[[Any], list[Any]]
    make: Callable[..., Exception]


def _declining(kind: type[Declined]) -> _JsonForm:
    def fields(declined: Declined) -> list[Any]:
        return [[reason.code.name, reason.sentence, reason.node] for reason in declined.reasons]

    def make(*reasons: list[str]) -> Declined:
        return kind(*(Reason(Code[code], sentence, node) for code, sentence, node in reasons))

    return _JsonForm(fields, make)


def _message_of(kind: type[Exception]) -> _JsonForm:
    """A class whose errors are sent by their text. A subclass that is not in the table keeps its name in the text."""

    def fields(error: Exception) -> list[Any]:
        message = str(error.args[0]) if len(error.args) == 1 else str(error)
        return [message if type(error) is kind else f"{type(error).__name__}: {message}"]

    return _JsonForm(fields, kind)


_JSON_FORMS: dict[type[Exception], _JsonForm] = {
    SparkQueryError: _JsonForm(
        lambda error: [error.condition, {k: str(v) for k, v in error.parameters.items()}, error.kind.name],
        lambda condition, parameters, kind: SparkQueryError(condition, parameters, ErrorKind[kind]),
    ),
    FileProblem: _JsonForm(
        lambda error: [error.kind.name, error.path, error.message],
        lambda kind, path, message: FileProblem(ProblemKind[kind], path, message),
    ),
    FileSchemaProblem: _JsonForm(lambda error: [error.path, error.message], FileSchemaProblem),
    TooLargeForOneArray: _JsonForm(lambda error: [error.path, error.message], TooLargeForOneArray),
    Declined: _declining(Declined),
    TooManyBytes: _declining(TooManyBytes),
    **{
        kind: _message_of(kind)
        for kind in (
            InternalError,
            ArithmeticError,
            AttributeError,
            ImportError,
            IndexError,
            KeyError,
            MemoryError,
            NotImplementedError,
            OSError,
            OverflowError,
            RecursionError,
            RuntimeError,
            TypeError,
            ValueError,
            ZeroDivisionError,
        )
    },
}
_BY_NAME = {kind.__name__: form for kind, form in _JSON_FORMS.items()}


def _encode(error: Exception) -> dict[str, Any]:
    """The error as the nearest class of the table; `InternalError` if there is none."""
    error = limit_met(error) or error
    kind = next((kind for kind in type(error).__mro__ if kind in _JSON_FORMS), InternalError)
    stack = "".join(traceback.format_exception(error))
    return {"class": kind.__name__, "fields": _JSON_FORMS[kind].fields(error), "stack": stack}


def _decode(value: dict[str, Any]) -> Exception:
    error = _BY_NAME[value["class"]].make(*value["fields"])
    note = f"Raised in a Python worker:\n{value['stack']}"
    error.__notes__ = [*getattr(error, "__notes__", []), note]  # `add_note`, which Python 3.10 does not have
    return error
