"""Who runs a query next, by the times that its shape had in this session. No Spark."""

from __future__ import annotations

import pytest

from sundog.plan.costs import DRIVER
from sundog.plan.learning import Choice, Learner, Lesson
from sundog.support import Code


def taught(*sundog_seconds: float, guess: float = 0.2) -> Learner:
    learner = Learner()
    for seconds in sundog_seconds:
        learner.note_sundog("q", seconds, guess)
    return learner


def test_a_query_never_seen_is_sundogs() -> None:
    assert Learner().choose("q") is Choice.SUNDOG


def test_one_slow_run_may_be_the_compiler() -> None:
    assert taught(9.0).choose("q") is Choice.SUNDOG


def test_two_slow_runs_are_compared_with_spark_once() -> None:
    learner = taught(3.0, 2.0)
    assert learner.choose("q") is Choice.TRY_SPARK
    assert learner.choose("another") is Choice.SUNDOG
    learner.note_spark("q", 4.0)
    assert learner.choose("q") is Choice.SUNDOG


def test_a_fast_query_is_never_tried_on_spark() -> None:
    assert taught(0.21, 0.22, 0.20).choose("q") is Choice.SUNDOG


def test_what_spark_did_faster_is_left_to_it_with_both_times() -> None:
    learner = taught(3.0, 2.0)
    learner.note_spark("q", 1.0)
    assert learner.choose("q") is Choice.SPARK
    assert "Spark took 1.00 s" in learner.reason("q")
    assert "sundog 2.00 s" in learner.reason("q")


@pytest.mark.parametrize(("sundog", "spark"), [(1.05, 1.0), (0.24, 0.2), (10.9, 10.0)])
def test_a_loss_within_a_tenth_or_a_twentieth_of_a_second_is_none(sundog: float, spark: float) -> None:
    learner = taught(sundog, sundog, guess=0.0)
    learner.note_spark("q", spark)
    assert learner.choose("q") is Choice.SUNDOG


def test_a_verdict_is_dropped_where_other_constants_make_spark_slow() -> None:
    learner = taught(3.0, 2.0)
    learner.note_spark("q", 1.0)
    learner.note_spark("q", 2.0)
    assert learner.choose("q") is Choice.SUNDOG  # no longer lost
    learner.note_spark("q", 0.5)
    assert learner.choose("q") is Choice.SPARK
    learner.note_spark("q", 9.0)
    assert learner.choose("q") is Choice.SUNDOG
    learner.note_sundog("q", 5.0, 0.2)
    assert learner.choose("q") is Choice.SUNDOG  # it starts from the beginning


def test_the_oldest_shapes_are_forgotten() -> None:
    learner = taught(3.0, 2.0)
    for number in range(999):
        learner.note_sundog(f"other {number}", 1.0, 0.2)
    assert learner.choose("q") is Choice.TRY_SPARK
    learner.note_sundog("one more", 1.0, 0.2)
    assert learner.choose("q") is Choice.SUNDOG


def test_an_answer_of_spark_that_no_lesson_asked_for_is_not_kept() -> None:
    lesson = Lesson.of("a session of this test", "q", catalyst_seconds=0.5)
    assert lesson.reason is None
    assert lesson.answered_by_spark(lambda: 7) == 7
    assert lesson.learner.choose("q") is Choice.SUNDOG
    for _ in range(2):
        lesson.answered_by_sundog(2.0, spark_guess=0.2)
    tried = Lesson.of("a session of this test", "q", catalyst_seconds=0.5)
    assert tried.reason is not None
    assert tried.reason.code is Code.LEARNED
    assert "tried on Spark once" in tried.reason.sentence
    assert tried.answered_by_spark(lambda: 8) == 8
    learned = Lesson.of("a session of this test", "q", catalyst_seconds=0.0)
    assert learned.choice is Choice.SPARK
    assert learned.reason is not None
    assert "Spark took 0.50 s" in learned.reason.sentence  # Catalyst's part of it counts


def test_a_query_that_fails_on_spark_teaches_nothing() -> None:
    for _ in range(2):
        Lesson.of("a failing session", "q", 0.0).answered_by_sundog(2.0, spark_guess=0.2)

    def fails() -> None:
        raise ValueError("no such file")

    with pytest.raises(ValueError, match="no such file"):
        Lesson.of("a failing session", "q", 0.0).answered_by_spark(fails)
    assert Lesson.of("a failing session", "q", 0.0).choice is Choice.TRY_SPARK


def test_the_guess_of_sparks_time_grows_with_the_work_and_shrinks_with_slots() -> None:
    work = {"operators": 3, "slots": 2, "rows": 10e6, "groups": 1e6, "window_rows": 2e6}
    guess = DRIVER.spark_seconds(**work)
    assert guess == pytest.approx(0.1 + 3 * 0.07 + 0.3 + 0.5 + 0.7)
    for name in ("operators", "rows", "groups", "window_rows"):
        assert DRIVER.spark_seconds(**{**work, name: 2 * work[name]}) > guess, name
    assert DRIVER.spark_seconds(**{**work, "slots": 4}) < guess
