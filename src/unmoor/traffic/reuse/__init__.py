"""What a cache can serve of the prompts: at every capacity, over time, over replicas; and what they share."""
