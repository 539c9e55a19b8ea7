"""How kernels are compiled and kept: by numba, once on a machine, in this process or in one beside it.

Whoever writes a kernel needs ``core.jit`` alone. May import the arrays, the threads and the errors of core.
"""
