"""Spark's actions with sundog in between: actions of DataFrames, of writers, and SQL commands, in one lifecycle."""
