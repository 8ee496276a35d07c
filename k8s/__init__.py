"""The only door to Kubernetes."""
