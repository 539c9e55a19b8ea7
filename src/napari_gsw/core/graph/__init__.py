"""The region adjacency graph: couplings of neighbours, random walks, and the hierarchy of merges."""
