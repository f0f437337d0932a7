/* Quantised weights: tensors of blocks, as GGUF files hold them (gguf.h), and the ops that compute with them.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BLOCKS_H
#define SITU_BLOCKS_H

#include "tensor.h"

SITU_BEGIN

/** How a block encodes its numbers: ggml's types of these names. */
typedef enum situ_block_type {
  SITU_BLOCK_NONE = 0, /**< not blocks: the tensor holds numbers */
  SITU_BLOCK_Q8_0,     /**< 32 numbers of 8 bits and an f16 scale: 34 bytes */
  SITU_BLOCK_Q4_0,     /**< 32 numbers of 4 bits and an f16 scale: 18 bytes */
  SITU_BLOCK_Q4_K,     /**< 256 numbers of 4 bits, with a scale and a minimum for each 32: 144 bytes */
  SITU_BLOCK_Q5_K,     /**< 256 numbers of 5 bits, as Q4_K: 176 bytes */
  SITU_BLOCK_Q6_K,     /**< 256 numbers of 6 bits, with a scale for each 16: 210 bytes */
  SITU_BLOCK_Q4_1,     /**< 32 numbers of 4 bits, an f16 scale and an f16 minimum: 20 bytes */
  SITU_BLOCK_Q5_0,     /**< 32 numbers of 5 bits and an f16 scale: 22 bytes */
  SITU_BLOCK_Q5_1,     /**< 32 numbers of 5 bits, as Q4_1: 24 bytes */
  SITU_BLOCK_IQ4_NL,   /**< 32 numbers of a table of 16 and an f16 scale: 18 bytes */
  SITU_BLOCK_TYPES
} situ_block_type;

/* A tensor of blocks is u8 [.., bytes of a row], and its storage knows the type of the blocks. It is placed, moved,
   planned, cloned, saved and loaded like any tensor; an op that would read its bytes as numbers refuses it. */

/** "Q4_K", ggml's name; "numbers" for SITU_BLOCK_NONE, "?" for an invalid value. Static text. */
SITU_API const char *situ_block_name(situ_block_type type);
/** Numbers of a block; 0 for SITU_BLOCK_NONE and invalid values. */
SITU_API int64_t situ_block_elements(situ_block_type type);
/** Bytes of a block; 0 for SITU_BLOCK_NONE and invalid values. */
SITU_API int64_t situ_block_bytes(situ_block_type type);

/** A tensor on options' device (its other fields are not read) with a copy of numbers in blocks, of this shape, whose
    last dimension must be a multiple of the block's numbers; bytes must be exactly their size. data NULL: not written
    yet, and bytes are not read. NULL after recording an error. */
SITU_API situ_tensor *situ_blocks_from_host(const void *data, size_t bytes, const situ_shape *shape,
                                            situ_block_type type, const situ_options *options);
/** The type of a tensor's blocks; SITU_BLOCK_NONE for NULL and for tensors of numbers. */
SITU_API situ_block_type situ_block_type_of(const situ_tensor *t);
/** Declares that a u8 tensor [.., bytes], contiguous and the only content of its storage, holds blocks. Its type cannot
    be changed afterwards. */
SITU_API SITU_CHECKED situ_status situ_set_block_type(situ_tensor *t, situ_block_type type);
/** Shape of the numbers that a tensor of blocks stands for; the shape of other tensors; ndim -1 for NULL. */
SITU_API situ_shape situ_block_shape(const situ_tensor *t);

/** The values of a tensor of blocks, f32 of situ_block_shape: the bits that llama.cpp's gguf package computes. Not
    differentiable: blocks are constants. */
SITU_API SITU_CHECKED situ_tensor *situ_dequantize(situ_tensor *input);
/** situ_linear with a weight of blocks of [rows, columns]: input [.., columns], bias [rows] or NULL, of one floating
    dtype, that of the result [.., rows]. Computed in f32 (f64 for f64); on processors with AVX512_VNNI the
    input is rounded to 2^-23 of the largest of each 32 numbers. Input and bias have gradients, the weight has none. */
SITU_API SITU_CHECKED situ_tensor *situ_block_linear(situ_tensor *input, situ_tensor *weight, situ_tensor *bias);
/** situ_embedding with a weight of blocks of [rows, columns]: input i64 or i32, the result f32 [.., columns]. No
    gradient. */
SITU_API SITU_CHECKED situ_tensor *situ_block_embedding(situ_tensor *input, situ_tensor *weight);

SITU_END
#endif
