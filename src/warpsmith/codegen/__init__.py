"""From a graph to kernel text: regions grow (`fusion`) and are rewritten (`rewrites`), a region is lowered to a `Program` (`lowering`),
printers write it. What an operator needs of its own is in `kernels`.
"""
