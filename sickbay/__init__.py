"""Sickbay: durable, explainable remediation of single unhealthy devices in Kubernetes."""
