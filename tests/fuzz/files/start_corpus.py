"""`python -m tests.fuzz.files.start_corpus FOLDER`: small sound inputs for each target, for a fuzzer to start from."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.fuzz.files import targets
from tests.fuzz.files.seeds import seed_files
from tests.fuzz.files.structure_damage import stored, take_apart

_CODECS = {0: 0, 1: 1, 2: 2, 6: 3}
_TEXT = 6


def inputs() -> Iterator[tuple[str, bytes]]:
    number_of = {target.__name__: number for number, target in enumerate(targets.TARGETS)}
    for name, content in seed_files().items():
        length = int.from_bytes(content[-8:-4], "little")
        if "v2" not in name and "required" not in name and length < 2500:
            yield f"footer-{name}", bytes([number_of["footer"]]) + content[-8 - length : -8]
    for codec in ("none", "snappy", "zstd"):
        for version in ("1.0", "2.0"):
            for nullable in (True, False):
                yield from _chunks(codec, version, nullable, number_of)


def _chunks(codec: str, version: str, nullable: bool, number_of: dict[str, int]) -> Iterator[tuple[str, bytes]]:
    rows = [None if nullable and at % 5 == 0 else at % 4 for at in range(30)]
    texts = [None if at is None else f"{at} is a longer text" for at in rows]
    fields = [("a", pa.int32()), ("b", pa.int64()), ("c", pa.string())]
    schema = pa.schema([pa.field(name, dtype, nullable) for name, dtype in fields])
    table = pa.table({"a": rows, "b": rows, "c": texts}, schema=schema)
    for dictionary in (True, False):
        out = pa.BufferOutputStream()
        pq.write_table(
            table, out, compression=codec, data_page_version=version, use_dictionary=dictionary, max_rows_per_page=16,
            write_batch_size=8, store_schema=False, write_statistics=False,
        )  # fmt: skip
        parts = take_apart(bytes(out.getvalue()))
        for chunk in parts.chunks:
            kind = chunk.metadata[1][1]
            config = _CODECS[chunk.metadata[4][1]] | 4 * nullable | (8 if kind == 2 else 0)
            pages = b"".join(part for page in chunk.pages for part in stored(page, chunk.codec))
            target = "text_chunk" if kind == _TEXT else "number_chunk"
            name = f"{kind}-{codec}-{version[0]}-{'nullable' if nullable else 'required'}-{dictionary}"
            yield f"{target}-{name}", bytes([number_of[target], config, 30, 0]) + pages
            header, body = stored(chunk.pages[-1], chunk.codec)
            yield f"page_header-{name}", bytes([number_of["page_header"]]) + header
            page = chunk.pages[-1]
            if codec == "snappy":
                size = len(page.body).to_bytes(2, "little")
                yield f"snappy-{name}", bytes([number_of["snappy"]]) + size + body[len(page.levels) :]
            if codec == "none" and dictionary:
                skipped = 0 if version == "2.0" or not nullable else 4 + int.from_bytes(page.body[:4], "little")
                yield f"codes-{name}", bytes([number_of["codes"], 14, 0, 4]) + page.body[skipped:]
            if codec == "none" and nullable:
                found = page.levels if version == "2.0" else page.body[4 : 4 + int.from_bytes(page.body[:4], "little")]
                yield f"levels-{name}", bytes([number_of["levels"], 14, 0]) + found


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in inputs():
        (folder / name).write_bytes(data)


if __name__ == "__main__":
    main()
