"""The dock "GSW segmentation": the form, the buttons, the trace, what is shown, and saving.

Views over `session`, which they read and ask, and which does not know them. May import `session`, `layers`, `kit`,
`files` and `core`.
"""
