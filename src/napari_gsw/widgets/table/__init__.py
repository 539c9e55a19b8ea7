"""The dock "Table of regions". It reads what other docks leave in ``layer.features``, and imports none of them."""
