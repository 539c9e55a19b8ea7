"""Any image -> channels in units in which differences mean something: in memory, lazy, or in blocks.

Colours, axes and the signal of objects; blocks that tile an image. May import the ground of core.
"""
