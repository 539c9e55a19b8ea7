"""Files: images and label images in, labels, results, tables and pictures out, each written whole or not at all.

What lives here imports the core and nothing else of the package.
"""
