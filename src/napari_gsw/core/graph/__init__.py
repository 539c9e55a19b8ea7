"""Which sites are neighbours, and how strongly they are coupled, equation (12): by length, by contrast, or as learnt.

Also walks over the graph, its slow modes, and the tree of merges. May import evidence and what evidence may.
"""
