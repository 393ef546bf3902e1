"""A Triton kernel, so that a report exists whose source lines are Python."""

import torch
import triton
import triton.language as tl


@triton.jit
def softmax_rows(out, rows, stride, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    inside = columns < width
    values = tl.load(rows + row * stride + columns, mask=inside, other=-float("inf"))
    values = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * stride + columns, values / tl.sum(values, axis=0), mask=inside)


rows = torch.randn(512, 1000, device="cuda")
out = torch.empty_like(rows)
softmax_rows[(512,)](out, rows, rows.stride(0), 1000, BLOCK=1024)
assert torch.allclose(out, torch.softmax(rows, dim=1), atol=1e-6)
print("softmax: done")
