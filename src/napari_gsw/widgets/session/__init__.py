"""One panel's work on one image: the run in its thread, what is drawn of it, and what a person does to it.

May import `layers`, `kit` and `core`. Inside, each file imports only those to its right: session, corrections, canvas,
orders, run, plan, frame, array_run, pace.
"""
