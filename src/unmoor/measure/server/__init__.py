"""What the server says of itself: its models, its metrics, its cache."""
