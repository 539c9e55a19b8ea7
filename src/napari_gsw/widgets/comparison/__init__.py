"""The dock "Compare segmentations". Imports `layers`, `common`, `scores` and `core`, and no other dock."""
