"""How fast it is, as ratios that hold on any machine: ``napari-gsw bench``.

clock, problems, pictures            what is measured with, and on
sampling, rivals, memory, stages, startup, slide     the sections, each a function of its sizes
plan --> report --> guard            all sections at some scale, the table and JSON, ratios against recorded ones

What lives here imports everything but the command line, the window, the batch and the experiments.
"""
