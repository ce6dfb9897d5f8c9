"""Damage after damage for as long as there is time, each try named by a seed and a number."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.fuzz.files import bytes_damage, structure_damage
from tests.fuzz.files.children import run_tries
from tests.fuzz.files.harness import columns_of, exercise
from tests.fuzz.files.seeds import seed_files

_TRIES_OF_A_CHILD = 200
_STRUCTURE_SHARE = 0.7


class Campaign:
    """Tries of one seed."""

    def __init__(self, seed: int | None, findings: Path) -> None:
        self.seed = int(time.time()) if seed is None else seed
        self.tries = 0
        self.findings: list[Path] = []
        self._kinds: Counter[str] = Counter()
        self._folder = findings
        self._files = seed_files()
        self._names = list(self._files)
        self._columns = {
            name: columns_of(pq.read_schema(pa.BufferReader(content))) for name, content in self._files.items()
        }

    def damaged(self, number: int) -> tuple[str, bytes]:
        """The name of the sound file, and what became of it."""
        random = np.random.default_rng((self.seed, number))
        name = self._names[int(random.integers(len(self._names)))]
        damage = structure_damage if random.random() < _STRUCTURE_SHARE else bytes_damage
        return name, damage.damaged(self._files[name], random)

    def outcome(self, path: Path, name: str) -> str:
        """What the reader makes of a file that was the sound one of this name."""
        return exercise(path, self._columns[name])

    def run(self, seconds: float = float("inf"), most: int = 1 << 62) -> None:
        """Run until the time is up or the number of tries is reached."""
        with tempfile.TemporaryDirectory(prefix="sundog-fuzz-") as folder:
            path = Path(folder) / "file.parquet"
            self._warm_up(path)
            end = time.monotonic() + seconds

            def attempt(number: int) -> None:
                name, content = self.damaged(number)
                path.write_bytes(content)
                self.outcome(path, name)

            while time.monotonic() < end and self.tries < most:
                last = min(self.tries + _TRIES_OF_A_CHILD, most)
                death = run_tries(attempt, self.tries, last)
                if death is None:
                    self.tries = last
                    continue
                self.tries = death.number + 1
                self._keep(death.number, death.how)

    def _warm_up(self, path: Path) -> None:
        """Sound files are read as they are; and kernels are compiled before children inherit them."""
        for name, content in self._files.items():
            path.write_bytes(content)
            if (outcome := self.outcome(path, name)) != "read":
                raise AssertionError(f"the sound file {name} is {outcome}")

    def _keep(self, number: int, how: str) -> None:
        last = how.strip().splitlines()[-1]
        self._kinds[last] += 1
        name, content = self.damaged(number)
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"{name}.{self.seed}.{number}.parquet"
        path.write_bytes(content)
        self.findings.append(path)
        if self._kinds[last] <= 2:
            print(f"FINDING: seed {self.seed}, try {number}, {name}: {how}\n  kept as {path}", flush=True)

    def summary(self) -> str:
        lines = [f"{self.tries} damaged files, seed {self.seed}: {len(self.findings)} findings"]
        lines += [f"  {count} x {kind}" for kind, count in self._kinds.most_common()]
        return "\n".join(lines)
