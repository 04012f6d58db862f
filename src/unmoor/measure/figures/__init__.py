"""What a load says: its figures with bounds, and what is doubtful of them."""
