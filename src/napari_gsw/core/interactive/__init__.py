"""Runs that a user corrects while they go on, and their sessions."""
