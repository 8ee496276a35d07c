"""Nodes of a lab: one interface, stand-in nodes behind it, room for real kubelets."""
