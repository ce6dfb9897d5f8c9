"""Whether Spark or sundog runs a query next, by the times of its shape in this session. No Spark."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sundog.plan.costs import DRIVER, EXECUTORS
from sundog.plan.learning import Choice, Learner, Lesson
from sundog.support import Code


def taught(*sundog_seconds: float, guess: float = 0.2) -> Learner:
    learner = Learner()
    for seconds in sundog_seconds:
        learner.note_sundog("q", seconds, guess)
    return learner


def test_a_query_never_seen_is_sundogs() -> None:
    assert Learner().choose("q", DRIVER) is Choice.SUNDOG


def test_one_slow_run_may_be_the_compiler() -> None:
    assert taught(9.0).choose("q", DRIVER) is Choice.SUNDOG


def test_two_slow_runs_are_compared_with_spark_once() -> None:
    learner = taught(3.0, 2.0)
    assert learner.choose("q", DRIVER) is Choice.TRY_SPARK
    assert learner.choose("another", DRIVER) is Choice.SUNDOG
    learner.note_spark("q", 4.0, DRIVER)
    assert learner.choose("q", DRIVER) is Choice.SUNDOG


def test_a_fast_query_is_never_tried_on_spark() -> None:
    assert taught(0.21, 0.22, 0.20).choose("q", DRIVER) is Choice.SUNDOG


def test_what_spark_did_faster_is_left_to_it_with_both_times() -> None:
    learner = taught(3.0, 2.0)
    learner.note_spark("q", 1.0, DRIVER)
    assert learner.choose("q", DRIVER) is Choice.SPARK
    assert "Spark took 1.00 s" in learner.reason("q")
    assert "sundog 2.00 s" in learner.reason("q")


@pytest.mark.parametrize(("sundog", "spark"), [(1.05, 1.0), (0.24, 0.2), (10.9, 10.0)])
def test_a_loss_within_a_tenth_or_a_twentieth_of_a_second_is_none(sundog: float, spark: float) -> None:
    learner = taught(sundog, sundog, guess=0.0)
    learner.note_spark("q", spark, DRIVER)
    assert learner.choose("q", DRIVER) is Choice.SUNDOG


def test_a_verdict_is_dropped_where_other_constants_make_spark_slow() -> None:
    learner = taught(3.0, 2.0)
    learner.note_spark("q", 1.0, DRIVER)
    learner.note_spark("q", 2.0, DRIVER)
    assert learner.choose("q", DRIVER) is Choice.SUNDOG  # no longer lost
    learner.note_spark("q", 0.5, DRIVER)
    assert learner.choose("q", DRIVER) is Choice.SPARK
    learner.note_spark("q", 9.0, DRIVER)
    assert learner.choose("q", DRIVER) is Choice.SUNDOG
    learner.note_sundog("q", 5.0, 0.2)
    assert learner.choose("q", DRIVER) is Choice.SUNDOG  # it starts from the beginning


def test_the_oldest_shapes_are_forgotten() -> None:
    learner = taught(3.0, 2.0)
    for number in range(999):
        learner.note_sundog(f"other {number}", 1.0, 0.2)
    assert learner.choose("q", DRIVER) is Choice.TRY_SPARK
    learner.note_sundog("one more", 1.0, 0.2)
    assert learner.choose("q", DRIVER) is Choice.SUNDOG


def test_an_answer_of_spark_that_no_lesson_asked_for_is_not_kept() -> None:
    lesson = Lesson.of("a session of this test", "q", catalyst_seconds=0.5, costs=DRIVER)
    assert lesson.reason is None
    assert lesson.answered_by_spark(lambda: 7) == 7
    assert lesson.learner.choose("q", DRIVER) is Choice.SUNDOG
    for _ in range(2):
        lesson.answered_by_sundog(2.0, spark_guess=0.2)
    tried = Lesson.of("a session of this test", "q", catalyst_seconds=0.5, costs=DRIVER)
    assert tried.reason is not None
    assert tried.reason.code is Code.LEARNED
    assert "tried on Spark once" in tried.reason.sentence
    assert tried.answered_by_spark(lambda: 8) == 8
    learned = Lesson.of("a session of this test", "q", catalyst_seconds=0.0, costs=DRIVER)
    assert learned.choice is Choice.SPARK
    assert learned.reason is not None
    assert "Spark took 0.50 s" in learned.reason.sentence  # Catalyst's part of it counts


def test_a_query_that_fails_on_spark_teaches_nothing() -> None:
    for _ in range(2):
        Lesson.of("a failing session", "q", 0.0, costs=DRIVER).answered_by_sundog(2.0, spark_guess=0.2)

    def fails() -> None:
        raise ValueError("no such file")

    with pytest.raises(ValueError, match="no such file"):
        Lesson.of("a failing session", "q", 0.0, costs=DRIVER).answered_by_spark(fails)
    assert Lesson.of("a failing session", "q", 0.0, costs=DRIVER).choice is Choice.TRY_SPARK


@pytest.mark.parametrize(
    ("numbers", "choice"),
    [({}, Choice.SPARK), ({"min_loss_seconds": 2.0}, Choice.SUNDOG), ({"min_loss_share": 1.5}, Choice.SUNDOG)],
)
def test_costs_say_what_a_loss_is(numbers: dict[str, float], choice: Choice) -> None:
    learner = taught(3.0, 2.0)
    learner.note_spark("q", 1.0, DRIVER)
    assert learner.choose("q", replace(DRIVER, **numbers)) is choice


def test_costs_say_after_how_many_runs_a_query_is_compared_with_spark() -> None:
    assert taught(9.0).choose("q", replace(DRIVER, learnt_runs=1)) is Choice.TRY_SPARK
    assert taught(9.0, 8.0).choose("q", replace(DRIVER, learnt_runs=3)) is Choice.SUNDOG


def test_the_guess_of_sparks_time_grows_with_the_work_and_shrinks_with_slots() -> None:
    work = {"operators": 3, "slots": 2, "rows": 10e6, "groups": 1e6, "window_rows": 2e6}
    guess = DRIVER.spark_seconds(**work)
    assert guess == pytest.approx(0.1 + 3 * 0.045 + 0.3 + 0.5 + 0.7)
    for name in ("operators", "rows", "groups", "window_rows"):
        assert DRIVER.spark_seconds(**{**work, name: 2 * work[name]}) > guess, name
    assert DRIVER.spark_seconds(**{**work, "slots": 4}) < guess


@pytest.mark.parametrize(
    ("operators", "rows", "spark", "executors"),
    [
        (17, 5.52e6, 1.23, 1.41),
        (7, 0.98e6, 0.36, 0.50),
        (4, 2.97e6, 0.35, 0.45),
        (17, 5.52e6, 0.84, 1.24),
        (17, 5.52e6, 1.13, 1.41),
        (8, 5.31e6, 0.58, 0.84),
    ],
    ids=["q33", "q45", "q52 and q55", "q56", "q60", "q76"],
)
def test_queries_that_spark_runs_faster_than_executors_do_are_found(
    operators: int, rows: float, spark: float, executors: float
) -> None:
    """TPC-DS at scale 1 on 2 slots, as measured: `docs/decisions/no-prediction-before-the-first-run.md`."""
    learner = taught(executors, executors, guess=EXECUTORS.spark_seconds(operators, 2, rows, 0, 0))
    assert learner.choose("q", EXECUTORS) is Choice.TRY_SPARK
    learner.note_spark("q", spark, EXECUTORS)
    assert learner.choose("q", EXECUTORS) is Choice.SPARK
