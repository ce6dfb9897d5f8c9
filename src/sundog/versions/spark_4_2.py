"""Spark 4.2: what differs from 4.3. Nothing that sundog uses."""

from __future__ import annotations

from typing import ClassVar

from sundog.versions.spark_4_3 import Spark43


class Spark42(Spark43):
    name: ClassVar[str] = "4.2"
