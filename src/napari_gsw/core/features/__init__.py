"""Features of sites: histograms of visual words, moments of channels, network output, and input maps."""
