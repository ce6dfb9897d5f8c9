"""The measured engines: how each is started with a number of cores, given the tables, and asked one case."""
