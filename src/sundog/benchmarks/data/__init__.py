"""Tables made by name, number of rows and seed: the same rows on every machine, by pyarrow or by a Spark job."""
