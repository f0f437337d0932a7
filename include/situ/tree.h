/* Trees: nested lists and dicts of tensors, for whatever is more than one tensor: the inputs of a
   module, a batch, a state dict, a checkpoint.
   Threads: trees may be read by several; changes are the caller's to lock (docs/threads.md).
   SPDX-License-Identifier: MIT */
#ifndef SITU_TREE_H
#define SITU_TREE_H

#include "tensor.h"

SITU_BEGIN

/** A tensor, a list, a dict (keys in the order in which they came), or nothing. A tree holds its
    tensors and owns its parts; it can hold a tensor twice, but never itself. At most 64 levels. */
typedef struct situ_tree situ_tree;

typedef enum situ_tree_kind {
  SITU_TREE_NONE = 0, /**< Python's None: an optional input that is not given */
  SITU_TREE_TENSOR,
  SITU_TREE_LIST,
  SITU_TREE_DICT
} situ_tree_kind;

/* ---- building: what is passed in is taken over, and freed if the call fails ------------------ */

SITU_API situ_tree *situ_tree_none(void);
/** A leaf that holds the tensor. A NULL tensor gives NULL: say situ_tree_none() where nothing is
    meant. */
SITU_API situ_tree *situ_tree_tensor(situ_tensor *tensor);
SITU_API situ_tree *situ_tree_list(void);
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
/** Frees the tree and lets go of its tensors. NULL is fine. */
SITU_API void situ_tree_free(situ_tree *tree);
/** Frees what was in *slot and puts tree there. On NULL, and if either was freed already
    (SITU_E_ARG), the slot keeps what it has: false. */
SITU_API bool situ_tree_set(situ_tree **slot, situ_tree *tree);

/* ---- looking: all that these return is borrowed from the tree -------------------------------- */

/** SITU_TREE_NONE for NULL too. */
SITU_API situ_tree_kind situ_tree_kind_of(const situ_tree *tree);
/** Items of a list or dict; 0 for anything else. */
SITU_API int64_t situ_tree_count(const situ_tree *tree);
/** The i-th item of a list or dict. */
SITU_API const situ_tree *situ_tree_at(const situ_tree *tree, int64_t i);
/** The i-th key of a dict. */
SITU_API const char *situ_tree_key(const situ_tree *dict, int64_t i);
/** A dict's item; NULL, with no error, if there is none of that key. */
SITU_API const situ_tree *situ_tree_find(const situ_tree *dict, const char *key);
/** The tensor of a leaf; a list of one leaf counts as that leaf. */
SITU_API situ_tensor *situ_tree_value(const situ_tree *tree);
/** The tensor that is the i-th item. */
SITU_API situ_tensor *situ_tree_tensor_at(const situ_tree *tree, int64_t i);
/** The tensor under a key. */
SITU_API situ_tensor *situ_tree_get(const situ_tree *dict, const char *key);

/* ---- whole trees ----------------------------------------------------------------------------- */

/** Called for each tensor with its path ("encoder.0.x"; "" for a tree that is a leaf). Not SITU_OK
    stops the walk. */
typedef situ_status (*situ_tree_visitor)(const char *path, situ_tensor *tensor, void *payload);
SITU_API SITU_CHECKED situ_status situ_tree_each(const situ_tree *tree, situ_tree_visitor visit, void *payload);
/** A tree of the same form with fn(tensor) in place of each tensor. */
SITU_API SITU_CHECKED situ_tree *situ_tree_map(const situ_tree *tree,
                                               situ_tensor *(*fn)(situ_tensor *tensor, void *payload), void *payload);
/** A tree of the same form on the same tensors. */
SITU_API SITU_CHECKED situ_tree *situ_tree_copy(const situ_tree *tree);
/** A dict of one level: each tensor under its path. A flat dict stays as it is. */
SITU_API SITU_CHECKED situ_tree *situ_tree_flatten(const situ_tree *tree);
/** Of a flat dict, the part whose keys begin with "section.", under what follows: model.fc.bias
    becomes fc.bias. */
SITU_API SITU_CHECKED situ_tree *situ_tree_section(const situ_tree *flat, const char *section);

SITU_END
#endif
