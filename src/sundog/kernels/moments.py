"""Counts, means and moments of two disjoint sets put together: the formula of variances, covariances and regression.

A row is a set of one: count 1, mean x, moments 0. The formulas are those of Chan, Golub and LeVeque, in the form that
Spark uses. The mean moves by its share of the difference, and the moment grows by the product of the differences. So
the variance of {7000000000005, 7000000000007} is exactly 1. By group (`groups/by_group_moments.py`) and over frames
(`windows/moments.py`) they are the same.
"""

from __future__ import annotations

from sundog.kernels.compile import kernel

Comoments = tuple[float, float, float, float, float, float]
"""Count, mean of x, mean of y, co-moment, moment of x, moment of y."""


@kernel(inline=True)
def merged_product(
    product: float, product2: float, delta_x: float, share_y: float, count: float, count2: float
) -> float:
    """The sum of products of differences from the means, of x and y or of x twice, of two sets together."""
    return product + product2 + delta_x * share_y * count * count2


@kernel(inline=True)
def merged_moments(
    count: float, mean: float, squares: float, count2: float, mean2: float, squares2: float
) -> tuple[float, float, float]:
    """Count, mean and sum of squared differences from the mean, of two sets together. A row is added as in Spark."""
    if count2 == 0.0:
        return count, mean, squares
    if count == 0.0:
        return count2, mean2, squares2
    both = count + count2
    delta = mean2 - mean
    share = delta / both
    if count2 == 1.0 and squares2 == 0.0:
        return both, mean + share, squares + delta * (delta - share)
    return both, mean + share * count2, merged_product(squares, squares2, delta, share, count, count2)


@kernel(inline=True)
def merged_comoments(one: Comoments, two: Comoments) -> Comoments:
    """Two sets of pairs together."""
    if two[0] == 0.0:
        return one
    if one[0] == 0.0:
        return two
    count, count2 = one[0], two[0]
    both = count + count2
    delta_x, delta_y = two[1] - one[1], two[2] - one[2]
    share_x, share_y = delta_x / both, delta_y / both
    return (
        both,
        one[1] + share_x * count2,
        one[2] + share_y * count2,
        merged_product(one[3], two[3], delta_x, share_y, count, count2),
        merged_product(one[4], two[4], delta_x, share_x, count, count2),
        merged_product(one[5], two[5], delta_y, share_y, count, count2),
    )


@kernel(inline=True)
def with_pair(one: Comoments, x: float, y: float, of_regression: bool) -> Comoments:
    """A set with one pair more, as Spark adds a row: `y` is compared with the mean that it has moved.

    Spark's regression of x on y takes the co-moment the other way round, and the moment of y as a variance.
    """
    count = one[0] + 1.0
    delta_x, delta_y = x - one[1], y - one[2]
    share_x, share_y = delta_x / count, delta_y / count
    mean_x, mean_y = one[1] + share_x, one[2] + share_y
    comoment = delta_y * (x - mean_x) if of_regression else delta_x * (y - mean_y)
    moment_y = delta_y * (delta_y - share_y) if of_regression else delta_y * (y - mean_y)
    return (count, mean_x, mean_y, one[3] + comoment, one[4] + delta_x * (x - mean_x), one[5] + moment_y)
