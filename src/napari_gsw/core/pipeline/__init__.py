"""The engine behind the API, the command line, the window and the batch: an image in, labels out."""
