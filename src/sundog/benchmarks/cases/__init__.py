"""The measured cases: each has a name, a data set, a query, and a rule for comparing its answers."""
