"""TPC-H and TPC-DS, made by `tpcgen-cli`: the rows that `dbgen` and `dsdgen` make, written as Parquet.

Its files are snappy-compressed with row groups of about 16 MB before compression, decimals as decimal(15,2) and
decimal(7,2), dates as dates. A fact table has a file for some 50 MB of it, as Spark would write it; `dsdgen` cuts no
table of under a million units, so a TPC-DS table at scale 1 is one file. Strings are not padded.
"""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sundog.errors import SundogError

GENERATOR = "tpcgen-cli"
ROW_GROUP_BYTES = "16MB"
SMALLEST_SCALE = 0.001


class GeneratorError(SundogError, RuntimeError):
    """The generator of TPC data is not installed, or failed. The message says what to install or what it said."""

    @classmethod
    def missing(cls, name: str) -> GeneratorError:
        return cls(
            f"The data of {name} is made by {GENERATOR}, which is not installed. "
            f"Install it with `pip install {GENERATOR}` or `pip install 'sundog[bench]'`."
        )

    @classmethod
    def failed(cls, name: str, said: str) -> GeneratorError:
        return cls(f"{GENERATOR} could not make {name}: {said.strip() or 'it said nothing'}")


@dataclass(frozen=True)
class TpcSet:
    """A TPC suite's tables: each with the number of files that it has at scale 1, which grows with the scale."""

    name: str
    tables: Mapping[str, float]
    about: str
    default_scale: float = 1.0

    def folders(self, folder: Path) -> dict[str, Path]:
        return {table: folder / table for table in self.tables}

    def file_counts(self, scale: float) -> dict[str, int]:
        """Files that are asked for; the generator may make fewer of a small table."""
        return {table: max(1, round(files * scale)) for table, files in self.tables.items()}

    def make(self, scale: float, folder: Path, threads: int) -> None:
        """Write every table below `folder`, which must be empty or absent."""
        generator = find_generator(self.name)
        counts = self.file_counts(scale)
        for files in sorted(set(counts.values())):
            tables = [table for table, count in counts.items() if count == files]
            self._generate(generator, scale, folder, tables, files, threads)
        for table_folder in self.folders(folder).values():
            _number_files(table_folder)

    def _generate(
        self, generator: str, scale: float, folder: Path, tables: list[str], files: int, threads: int
    ) -> None:
        options = {
            "--scale-factor": f"{scale:g}",
            "--output-dir": str(folder),
            "--tables": ",".join(tables),
            "--parts": str(files),
            "--row-group-bytes": ROW_GROUP_BYTES,
            "--field-ids": "false",
            "--num-threads": str(threads),
        }
        arguments = [argument for option in options.items() for argument in option]
        done = subprocess.run(
            [generator, self.name, "parquet", "--quiet", *arguments], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise GeneratorError.failed(self.name, done.stderr)


def find_generator(name: str) -> str:
    """The generator's program: beside this Python, or wherever the shell would find it."""
    beside = Path(sysconfig.get_path("scripts")) / GENERATOR
    found = str(beside) if beside.is_file() else shutil.which(GENERATOR)
    if found is None:
        raise GeneratorError.missing(name)
    return found


def _number_files(folder: Path) -> None:
    """`lineitem.10.parquet` -> `part-00009.parquet`: names in the order of their rows."""
    made = sorted(folder.glob("*.parquet"), key=lambda file: int(file.name.split(".")[-2]))
    for place, file in enumerate(made):
        file.rename(folder / f"part-{place:05d}.parquet")


TPCH = TpcSet(
    "tpch",
    {
        "lineitem": 4,
        "orders": 1,
        "partsupp": 1,
        "customer": 0.25,
        "part": 0.25,
        "supplier": 0.025,
        "nation": 0,
        "region": 0,
    },
    "TPC-H's eight tables, as dbgen makes them",
)
TPCDS = TpcSet(
    "tpcds",
    {
        "store_sales": 3,
        "catalog_sales": 2,
        "web_sales": 1,
        "inventory": 1,
        "store_returns": 0.4,
        "catalog_returns": 0.25,
        "web_returns": 0.1,
        **dict.fromkeys(
            (
                "call_center",
                "catalog_page",
                "customer",
                "customer_address",
                "customer_demographics",
                "date_dim",
                "household_demographics",
                "income_band",
                "item",
                "promotion",
                "reason",
                "ship_mode",
                "store",
                "time_dim",
                "warehouse",
                "web_page",
                "web_site",
            ),
            0.0,
        ),
    },
    "TPC-DS's twenty-four tables, as dsdgen makes them",
)
