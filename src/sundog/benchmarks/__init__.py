"""How fast, against whom, and is the answer the same: data sets, cases, engines and the runner behind `sundog bench`.

`data` makes the tables, `cases` names the queries, `engines` knows how each system is started and asked, `runner` puts
every engine into a process of its own and measures it, `results` holds what came out, `report` and `compare` show it.
"""
