"""Training of the boundary models and networks that the package contains."""
