"""Tasks: named functions that run jobs, how they are declared, found, checked and called."""
