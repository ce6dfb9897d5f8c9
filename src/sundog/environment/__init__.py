"""What sundog needs around it: a Java, its own code on executors, compiled kernels, a machine that it can measure."""
