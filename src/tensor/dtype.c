/* Dtypes: names, sizes and PyTorch's promotion.
   SPDX-License-Identifier: MIT */
#include "tensor/tensor.h"
#include "situ/sys/op.h"

size_t situ_dtype_size(situ_dtype dtype) { return situ__dtype_size(dtype); }
const char *situ_dtype_name(situ_dtype dtype) { return situ__dtype_name(dtype); }
bool situ_dtype_is_floating(situ_dtype dtype) { return situ__dtype_is_floating(dtype); }
bool situ_dtype_is_integer(situ_dtype dtype) { return situ__dtype_kind(dtype) == SITU__KIND_INTEGER; }

/* The lattice of torch.promote_types: the enum is ordered so that the larger one wins within a kind, except for two
   unordered pairs: u8 with i8, and f16 with bf16. */
situ_dtype situ_promote_types(situ_dtype a, situ_dtype b) {
  if (!situ__dtype_valid(a) || !situ__dtype_valid(b)) return SITU_DTYPE_DEFAULT;
  situ_dtype low = a < b ? a : b, high = a < b ? b : a;
  if (low == SITU_U8 && high == SITU_I8) return SITU_I16;
  if (low == SITU_F16 && high == SITU_BF16) return SITU_F32;
  return high;
}

/* torch.result_type: tensors with dimensions decide within the highest kind; 0-dim tensors count only if their kind
   is higher. */
situ_dtype situ_result_type(situ_tensor *const *in, int ins) {
  situ_dtype dim = SITU_DTYPE_DEFAULT, zero = SITU_DTYPE_DEFAULT;
  for (int i = 0; in && i < ins; i++) {
    if (!in[i]) continue;
    if (!situ__need("result_type", "in", in[i])) return SITU_DTYPE_DEFAULT;
    situ_dtype *slot = in[i]->view.ndim ? &dim : &zero, dtype = (situ_dtype)in[i]->view.dtype;
    *slot = *slot ? situ_promote_types(*slot, dtype) : dtype;
  }
  if (!zero) return dim;
  if (!dim || situ__dtype_kind(zero) > situ__dtype_kind(dim)) return dim ? situ_promote_types(dim, zero) : zero;
  return dim;
}
