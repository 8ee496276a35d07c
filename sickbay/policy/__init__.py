"""What should be done: pure functions from facts, policy and now to a decision."""
