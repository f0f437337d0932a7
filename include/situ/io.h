/* Files: safetensors, torch.save's .pt, .npy, and crash-safe checkpoints.
   Threads: all functions may be called concurrently; the caller locks the closing of a file (docs/threads.md).
   SPDX-License-Identifier: MIT */
#ifndef SITU_IO_H
#define SITU_IO_H

#include "nn.h"
#include "optim.h"

SITU_BEGIN

/* Readers check every number of a file against the file's size before they allocate, and read no format that can carry
   code. Writers leave the old file untouched: they write the new one beside it, sync it, and rename it over the old. */

/* ---- saving ------------------------------------------------------------------------------- */

/** An entry of safetensors' __metadata__. */
typedef struct situ_metadata {
  const char *key;
  const char *value;
} situ_metadata;

/** State of the target file when a save returns. SITU_OK implies REPLACED. */
typedef enum situ_replaced {
  SITU_NOT_REPLACED = 0, /**< the old file is untouched, and no part of the new one remains */
  /** The new file is complete and in place, but a power failure may restore the old one. */
  SITU_REPLACED_NOT_DURABLE,
  SITU_REPLACED /**< the new file is in place and durable */
} situ_replaced;

typedef struct situ_save_options {
  const situ_metadata *metadata; /**< written beside the checksums; not into .npy files */
  int64_t metadata_count;
  /** > 0: several files of about this size, and an index, which path names ("model.safetensors.index.json"). 0: one
      file. */
  int64_t max_shard_bytes;
  /** Do not fsync: after a kill of the process the old or the new file is still complete, after a power failure maybe
      not. A full disk is then found while writing, not before. */
  bool no_sync;
  situ_replaced *replaced; /**< gets the state of the target; may be NULL */
} situ_save_options;

/** Writes a tree of tensors on any device (such as a module's state dict) into a safetensors file, each under its path
    in the tree ("encoder.fc1.weight") with a checksum (CRC-32C). An existing path keeps its permissions; a directory or
    a symbolic link is refused. A tensor that is in the tree twice is written twice. SITU_E_STATE, and the old file
    stays: another thread changes a tensor meanwhile, by a step, say (docs/threads.md). */
SITU_API SITU_CHECKED situ_status situ_save(const char *path, const situ_tree *tree, const situ_save_options *options);

/* ---- loading ------------------------------------------------------------------------------ */

/** When the checksums of a file, if it has any, are compared with the values. */
typedef enum situ_verify {
  SITU_VERIFY_READ = 0, /**< for data that is read, not for mapped data */
  SITU_VERIFY_ALWAYS,
  SITU_VERIFY_NEVER
} situ_verify;

typedef struct situ_load_options {
  situ_device device; /**< device of the tensors; {0}: cpu */
  situ_verify verify;
  /** mmap the file instead of reading it: opening takes the same time for any size. Writes to the tensors stay private.
      If another program truncates the file meanwhile, this process is killed (SIGBUS): only for files that are not
      written in place. */
  bool map;
  bool lenient; /**< accept bytes after the last tensor, which some old writers leave */
  /** Of a program: the most iterations that all its loops make in one call, SITU_E_LIMIT beyond them. 0: 1,000,000. */
  int64_t max_iterations;
} situ_load_options;

/** Loads a whole file, whose format its first bytes tell; the caller frees the tree. NULL on error. A file may hold
    1,000,000 tensors; each takes about 1 KiB beside its data.

    safetensors, or an index and its shards: a flat dict in the order of the names. GGUF: likewise (gguf.h).

    torch.save (.pt, .pth, .bin, .pth.tar; PyTorch 0.1.10 and later, in either of its formats): the tree that was saved,
    in its order; an index of such files: a flat dict. Tensors, parameters, dicts, lists, tuples, numbers, bools,
    strings and None are read; a file that names any other function or class is SITU_E_UNSUPPORTED with that name, and
    nothing of it is ever called. None is none; a tuple is a list; a key that is an integer is its decimal text. An int
    is a 0-dim i64, a float a 0-dim f64, a bool a 0-dim bool, a string its UTF-8 bytes (u8), all on the cpu. Tensors of
    one storage share it, as in torch, if they are of one dtype. Tensors require no gradient, and the device that the
    file names is ignored. `verify`: the CRC-32 of the archive is compared by SITU_VERIFY_ALWAYS only, because torch can
    be told not to compute it. TorchScript (torch.jit.save): a dict of each module's parameters, buffers and other
    attributes; its code is not read. Big-endian files, the tar files of before 0.1.10, compressed entries, quantised,
    sparse and other special tensors, sets and bytes are refused. */
SITU_API situ_tree *situ_load(const char *path, const situ_load_options *options);

/** Loads the tensors of a model from any file of situ_load, as a flat dict for situ_nn_load_state_dict; the caller
    frees it. NULL on error.

    Of a file of torch.save it is the dict of tensors under "state_dict", "model_state_dict" or "model" (the first of
    these), without that prefix; without one of them all tensors of the dict that was saved, but for those under a key
    that has "optim" in it. situ_safetensors_left_at lists the other values with the reason. Among them are objects of
    other functions and classes (argparse.Namespace), of which nothing is made or called. A TorchScript file has no mark
    for an attribute that is a tensor and not a buffer: it is loaded too, but for those in lists and dicts. Other
    formats: as situ_load. */
SITU_API situ_tree *situ_load_weights(const char *path, const situ_load_options *options);

/** One tensor of a file, as described by the header. Texts live as long as the open file. */
typedef struct situ_file_entry {
  const char *name;
  const char *type; /**< the file's name for the dtype: "F32", "F8_E4M3", "<f4" */
  situ_dtype dtype; /**< SITU_DTYPE_DEFAULT: situ cannot load it */
  situ_shape shape;
  int64_t bytes;
  int64_t offset;   /**< of the first byte in its file */
  const char *file; /**< name of the shard in the index; "" for a single file */
} situ_file_entry;

/** An open file of one of the formats of situ_load, or all the shards of an index: to list tensors before loading, or
    to load only some. */
typedef struct situ_safetensors situ_safetensors;

/** Opens a file, or a "*.index.json" and its shards, and checks the whole header without reading data. In a file of
    torch.save a tensor's name is its path in the tree ("model.fc.weight"), and numbers, bools and strings are metadata
    ("epoch": "3"). Of a GGUF file, numbers, bools and strings are metadata as text, and of an array its length ("32000
    strings"). NULL on error. */
SITU_API situ_safetensors *situ_safetensors_open(const char *path, const situ_load_options *options);
/** Closes the file; mapped tensors keep their mapping. NULL is fine. */
SITU_API void situ_safetensors_close(situ_safetensors *file);
/** "safetensors", "torch" or "gguf"; "" for NULL. */
SITU_API const char *situ_safetensors_format(const situ_safetensors *file);
/** Number of tensors. */
SITU_API int64_t situ_safetensors_count(const situ_safetensors *file);
/** The index-th tensor, in the order of names; NULL (no error) out of range. */
SITU_API const situ_file_entry *situ_safetensors_entry(const situ_safetensors *file, int64_t index);
/** A tensor by name; NULL (no error) if there is no such tensor. */
SITU_API const situ_file_entry *situ_safetensors_find(const situ_safetensors *file, const char *name);
/** A metadata value by its key; NULL (no error) if there is none. */
SITU_API const char *situ_safetensors_metadata(const situ_safetensors *file, const char *key);
/** The index-th metadata entry, in the order of keys. Returns false (no error) out of range. */
SITU_API bool situ_safetensors_metadata_at(const situ_safetensors *file, int64_t index, situ_metadata *out);
/** The index-th value of files of torch.save that situ_load_weights leaves, and as `value` why: "optimizer" and "an
    optimiser's state", "epoch" and "a number, not a tensor". A dict or list of which nothing is loaded is one value.
    Returns false (no error) out of range. */
SITU_API bool situ_safetensors_left_at(const situ_safetensors *file, int64_t index, situ_metadata *out);
/** Loads one tensor, owned by the innermost scope; NULL on error. It shares memory with no other.
    Threads may load from one open file concurrently. */
SITU_API situ_tensor *situ_safetensors_load(situ_safetensors *file, const char *name);
/** Elements [from, from + count) of one tensor of a safetensors file, in the order of its memory, as one dimension.
    Reads their bytes alone, and so compares no checksum, unless they are all (see situ_safetensors_verify).
    SITU_E_UNSUPPORTED: of other formats. */
SITU_API situ_tensor *situ_safetensors_load_part(situ_safetensors *file, const char *name, int64_t from, int64_t count);
/** Reads one tensor of a safetensors file, keeps nothing of it, and compares its checksum, if there is one that
    situ_safetensors_load would compare. */
SITU_API SITU_CHECKED situ_status situ_safetensors_verify(situ_safetensors *file, const char *name);

/** Gives back the memory of a module's parameters and persistent buffers, on any device: saves them to a safetensors
    file at `path`, which must stay, and maps them there. Their values are the file's, read when they are used, on the
    cpu; writes to them stay private to the process. A move to another device reads them into its memory,
    situ_nn_unspill into the host's, and situ_nn_offload has them computed with on a device. Handles, names and an
    optimiser stay valid, and its state where it is. Tensors that share memory, and other buffers, keep theirs. On error
    nothing has changed but the file. SITU_E_STATE: a parameter has a gradient, which would be lost. */
SITU_API SITU_CHECKED situ_status situ_nn_spill(situ_nn_module *m, const char *path);

/* ---- checkpoints -------------------------------------------------------------------------- */

/** The state of a training run, from which it resumes exactly. */
typedef struct situ_checkpoint {
  situ_nn_module *model;
  situ_optim *optimizer; /**< may be NULL, as the next two */
  situ_lr_scheduler *scheduler;
  situ_generator *generator; /**< of the program, such as a loader's; the default one is saved too */
  int64_t epoch, step;       /**< progress, by the program's own count */
} situ_checkpoint;

/** Saves a checkpoint as a safetensors file (or shards), with the model's tensors named "model.PATH": readable by other
    programs. It has one state of all parts; SITU_E_STATE, as of situ_save, while another thread changes one. */
SITU_API SITU_CHECKED situ_status situ_checkpoint_save(const char *path, const situ_checkpoint *checkpoint,
                                                       const situ_save_options *options);
/** Restores the objects that `checkpoint` points to, the default generator, epoch and step. NULL fields are skipped; a
    part that is missing from the file is SITU_E_FORMAT. On error nothing has changed. */
SITU_API SITU_CHECKED situ_status situ_checkpoint_load(const char *path, situ_checkpoint *checkpoint,
                                                       const situ_load_options *options);

/* ---- NumPy's .npy ------------------------------------------------------------------------- */

/** Loads one array (numpy.load), owned by the innermost scope. Little-endian numbers and bools, C or Fortran order;
    structured types, objects and big-endian numbers are SITU_E_UNSUPPORTED. */
SITU_API situ_tensor *situ_npy_load(const char *path, const situ_load_options *options);
/** Saves one array (numpy.save), as crash-safe as situ_save. NumPy has no bf16, so it is refused: save f32. */
SITU_API SITU_CHECKED situ_status situ_npy_save(const char *path, situ_tensor *tensor,
                                                const situ_save_options *options);
/** Reads the header of a .npy file; out->name is "". */
SITU_API SITU_CHECKED situ_status situ_npy_info(const char *path, situ_file_entry *out);

SITU_END
#endif
