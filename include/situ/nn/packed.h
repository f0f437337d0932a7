/* Batches of sequences of different lengths (torch.nn.utils.rnn): padded to the longest, or packed, without padding.
   SPDX-License-Identifier: MIT */
#ifndef SITU_NN_PACKED_H
#define SITU_NN_PACKED_H

#include "layers.h"

SITU_BEGIN

/** PackedSequence: the elements of all sequences at time 0, longest sequence first, then those at time 1, and so on.
    A plain struct: the functions that fill it leave its tensors to the innermost scope, as any result, and those that
    read it borrow them. To keep it, keep each tensor (situ_set, situ_escape). */
typedef struct situ_nn_packed_sequence {
  situ_tensor *data;             /**< [sum of lengths, ...] */
  situ_tensor *batch_sizes;      /**< i64 [longest length], on the cpu: number of sequences at each time */
  situ_tensor *sorted_indices;   /**< i64 [N]: the sequence at each place of time 0; NULL: 0, 1, 2, ... */
  situ_tensor *unsorted_indices; /**< its inverse; NULL with sorted_indices */
} situ_nn_packed_sequence;

/* lengths are integers [N], at least 1, which are read on the host: that waits for their device. */

/** Packs input [T, N, ...], or [N, T, ...] with batch_first; elements behind a sequence's length are not read. With
    enforce_sorted (torch's default) lengths must not increase, and `packed` needs no indices. On error `packed` is
    unchanged. */
SITU_API SITU_CHECKED situ_status situ_nn_utils_rnn_pack_padded_sequence(situ_tensor *input, situ_tensor *lengths,
                                                                         bool batch_first, bool enforce_sorted,
                                                                         situ_nn_packed_sequence *packed);
/** Packs `count` sequences [length, ...], whose other sizes are equal. The rest as
    situ_nn_utils_rnn_pack_padded_sequence. */
SITU_API SITU_CHECKED situ_status situ_nn_utils_rnn_pack_sequence(situ_tensor *const *sequences, int count,
                                                                  bool enforce_sorted, situ_nn_packed_sequence *packed);

/** Fields that a function does not have must be 0 (SITU_E_ARG). */
typedef struct situ_nn_pad_options {
  bool batch_first;     /**< [N, T, ...] instead of [T, N, ...] */
  double padding_value; /**< of the elements behind the end */
  int64_t total_length; /**< pad_packed_sequence: T, at least the longest length; 0: that */
  bool left;            /**< pad_sequence: torch's padding_side='left' */
} situ_nn_pad_options;
/** The inverse of packing: [T, N, ...], sequences in their original order; *lengths (may be NULL) gets their lengths,
    i64 [N] on the cpu. options may be NULL. */
SITU_API SITU_CHECKED situ_tensor *situ_nn_utils_rnn_pad_packed_sequence(const situ_nn_packed_sequence *sequence,
                                                                         const situ_nn_pad_options *options,
                                                                         situ_tensor **lengths);
/** `count` sequences [length, ...] as [T, N, ...], where T is the longest length. options may be NULL. */
SITU_API SITU_CHECKED situ_tensor *situ_nn_utils_rnn_pad_sequence(situ_tensor *const *sequences, int count,
                                                                  const situ_nn_pad_options *options);
/** The sequences of padded [T, N, ...], or [N, T, ...] with batch_first: views [length, ...], written to out[], which
    has `capacity` elements. Returns their number, N; -1 on error. out NULL with capacity 0: only returns the number. */
SITU_API SITU_CHECKED int64_t situ_nn_utils_rnn_unpad_sequence(situ_tensor *padded, situ_tensor *lengths,
                                                               bool batch_first, situ_tensor **out, int64_t capacity);

/** Calls an RNN, LSTM or GRU with packed input; nothing is computed for padding. The reverse direction begins at each
    sequence's end, and the states after are those at the ends. hx as for situ_nn_recur, N in the original order; NULL:
    zeros before. *output gets the packed output, and shares all but data with input; it may be input. In trees: a dict
    of the fields' names, without those that are NULL, in place of the input, and of the output. On error hx and *output
    are unchanged. */
SITU_API SITU_CHECKED situ_status situ_nn_recur_packed(situ_nn_module *layer, const situ_nn_packed_sequence *input,
                                                       situ_nn_hx *hx, situ_nn_packed_sequence *output);

SITU_END
#endif
