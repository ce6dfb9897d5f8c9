"""The subcommands of `sundog`, one module each, with a function `register(app)` that `sundog.cli` calls."""
