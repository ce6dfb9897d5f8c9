"""What the fuzzers found worth keeping, replayed; and a short share of what `make fuzz-files` does for longer."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.fuzz.files import bytes_damage, structure_damage, targets
from tests.fuzz.files.campaign import Campaign
from tests.fuzz.files.checked_memory import MEMORY, OutOfBounds
from tests.fuzz.files.children import Death, run_tries
from tests.fuzz.files.corpus import entries
from tests.fuzz.files.seeds import seed_files
from tests.fuzz.files.start_corpus import inputs

ROOT = Path(__file__).parents[3]


def test_the_corpus_compiled():
    corpus = [content for _, content in entries()]
    assert {content[0] % len(targets.TARGETS) for content in corpus if content} == set(range(len(targets.TARGETS)))
    death = run_tries(lambda number: targets.run(corpus[number]), 0, len(corpus))
    assert death is None, death


def test_the_corpus_over_checked_memory():
    """In a process of its own: numba is off there, and every address is looked at."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.files.replay"], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_a_few_damaged_files(tmp_path):
    campaign = Campaign(seed=7, findings=tmp_path)
    campaign.run(most=100)
    assert campaign.tries == 100
    assert not campaign.findings, campaign.summary()


@pytest.mark.parametrize("damage", [bytes_damage, structure_damage])
def test_damage_is_the_same_for_the_same_seed_and_mostly_is_damage(damage):
    content = seed_files()["numbers-snappy-v1"]
    made = [damage.damaged(content, np.random.default_rng(seed)) for seed in range(30)]
    again = [damage.damaged(content, np.random.default_rng(seed)) for seed in range(30)]
    assert made == again
    assert len(set(made) - {content}) > 20


@pytest.mark.parametrize("name", ["numbers-none-v1", "texts-snappy-v2", "numbers-zstd-v1", "texts-gzip-v1"])
def test_a_file_that_is_taken_apart_and_put_together_is_sound(name, tmp_path):
    campaign = Campaign(1, tmp_path)
    path = tmp_path / "file.parquet"
    path.write_bytes(structure_damage.put_together(structure_damage.take_apart(seed_files()[name])))
    assert campaign.outcome(path, name) == "read"


def test_a_finding_is_a_death_of_the_child_an_exception_or_no_end(monkeypatch):
    def attempt(number: int) -> None:
        if number == 3:
            os.abort()
        if number == 5:
            raise ValueError("five")

    assert run_tries(attempt, 0, 3) is None
    assert run_tries(attempt, 0, 10) == Death(3, "SIGABRT")
    death = run_tries(attempt, 4, 10)
    assert death is not None
    assert (death.number, death.how.strip().splitlines()[-1]) == (5, "ValueError: five")
    monkeypatch.setattr("tests.fuzz.files.children._SECONDS_PER_TRY", 0.1)
    stuck = run_tries(lambda number: __import__("time").sleep(60), 0, 1)
    assert stuck is not None
    assert "no end" in stuck.how


def test_checked_memory_knows_its_buffers():
    MEMORY.clear()
    buffer = MEMORY.allow(pa.py_buffer(b"12345678"))
    assert MEMORY.check(buffer.address, 8) == buffer.address
    for address, size in ((buffer.address - 1, 1), (buffer.address, 9), (buffer.address + 8, 1)):
        with pytest.raises(OutOfBounds):
            MEMORY.check(address, size)
    MEMORY.clear()


def test_every_target_has_sound_inputs_to_start_from():
    assert {data[0] for _, data in inputs()} == set(range(len(targets.TARGETS)))
