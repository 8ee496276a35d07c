"""A real control plane on loopback, with stand-in nodes: what demo, tests and benchmarks run on."""
