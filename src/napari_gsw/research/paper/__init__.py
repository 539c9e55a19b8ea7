"""The figures and the table of the paper, and what else is measured on data sets: ``napari-gsw reproduce``.

Each experiment is a module with ``reproduce(plan, job_options)``. What lives here imports everything but the command
line, the window, the batch and the benchmark.
"""
