"""What is measured: each case is a name, a data set, a query, and how its answers are compared."""
