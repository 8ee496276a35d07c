"""The only door to Kubernetes."""

PART_OF = "sickbay"
