"""The processes and their wiring."""
