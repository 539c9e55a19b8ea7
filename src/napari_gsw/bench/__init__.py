"""Measurements of the package against others and against itself."""
