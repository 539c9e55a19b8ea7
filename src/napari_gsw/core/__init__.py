"""The model and its sampler, without a window: packages along the flow of a segmentation.

settings, image, sites, likelihood, features, graph, blocks, model, sampler, posterior, pipeline, interactive: each may
import those before it and the modules beside this file.
"""
