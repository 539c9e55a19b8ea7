"""Experiments, baseline methods, evaluation and benchmarks; imported by no other package."""
