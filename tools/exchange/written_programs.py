"""Programs that onnx_written.py writes: sizes as values, writes in place, buffers. SPDX-License-Identifier: MIT"""
import torch

from written_tensors import tensor


def rows(*more):
    return lambda n: [tensor((n,) + more)]


def write_buffer(change):
    def fn(self, x):
        change(self, x)
        return self.c + x[:1] * 0
    return fn, rows(4), {"c": torch.zeros(2, 4)}


PROGRAMS = {
    "size in full": lambda: (lambda x: torch.full((x.shape[0],), x.shape[0]), rows(), {}),
    "size in full, half": lambda: (lambda x: torch.full((x.shape[0], 2), x.shape[0] // 2, dtype=torch.float32), rows(), {}),
    "size in new_full": lambda: (lambda x: x.new_full((2,), x.shape[0]), rows(3), {}),
    "size in full_like": lambda: (lambda x: torch.full_like(x, x.shape[0] + 1), rows(3), {}),
    "size as a factor": lambda: (lambda x: x * x.shape[0], rows(3), {}),
    "size as a term": lambda: (lambda x: x + x.shape[0], rows(3), {}),
    "size as a divisor": lambda: (lambda x: x.sum(0) / x.shape[0], rows(3), {}),
    "size as a root": lambda: (lambda x: x / x.shape[0] ** 0.5, rows(3), {}),
    "size compared": lambda: (lambda x: x > x.shape[0], rows(3), {}),
    "size as a bound": lambda: (lambda x: x.clamp(max=x.shape[0] - 3), rows(3), {}),
    "size in where": lambda: (lambda x: torch.where(x > 0, x.shape[0], x), rows(3), {}),
    "size as a fill": lambda: (lambda x: x.clone().fill_(x.shape[0]), rows(3), {}),
    "size in masked_fill": lambda: (lambda x: x.masked_fill(x > 0, x.shape[0]), rows(3), {}),
    "size in pad": lambda: (lambda x: torch.nn.functional.pad(x, (0, 1), value=x.shape[0]), rows(3), {}),
    "size in alpha": lambda: (lambda x: torch.add(x, x, alpha=x.shape[0]), rows(3), {}),
    "size in scalar_tensor": lambda: (lambda x: x[0] * torch.scalar_tensor(x.shape[0]), rows(3), {}),
    "arange of a size": lambda: (lambda x: torch.arange(x.shape[0]) + x, rows(), {}),
    "arange from a size": lambda: (lambda x: torch.arange(x.shape[0], 2 * x.shape[0], 2, dtype=torch.float32), rows(), {}),
    "arange by a size": lambda: (lambda x: torch.arange(0, 40, x.shape[0]), rows(), {}),
    "slice to half": lambda: (lambda x: x[: x.shape[0] // 2], rows(3), {}),
    "slice from minus half": lambda: (lambda x: x[-(x.shape[0] // 2):], rows(3), {}),
    "slice to a floored negative": lambda: (lambda x: x[: (1 - x.shape[0]) // 2], rows(3), {}),
    "slice by remainder": lambda: (lambda x: x[: x.shape[0] % 3], rows(3), {}),
    "view of a size": lambda: (lambda x: x.view(x.shape[0] * 2, 2), rows(4), {}),
    "view of two sizes": lambda: (lambda x, y: (x[:, None] + y[None]).view(x.shape[0], y.shape[0], 1),
                                  lambda n: [tensor((n,)), tensor((n + 2,))], {}),
    "flatten of sizes": lambda: (lambda x: x.flatten(0, 1), rows(3, 4), {}),
    "expand with -1": lambda: (lambda x, y: x.expand(y.shape[0], -1), lambda n: [tensor((1, 3)), tensor((n,))], {}),
    "expand more with -1": lambda: (lambda x, y: x.expand(y.shape[0], 2, -1), lambda n: [tensor((2, 1)), tensor((n,))], {}),
    "expand of a size": lambda: (lambda x: x[:, None].expand(-1, x.shape[0]), rows(), {}),
    "narrow of a size": lambda: (lambda x: x.narrow(0, 1, x.shape[0] - 1), rows(3), {}),
    "mean of a size": lambda: (lambda x: x.mean(0) + x.var(1, unbiased=False)[0], rows(3), {}),
    "variance of a size": lambda: (lambda x: x.var(0), rows(3), {}),
    "zeros of a size": lambda: (lambda x: torch.zeros(x.shape[0], 2) + x, rows(1), {}),
    "ones of sizes": lambda: (lambda x: x.new_ones(x.shape[0] + 1, x.shape[0]), rows(1), {}),
    "cat of sizes": lambda: (lambda x: torch.cat([x, x[:1], x]), rows(2), {}),
    "attention of sizes": lambda: (lambda x: torch.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True),
                                   lambda n: [tensor((2, n, 4))], {}),
    "repeat of a size": lambda: (lambda x: x.repeat(2, 1), rows(2), {}),
    "repeat by a size": lambda: (lambda x: x[:1].repeat(x.shape[0], 1), rows(2), {}),
    "roll of a size": lambda: (lambda x: x.roll(1, 0), rows(2), {}),
    "roll of few": lambda: (lambda x: x.roll(9, 0), rows(2), {}),
    "flip of a size": lambda: (lambda x: x.flip(0), rows(2), {}),
    "tril of a size": lambda: (lambda x: torch.ones(x.shape[0], x.shape[0]).tril(), rows(), {}),
    "size as topk": lambda: (lambda x: x.topk(x.shape[0] // 2, 0)[0], rows(), {}),
    "split of a size": lambda: (lambda x: x.split(2, 0)[0], rows(2), {}),
    "comparison in place": lambda: (lambda x: x.clone().gt_(0) + 1, rows(2), {}),
    "equality in place": lambda: (lambda x: x.clone().eq_(x[0]) * 2, rows(2), {}),
    "not in place": lambda: (lambda x: x.clone().logical_not_() + 0.5, rows(2), {}),
    "write to a slice": lambda: (lambda x: _set(x.clone(), (slice(None), slice(0, 1)), 2.0), rows(3), {}),
    "write to a strided view": lambda: (lambda x: _set(torch.zeros(4, 3) + x[0], (slice(None, None, 2),), 2.0), rows(3), {}),
    "write through a transposed view": lambda: (lambda x: _through(torch.zeros(2, 3) + x[0]), rows(3), {}),
    "write a column and read the whole": lambda: (lambda x: _column(torch.zeros(2, 3) + x[0]), rows(3), {}),
    "writes through views": lambda: (_views, rows(4), {}),
    "shapes of a size": lambda: (_shapes, rows(3), {}),
    "buffer add_": lambda: write_buffer(lambda m, x: m.c.add_(1)),
    "buffer copy_": lambda: write_buffer(lambda m, x: m.c.copy_(m.c + 1)),
    "buffer slice": lambda: write_buffer(lambda m, x: m.c.__setitem__((slice(0, 1),), x[:1])),
    "buffer element": lambda: write_buffer(lambda m, x: m.c.__setitem__((0, 1), 2.0)),
    "buffer fill_": lambda: write_buffer(lambda m, x: m.c.fill_(3)),
    "buffer zero_": lambda: write_buffer(lambda m, x: m.c.zero_()),
    "buffer view add_": lambda: write_buffer(lambda m, x: m.c.view(8).add_(1)),
    "buffer transposed mul_": lambda: write_buffer(lambda m, x: m.c.t().mul_(2)),
    "buffer select add_": lambda: write_buffer(lambda m, x: m.c[0].add_(1)),
    "buffer scatter_": lambda: write_buffer(lambda m, x: m.c.scatter_(0, torch.zeros(1, 4, dtype=torch.int64), x[:1])),
    "buffer index_add_": lambda: write_buffer(lambda m, x: m.c.index_add_(0, torch.zeros(1, dtype=torch.int64), x[:1])),
    "buffer index_put_": lambda: write_buffer(lambda m, x: m.c.index_put_((torch.tensor([0]),), x[:1])),
    "buffer masked_fill_": lambda: write_buffer(lambda m, x: m.c.masked_fill_(x[:1] > 0, 1.0)),
    "buffer gt_": lambda: write_buffer(lambda m, x: m.c.gt_(0)),
    "buffer +=": lambda: write_buffer(lambda m, x: m.c.__iadd__(x[:1])),
    "buffer lerp_": lambda: write_buffer(lambda m, x: m.c.lerp_(x[:1].expand(2, 4), 0.5)),
    "buffer clamp_": lambda: write_buffer(lambda m, x: m.c.clamp_(1, 2)),
    "buffer relu_": lambda: write_buffer(lambda m, x: m.c.relu_()),
    "buffer detach add_": lambda: write_buffer(lambda m, x: m.c.detach().add_(1)),
}


def _views(x):
    y, z = x * 2, x + 1
    y.chunk(2, 0)[0].add_(1)
    y.diagonal().mul_(2)
    y[1:].t()[0].fill_(3)
    column = y.unsqueeze(0).transpose(0, 1)[:, 0, 1]
    column += 5
    y.view(-1)[::2].neg_()
    z.split(2, 1)[1][0] = 0
    z.unfold(0, 2, 2).sub_(1)
    x.mul_(2)
    return y, column * 1, y.sum(0), z, x


def _shapes(x):
    n = x.shape[0]
    return (x.repeat(n, 2), x.tile(2), x.repeat_interleave(2, 0), x.repeat_interleave(2), x.var(0), x.std(), x.mT * 1,
            x.unfold(0, 2, 1) * 1, x.diagonal(1) * 1, torch.eye(n), torch.cartesian_prod(torch.arange(n), torch.arange(2)),
            torch.broadcast_tensors(x, x[:, :1], x[0])[1], x.chunk(2, 0)[1], x[:1].broadcast_to(n, 3), n - x, torch.where(x > 0, x, n))


def _set(x, where, value):
    x[where] = value
    return x


def _through(x):
    x.t()[0] = 5
    return x + 1


def _column(x):
    column = x[:, 1]
    column += 2
    return x * column.sum()
