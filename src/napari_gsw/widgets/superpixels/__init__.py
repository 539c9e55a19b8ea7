"""The dock "Superpixels". Imports `layers`, `common` and `core`, and no other dock."""
