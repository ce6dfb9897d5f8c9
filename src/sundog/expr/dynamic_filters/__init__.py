"""Filters that become known while a query runs, and rule out rows that cannot change the result."""
