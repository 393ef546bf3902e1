"""One instruction: opcode, operands, registers read and written. Knows no other instruction."""
