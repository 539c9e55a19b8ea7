"""The methods by name: ours, and those it is compared with, behind one way to call them.

What lives here imports the core and the files.
"""
