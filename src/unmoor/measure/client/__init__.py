"""The client: sends on schedule, stamps what comes, and makes a record of each request."""
