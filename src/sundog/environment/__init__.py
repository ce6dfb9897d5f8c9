"""sundog's environment: a Java, its own code on executors, compiled kernels, measured costs of the machine."""
