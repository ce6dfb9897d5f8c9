"""Shadow mode: Spark answers, sundog runs too, and the answers are compared."""
