"""Commands that need the research extra: bench, evaluate, reproduce."""
