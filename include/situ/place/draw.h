/* Showing where modules are: totals, a tree in the terminal, an SVG, JSON; recording it: snapshots, their differences,
   lock files.
   SPDX-License-Identifier: MIT */
#ifndef SITU_PLACE_DRAW_H
#define SITU_PLACE_DRAW_H

#include "../nn.h"
#include "../optim.h"

SITU_BEGIN

/** Totals of a module. */
typedef struct situ_placement {
  int64_t parameters, buffers; /**< number of tensors, shared ones once */
  uint64_t bytes;              /**< bytes of their storages, shared ones once */
  bool mixed;                  /**< on more than one device */
  situ_device device;          /**< the one device, if not mixed; {0}: no tensors */
} situ_placement;
/** Fills *out. */
SITU_API SITU_CHECKED situ_status situ_place_of(situ_nn_module *m, situ_placement *out);

/* Texts below are written as snprintf does: to buffer (truncated at size, always terminated; may be NULL if size is 0);
   the result is the length of the whole text; negative on error. */

/* ---- a tree in the terminal ------------------------------------------------------------------ */

typedef struct situ_place_print_options {
  int depth;    /**< levels of modules; 0: all */
  bool expand;  /**< show each of several equal blocks, instead of "0 .. 11: 12 x Block" and one */
  bool ascii;   /**< draw with |, + and - only */
  bool colour;  /**< with terminal escape codes */
  bool reasons; /**< behind each tensor why it is there: "moved by nn_to at train.c:12 in main" */
} situ_place_print_options;

/** The module tree: for each tensor bytes, device, dtype, shape, role, and the tensor that it is tied to; for each
    module its bytes and devices; and a total for each device. Behind the shape of what ranks have in parts is this
    rank's part, whose bytes are counted. A storage shared by several tensors counts at its first
    occurrence. options may be NULL. */
SITU_API int64_t situ_place_to_string(situ_nn_module *m, const situ_place_print_options *options, char *buffer,
                                      size_t size);
/** Prints the tree to stdout: in colours on a terminal unless NO_COLOR is set, in ASCII unless the
    locale is UTF-8. */
SITU_API void situ_place_print(situ_nn_module *m);

/* ---- an SVG ---------------------------------------------------------------------------------- */

/** A copy between devices, from one module to another. */
typedef struct situ_place_edge {
  const char *from, *to; /**< paths of modules or tensors; for the root its name or type;
                               "" or NULL: an input, a result */
  situ_device from_device, to_device;
  uint64_t bytes;        /**< total of all copies of this edge */
  int64_t count;         /**< number of copies; 0: unknown, drawn as one */
  const char *op, *site; /**< the op that copies, and the source line; NULL: unknown */
} situ_place_edge;

typedef struct situ_place_svg_options {
  const char *title;            /**< NULL: the type of the module */
  const situ_place_edge *edges; /**< copies to draw as arrows */
  int64_t edge_count;
  int width, height; /**< of the picture in pixels; 0: 1200 x 800 */
} situ_place_svg_options;

/** Writes an SVG treemap: the module tree as nested areas, sized by bytes, coloured by device, with the copies as
    arrows, for light and dark pages; a browser shows the exact numbers of each part under the mouse. Replaces the file
    path atomically. options may be NULL. */
SITU_API SITU_CHECKED situ_status situ_place_svg(situ_nn_module *m, const char *path,
                                                 const situ_place_svg_options *options);

/* ---- JSON ------------------------------------------------------------------------------------ */

/** The placement as JSON: {"bytes", "devices": [{"device", "bytes", "tensors"}], "modules":
    [{"path", "type", "bytes", "devices"}], "tensors": [{"path", "role", "device", "dtype", "shape",
    "part", "bytes", "reason", "by", "at", "tied"}]}, modules and tensors in torch's order, devices cpu first. "part" is
    only there if ranks have it in parts; "reason", "by" and "at" as in a situ_place_entry, where they are known. "tied"
    is the path of the tensor whose storage it shares, or null; the bytes of a tied tensor are 0. */
SITU_API int64_t situ_place_json(situ_nn_module *m, char *buffer, size_t size);

/* ---- snapshots ------------------------------------------------------------------------------- */

/** The placement of a module at one time, without its tensors. */
typedef struct situ_snapshot situ_snapshot;

typedef enum situ_place_role {
  SITU_PLACE_MODULE = 0,
  SITU_PLACE_PARAMETER,
  SITU_PLACE_BUFFER,
  SITU_PLACE_TRANSIENT, /**< a non-persistent buffer */
  SITU_PLACE_TENSOR,    /**< of a file, which does not record roles */
  SITU_PLACE_GRAD,      /**< of a parameter, as the next ones by situ_place_snapshot_with alone */
  SITU_PLACE_STATE,     /**< of an optimiser */
  SITU_PLACE_PLAIN,     /**< a tensor that a field of a module shows, and that is not registered */
  SITU_PLACE_ROLES
} situ_place_role;

/** One module or tensor. */
typedef struct situ_place_entry {
  const char *path; /**< "encoder.fc1.weight"; "" for the root */
  situ_place_role role;
  const char *type;   /**< module: "Linear"; tensor: its dtype, "f32" */
  situ_device device; /**< tensor: where it is; module: where it computes, if it is offloaded (situ_nn_offload) */
  situ_shape shape;   /**< tensors only; of the whole tensor, if ranks have it in parts */
  uint64_t bytes;     /**< tensor: of its storage, 0 if it is tied, of this rank's part; module: the sum */
  const char *tied;   /**< path of an earlier entry with the same storage or module */
  int rank;           /**< tensors only: whose memory it is in, where several ranks are shown (situ_dist_snapshot) */
  const char *part;   /**< tensors only: the elements that this rank has of one that ranks have in parts: "[0:48]" of
                           all, in order (ZeRO), "[0:16,:]" along dimensions (tensor parallel); NULL: all */
  /** Tensors only: why it is on its device, NULL if that is not known. "made": made there, on a stated device or that
      of its operands; "default": made there because no device was stated; "moved"; "mapped": by a map of devices;
      "loaded": brought there with its value from a file. */
  const char *reason;
  const char *by; /**< the call that moved, mapped or loaded it, "nn_to"; NULL: none */
  const char *at; /**< the line of that, or where it was made, "train.c:12 in main"; NULL: not known */
} situ_place_entry;

/** Takes a snapshot of a module; the caller frees it. NULL on error. */
SITU_API situ_snapshot *situ_place_snapshot(situ_nn_module *m);

/** What a snapshot has beside parameters and buffers. */
typedef struct situ_snapshot_options {
  bool gradients;            /**< "fc.weight:grad", behind the parameter */
  bool plain;                /**< "fc.offset:plain", by the tensor's name; without one by the field: "fc.+192:plain" */
  situ_optim *const *optims; /**< whose states are in it: "fc.weight:exp_avg"; NULL: none */
  int64_t optim_count;
  bool reasons; /**< why each tensor is where it is; finding source lines takes milliseconds */
} situ_snapshot_options;
/** situ_place_snapshot with more than what moves; options may be NULL. */
SITU_API situ_snapshot *situ_place_snapshot_with(situ_nn_module *m, const situ_snapshot_options *options);
/** A snapshot from entries (of a file, a plan); the caller frees it. Modules that occur only in paths are added with
    their sums; the entries of one module must be consecutive. */
SITU_API situ_snapshot *situ_snapshot_of(const situ_place_entry *entries, int64_t count);
/** Frees a snapshot. NULL is fine. */
SITU_API void situ_snapshot_free(situ_snapshot *snapshot);
/** Number of entries. */
SITU_API int64_t situ_snapshot_count(const situ_snapshot *snapshot);
/** The i-th entry, modules before their parts; NULL (no error) out of range. */
SITU_API const situ_place_entry *situ_snapshot_at(const situ_snapshot *snapshot, int64_t i);

/** situ_place_to_string for a snapshot. */
SITU_API int64_t situ_snapshot_to_string(const situ_snapshot *snapshot, const situ_place_print_options *options,
                                         char *buffer, size_t size);
/** situ_place_print for a snapshot. */
SITU_API void situ_snapshot_print(const situ_snapshot *snapshot);
/** situ_place_svg for a snapshot. */
SITU_API SITU_CHECKED situ_status situ_snapshot_svg(const situ_snapshot *snapshot, const char *path,
                                                    const situ_place_svg_options *options);
/** situ_place_json for a snapshot. */
SITU_API int64_t situ_snapshot_json(const situ_snapshot *snapshot, char *buffer, size_t size);

/** The tree as a graph for Graphviz (`dot -Tsvg`): modules and tensors, coloured by device, and as dashed arrows the
    copies, of which there may be none. */
SITU_API int64_t situ_snapshot_dot(const situ_snapshot *snapshot, const situ_place_edge *edges, int64_t count,
                                   char *buffer, size_t size);

/** The differences between two snapshots, one line per tensor: "encoder.fc1.weight: cpu -> sim:0", added, removed,
    dtype, shape, role, tied or no longer. Length 0: no differences. */
SITU_API int64_t situ_place_diff(const situ_snapshot *before, const situ_snapshot *after, char *buffer, size_t size);

/** situ_device_parse without checking that this machine has the device: for plans and files. */
SITU_API SITU_CHECKED situ_status situ_place_device(const char *name, situ_device *out);

/* ---- lock files ------------------------------------------------------------------------------ */

/** Writes a lock file: device, role, dtype, shape, ties, part and reason of each tensor, one per line, for version
    control. Replaces the file path atomically. */
SITU_API SITU_CHECKED situ_status situ_place_lock_write(situ_nn_module *m, const char *path);
/** Compares a module with a lock file; SITU_E_STATE if it differs, and the message lists the differences, with the
    reasons why tensors are elsewhere now. Reasons themselves are not compared. */
SITU_API SITU_CHECKED situ_status situ_place_lock_check(situ_nn_module *m, const char *path);
/** situ_place_lock_write for a snapshot, of several ranks too. */
SITU_API SITU_CHECKED situ_status situ_snapshot_lock_write(const situ_snapshot *snapshot, const char *path);
/** situ_place_lock_check for a snapshot. */
SITU_API SITU_CHECKED situ_status situ_snapshot_lock_check(const situ_snapshot *snapshot, const char *path);

SITU_END
#endif
