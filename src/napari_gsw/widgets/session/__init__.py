"""One panel's work on one image: the run in its thread, what is drawn of it, and what a person does to it."""
