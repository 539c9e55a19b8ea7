"""The model and its sampler, without a screen: folders along the flow of a segmentation.

image -> sites -> evidence -> graph -> model -> sampler -> posterior -> pipeline. A folder may import those before it
and the ground, which are the files beside this one; the ground imports nothing of the package but itself.
"""
