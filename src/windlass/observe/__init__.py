"""What a running Windlass tells others: events for code, log records for people."""
