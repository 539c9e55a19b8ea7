"""Read images, and write labels, results, tables and figures, each complete or not at all."""
