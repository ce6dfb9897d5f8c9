"""Who is asked: how each system is started on so many cores, given the tables, and asked one case."""
