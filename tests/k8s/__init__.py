"""Tests of the Kubernetes room."""
