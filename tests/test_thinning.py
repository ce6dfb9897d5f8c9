"""`thin(n)`: which cases of a test only `make test-matrix` runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

import pytest

from tests.conftest import mark_left_out


@dataclass
class Case:
    nodeid: str
    thin: pytest.Mark | None = None
    added: list[str] = field(default_factory=list)

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return self.thin if name == "thin" else None

    def add_marker(self, name: str) -> None:
        self.added.append(name)


def test_the_first_of_every_n_cases_of_each_function_stays() -> None:
    every_third = pytest.mark.thin(3).mark
    several = [Case(f"test_x.py::test_a[{number}]", every_third) for number in range(5)]
    one = Case("test_x.py::test_b", every_third)
    unmarked = [Case(f"test_x.py::test_c[{number}]") for number in range(4)]
    mark_left_out(cast("list[pytest.Item]", [*several, one, *unmarked]))
    assert [case.added for case in several] == [[], ["matrix"], ["matrix"], [], ["matrix"]]
    assert all(case.added == [] for case in [one, *unmarked])
