"""Progress of long actions, shown in a terminal or a notebook.

Nothing is shown in the first second, so a fast query stays silent. Progress goes to standard error or into the
notebook's cell and is removed at the end, so it never mixes with a result. The runtimes report to a `ProgressSink` and
do not know which kind it is.
"""

from __future__ import annotations

import sys
import threading
from abc import abstractmethod
from collections.abc import Callable
from html import escape
from time import monotonic
from typing import IO, TYPE_CHECKING, Any
from uuid import uuid4

from sundog.runtime.progress import NullProgress, ProgressSink

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

SHOW_AFTER_SECONDS = 1.0
_REFRESH_SECONDS = 0.25


class LiveProgress(ProgressSink):
    """Becomes visible when an action has taken `show_after` seconds. Subclasses draw it.

    `_show`, `_update` and `_hide` are never called at the same time; `_update` may repeat what is already shown.
    """

    def __init__(self, show_after: float = SHOW_AFTER_SECONDS) -> None:
        self._show_after = show_after
        self._lock = threading.RLock()
        self._timer: threading.Timer | None = None
        self._is_shown = False
        self.label = ""
        self.tasks = 0
        self.done = 0

    def start(self, label: str, tasks: int) -> None:
        with self._lock:
            self.label, self.tasks, self.done = label, tasks, 0
            if self._is_shown:
                self._update()
            elif self._timer is None:
                self._timer = threading.Timer(self._show_after, self._appear)
                self._timer.daemon = True
                self._timer.start()

    def advance(self, count: int = 1) -> None:
        with self._lock:
            self.done += count
            if self._is_shown:
                self._update()

    def finish(self) -> None:
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if self._is_shown:
                self._is_shown = False
                self._hide()

    def _appear(self) -> None:
        with self._lock:
            if self._timer is not None and not self._is_shown:  # else the action has finished meanwhile
                self._is_shown = True
                self._show()
                self._update()

    @abstractmethod
    def _show(self) -> None: ...

    @abstractmethod
    def _update(self) -> None: ...

    @abstractmethod
    def _hide(self) -> None: ...


class TerminalProgress(LiveProgress):
    """One line at the bottom of the terminal: stage, bar, tasks, time."""

    def __init__(self, stream: IO[str] | None = None, show_after: float = SHOW_AFTER_SECONDS) -> None:
        super().__init__(show_after)
        self._stream = stream
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        console = Console(file=self._stream, stderr=self._stream is None, force_terminal=True)
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("sundog {task.description}", markup=False),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._progress.start()

    def _update(self) -> None:
        assert self._progress is not None
        if self._task is None:
            self._task = self._progress.add_task(self.label, total=self.tasks or None, completed=self.done)
        else:
            self._progress.update(
                self._task, description=self.label, total=self.tasks or None, completed=min(self.done, self.tasks)
            )

    def _hide(self) -> None:
        assert self._progress is not None
        self._progress.stop()
        self._progress, self._task = None, None


class NotebookProgress(LiveProgress):
    """A bar in the cell's output, which the end of the action removes. `display` is IPython's."""

    def __init__(self, display: Callable[..., Any], show_after: float = SHOW_AFTER_SECONDS) -> None:
        super().__init__(show_after)
        self._display = display
        self._name = ""
        self._updated = 0.0

    def _show(self) -> None:
        self._name = f"sundog-{uuid4().hex}"
        self._updated = monotonic()
        self._display(self._html(), raw=True, display_id=self._name)

    def _update(self) -> None:
        is_last = bool(self.tasks) and self.done >= self.tasks
        if is_last or self.done == 0 or monotonic() - self._updated >= _REFRESH_SECONDS:
            self._updated = monotonic()
            self._display(self._html(), raw=True, display_id=self._name, update=True)

    def _hide(self) -> None:
        self._display({"text/html": "", "text/plain": ""}, raw=True, display_id=self._name, update=True)

    def _html(self) -> dict[str, str]:
        label = escape(f"sundog: {self.label}")
        count = f"{self.done} of {self.tasks} tasks" if self.tasks else f"{self.done} tasks"
        state = f' value="{min(self.done, self.tasks)}" max="{self.tasks}"' if self.tasks else ""
        bar = f'<div>{label} <progress aria-label="{label}"{state}></progress> {count}</div>'
        return {"text/html": bar, "text/plain": f"sundog: {self.label}: {count}"}


def progress_sink(enabled: bool | None) -> ProgressSink:
    """The sink for this process. `enabled` is `spark.sundog.progress.enabled`; None shows progress if a terminal or a
    notebook is there."""
    if enabled is False:
        return NullProgress()
    display = _notebook_display()
    if display is not None:
        return NotebookProgress(display)
    return TerminalProgress() if enabled or _is_terminal(sys.stderr) else NullProgress()


def _is_terminal(stream: IO[str] | None) -> bool:
    return stream is not None and not stream.closed and stream.isatty()


def _notebook_display() -> Callable[..., Any] | None:
    """IPython's `display` if this code runs in a notebook; IPython is not imported to find that out."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None or type(shell).__name__ != "ZMQInteractiveShell":
        return None
    from IPython.display import display  # type: ignore[import-not-found]

    return display  # type: ignore[no-any-return]
