"""What an operator sees, in a real browser."""
