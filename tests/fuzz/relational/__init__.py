"""Queries over several tables, against plain Spark: joins, subqueries, set operations, unions, shapes between them."""
