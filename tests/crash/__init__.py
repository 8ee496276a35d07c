"""Tier 5: processes are killed, and a witness who knows none of our code says whether each effect happened once."""
