"""What traffic is: readers, shape, prefix overlap, synthesis and the words that stand for its segments."""
