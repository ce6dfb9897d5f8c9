"""Floats with one NaN and one zero, as Spark compares, groups and normalises them; and rounding like Spark's."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sundog.errors import InternalError
from sundog.expr.buffers import Bools


def canonical_floats(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A copy in which -0.0 is 0.0 and every NaN has the same bits. `kernels/windows/word_sort.py` does the same for
    sort keys, inside its own loop."""
    with np.errstate(invalid="ignore"):  # a signalling NaN needs no warning
        values = values + values.dtype.type(0)
    missing = np.isnan(values)
    if missing.any():
        values[missing] = np.nan
    return values


MAX_EXACT_PLACES = 22  # 10^22 is the greatest power of ten that is a double


def rounded_units(values: npt.NDArray[np.float64], places: int) -> tuple[npt.NDArray[np.int64], Bools]:
    """Doubles in units of 10^-places, HALF_UP on the digits that Java prints; and the rows for which that is certain.

    Spark rounds a double as `new BigDecimal(Double.toString(x))`. The digits that Java prints changed in Java 19, but
    not where doubles are dense. If the distance of doubles at x is less than a tenth of the unit, both algorithms print
    the half unit next to x for exactly one double, the nearest to it. (2^-113 and other tiny powers of two would be
    exceptions to the older algorithm.) So x is rounded up if and only if it is not below that double, which one
    division gives. Uncertain are NaN, infinities and rows where doubles are less dense.
    """
    if places > MAX_EXACT_PLACES:
        raise InternalError(f"10^{places} is not a double")
    with np.errstate(all="ignore"):
        sizes = np.abs(values)
        decided = sizes < 2.0**53  # above, older Javas may print other digits than newer ones
        decided &= np.spacing(sizes) * 10.0 ** max(places + 1, 0) < 10.0 ** max(-places - 1, 0)
        sizes = np.where(decided, sizes, 0.0)
        power = 10.0 ** abs(places)
        units = np.rint(sizes * power if places >= 0 else sizes / power)
        units -= sizes < _half_below(units, power, places)
        units += sizes >= _half_below(units + 1, power, places)
    whole = units.astype(np.int64)
    return np.where(values < 0, -whole, whole), decided


def _half_below(units: npt.NDArray[np.float64], power: float, places: int) -> npt.NDArray[np.float64]:
    """The double nearest to (units - 1/2) x 10^-places: both operands are exact, so it is rounded once."""
    halves = 2 * units - 1
    nearest: npt.NDArray[np.float64] = halves / (2 * power) if places >= 0 else halves * (power / 2)
    return nearest
