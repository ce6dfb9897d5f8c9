"""Floats with one NaN and one zero, as Spark compares, groups and normalises them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def canonical_floats(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A copy in which -0.0 is 0.0 and every NaN has the same bits. `kernels/windows/word_sort.py` does it for rows to
    sort."""
    with np.errstate(invalid="ignore"):  # a signalling NaN is no reason to warn
        values = values + values.dtype.type(0)
    missing = np.isnan(values)
    if missing.any():
        values[missing] = np.nan
    return values
