/* Files: safetensors, .npy, and checkpoints that a crash cannot tear.
   Threads: all of it may be called at once; closing a file is the caller's to lock (docs/threads.md).
   SPDX-License-Identifier: MIT */
#ifndef SITU_IO_H
#define SITU_IO_H

#include "nn.h"
#include "optim.h"

SITU_BEGIN

/* Readers trust nothing: every number of a file is checked against the file's size before anything
   is allocated, and no format that can carry code is read. Writers never touch the old file: the
   new one is written beside it, synced, and renamed over it. */

/* ---- saving ------------------------------------------------------------------------------- */

/** A remark that travels with a file: safetensors' __metadata__. */
typedef struct situ_metadata {
  const char *key;
  const char *value;
} situ_metadata;

/** What has become of the target when a save returns. Only REPLACED goes with SITU_OK. */
typedef enum situ_replaced {
  SITU_NOT_REPLACED = 0, /**< the old file is untouched, and nothing of the new one is left */
  /** The new file is whole and in place, but a power cut may bring the old one back. */
  SITU_REPLACED_NOT_DURABLE,
  SITU_REPLACED /**< the new file is in place, and on the disk */
} situ_replaced;

typedef struct situ_save_options {
  const situ_metadata *metadata; /**< remarks, written beside the checksums; not into .npy files */
  int64_t metadata_count;
  /** > 0: several files of about this size, and an index, which path then names
      ("model.safetensors.index.json"). 0: one file. */
  int64_t max_shard_bytes;
  /** Do not wait for the disk: a program that is killed still leaves the old or the new file whole,
      a power cut may not. */
  bool no_sync;
  situ_replaced *replaced; /**< gets what has become of the target; may be NULL */
} situ_save_options;

/** Writes a tree of tensors of any device (a module's state dict, say) into a safetensors file,
    each under its path in the tree ("encoder.fc1.weight") and with a checksum (CRC-32C). path may
    exist; it keeps its permissions. A directory or a symbolic link as path is refused. A tensor
    that the tree holds twice is written twice. */
SITU_API SITU_CHECKED situ_status situ_save(const char *path, const situ_tree *tree, const situ_save_options *options);

/* ---- loading ------------------------------------------------------------------------------ */

/** Are checksums, where a file has them, compared with the values? */
typedef enum situ_verify {
  SITU_VERIFY_READ = 0, /**< of what is read; what is mapped would have to be read for it */
  SITU_VERIFY_ALWAYS,
  SITU_VERIFY_NEVER
} situ_verify;

typedef struct situ_load_options {
  situ_device device; /**< where the tensors shall live; {0}: cpu */
  situ_verify verify;
  /** Map the file instead of reading it: opens at once, however large it is. Writes to the tensors
      stay private. Whoever shrinks the file meanwhile kills this process (SIGBUS): only for files
      that nobody writes in place. */
  bool map;
  bool lenient; /**< accept bytes after the last tensor, as some old writers leave them */
} situ_load_options;

/** Loads a whole safetensors file, or an index and its shards: a flat dict in the order of the
    names. NULL on error. A file may hold 1,000,000 tensors; each takes about 1 KiB beside its data. */
SITU_API situ_tree *situ_load(const char *path, const situ_load_options *options);

/** One tensor of a file, as its header says. Texts live as long as the open file. */
typedef struct situ_file_entry {
  const char *name;
  const char *type; /**< the file's word for the dtype: "F32", "F8_E4M3", "<f4" */
  situ_dtype dtype; /**< SITU_DTYPE_DEFAULT: one that situ cannot load */
  situ_shape shape;
  int64_t bytes;
  int64_t offset;   /**< of the first byte in its file */
  const char *file; /**< the shard's name in the index; "" if there is one file only */
} situ_file_entry;

/** An open safetensors file, or all the shards of an index: to look before loading, or to load only
    some. */
typedef struct situ_safetensors situ_safetensors;

/** Opens a file, or a "*.index.json" and its shards, and checks the whole header. Nothing of the
    data is read. NULL on error. */
SITU_API situ_safetensors *situ_safetensors_open(const char *path, const situ_load_options *options);
/** Tensors that are mapped keep what they need. NULL is fine. */
SITU_API void situ_safetensors_close(situ_safetensors *file);
SITU_API int64_t situ_safetensors_count(const situ_safetensors *file);
/** The index-th tensor, in the order of their names; NULL (no error) out of range. */
SITU_API const situ_file_entry *situ_safetensors_entry(const situ_safetensors *file, int64_t index);
/** The same by name; NULL (no error) if there is no such tensor. */
SITU_API const situ_file_entry *situ_safetensors_find(const situ_safetensors *file, const char *name);
/** A remark's text by its key; NULL (no error) if there is none. */
SITU_API const char *situ_safetensors_metadata(const situ_safetensors *file, const char *key);
/** The index-th remark, in the order of their keys; false out of range. */
SITU_API bool situ_safetensors_metadata_at(const situ_safetensors *file, int64_t index, situ_metadata *out);
/** Loads one tensor. It belongs to the innermost scope. Threads may load from one open file at
    once. */
SITU_API situ_tensor *situ_safetensors_load(situ_safetensors *file, const char *name);

/* ---- checkpoints -------------------------------------------------------------------------- */

/** All that a training run needs to go on as if it had never stopped. */
typedef struct situ_checkpoint {
  situ_nn_module *model;
  situ_optim *optimizer; /**< NULL: none, as with the next two */
  situ_lr_scheduler *scheduler;
  situ_generator *generator; /**< the program's own, a loader's say; the default one is saved too */
  int64_t epoch, step;       /**< where the run stands, by the program's own count */
} situ_checkpoint;

/** Saves it into one safetensors file (or shards), in which the model's tensors are called
    "model.PATH". Another program reads them as those of any file. */
SITU_API SITU_CHECKED situ_status situ_checkpoint_save(const char *path, const situ_checkpoint *checkpoint,
                                                       const situ_save_options *options);
/** Fills in what `checkpoint` points to, the default generator, epoch and step. What it leaves NULL
    is left out; what the file lacks is SITU_E_FORMAT. If anything does not fit, nothing has
    changed. */
SITU_API SITU_CHECKED situ_status situ_checkpoint_load(const char *path, situ_checkpoint *checkpoint,
                                                       const situ_load_options *options);

/* ---- NumPy's .npy ------------------------------------------------------------------------- */

/** Loads one array (numpy.load). Little-endian numbers and bools, C or Fortran order; structured
    types, objects and big-endian numbers are refused. */
SITU_API situ_tensor *situ_npy_load(const char *path, const situ_load_options *options);
/** Saves one array (numpy.save), as crash-safe as situ_save. bf16, which NumPy lacks, is refused:
    save f32. */
SITU_API SITU_CHECKED situ_status situ_npy_save(const char *path, situ_tensor *tensor,
                                                const situ_save_options *options);
/** What a .npy file says about its array; out->name is "". */
SITU_API SITU_CHECKED situ_status situ_npy_info(const char *path, situ_file_entry *out);

SITU_END
#endif
