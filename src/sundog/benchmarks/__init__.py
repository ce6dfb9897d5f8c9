"""`sundog bench`: how fast sundog and other engines are, and whether their answers agree.

`data` makes the tables, `cases` names the queries, `engines` starts and queries each system, `runner` measures every
engine in a process of its own, `results` holds the measurements, `report` and `compare` show them.
"""
