"""Values in, text and pages out; it runs nothing."""
