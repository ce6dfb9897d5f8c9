"""The actions of Spark, with sundog in between: of DataFrames, of writers, and SQL commands. One life for all of
them."""
