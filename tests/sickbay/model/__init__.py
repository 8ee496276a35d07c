"""The models: what all others agree on."""
