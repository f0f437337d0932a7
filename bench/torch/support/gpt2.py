# GPT-2 as nanoGPT and most others write it: that of bench/support/gpt2.c.
# SPDX-License-Identifier: MIT
import torch
import torch.nn.functional as F


class Block(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv, self.project = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.widen, self.narrow = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def attend(self, x):
        batch, length, width = x.shape
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, dim=2))
        if hasattr(F, "scaled_dot_product_attention"):
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            mask = torch.full((length, length), float("-inf"), device=x.device, dtype=x.dtype).triu(1)
            y = torch.softmax(q @ k.transpose(-2, -1) / (width // self.heads) ** 0.5 + mask, -1) @ v
        return self.project(y.transpose(1, 2).reshape(batch, length, width))

    def forward(self, x):
        x = x + self.attend(self.norm_1(x))
        wide = self.widen(self.norm_2(x))
        gelu = F.gelu(wide, approximate="tanh")
        return x + self.narrow(gelu)


class GPT2(torch.nn.Module):
    def __init__(self, vocabulary, context, width, heads, layers):
        super().__init__()
        self.tokens, self.positions = torch.nn.Embedding(vocabulary, width), torch.nn.Embedding(context, width)
        self.blocks = torch.nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = torch.nn.LayerNorm(width)

    def forward(self, ids):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.tokens.weight)
