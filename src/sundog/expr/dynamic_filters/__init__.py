"""Filters that become known while a query runs, and may leave out rows that cannot matter any more."""
