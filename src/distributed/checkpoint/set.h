/* The files of a sharded checkpoint: one of each rank, which hold pieces of tensors, and a manifest that names them.
   SPDX-License-Identifier: MIT */
#ifndef SITU_DIST_SET_H
#define SITU_DIST_SET_H

#include "distributed/comm/comm.h"
#include "situ/io.h"

/* What tells the files of one save from those of another: `tag` is new for each. */
typedef struct situ__set_id {
  uint32_t tag;
  int32_t ranks;
} situ__set_id;

/* ---- writing (set.c) ---- */

/* Makes the directory if it does not exist. Returns false after recording an error. */
bool situ__set_make_directory(const char *op, const char *directory, bool sync);
uint32_t situ__set_new_tag(void);
/* The path of a rank's file; the caller frees it (situ__free). NULL after recording an error. */
char *situ__set_file(const char *op, const char *directory, situ__set_id id, int rank);
/* Deletes it; ignores errors, because the next save tries again. */
void situ__set_remove(const char *op, const char *directory, situ__set_id id, int rank);
/* Opens all files, writes the manifest that names them, and then deletes those of older sets. */
situ_status situ__set_commit(const char *op, const char *directory, situ__set_id id, const situ_save_options *options);
/* Reads the manifest, and returns the checksums of the ranks' files, 8 digits each; the caller frees them (situ__free).
   NULL after recording an error. */
char *situ__set_read_manifest(const char *op, const char *directory, situ__set_id *id);
/* The checksum of an open file of a set, whose first 8 digits count; NULL after recording an error. */
const char *situ__set_sum(const char *op, const situ_safetensors *file, const char *path);
enum { SITU__SET_SUM = 8 };

/* ---- names of pieces (piece.c) ---- */

/* Elements [from, to) of a tensor. Its name in a file is that of the tensor, with the shape and these bounds:
   "model.0.weight[16, 6][0:48]". */
typedef struct situ__piece {
  const char *name; /* not ended by a NUL */
  size_t name_length;
  situ_shape shape; /* of the whole tensor */
  int64_t numel, from, to;
  const char *entry; /* its name in the file that holds it */
  situ_dtype dtype;
  int file;
} situ__piece;

/* Adds these elements of `name` to *file, a flat dict. Returns false after recording an error. */
bool situ__piece_put(situ_tree **file, const char *name, situ_shape shape, int64_t from, situ_tensor *elements);
/* Reads the name of an entry in a file, of which `name` is a copy. Returns false if it is not that of a piece. */
bool situ__piece_parse(const situ_file_entry *entry, const char *name, situ__piece *piece);

/* ---- reading (set_read.c) ---- */

enum { SITU__SET_OPEN = 16 };
/* A file of each rank, of which a few are open at a time. */
typedef struct situ__set_shard {
  char *path;
  char *names;            /* of its pieces */
  situ_safetensors *open; /* NULL: it is closed */
} situ__set_shard;

typedef struct situ__set {
  const char *op;
  situ__set_id id;
  char *sums;                /* of the manifest */
  situ_load_options options; /* the caller's, but for the device: values come to the host first */
  situ__set_shard *files;    /* of each rank */
  struct situ__set_turns {
    int file[SITU__SET_OPEN]; /* which are open; -1: none */
    int next;                 /* the place of the next one to be opened: that of the oldest */
  } * turns;
  situ__piece *pieces; /* sorted by name, then by their first element */
  int64_t count, capacity;
} situ__set;

enum { SITU__SET_TRIES = 1000 }; /* to open a set that is replaced meanwhile */
/* Opens the set that the manifest names, and checks that its pieces are whole tensors. Returns false after recording an
   error. In both cases the caller closes it. */
bool situ__set_open(situ__set *set, const char *op, const char *directory, const situ_load_options *options);
void situ__set_close(situ__set *set);
/* The number of the first piece of which the name begins with `prefix`, or of the piece that would come behind it. */
int64_t situ__set_find(const situ__set *set, const char *prefix);
/* Whether piece i exists, and its name begins with `prefix`. */
bool situ__set_has(const situ__set *set, int64_t i, const char *prefix);
/* The number of the first piece of the tensor behind that of piece i. */
int64_t situ__set_next(const situ__set *set, int64_t i);
/* Elements [from, from + count) of the tensor whose first piece is i, as one dimension: reads no others, but to compare
   checksums. NULL after recording an error. */
situ_tensor *situ__set_elements(const situ__set *set, int64_t i, int64_t from, int64_t count);
/* Reads the tensor whose first piece is i. NULL after recording an error. */
typedef situ_tensor *(*situ__set_reader)(const situ__set *set, int64_t i, const char *key, void *payload);
situ_tensor *situ__set_whole(const situ__set *set, int64_t i, const char *key, void *payload);
/* The tensors whose names begin with `prefix`, as a flat dict whose keys are their names without the first `cut` bytes.
   NULL after recording an error. */
situ_tree *situ__set_section(const situ__set *set, const char *prefix, size_t cut, situ__set_reader read,
                             void *payload);

#endif
