/* Files of torch.save: a pickle and raw storages, in a zip archive or (before version 1.6) one behind the other; and
   archives of TorchScript, of which the weights are read, and no code.
   SPDX-License-Identifier: MIT */
#ifndef SITU_IO_TORCH_H
#define SITU_IO_TORCH_H

#include "io/format/mapping.h"
#include "pickle.h"
#include "io/format/zip.h"
#include "situ/io.h"

typedef struct situ__torch {
  situ__zip_source source;
  situ__zip zip;
  situ__pickle pickle;
  const situ__zip_entry **file; /* of each storage of the pickle */
  uint32_t *uses;               /* how many tensors are on each entry of zip */
  situ__mapping *mapping;       /* NULL: values are read */
  bool legacy;                  /* zip has the storages by their keys, and no checksums */
  situ_load_options options;
} situ__torch;

/* Finds out by a file's first bytes whether it is one of torch.save, of any age. Returns false after recording an error
   of opening or reading, but for a missing file. */
bool situ__torch_recognize(const char *op, const char *path, bool *is_torch);

/* Records an error that begins with the file's path; returns false. */
bool situ__torch_refuse(const situ__torch *t, situ_status status, const char *what);
/* The bytes of the pickle with which files before version 1.6 begin; 0: these are not such a file's first. */
size_t situ__torch_legacy_magic(const char *first, size_t bytes);
/* Reads such a file, whose source and options are set. Returns false after recording an error. */
bool situ__torch_open_legacy(situ__torch *t);
/* Reads the pickle of an archive and checks every storage against its file; no values are read. The caller keeps the
   file open, and releases the mapping, which covers the whole file (NULL: values are read). Returns false after
   recording an error. The caller closes it in each case. */
bool situ__torch_open(situ__torch *t, const situ__zip_source *source, situ__mapping *mapping,
                      const situ_load_options *options);
void situ__torch_close(situ__torch *t);
/* Opens a file of its own, and maps it if the options ask for that; to be closed by situ__torch_close_file. */
bool situ__torch_open_file(situ__torch *t, const char *op, const char *path, const situ_load_options *options);
void situ__torch_close_file(situ__torch *t);

/* Returns a tensor that shares memory with no other, owned by the innermost scope. NULL after recording an error that
   names it. */
situ_tensor *situ__torch_tensor(const situ__torch *t, const char *name, const situ__pickle_tensor *tensor);
/* Returns false after recording an error that names the first function or class that is not known. */
bool situ__torch_check_known(const situ__torch *t);
/* The whole content as a tree, as situ_load describes it; the caller frees it. NULL on error. */
situ_tree *situ__torch_tree(const situ__torch *t);

/* ---- what the file holds, by path ---- */

/* A tensor: an entry, and where it is in the pickle. */
typedef struct situ__torch_item {
  situ_file_entry entry;
  uint32_t number;
  const char *weight; /* its name in the state dict, a part of its path; NULL: it is not of it */
} situ__torch_item;

typedef struct situ__torch_list {
  situ__torch_item *item; /* sorted by name */
  int64_t count;
  situ_metadata *remark; /* numbers and strings as text, sorted by key */
  int64_t remarks;
  situ_metadata *left; /* what is not of the state dict, by path, and why; sorted by key */
  int64_t lefts;
  char *text; /* what the names point into */
} situ__torch_list;

/* Returns false after recording an error, with nothing left to free. */
bool situ__torch_list_make(situ__torch_list *list, const situ__torch *t);
void situ__torch_list_free(situ__torch_list *list);

/* ---- walks over the values of the pickle ---- */

/* A walk counts what it visits: a value that is in many containers, or in itself, must not make a small file a large
   tree. */
typedef struct situ__torch_walk {
  const situ__torch *torch;
  int64_t left; /* nodes that may still be visited */
  int depth;
  char path[4096]; /* "model.fc.weight" */
  size_t length;
} situ__torch_walk;

void situ__torch_walk_begin(situ__torch_walk *walk, const situ__torch *t);
/* Counts a value and returns it, of an object of TorchScript its attributes. NULL after recording an error. */
const situ__pickle_value *situ__torch_visit(situ__torch_walk *walk, uint32_t value);
/* Extends the path by a key of a dict, or by a place in a list (key: NULL); *name is that part of it. situ__torch_leave
   sets the path back to the length that it had. Returns false after recording an error. */
bool situ__torch_enter(situ__torch_walk *walk, const situ__pickle_value *key, int64_t number, const char **name);
void situ__torch_leave(situ__torch_walk *walk, size_t length);

#endif
