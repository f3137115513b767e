"""Pure values and rules: what a job is, what may happen to it, what is refused. No I/O here."""
