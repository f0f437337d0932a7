/* GGUF: files of llama.cpp and ggml, with metadata and (quantised) tensors.
   Threads: as situ/io.h.
   SPDX-License-Identifier: MIT */
#ifndef SITU_GGUF_H
#define SITU_GGUF_H

#include "blocks.h"
#include "io.h"

SITU_BEGIN

/** An open GGUF file (version 2 or 3, little-endian). situ_load reads whole files of this format too. */
typedef struct situ_gguf situ_gguf;

/** Opens a file and checks its whole header against its size without reading data: counts, types, offsets, alignment,
    overlaps and names given twice. Accepts bytes after the last tensor, or a last tensor without padding, only with
    options->lenient. SITU_E_UNSUPPORTED for other versions and for arrays in arrays. NULL on error. */
SITU_API situ_gguf *situ_gguf_open(const char *path, const situ_load_options *options);
/** Closes the file; mapped tensors keep their mapping. NULL is fine. */
SITU_API void situ_gguf_close(situ_gguf *file);

/* ---- tensors ------------------------------------------------------------------------------ */

/** Number of tensors. */
SITU_API int64_t situ_gguf_count(const situ_gguf *file);
/** The index-th tensor, in the order of names; NULL (no error) out of range. type is ggml's name ("Q4_K"); shape is in
    PyTorch's order, of the tensor as it is loaded: blocks are u8 [.., bytes of a row]. dtype SITU_DTYPE_DEFAULT: a type
    that situ cannot load. */
SITU_API const situ_file_entry *situ_gguf_entry(const situ_gguf *file, int64_t index);
/** A tensor by name; NULL (no error) if there is no such tensor. */
SITU_API const situ_file_entry *situ_gguf_find(const situ_gguf *file, const char *name);
/** Loads one tensor, owned by the innermost scope; NULL on error. F32, F16, BF16, F64 and integers are tensors of that
    dtype; Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K, Q6_K and IQ4_NL are tensors of blocks (blocks.h). Other types are
    SITU_E_UNSUPPORTED. */
SITU_API situ_tensor *situ_gguf_load(situ_gguf *file, const char *name);

/** All tensors, a flat dict under the file's names, with the values that Hugging Face's modules have: rows of attn_q
    and attn_k of architecture "llama" in its order (llama.cpp's converter interleaves the halves of each head), and the
    norms of "gemma" and its successors less the 1 that the converter adds. Blocks stay blocks. The caller frees it;
    NULL on error. */
SITU_API situ_tree *situ_gguf_state_dict(situ_gguf *file);
/** The names of Hugging Face's modules for those of a file whose "general.architecture" is one of llama, qwen2, qwen3,
    gemma, gemma2, gemma3, bert: rows for situ_nn_load_options.rename ("blk.0.attn_q" becomes
    "model.layers.0.self_attn.q_proj"), of static storage; *count is their number. SITU_E_UNSUPPORTED for others. */
SITU_API const situ_nn_rename *situ_gguf_names(const char *architecture, int64_t *count);

/* ---- metadata ----------------------------------------------------------------------------- */

typedef enum situ_gguf_kind {
  SITU_GGUF_NONE = 0, /**< there is no such key */
  SITU_GGUF_INTEGER,
  SITU_GGUF_NUMBER, /**< f32 or f64 */
  SITU_GGUF_BOOL,
  SITU_GGUF_STRING
} situ_gguf_kind;

/** Number of metadata keys. */
SITU_API int64_t situ_gguf_keys(const situ_gguf *file);
/** The index-th key, in the order of keys; NULL (no error) out of range. */
SITU_API const char *situ_gguf_key(const situ_gguf *file, int64_t index);
/** The kind of a value, or of the elements of an array; *count (may be NULL) is their number, -1 for a value that is
    not an array. SITU_GGUF_NONE (no error) if there is no such key. */
SITU_API situ_gguf_kind situ_gguf_kind_of(const situ_gguf *file, const char *key, int64_t *count);
/** Element `index` of an array, or with index 0 a value, as an integer (bools: 0 and 1). Returns false (no error) if
    there is no such value, or if it is not a whole number of 64 bits. */
SITU_API bool situ_gguf_integer(const situ_gguf *file, const char *key, int64_t index, int64_t *out);
/** The same as a double, of integers and numbers. */
SITU_API bool situ_gguf_number(const situ_gguf *file, const char *key, int64_t index, double *out);
/** The same as a text, which lives as long as the open file; *length (may be NULL) are its bytes. NULL (no error) if it
    is not a string. It may contain any bytes. */
SITU_API const char *situ_gguf_string(const situ_gguf *file, const char *key, int64_t index, size_t *length);

SITU_END
#endif
