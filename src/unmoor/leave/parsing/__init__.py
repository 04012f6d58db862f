"""What each side's parsers make of recorded outputs: tool calls, content and thinking."""
