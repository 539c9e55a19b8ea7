"""Image in, labels out: the one engine behind the API, the command line, the window and the batch.

`prepare` makes a problem, `segment` runs its chains to a result, `live_chain` lets a person steer them, `chain_runs`
parts them over machines. May import everything of core.
"""
