/* Trees: nested lists and dicts of tensors (JAX's pytrees): the inputs of a module, a batch, a state dict, a
   checkpoint. Threads: several threads may read a tree; the caller locks changes (docs/threads.md).
   SPDX-License-Identifier: MIT */
#ifndef SITU_TREE_H
#define SITU_TREE_H

#include "tensor.h"

SITU_BEGIN

/** A tensor, a list, a dict (keys in insertion order), or none. A tree owns its subtrees and a reference to each
    tensor; a tensor can be in it twice, the tree itself cannot. At most 64 levels. */
typedef struct situ_tree situ_tree;

typedef enum situ_tree_kind {
  SITU_TREE_NONE = 0, /**< Python's None: an optional input that is not given */
  SITU_TREE_TENSOR,
  SITU_TREE_LIST,
  SITU_TREE_DICT
} situ_tree_kind;

/* ---- building: arguments are owned by the result, and freed if the call fails ---------------- */

/** An empty leaf (Python's None). */
SITU_API situ_tree *situ_tree_none(void);
/** A leaf with a reference to the tensor. A NULL tensor gives NULL: use situ_tree_none() for an absent one. */
SITU_API situ_tree *situ_tree_tensor(situ_tensor *tensor);
/** An empty list. */
SITU_API situ_tree *situ_tree_list(void);
/** An empty dict. */
SITU_API situ_tree *situ_tree_dict(void);
/** Adds an item at the end of a list; returns the list. */
SITU_API situ_tree *situ_tree_append(situ_tree *list, situ_tree *item);
/** Adds an item to a dict under a new key (copied); returns the dict. */
SITU_API situ_tree *situ_tree_put(situ_tree *dict, const char *key, situ_tree *item);
/** A list of tensors. */
SITU_API situ_tree *situ_tree_of(int64_t count, situ_tensor *const *tensors);
#ifndef __cplusplus
/** SITU_TREE(x, y): a list of tensors. */
#define SITU_TREE(...)                                                                      \
  situ_tree_of((int64_t)(sizeof((situ_tensor *[]){ __VA_ARGS__ }) / sizeof(situ_tensor *)), \
               (situ_tensor *[]){ __VA_ARGS__ })
#endif
/** Frees the tree and releases its tensors. NULL is fine. */
SITU_API void situ_tree_free(situ_tree *tree);
/** Stores tree in *slot and frees the previous one. Returns false, with *slot unchanged, for a NULL tree, and with
    SITU_E_ARG if either was freed already. */
SITU_API bool situ_tree_set(situ_tree **slot, situ_tree *tree);

/* ---- reading: results are borrowed from the tree --------------------------------------------- */

/** The kind; SITU_TREE_NONE for NULL too. */
SITU_API situ_tree_kind situ_tree_kind_of(const situ_tree *tree);
/** Number of items of a list or dict; 0 for other kinds. */
SITU_API int64_t situ_tree_count(const situ_tree *tree);
/** The i-th item of a list or dict. */
SITU_API const situ_tree *situ_tree_at(const situ_tree *tree, int64_t i);
/** The i-th key of a dict. */
SITU_API const char *situ_tree_key(const situ_tree *dict, int64_t i);
/** The item under a key; NULL (no error) if the dict has no such key. */
SITU_API const situ_tree *situ_tree_find(const situ_tree *dict, const char *key);
/** The tensor of a leaf, or of a list of one leaf; NULL after recording an error. */
SITU_API situ_tensor *situ_tree_value(const situ_tree *tree);
/** The i-th item, which must be a tensor; NULL after recording an error. */
SITU_API situ_tensor *situ_tree_tensor_at(const situ_tree *tree, int64_t i);
/** The item under a key, which must be a tensor; NULL after recording an error. */
SITU_API situ_tensor *situ_tree_get(const situ_tree *dict, const char *key);
/** The same, under a key made as by printf: `situ_tree_getf(state, "layers.%d.weight", i)`. SITU_E_ARG for a key of
    more than 1,023 bytes. */
SITU_API situ_tensor *situ_tree_getf(const situ_tree *dict, const char *fmt, ...) SITU_PRINTF(2, 3);

/* ---- whole trees ----------------------------------------------------------------------------- */

/** Called for each tensor with its path ("encoder.0.x"; "" for a tree that is a leaf). Any result but SITU_OK stops the
    walk. */
typedef situ_status (*situ_tree_visitor)(const char *path, situ_tensor *tensor, void *payload);
/** Calls visit for every tensor, in order; returns the first result but SITU_OK. */
SITU_API SITU_CHECKED situ_status situ_tree_each(const situ_tree *tree, situ_tree_visitor visit, void *payload);
/** A tree of the same structure with fn(tensor) in place of each tensor. The caller frees it, as all trees below. */
SITU_API SITU_CHECKED situ_tree *situ_tree_map(const situ_tree *tree,
                                               situ_tensor *(*fn)(situ_tensor *tensor, void *payload), void *payload);
/** A tree of the same structure with the same tensors (a shallow copy). */
SITU_API SITU_CHECKED situ_tree *situ_tree_copy(const situ_tree *tree);
/** A dict of one level: each tensor under its path. */
SITU_API SITU_CHECKED situ_tree *situ_tree_flatten(const situ_tree *tree);
/** The entries of a flat dict whose keys begin with "section.", without that prefix: model.fc.bias becomes fc.bias. */
SITU_API SITU_CHECKED situ_tree *situ_tree_section(const situ_tree *flat, const char *section);

SITU_END
#endif
