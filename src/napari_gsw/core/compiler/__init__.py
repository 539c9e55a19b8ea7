"""How kernels are compiled and kept: by numba, once on a machine, in this process or in one beside it.

A kernel (``kernel``) that is called looks for machine code that is kept for arguments of such types (``.code``, by
``argument_types``) and runs it without numba (``machine_code``). Without such code numba is imported
(``numba_dispatcher``). It reads what it has kept itself (``.nbc``, ``kernel_cache``), which callers are compiled with,
or compiles, and keeps both. Where they are, and for how long: ``kernel_files``. If ``.code`` alone is lost, numba reads
its own from then on.

Whoever writes a kernel needs ``core.jit`` alone. May import the arrays, the threads and the errors of core.
"""
