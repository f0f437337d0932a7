"""Hand-picked cases of Fourier transforms, short-time transforms and windows.
SPDX-License-Identifier: MIT"""
import torch

from picks import pick, r, stepped, turned

# one of each way: factors 2 to 5, a factor of 7 and 11, a large prime (a convolution), and longer ones (split)
LENGTHS = (1, 2, 3, 8, 12, 30, 77, 67, 134)


def fft():
    lengths()
    layouts()
    short_time()
    windows()


def lengths():
    for n in LENGTHS:
        for dtype in (torch.float32, torch.float64):
            pick("fft_fft", r(2, n, 2, dtype=dtype), variant="length")
            pick("fft_ifft", r(n, 2, dtype=dtype), variant="length")
            pick("fft_rfft", r(3, n, dtype=dtype), variant="length")
            pick("fft_irfft", r(2, n // 2 + 1, 2, dtype=dtype), n, variant="length")
            pick("fft_hfft", r(n // 2 + 1, 2, dtype=dtype), n, variant="length")
            pick("fft_ihfft", r(n, dtype=dtype), variant="length")
    for n in (10, 11):
        pick("fft_fftfreq", n, variant="plain")
        pick("fft_fftfreq", n, 0.25, dtype=torch.float64)
        pick("fft_rfftfreq", n, variant="plain")
        pick("fft_rfftfreq", n, 0.25, dtype=torch.float64)


def layouts():
    for norm in (None, "forward", "backward", "ortho"):
        for name in ("fft", "ifft", "irfft", "hfft"):
            pick("fft_" + name, r(3, 4, 5, 2), 6, [1], norm, variant="norm")
            pick("fft_" + name + "n", r(3, 4, 5, 2), [4, -1], [0, 1], norm, variant="norm")
            pick("fft_" + name + "2", r(3, 4, 5, 2), [3, 6], None, norm, variant="norm")
        for name in ("rfft", "ihfft"):
            pick("fft_" + name, r(3, 4, 5), 6, [1], norm, variant="norm")
            pick("fft_" + name + "n", r(3, 4, 5), [4, -1], [2, 1], norm, variant="norm")
            pick("fft_" + name + "2", r(3, 4, 5), [3, 6], None, norm, variant="norm")
    for how in (turned, stepped):
        pick("fft_rfft", how(r(4, 6)), variant=how.__name__)
        pick("fft_fft", how(r(4, 6, 2)), variant=how.__name__)
        pick("fft_irfftn", how(r(4, 6, 2)), variant=how.__name__)
    for dtype in (torch.int64, torch.uint8, torch.bool):
        pick("fft_rfft", torch.tensor([1, 0, 3, 1, 1]).to(dtype), variant="dtype")
    pick("fft_rfft", r(0, 5), variant="empty batch")
    pick("fft_rfft", r(20, 6, 18), None, [1], variant="inner lines")
    pick("fft_fft", r(20, 3, 9, 2), None, [0], variant="inner lines")
    pick("fft_fftn", r(2, 3, 4, 2), variant="all")
    pick("fft_rfftn", r(2, 3, 4), variant="all")
    pick("fft_irfftn", r(2, 3, 4, 2), variant="all")


def short_time():
    signal, window = r(2, 30), r(8, lo=0.5, hi=1.5)
    for onesided in (True, False):
        for normalized in (False, True):
            options = {"normalized": normalized, "onesided": onesided}
            pick("stft", signal, 8, window=window, center=False, **options)
            pick("stft", signal[0], 8, 3, window=window, **options)
            pick("stft", signal, 11, 2, 8, window, pad_mode="constant", **options)
            pick("stft", signal, 9, 4, 6, pad_mode="replicate", **options)
            pick("stft", signal, 8, 3, pad_mode="circular", **options)
            rows = 5 if onesided else 8
            pick("istft", r(2, rows, 7, 2), 8, window=window, center=False, **options)
            pick("istft", r(rows, 6, 2), 8, 3, window=window, **options)
            pick("istft", r(2, rows, 6, 2), 8, 3, window=window, length=17, **options)
            pick("istft", r(rows, 6, 2), 8, 2, 6, window[:6], **options)
            pick("istft", r(rows, 6, 2), 8, **options)


def windows():
    for name in ("hann", "hamming", "blackman", "bartlett", "kaiser"):
        for count in (0, 1, 2, 7, 8):
            for periodic in (True, False):
                pick(name + "_window", count, periodic, dtype=torch.float64)
        pick(name + "_window", 9, variant="default")
