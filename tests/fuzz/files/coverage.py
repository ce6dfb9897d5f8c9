"""`python -m tests.fuzz.files.coverage [options of libFuzzer] CORPUS`: a coverage-guided fuzzer over the targets.

It needs atheris (the extra `fuzz`). Kernels are instrumented as Python, over checked memory.
"""

from __future__ import annotations

import sys

import atheris

from tests.fuzz.files import checked_memory

checked_memory.install()
with atheris.instrument_imports(include=["sundog.parquet", "sundog.kernels"]):
    from tests.fuzz.files import targets


if __name__ == "__main__":
    atheris.Setup(sys.argv, targets.run)
    atheris.Fuzz()
