"""What is said of a log: its shape, its reuse, what breaks it, as one value."""
