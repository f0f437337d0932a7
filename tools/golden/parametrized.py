"""Golden cases of weight_norm, spectral_norm and EmbeddingBag, as those of layers.py.
SPDX-License-Identifier: MIT"""
import torch
from torch import nn
from torch.nn.utils import parametrizations

import layers
from picks import r


def weight_norm(kind):
    """dim -1 is None."""
    def make(dim=0, **arguments):
        return parametrizations.weight_norm(getattr(nn, kind)(**arguments), dim=None if dim == -1 else dim)

    return make


def spectral_norm(kind):
    def make(n_power_iterations=1, eps=1e-12, dim=None, **arguments):
        return parametrizations.spectral_norm(getattr(nn, kind)(**arguments), "weight", n_power_iterations, eps, dim)

    return make


for _kind in ("Linear", "Conv2d", "ConvTranspose2d", "Embedding", "LayerNorm"):
    layers.MADE["WeightNorm" + _kind] = weight_norm(_kind)
    layers.MADE["SpectralNorm" + _kind] = spectral_norm(_kind)


def cases():
    layer = layers.layer
    image = dict(in_channels=2, out_channels=4, kernel_size=3)
    for dim in (0, 1, -1):
        layer("WeightNormLinear", {"input": r(2, 3)}, in_features=3, out_features=4, dim=dim)
        layer("WeightNormConv2d", {"input": r(1, 2, 4, 4)}, dim=dim, **image)
        layer("WeightNormEmbedding", {"input": torch.tensor([1, 0, 2])}, num_embeddings=3, embedding_dim=2, dim=dim)
    layer("WeightNormConv2d", {"input": r(1, 2, 4, 4)}, dim=2, **image)
    layer("WeightNormConv2d", {"input": r(1, 2, 4, 4)}, dim=-2, **image)
    layer("WeightNormConvTranspose2d", {"input": r(1, 2, 3, 3)}, dim=1, **image)
    for training in (True, False):
        layer("SpectralNormLinear", {"input": r(2, 3)}, training, in_features=3, out_features=4)
        layer("SpectralNormLinear", {"input": r(2, 3)}, training, in_features=3, out_features=4, n_power_iterations=3,
              dim=1)
        layer("SpectralNormLinear", {"input": r(2, 3)}, training, in_features=3, out_features=4, dim=-1, eps=0.5)
        layer("SpectralNormConv2d", {"input": r(1, 2, 4, 4)}, training, **image)
        layer("SpectralNormConvTranspose2d", {"input": r(1, 2, 3, 3)}, training, **image)
        layer("SpectralNormLayerNorm", {"input": r(2, 4)}, training, normalized_shape=[4])
    index, offsets = torch.tensor([1, 0, 4, 1, 2]), torch.tensor([0, 2, 2])
    for mode in ("mean", "sum", "max"):
        how = dict(num_embeddings=5, embedding_dim=3, mode=mode)
        layer("EmbeddingBag", {"input": index, "offsets": offsets}, **how)
        layer("EmbeddingBag", {"input": index.reshape(1, 5)}, padding_idx=1, **how)
        layer("EmbeddingBag", {"input": index, "offsets": torch.tensor([0, 3, 5])}, include_last_offset=True, **how)
    layer("EmbeddingBag", {"input": index, "offsets": offsets, "per_sample_weights": r(5)}, num_embeddings=5,
          embedding_dim=3, mode="sum")


def all_cases():
    return layers.collect(1602, cases)
