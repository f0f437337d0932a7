"""Fourier transforms, short-time transforms and windows. Complex numbers are views of real ones (view_as_real), for
situ has no complex dtypes. Made from PyTorch 2.15.
SPDX-License-Identifier: MIT"""
import torch

from table import Skip, as_list, only, row

REALS = (torch.float32, torch.float64)
BOTH = REALS + (torch.complex64, torch.complex128)


def as_numbers(t):
    """A sample's operand as complex numbers in a real tensor."""
    return torch.view_as_real(t if t.is_complex() else torch.complex(t, torch.zeros_like(t)))


def as_reals(t):
    if t.is_complex():
        raise Skip("a complex signal")
    return t


def as_views(t):
    return torch.view_as_real(t) if t.is_complex() else t


def complex_of(x):
    return torch.view_as_complex(x.contiguous())


def real_of(y):
    return torch.view_as_real(y.resolve_conj()).contiguous() if y.is_complex() else y


def fit_fft(b):
    for name in ("dim", "s"):
        if b.get(name) is not None:
            b[name] = as_list(b[name])


def transform(name, takes_complex):
    f = getattr(torch.fft, name)
    operand = complex_of if takes_complex else lambda x: x
    if name[-1] in "2n":
        default = (-2, -1) if name[-1] == "2" else None
        call = lambda input, s=None, dim=None, norm=None: real_of(
            f(operand(input), s=s, dim=default if dim is None else dim, norm=norm))
    else:
        call = lambda input, n=None, dim=None, norm=None: real_of(
            f(operand(input), n=n, dim=-1 if dim is None else dim[0] if isinstance(dim, list) else dim, norm=norm))
    row("fft_" + name, "fft", call, fit=fit_fft, opinfo=("fft." + name, ), dtypes=BOTH if takes_complex else REALS,
        operand=as_numbers if takes_complex else as_reals)


for _end in ("", "2", "n"):
    for _name in ("fft", "ifft", "irfft", "hfft"):
        transform(_name + _end, True)
    for _name in ("rfft", "ihfft"):
        transform(_name + _end, False)

for _name in ("fftshift", "ifftshift"):
    row("fft_" + _name, "fft", lambda input, dim=None, _f=getattr(torch.fft, _name): _f(input, dim), fit=fit_fft,
        opinfo=("fft." + _name, ), dtypes=REALS)
for _name in ("fftfreq", "rfftfreq"):
    row("fft_" + _name, "fft", lambda n, d=1.0, *, dtype=None, _f=getattr(torch.fft, _name): _f(n, d, dtype=dtype),
        opinfo=())


# ---- short-time transforms -----------------------------------------------------------------------------
def fit_stft(b):
    b.pop("return_complex", None)
    b.setdefault("center", True)
    if b.get("onesided") is None:
        b["onesided"] = True
    if isinstance(b.get("window"), torch.Tensor) and b["window"].is_complex():
        raise Skip("a complex window")


def stft(input, n_fft, hop_length=None, win_length=None, window=None, center=True, pad_mode="reflect", normalized=False,
         onesided=None, return_complex=None):
    return real_of(
        torch.stft(input, n_fft, hop_length, win_length, window, center, pad_mode, normalized, onesided,
                   return_complex=True))


def fit_istft(b):
    b.setdefault("center", True)
    if b.get("onesided") is None:
        b["onesided"] = b["input"].shape[-3] != b["n_fft"]
    if b.pop("return_complex", False):
        raise Skip("a complex signal")


def istft(input, n_fft, hop_length=None, win_length=None, window=None, center=True, normalized=False, onesided=None,
          length=None, return_complex=False):
    return torch.istft(complex_of(input), n_fft, hop_length, win_length, window, center, normalized, onesided, length)


row("stft", "fft", stft, fit=fit_stft, dtypes=REALS, operand=as_reals)
row("istft", "fft", istft, fit=fit_istft, dtypes=(torch.complex64, torch.complex128), operand=as_views)

# ---- windows -------------------------------------------------------------------------------------------
HERE = only(device="cpu", requires_grad=False)


def fit_cosines(b):
    HERE(b)
    b.update({"a%d" % i: float(v) for i, v in enumerate(b.pop("a"))})


def general_cosine(M, *, a=None, a0=None, a1=None, a2=None, a3=None, sym=True, dtype=None, device=None,
                   requires_grad=None):
    a = [v for v in (a0, a1, a2, a3) if v is not None]
    return torch.signal.windows.general_cosine(M, a=a, sym=sym, dtype=dtype)


row("signal_windows_general_cosine", "fft", general_cosine, fit=fit_cosines, opinfo=("signal.windows.general_cosine", ),
    dtypes=REALS)
for _name, _width in (("bartlett", None), ("blackman", None), ("cosine", None), ("exponential", "tau"),
                      ("gaussian", "std"), ("general_hamming", "alpha"), ("hamming", None), ("hann", None),
                      ("kaiser", "beta"), ("nuttall", None)):

    def window(M, *, tau=None, std=None, alpha=None, beta=None, sym=True, dtype=None, device=None, requires_grad=None,
               _f=getattr(torch.signal.windows, _name)):
        given = {"tau": tau, "std": std, "alpha": alpha, "beta": beta}
        return _f(M, sym=sym, dtype=dtype, **{k: v for k, v in given.items() if v is not None})

    row("signal_windows_" + _name, "fft", window, fit=HERE, opinfo=("signal.windows." + _name, ), dtypes=REALS)
for _name in ("hann", "hamming", "blackman", "bartlett", "kaiser"):
    row(_name + "_window", "fft",
        lambda window_length, periodic=True, *, dtype=None, _f=getattr(torch, _name + "_window"): _f(
            window_length, periodic, dtype=dtype), opinfo=())
