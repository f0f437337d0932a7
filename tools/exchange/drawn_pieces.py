"""The statements of which drawn_programs.py makes random modules.
SPDX-License-Identifier: MIT

A piece is a function of a Source that gives the text of an expression, or of statements that leave their result in a
new variable; None: it does not fit what is there. Sizes are written as `n` and `m`, sizes of the inputs, where the
program shall compute with them."""
import random

PIECES = []


def piece(weight=1):
    def add(fn):
        PIECES.extend([fn] * weight)
        return fn
    return add


def pick(*values):
    return random.choice(values)


FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGER = ("uint8", "int8", "int16", "int32", "int64")


# ---- element by element ----

@piece(4)
def unary(s):
    x = s.floating()
    return pick(f"torch.{pick('sin', 'cos', 'tanh', 'sigmoid', 'relu', 'abs', 'neg', 'floor', 'ceil', 'trunc')}({x})",
                f"torch.{pick('sign', 'square', 'erf', 'atan', 'exp2', 'frac', 'isnan', 'isfinite')}({x}.clamp(-4, 4))",
                f"torch.{pick('sqrt', 'log1p', 'rsqrt', 'log')}({x}.abs() + 1)", f"({x}.clamp(-3, 3)).{pick('exp', 'expm1', 'sinh')}()",
                f"F.gelu({x}.clamp(-4, 4))", f"F.{pick('silu', 'softplus', 'elu', 'leaky_relu', 'hardtanh', 'mish', 'hardswish', 'logsigmoid')}({x})",
                f"torch.nan_to_num({x}, {pick('0.0', '1.5')})", f"F.threshold({x}, 0.1, {pick(-1.0, 20.0)})")


@piece(3)
def of_integer(s):
    i = s.whole()
    return pick(f"torch.{pick('sqrt', 'exp', 'log1p', 'sin', 'tanh', 'sigmoid', 'atan', 'rsqrt')}({i}.clamp(0, 5))",
                f"{i} / {pick(3, 2.0, 7)}", f"{i} * {pick(0.1, 2, 0.5, True)}", f"{i} ** {pick(2, 0.5, 3)}", f"-{i}",
                f"{i} + {pick(1, 0.25, False, 2 ** 53 + 1)}", f"{pick(5, 0.5)} - {i}", f"{i} % {pick(3, 5, 2.5)}", f"{i}.abs()",
                f"{i} // {pick(2, 3, -2)}", f"torch.atan2({i}, {i} + 1)", f"{i}.square()", f"{i}.clamp({pick(-1, 0.5)}, {pick(3, 2.5)})",
                f"~{i}", f"{i}.sign()", f"{i} << 1", f"torch.remainder({pick(7, 3.5)}, {i}.abs() + 1)")


@piece(5)
def binary(s):
    a, b = s.pair()
    return pick(f"{a} + {b}", f"{a} * {b}", f"torch.maximum({a}, {b})", f"torch.minimum({a}, {b})",
                f"torch.add({a}, {b}, alpha={pick(2, 3, 200, -1)})", f"{a} / ({b} * 1.0).abs().add(1)", f"torch.sub({a} * 1, {b} * 1, alpha={pick(2, 3)})",
                f"torch.where({s.mask_of(a)}, {a}, {b})", f"torch.atan2({a} * 1.0, {b} * 1.0 + 9)", f"torch.fmod({a} * 1.0, {b} * {b} + 1.0)",
                f"torch.remainder({a} * 1, {b} * 0 + {pick(3, 2)})", f"torch.hypot({a} * 1.0, ({b} * 1.0).type_as({a} * 1.0))")


@piece(3)
def tests(s):
    a, b = s.pair()
    x = s.any()
    return pick(f"{a} {pick('<', '<=', '>', '>=', '==', '!=')} {b}", f"{x} {pick('<', '>=', '==', '!=')} {pick(0, 1, 0.5, 2)}",
                f"torch.logical_{pick('and', 'or', 'xor')}({a}, {b})", f"torch.logical_not({x})", f"{s.bools()} {pick('&', '|', '^')} {s.bools_like()}",
                f"torch.isclose({a}, torch.nan_to_num({b} * 1).type_as({a}))", f"{s.whole()} {pick('&', '|', '^')} {pick(1, 6)}",
                f"{s.whole()} {pick('==', '<', '>=')} {pick(2 ** 53 + 1, -3)}")


@piece(4)
def numbers(s):
    x = s.any()
    return pick(f"{x} + {pick(1, 0.5, True, 'n')}", f"{x} * {pick(2, 0.25, 'm', False)}", f"{pick(2, 1.5, 'n')} - {x} * 1", f"{x} * 1 - {pick(1, 0.5, 'n')}",
                f"torch.add({x}, {pick(1, 0.5)}, alpha={pick(2, 3)})", f"torch.rsub({x} * 1, {pick(2, 0.5)})", f"{x} / {pick('n', 2, 3.0)}",
                f"torch.where({s.mask_of(x)}, {pick(1, 0, True, 2.5, 'n')}, {pick(0, False, 1, 0.5, -1)})",
                f"torch.where({s.mask_of(x)}, {x}, {pick(2, 0.5, False, 'm')})", f"torch.where({s.mask_of(x)}, {pick(1, 0.5, True)}, {x})",
                f"{x}.masked_fill({s.mask_of(x)}, {pick(0, 1, 2.5)})", f"torch.full_like({x}, {pick(1, 0.5, 0, 2)})", f"{x}.clamp(min={pick(0, 0.5)})",
                f"({x} * 1).clamp_max({pick(2, 1.5)})", f"({x} * 1).fmod({pick(2, 3, 0.7)})", f"({x} * 1).remainder({pick(3, -3, 0.7)})",
                f"torch.pow({pick(2, 2.0, 3)}, {x} % 3 if {x}.dtype != torch.bool else {x} * 1)", f"torch.sub({pick(2, 0.5)}, {x} * 1)",
                f"torch.div({x}, {pick(2, 0.7, 3)}, rounding_mode={pick('floor', 'trunc')!r})", f"torch.fill({x}, {pick(1, 0.5)})")


@piece(3)
def casts(s):
    x = s.any()
    return pick(f"{x}.to(torch.{pick(*FLOATS)})", f"{x}.bool()", f"torch.nan_to_num({x} * 1).clamp(0, 9).to(torch.{pick(*INTEGER)})", f"{x}.double()",
                f"{x}.type_as({s.any()}.float())", f"{x}.float()", f"torch.tensor({pick(0.1, 2, True, 0.3)}) + {x}", f"{x}.detach()", f"{x}.clone()",
                f"{x} + torch.tensor([{pick('1', '0.5')}])")


@piece(2)
def three(s):
    x = s.floating()
    return pick(f"torch.lerp({x}, {x} * 2, {pick(0.25, 0.75)})", f"torch.addcmul({x}, {x}, {x} + 1, value={pick(2, 0.5)})",
                f"torch.addcdiv({x}, {x}, {x}.abs() + 1, value={pick(2, 0.5)})", f"F.huber_loss({x}, {x} * 0.5 + 1)", f"F.mse_loss({x}, {x} * {x})",
                f"F.smooth_l1_loss({x}, {x}.neg(), reduction={pick('none', 'sum')!r})", f"torch.clamp({x}, {x} * 0.5 - 1, {x}.abs())",
                f"torch.copysign({x}, {x} - 0.5)", f"torch.heaviside({x}, {x} * 0 + 1)", f"torch.logaddexp({x}, -{x})", f"torch.xlogy({x}.abs(), {x}.abs() + 1)")


# ---- reductions and scans ----

@piece(4)
def reductions(s):
    x, d = s.with_dim()
    keep = f"keepdim={pick(True, False)}"
    return pick(f"{x}.sum({d}, {keep})", f"{x}.sum()", f"{x}.sum({d}, dtype=torch.{pick('float64', 'float32', 'int64')})", f"({x} * 1.0).mean({d}, {keep})",
                f"{x}.amax({d}, {keep})", f"{x}.amin({d})", f"{x}.any({d}, {keep})", f"{x}.all()", f"({x} * 1.0).var({d}, correction=0, {keep})",
                f"({x} * 1.0).norm(dim={d})", f"torch.logsumexp({x} * 1.0, {d})", f"({x} * 1.0).softmax({d})", f"({x} * 1.0).log_softmax({d})",
                f"{x}.cumsum({d})", f"({x} % 2 + 1 if {x}.dtype != torch.bool else {x} * 1).cumprod({d})", f"{x}.max()", f"torch.count_nonzero({x}, {d})", f"{x}.sum({d}) / {x}.shape[{d}]",
                f"({x} * 1.0).std({d}, correction=0)", f"torch.argmax({x} * 1, {d}).sum()", f"({x} * 1).prod({d}, dtype=torch.float64)", f"{x}.sort({d}, stable=True)[0]",
                f"torch.nansum({x} * 1.0, {d})", f"torch.cummax({x} * 1, {d})[0]", f"torch.diff({x} * 1, dim={d})")


# ---- shapes ----

@piece(6)
def shapes(s):
    x, d = s.with_dim()
    r = s.rank(x)
    order = list(range(r))
    random.shuffle(order)
    return pick(f"{x}.reshape({x}.shape[0], -1)", f"{x}.reshape(-1)", f"{x}.transpose(0, {d})", f"{x}.permute({', '.join(map(str, order))})",
                f"{x}.unsqueeze({d})", f"{x}.unsqueeze({d}).squeeze({d})", f"{x}.flatten({d})", f"{x}[{pick('0', '-1', '1:', ':1', '::2', '..., 0', '..., :1', 'None')}]",
                f"{x}.narrow({d}, 0, 1)", f"{x}.select({d}, 0)", f"{x}.select({d}, -1)", f"{x}.chunk(2, {d})[0]", f"{x}.split(1, {d})[0]", f"torch.cat([{x}, {x}], {d})",
                f"torch.stack([{x}, {x}], {d})", f"{x}.repeat({', '.join(['2'] + ['1'] * (r - 1))})", f"{x}.roll({pick(1, -1, 2)}, {d})", f"{x}.flip({d})",
                f"{x}.unfold({d}, 1, 1)", f"{x}.unsqueeze(0).expand({pick('n', 2, 3)}, {', '.join(['-1'] * r)})", f"{x}.movedim({d}, 0)",
                f"F.pad({x}, ({pick(0, 1)}, {pick(1, 2)}), value={pick(0, 1)})", f"{x}.repeat_interleave(2, {d})", f"{x}[:n // 2]", f"{x}[n // 2:]", f"{x}[:, :m]" if r > 1 else None,
                f"{x}.view(n, -1)" if s.size(x, 0) == s.n else None, f"{x}.reshape(n * {x}.numel() // n)" if s.size(x, 0) == s.n else None,
                f"torch.cat([{x}.float(), {x}.float() + n], {d})", f"{x}.mT" if r > 1 else None, f"torch.tril({x})" if r > 1 else None, f"{x}.diagonal()" if r > 1 else None,
                f"torch.cat([{x}, {x} * 1.0, {x}.bool()], {d})", f"{x}.broadcast_to(2, *{x}.shape)", f"{x}.unfold({d}, 2, {pick(1, 2)})" if s.size(x, d) > 3 else None,
                f"{x}.numel() * {x}", f"torch.atleast_2d({x})", f"{x}.tile(2)", f"{x}.swapaxes(0, {d})", f"torch.stack([{x}.sum() * 1.0, {x}.float().mean()])")


# ---- places ----

@piece(3)
def places(s):
    x, d = s.with_dim()
    i = f"torch.arange({x}.shape[{d}])"
    return pick(f"{x}.index_select({d}, {i}.flip(0))", f"{x}[{pick('torch.tensor([0, -1])', 'torch.zeros(3, dtype=torch.int64)')}]", f"{x}.gather({d}, torch.zeros_like({x}, dtype=torch.int64))",
                f"{x}.scatter({d}, torch.zeros_like({x}, dtype=torch.int64), {pick(1, 0)})", f"torch.take_along_dim({x}, torch.argsort({x} * 1, {d}, stable=True), {d})",
                f"{x}.index_add({d}, {i}, {x})" if "bool" not in s.dtype(x) else None, f"F.one_hot({s.whole()}.long().abs() % 4, 4)", f"{x}.index_fill({d}, torch.tensor([0]), {pick(1, 0)})",
                f"torch.where({s.mask_of(x)}, {x}, 0).sum({d})", f"torch.bucketize({x} * 1.0, torch.tensor([-0.5, 0.0, 0.5]).type_as({x} * 1.0))",
                f"{x}.scatter_add({d}, torch.zeros_like({x}, dtype=torch.int64), {x})" if "bool" not in s.dtype(x) else None, f"{x}.masked_select({s.mask_of(x)}).sum()",
                f"torch.nonzero({x}).shape[0] + {x}", f"{x}.topk(1, {d})[0]" if "bool" not in s.dtype(x) and not s.round else None)


# ---- what is made ----

@piece(4)
def made(s):
    x = s.any()
    size = pick("n", "m", "n, m", "n * 2", "3", "n // 2 + 1")
    return pick(f"torch.zeros({size})", f"torch.ones({size}) / 3", f"torch.full(({size},), {pick('0.1', '2', 'True', 'n', 2 ** 60 + 1)})", f"torch.arange(n)", f"torch.arange(0, n * 0.1, 0.1)",
                f"torch.arange(n) * {pick(0.5, 2, 'm')}", f"torch.linspace(0, 1, n)", f"torch.eye(n) / 3", f"torch.zeros_like({x})", f"torch.ones_like({x}) / 3", f"{x}.new_zeros({size})",
                f"{x}.new_full(({size},), {pick(1, 0)})", f"torch.tensor({pick('[0.1, 0.2]', '[1, 2]', '3', '0.1')})", f"torch.sqrt(torch.tensor(n))", f"torch.full(({size},), {pick(1, 0.5)}, dtype=torch.{pick(*FLOATS, *INTEGER)})",
                f"torch.arange(n, 0, -1)", f"torch.arange({2 ** 53 + 1}, {2 ** 53 + 1} + n)", f"torch.scalar_tensor({pick(0.1, 2)})", f"torch.hann_window(m)", f"torch.arange(m, dtype=torch.{pick(*FLOATS, 'int32')})",
                f"torch.ones(n, m).tril()", f"torch.cartesian_prod(torch.arange(2), torch.arange(n))", f"torch.zeros({size}) + {pick(1, 0.5)}", f"torch.ones({size}, dtype=torch.bool)",
                f"torch.arange(0.5, m)", f"torch.full((), n) * {x}", f"x.shape[0] * torch.ones(2)", f"torch.empty({size}).fill_({pick(1, 0.5)})")


# ---- layers ----

@piece(3)
def layers(s):
    x = s.floating()
    if s.rank(x) < 2 or s.dtype(x) != s.real:
        return None
    width = s.size(x, -1)
    if s.is_free(x, -1) or width > 8 or width < 1:
        return None
    kind = pick("linear", "norm", "conv", "batch", "pool", "attention", "prelu", "gru", "bilinear")
    if kind == "linear":
        return f"self.{s.layer(f'nn.Linear({width}, {pick(2, 3)}, bias={pick(True, False)})')}({x})"
    if kind == "norm":
        return f"self.{s.layer(f'nn.LayerNorm({width})')}({x})"
    if kind == "prelu":
        return f"self.{s.layer('nn.PReLU()')}({x})"
    if kind == "batch" and s.rank(x) == 2:
        return f"self.{s.layer(f'nn.BatchNorm1d({width})')}({x})"
    if s.rank(x) != 3 or not s.size(x, 1) or s.is_free(x, 1):
        return None
    channels = s.size(x, 1)
    if kind == "conv" and channels < 9:
        return f"self.{s.layer(f'nn.Conv1d({channels}, 2, {pick(1, 2)}, padding=1)')}({x})"
    if kind == "pool" and width > 1:
        return f"F.{pick('max_pool1d', 'avg_pool1d')}({x}, 2, {pick(1, 2)})"
    if kind == "attention":
        return f"F.scaled_dot_product_attention({x}, {x}, {x})"
    if kind == "gru":
        return f"self.{s.layer(f'nn.GRU({width}, 2, batch_first=True)')}({x})[0]"
    return None


@piece(1)
def tables(s):
    return f"self.{s.layer('nn.Embedding(6, 3)')}({s.whole()}.long().abs() % 6)"


# ---- writes in place, and through views ----

@piece(6)
def writes(s):
    x, d = s.with_dim()
    r, dtype = s.rank(x), s.dtype(x)
    view = pick("v", "v[0]", "v[..., 0]", "v[..., :1]", "v[1:]", "v[::2]", f"v.select({d}, -1)", f"v.narrow({d}, 0, 1)", f"v.transpose(0, {d})", "v.reshape(-1)", "v.view(-1)",
                f"v.unfold({d}, 1, 1)", f"v.unsqueeze({d})", "v.T" if r == 2 else "v", f"v.chunk(2, {d})[0]", "v.diagonal()" if r > 1 else "v", "v.detach()", "v.flatten()", "v.movedim(0, -1)")
    number = pick(2, 0.5, True, 3, 2.0) if dtype.startswith(("float", "bfloat")) else pick(2, True, 3)
    change = pick(f"w.fill_({pick(2, 0.5, 2.0, True)})", "w.zero_()", f"w.masked_fill_(w > 0, {pick(1, 0.5, 0)})", f"w[...] = {pick(1, 0.5, 2.0)}", "w.copy_(w.flip(0) if w.dim() else w)",
                  "w.logical_not_()" if "float" not in dtype else "w.sign_()", "w.bitwise_not_()" if "float" not in dtype else "w.sin_()", f"w.index_fill_(0, torch.tensor([0, -1]), {pick(1, 0)})" if r > 1 else "w.zero_()")
    if dtype != "bool":
        change = pick(change, f"w.add_({number})", f"w.mul_({number})", f"w.sub_({pick(1, 2)})", f"w.add_(w, alpha={pick(2, 3)})", "w.neg_()", "w.abs_()", f"w.clamp_({pick(0, -1)}, 2)", f"w += {number}", "w.square_()",
                      f"w.pow_({pick(2, 3)})", "w.sub_(w * 2)", "w.div_(2)" if "float" in dtype else "w.floor_divide_(2)", "w.relu_()", f"w.remainder_({pick(3, 2)})", "w.mul_(w)", "w.add_(True)",
                      "w.sigmoid_()" if "float" in dtype else "w.neg_()", f"w.index_put_((torch.tensor([0]),), w[:1] * 2)" if r > 1 else "w.neg_()", "w.maximum(w * 0).add_(1)")
    name = s.new()
    text = [f"v = {x}.clone()", f"w = {view}", change]
    if random.random() < 0.4:
        text.append(pick("v.add_(1)" if dtype != "bool" else "v.logical_not_()", "v.zero_()", "w.zero_()"))
    return text + [f"{name} = {pick('v', 'v', 'w', 'v * 1 + w.sum() * 1')}"]


@piece(2)
def buffers(s):
    x = s.any()
    return pick([f"self.count.add_({pick(1, 2)})", f"{s.new()} = self.count + 0"], [f"self.mean.mul_({pick(0.5, 0.9)}).add_({x}.float().mean().to(self.mean.dtype))", f"{s.new()} = self.mean * 2"],
                [f"self.mean[{pick('0', '1:', '...')}] = {pick('0.5', '2', f'{x}.float().sum()')}", f"{s.new()} = self.mean.clone()"], [f"self.mean.copy_({x}.float().sum())", f"{s.new()} = self.mean.sum()"],
                [f"self.count.copy_(n)", f"{s.new()} = self.count * 1.0"], [f"self.flags.logical_not_()", f"{s.new()} = self.flags * 1"], [f"self.count += n", f"{s.new()} = self.count / 2"])


@piece(1)
def inputs(s):
    x = pick("x", "i", "b")
    s.mutated.add(x)
    return [{"x": f"x.{pick('mul_(2)', 'add_(0.5)', 'clamp_(0, 1)', 'fill_(1)')}", "i": f"i.{pick('add_(1)', 'fill_(2.0)', 'mul_(3)', 'neg_()')}", "b": f"b.{pick('logical_not_()', 'fill_(0.5)', 'zero_()')}"}[x], f"{s.new()} = {x} * 1"]
