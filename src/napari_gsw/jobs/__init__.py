"""Many independent jobs: in processes, with a bar, tried again where that may help, and never done twice.

What lives here imports the core and the files, and knows nothing of what a job does.
"""
