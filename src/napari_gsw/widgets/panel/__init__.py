"""The dock "GSW segmentation": views over `session`, which they read and ask, and which does not know them."""
