"""A training loop of PyTorch: 54 launches per step, of 15 kernels."""

import torch

inputs = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
layers = [
    torch.nn.Sequential(torch.nn.Linear(4096, 4096), torch.nn.GELU(), torch.nn.LayerNorm(4096))
    for _ in range(4)
]
model = torch.nn.Sequential(*layers).cuda().bfloat16()
for _ in range(300):
    model(inputs).sum().backward()
torch.cuda.synchronize()
print("layers: done")
