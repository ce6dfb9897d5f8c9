"""The small queries of the warm-up run, and a second process has no kernel to compile."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

WARM_UP = """
import json
from sundog.environment.warmup import prepare_kernels
done = prepare_kernels()
print(json.dumps([done.compiled, done.loaded]))
"""


@pytest.mark.matrix
def test_a_second_process_finds_all_kernels_in_the_cache(tmp_path: Path) -> None:
    environment = os.environ | {"SUNDOG_CACHE_DIR": str(tmp_path)}
    counts = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", WARM_UP], env=environment, capture_output=True, text=True, check=True
        )
        counts.append(json.loads(done.stdout))
    (compiled, _), (compiled_again, loaded_again) = counts
    assert compiled > 50
    assert compiled_again == 0
    assert loaded_again > 50, "some are only ever part of others, and need not be loaded"
