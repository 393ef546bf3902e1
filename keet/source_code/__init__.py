"""What the text of a kernel's source files says, without a compiler: the kernel and what it uses
(`kernel_source`), constants (`constants`), definitions and layouts of types (`definitions`,
`type_layouts`). C++, Python and Fortran; hostile text gives a result in about linear time.
"""
