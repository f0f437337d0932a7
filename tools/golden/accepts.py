#!/usr/bin/env python3
"""Asks torch 2.15 which dtypes each op takes and what it gives for them: what situ's must be.
SPDX-License-Identifier: MIT

  python3 tools/golden/accepts.py > tests/golden/data/accepts.txt

A line is an op, the dtype of its first operand where it has two that vary, and the dtype of the result for each dtype of the
operand that varies, in the order of DTYPES. "-": torch refuses the call."""
import inspect
import sys
import warnings

sys.dont_write_bytecode = True

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

import generate  # noqa: E402,F401  (imports every table)
from table import ROWS  # noqa: E402

warnings.simplefilter("ignore")

DTYPES = {"bool": torch.bool, "u8": torch.uint8, "i8": torch.int8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64,
          "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
NAN, INF = float("nan"), float("inf")


def ones(*shape, dtype=torch.float32):
    return torch.ones(shape, dtype=dtype)


zero = torch.zeros_like
real = torch.view_as_real
X, I = ones(2, 2), torch.zeros(2, 2, dtype=torch.int64)


def of_the_tables():
    """The functions of one tensor that the tables of golden cases call."""
    for name, row in ROWS.items():
        names = [n for n in inspect.signature(row.call).parameters if not n.startswith("_")]
        if names == ["input"] and not row.through and "." not in name and name != "item":  # which gives a number
            yield name, row.call


# Of one tensor [2, 2] of ones.
ONE = {
    **dict(of_the_tables()),
    "round": torch.round, "leaky_relu": F.leaky_relu, "elu": F.elu, "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "softplus": F.softplus, "hardtanh": F.hardtanh,
    "hardtanh_fraction": lambda x: F.hardtanh(x, -0.5, 0.5), "clamp": lambda x: torch.clamp(x, 0, 1),
    "clamp_fraction": lambda x: torch.clamp(x, 0.5, 1.5), "clamp_nan": lambda x: torch.clamp(x, NAN, 1), "nan_to_num": torch.nan_to_num,
    "clamp_": lambda x: x.clamp_(0, 1), "clamp_fraction_": lambda x: x.clamp_(0.5, 1.5),
    "logit": torch.logit, "polygamma": lambda x: torch.polygamma(1, x),
    "quick_gelu": lambda x: F.silu(1.702 * x) if x.is_floating_point() else F.silu(x), "celu": F.celu,
    "softshrink": F.softshrink, "hardshrink": F.hardshrink, "threshold": lambda x: F.threshold(x, 1, 2),
    "threshold_fraction": lambda x: F.threshold(x, 0.5, 1.5), "glu": F.glu,
    "add_scalar": lambda x: x + 2, "add_fraction": lambda x: x + 1.5, "sub_scalar": lambda x: x - 2, "sub_fraction": lambda x: x - 1.5,
    "rsub_scalar": lambda x: 2 - x, "rsub_fraction": lambda x: 1.5 - x, "mul_scalar": lambda x: x * 2, "mul_fraction": lambda x: x * 1.5,
    "div_scalar": lambda x: x / 2, "pow_scalar": lambda x: x ** 2, "pow_fraction": lambda x: x ** 1.5, "pow_negative": lambda x: x ** -1,
    "scalar_pow": lambda x: 2 ** x, "fraction_pow": lambda x: 1.5 ** x, "fmod_scalar": lambda x: torch.fmod(x, 2),
    "fmod_fraction": lambda x: torch.fmod(x, 1.5), "fmod_zero": lambda x: torch.fmod(x, 0),
    "remainder_scalar": lambda x: torch.remainder(x, 2), "remainder_fraction": lambda x: torch.remainder(x, 1.5),
    "eq_scalar": lambda x: x == 2, "eq_fraction": lambda x: x == 1.5, "lt_scalar": lambda x: x < 2, "ge_fraction": lambda x: x >= 1.5,
    "add_scalar_": lambda x: x.add_(2), "add_fraction_": lambda x: x.add_(1.5), "sub_scalar_": lambda x: x.sub_(2),
    "mul_scalar_": lambda x: x.mul_(2), "div_scalar_": lambda x: x.div_(2), "pow_scalar_": lambda x: x.pow_(2),
    "sum": torch.sum, "sum_dim": lambda x: torch.sum(x, 0), "sum_i32": lambda x: torch.sum(x, dtype=torch.int32), "mean": torch.mean, "prod": torch.prod,
    "mean_f32": lambda x: torch.mean(x, dtype=torch.float32),
    "var": torch.var, "std": torch.std, "amin": torch.amin, "amax": torch.amax, "all": torch.all, "any": torch.any, "norm": torch.norm,
    "logsumexp": lambda x: torch.logsumexp(x, 1), "min": torch.min, "max": torch.max, "min_dim": lambda x: torch.min(x, 0)[0],
    "argmin": torch.argmin, "argmax": torch.argmax, "argmax_dim": lambda x: torch.argmax(x, 0), "cumsum": lambda x: torch.cumsum(x, 0),
    "cumprod": lambda x: torch.cumprod(x, 0),
    "sort": lambda x: torch.sort(x)[0], "argsort": torch.argsort, "topk": lambda x: torch.topk(x, 1)[0],
    "softmax": lambda x: torch.softmax(x, 1), "log_softmax": lambda x: torch.log_softmax(x, 1),
    "dropout": lambda x: F.dropout(x, 0.5), "dropout_eval": lambda x: F.dropout(x, 0.5, training=False),
    "tril": torch.tril, "triu": torch.triu, "flip": lambda x: torch.flip(x, (0, )), "roll": lambda x: torch.roll(x, 1),
    "repeat": lambda x: x.repeat(2, 1), "pad": lambda x: F.pad(x, (1, 1)), "pad_fraction": lambda x: F.pad(x, (1, 1), value=0.5),
    "pad_reflect": lambda x: F.pad(x, (1, 1), mode="reflect"), "pad_circular": lambda x: F.pad(x, (1, 1), mode="circular"),
    "pad_replicate": lambda x: F.pad(x, (1, 1), mode="replicate"),
    "masked_fill_whole": lambda x: x.masked_fill(x == 1, 2), "masked_fill_fraction": lambda x: x.masked_fill(x == 1, 0.5),
    "fill_": lambda x: x.fill_(2), "fill_fraction_": lambda x: x.fill_(0.5), "nonzero": torch.nonzero,
    "masked_select": lambda x: torch.masked_select(x, torch.ones(2, 2, dtype=torch.bool)), "one_hot": lambda x: F.one_hot(x, 3),
    "uniform_": lambda x: x.uniform_(0, 1), "normal_": lambda x: x.normal_(0, 1), "bernoulli_": lambda x: x.bernoulli_(0.5),
    "full_like_fraction": lambda x: torch.full_like(x, 0.5), "rand_like": torch.rand_like, "randn_like": torch.randn_like,
    "randint_like": lambda x: torch.randint_like(x, 0, 2),
    "zeros_like": torch.zeros_like, "layer_norm": lambda x: F.layer_norm(x, (2, )), "rms_norm": lambda x: F.rms_norm(x, (2, )),
    "group_norm": lambda x: F.group_norm(x, 1), "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
    "max_pool2d": lambda x: F.max_pool2d(x.reshape(1, 2, 2), 2), "avg_pool2d": lambda x: F.avg_pool2d(x.reshape(1, 2, 2), 2),
    "adaptive_avg_pool2d": lambda x: F.adaptive_avg_pool2d(x.reshape(1, 2, 2), 1),
    "conv_transpose1d": lambda x: F.conv_transpose1d(x[None], x.reshape(2, 2, 1)),
    "max_pool1d": lambda x: F.max_pool1d(x, 2), "max_pool3d": lambda x: F.max_pool3d(x.reshape(1, 1, 2, 2), 1),
    "avg_pool3d": lambda x: F.avg_pool3d(x.reshape(1, 1, 2, 2), 1),
    "adaptive_max_pool1d": lambda x: F.adaptive_max_pool1d(x, 1), "adaptive_avg_pool1d": lambda x: F.adaptive_avg_pool1d(x, 1),
    "interpolate": lambda x: F.interpolate(x[None], 3),
    "fft_fft": lambda x: real(torch.fft.fft(x)), "fft_rfft": lambda x: real(torch.fft.rfft(x)), "fft_irfft": lambda x: torch.fft.irfft(x),
    "stft": lambda x: real(torch.stft(x, 2, 1, return_complex=True)), "fft_fftshift": torch.fft.fftshift,
    "index_select": lambda x: torch.index_select(x, 0, I[0]), "gather": lambda x: torch.gather(x, 0, I), "scatter": lambda x: x.scatter(0, I, x),
    "scatter_add": lambda x: x.scatter_add(0, I, x), "index_add": lambda x: x.index_add(0, I[0], x), "embedding_weight": lambda x: F.embedding(I, x),
    "index_copy": lambda x: x.index_copy(0, I[0], x), "index_fill": lambda x: x.index_fill(0, I[0], 1), "index": lambda x: x[I],
    "index_put": lambda x: x.index_put((I, ), x, accumulate=True),
    "scatter_value": lambda x: x.scatter(0, I, 2),
    "matmul": lambda x: x @ x, "mm": lambda x: torch.mm(x, x), "bmm": lambda x: torch.bmm(x[None], x[None]), "mv": lambda x: torch.mv(x, x[0]),
    "dot": lambda x: torch.dot(x[0], x[0]), "outer": lambda x: torch.outer(x[0], x[0]), "addmm": lambda x: torch.addmm(x, x, x),
    "addr": lambda x: torch.addr(x, x[0], x[0]), "addmv": lambda x: torch.addmv(x[0], x, x[0]), "inner": lambda x: torch.inner(x, x),
    "addbmm": lambda x: torch.addbmm(x, x[None], x[None]), "linalg_vecdot": lambda x: torch.linalg.vecdot(x, x),
    "linalg_vector_norm": torch.linalg.vector_norm, "linalg_matrix_norm": lambda x: torch.linalg.matrix_norm(x, 1),
    "multinomial": lambda x: torch.multinomial(x, 1, True), "linalg_multi_dot": lambda x: torch.linalg.multi_dot((x, x)),
    "cov": torch.cov, "dist": lambda x: torch.dist(x, x), "pdist": F.pdist,
    "mvlgamma": lambda x: torch.mvlgamma(x, 1), "exponential_": lambda x: x.exponential_(),
    "combinations": lambda x: torch.combinations(x[0]), "multilabel_margin_loss": lambda x: F.multilabel_margin_loss(x, I),
    "bilinear": lambda x: F.bilinear(x, x, x.reshape(1, 2, 2)),
    "linalg_vander": lambda x: torch.linalg.vander(x, N=2),
    "linalg_householder_product": lambda x: torch.linalg.householder_product(x, x[0]),
    "repeat_interleave_tensor": lambda x: torch.repeat_interleave(x, I[0], 0), "unique_dim": lambda x: torch.unique(x, dim=0),
    "ctc_loss": lambda x: F.ctc_loss(x, I[0, :0], I[0, 0], I[0, 0]),
    "linalg_matrix_power": lambda x: torch.linalg.matrix_power(x, 2), "logcumsumexp": lambda x: torch.logcumsumexp(x, 0),
    "trapezoid": lambda x: torch.trapezoid(x), "cumulative_trapezoid": lambda x: torch.cumulative_trapezoid(x),
    "linear": lambda x: F.linear(x, x, x[0]), "conv1d": lambda x: F.conv1d(x[None], x.reshape(2, 2, 1)),
    "conv2d": lambda x: F.conv2d(x.reshape(1, 2, 2), x.reshape(4, 1, 1, 1)), "conv_transpose2d": lambda x: F.conv_transpose2d(x.reshape(1, 2, 2), x.reshape(1, 4, 1, 1)),
    "attention": lambda x: F.scaled_dot_product_attention(x, x, x), "lerp": lambda x: torch.lerp(x, x, x), "lerp_scalar": lambda x: torch.lerp(x, x, 0.5),
    "addcmul": lambda x: torch.addcmul(x, x, x), "addcdiv": lambda x: torch.addcdiv(x, x, x), "addcmul_fraction": lambda x: torch.addcmul(x, x, x, value=0.5),
    "add_alpha": lambda x: torch.add(x, x, alpha=2), "add_alpha_fraction": lambda x: torch.add(x, x, alpha=0.5), "sub_alpha": lambda x: torch.sub(x, x, alpha=2),
    "mse_loss": lambda x: F.mse_loss(x, x), "l1_loss": lambda x: F.l1_loss(x, x), "l1_loss_sum": lambda x: F.l1_loss(x, x, reduction="sum"),
    "mse_loss_sum": lambda x: F.mse_loss(x, x, reduction="sum"), "smooth_l1_loss": lambda x: F.smooth_l1_loss(x, x),
    "binary_cross_entropy_with_logits": lambda x: F.binary_cross_entropy_with_logits(x, x), "kl_div": lambda x: F.kl_div(x, x),
    "cross_entropy": lambda x: F.cross_entropy(x, I[0]), "cross_entropy_probabilities": lambda x: F.cross_entropy(x, x), "nll_loss": lambda x: F.nll_loss(x, I[0]),
}
# The dtype of the second operand varies: an index, a mask, a condition.
OTHER = {
    "index_select_by": lambda i: torch.index_select(X, 0, zero(i)[0]), "gather_by": lambda i: torch.gather(X, 0, zero(i)),
    "scatter_by": lambda i: X.scatter(0, zero(i), X), "index_add_by": lambda i: X.index_add(0, zero(i)[0], X),
    "index_by": lambda i: X[i], "index_copy_by": lambda i: X.index_copy(0, zero(i)[0], X),
    "take_along_dim_by": lambda i: torch.take_along_dim(X, zero(i), 0), "embedding_by": lambda i: F.embedding(zero(i), X),
    "cross_entropy_by": lambda i: F.cross_entropy(X, zero(i)[0]), "nll_loss_by": lambda i: F.nll_loss(X, zero(i)[0]),
    "where_by": lambda c: torch.where(c, X, X), "masked_fill_by": lambda c: X.masked_fill(c, 0), "masked_select_by": lambda c: torch.masked_select(X, c),
    "attention_by": lambda m: F.scaled_dot_product_attention(X, X, X, attn_mask=m),
    "attention_f16_by": lambda m: F.scaled_dot_product_attention(X.half(), X.half(), X.half(), attn_mask=m),
}
# Of two tensors [2, 2].
TWO = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "pow": torch.pow, "fmod": torch.fmod, "remainder": torch.remainder,
    "maximum": torch.maximum, "eq": torch.eq, "lt": torch.lt, "logical_and": torch.logical_and, "bitwise_and": torch.bitwise_and,
    "div_trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"), "floor_divide": torch.floor_divide,
    "add_": lambda a, b: a.add_(b), "sub_": lambda a, b: a.sub_(b), "mul_": lambda a, b: a.mul_(b), "div_": lambda a, b: a.div_(b), "pow_": lambda a, b: a.pow_(b),
    **{n: getattr(torch, n) for n in "gcd bitwise_left_shift atan2 hypot copysign nextafter xlogy logaddexp".split()},
    "gcd_": lambda a, b: a.gcd_(b), "atan2_": lambda a, b: a.atan2_(b), "hypot_": lambda a, b: a.hypot_(b),
    "add_of_0_dim": lambda a, b: torch.add(a, b[0, 0]), "copy_": lambda a, b: a.copy_(b),
    "where": lambda a, b: torch.where(torch.ones(2, 2, dtype=torch.bool), a, b), "cat": lambda a, b: torch.cat((a, b)), "stack": lambda a, b: torch.stack((a, b)),
    "matmul_mixed": torch.matmul, "mse_loss_mixed": F.mse_loss, "l1_loss_mixed": F.l1_loss, "smooth_l1_loss_mixed": F.smooth_l1_loss,
    "bce_mixed": F.binary_cross_entropy_with_logits, "kl_div_mixed": F.kl_div, "scatter_mixed": lambda a, b: a.scatter(0, I, b),
    "layer_norm_mixed": lambda a, b: F.layer_norm(a, (2, ), b[0]),
    "addcmul_mixed": lambda a, b: torch.addcmul(a, b, b), "lerp_mixed": lambda a, b: torch.lerp(a, b, b),
}
# Made in a dtype.
MADE = {
    "zeros": lambda d: torch.zeros(2, dtype=d), "full": lambda d: torch.full((2, ), 2, dtype=d), "full_fraction": lambda d: torch.full((2, ), 1.5, dtype=d),
    "full_minus_1": lambda d: torch.full((2, ), -1, dtype=d), "full_300": lambda d: torch.full((2, ), 300, dtype=d), "full_70000": lambda d: torch.full((2, ), 70000, dtype=d),
    "full_1e10": lambda d: torch.full((2, ), 1e10, dtype=d), "full_1e40": lambda d: torch.full((2, ), 1e40, dtype=d), "full_nan": lambda d: torch.full((2, ), NAN, dtype=d),
    "full_inf": lambda d: torch.full((2, ), INF, dtype=d), "arange": lambda d: torch.arange(0, 3, dtype=d), "linspace": lambda d: torch.linspace(0, 3, 4, dtype=d),
    "eye": lambda d: torch.eye(2, dtype=d), "rand": lambda d: torch.rand(2, dtype=d),
    "hann_window": lambda d: torch.hann_window(4, dtype=d), "signal_windows_nuttall": lambda d: torch.signal.windows.nuttall(4, dtype=d),
    "fft_fftfreq": lambda d: torch.fft.fftfreq(4, dtype=d),
    "randn": lambda d: torch.randn(2, dtype=d),
    "randint": lambda d: torch.randint(0, 2, (2, ), dtype=d), "randint_200": lambda d: torch.randint(0, 200, (2, ), dtype=d),
    "randint_minus_1": lambda d: torch.randint(-1, 2, (2, ), dtype=d), "randint_70000": lambda d: torch.randint(0, 70000, (2, ), dtype=d),
    "randperm": lambda d: torch.randperm(2, dtype=d), "randperm_200": lambda d: torch.randperm(200, dtype=d), "randperm_300": lambda d: torch.randperm(300, dtype=d),
    "randperm_3000": lambda d: torch.randperm(3000, dtype=d),
}


def name_of(call):
    try:
        return NAMES[call().dtype]
    except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError):
        return "-"


def main():
    print("# op [dtype of its first operand]: the result's dtype for %s; -: refused" % " ".join(DTYPES))
    print("# Made by tools/golden/accepts.py, with torch %s." % torch.__version__.split("+")[0])
    for table in (ONE, OTHER):
        for name, f in table.items():
            print("%s: %s" % (name, " ".join(name_of(lambda d=d: f(ones(2, 2, dtype=d))) for d in DTYPES.values())))
    for name, f in MADE.items():
        print("%s: %s" % (name, " ".join(name_of(lambda d=d: f(d)) for d in DTYPES.values())))
    for name, f in TWO.items():
        for first, a in DTYPES.items():
            print("%s %s: %s" % (name, first, " ".join(name_of(lambda b=b: f(ones(2, 2, dtype=a), ones(2, 2, dtype=b))) for b in DTYPES.values())))


if __name__ == "__main__":
    main()
