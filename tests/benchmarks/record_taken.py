"""Record how much of each TPC query sundog takes. A change that takes more shows in the record; one that takes less
fails a test.

.venv/bin/python -m tests.benchmarks.record_taken
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from sundog.benchmarks.cases.catalog import select
from sundog.benchmarks.cases.model import DataRef
from sundog.benchmarks.cases.tpc import CASES
from sundog.benchmarks.check import PLACEMENTS, check_cases
from sundog.benchmarks.data.tpc import TPCDS, TPCH
from sundog.benchmarks.data.write import make_tpc
from sundog.benchmarks.results import Taken
from tests.benchmarks.conftest import TPC_SCALE

GOLDEN = Path(__file__).parent / "tpc_taken.txt"
TAKEN_ORDER = (Taken.SPARK, Taken.PART, Taken.WHOLE)


def read_golden(path: Path) -> dict[tuple[str, str], Taken]:
    """Lines of `case driver executors`, each with a word of `Taken`."""
    found = {}
    for line in path.read_text().splitlines():
        if not line.startswith("#"):
            case, *words = line.split()
            found.update({(case, where): Taken(word) for where, word in zip(PLACEMENTS, words, strict=True)})
    return found


def write_golden(path: Path, taken: dict[tuple[str, str], Taken]) -> None:
    lines = [f"# case       {' '.join(PLACEMENTS)}"]
    for case in CASES:
        words = " ".join(f"{taken[case.name, where].value:<6}" for where in PLACEMENTS)
        lines.append(f"{case.name:<12} {words}".rstrip())
    path.write_text("\n".join(lines) + "\n")


def main() -> None:
    import sundog

    cases = select(sys.argv[1:] or [case.name for case in CASES])
    with tempfile.TemporaryDirectory() as root:
        folders = {DataRef(each.name): Path(root) / each.name for each in (TPCH, TPCDS)}
        for data_set in (TPCH, TPCDS):
            make_tpc(data_set, TPC_SCALE, folders[DataRef(data_set.name)])
        confs = {
            "spark.driver.memory": "2g",
            "spark.sql.shuffle.partitions": "4",
            "spark.sql.session.timeZone": "UTC",
            "spark.sundog.onInternalError": "raise",
            "spark.sundog.learn": "false",  # how much is taken must not depend on how fast the machine is
        }
        spark = sundog.session("sundog-record", "local[2]", confs)
        try:
            taken = read_golden(GOLDEN)
            for one in check_cases(spark, cases, folders):
                print(one.case, one.placement, one.taken.value, one.reason, one.difference, sep="  ", flush=True)
                taken[one.case, one.placement] = one.taken
        finally:
            spark.stop()
    write_golden(GOLDEN, taken)


if __name__ == "__main__":
    main()
