/* Looking at where modules are: sums, a tree in the terminal, a picture, JSON; remembering it:
   snapshots, what changed between two, lock files.
   SPDX-License-Identifier: MIT */
#ifndef SITU_PLACE_DRAW_H
#define SITU_PLACE_DRAW_H

#include "../nn.h"

SITU_BEGIN

/** What of a module is where. */
typedef struct situ_placement {
  int64_t parameters, buffers; /**< tensors, shared ones once */
  uint64_t bytes;              /**< of their storages, shared ones once */
  bool mixed;                  /**< on more than one device */
  situ_device device;          /**< the one device, if not mixed; {0}: no tensors */
} situ_placement;
SITU_API SITU_CHECKED situ_status situ_place_of(situ_nn_module *m, situ_placement *out);

/* Texts below are written as snprintf does: to buffer (cut at size, always ended; may be NULL if
   size is 0); what is returned is the length that the whole text has; negative on error. */

/* ---- a tree in the terminal ------------------------------------------------------------------ */

typedef struct situ_place_print_options {
  int depth;   /**< levels of modules that are shown; 0: all */
  bool expand; /**< show each block of a row of equal ones, not "0 .. 11: 12 x Block" and one */
  bool ascii;  /**< draw with |, + and - only */
  bool colour; /**< with the escape codes of a terminal */
} situ_place_print_options;

/** The module tree: for each tensor bytes, device, dtype, shape, role, and what it is tied to; for
    each module its sum and its devices; and a total for each device. A storage that several tensors
    share counts where it is first met. options may be NULL. */
SITU_API int64_t situ_place_to_string(situ_nn_module *m, const situ_place_print_options *options, char *buffer,
                                      size_t size);
/** Prints that to stdout: in colours on a terminal unless NO_COLOR is set, in ASCII unless the
    locale is of UTF-8. */
SITU_API void situ_place_print(situ_nn_module *m);

/* ---- a picture ------------------------------------------------------------------------------- */

/** A copy between devices: what travels from one module to another. */
typedef struct situ_place_edge {
  const char *from, *to; /**< paths of modules or tensors; of the root itself its name or type;
                               "" or NULL: an input, a result */
  situ_device from_device, to_device;
  uint64_t bytes;        /**< of all copies that this stands for */
  int64_t count;         /**< how many those are; 0: not told, one */
  const char *op, *site; /**< what copies, and the line of the program; NULL: not told */
} situ_place_edge;

typedef struct situ_place_svg_options {
  const char *title;            /**< NULL: the type of the module */
  const situ_place_edge *edges; /**< copies to draw as arrows */
  int64_t edge_count;
  int width, height; /**< of the picture in pixels; 0: 1200 x 800 */
} situ_place_svg_options;

/** Writes a picture: the module tree as nested areas, each as large as its bytes, coloured by
    device, with the copies as arrows. An SVG for light and dark pages; a browser shows the exact
    facts of each part under the mouse. Replaces path as a whole. options may be NULL. */
SITU_API SITU_CHECKED situ_status situ_place_svg(situ_nn_module *m, const char *path,
                                                 const situ_place_svg_options *options);

/* ---- for programs ---------------------------------------------------------------------------- */

/** The same facts as JSON: {"bytes", "devices": [{"device", "bytes", "tensors"}], "modules":
    [{"path", "type", "bytes", "devices"}], "tensors": [{"path", "role", "device", "dtype", "shape",
    "bytes", "tied"}]}, modules and tensors in torch's order, devices cpu first. "tied" is the path
    of the tensor whose storage it is, or null; the bytes of a tied tensor are 0. */
SITU_API int64_t situ_place_json(situ_nn_module *m, char *buffer, size_t size);

/* ---- snapshots ------------------------------------------------------------------------------- */

/** Where everything was at one moment: facts only, no tensors. */
typedef struct situ_snapshot situ_snapshot;

typedef enum situ_place_role {
  SITU_PLACE_MODULE = 0,
  SITU_PLACE_PARAMETER,
  SITU_PLACE_BUFFER,
  SITU_PLACE_TRANSIENT, /**< a buffer that is not saved */
  SITU_PLACE_TENSOR,    /**< of a file, which does not say what it is for */
  SITU_PLACE_ROLES
} situ_place_role;

/** One module or tensor. */
typedef struct situ_place_entry {
  const char *path; /**< "encoder.fc1.weight"; "" for the root */
  situ_place_role role;
  const char *type;   /**< of a module: "Linear"; of a tensor its dtype: "f32" */
  situ_device device; /**< of a tensor */
  situ_shape shape;   /**< of a tensor */
  uint64_t bytes;     /**< of a tensor's storage, 0 if it is tied; of a module the sum */
  const char *tied;   /**< path of an earlier entry that is the same storage or module */
} situ_place_entry;

/** Takes note of a module. To be freed; NULL on error. */
SITU_API situ_snapshot *situ_place_snapshot(situ_nn_module *m);
/** The same of facts that come from elsewhere (a file, a plan). Modules that only stand in the
    paths of others are added, and their sums are made; what belongs to one module must stand
    together. */
SITU_API situ_snapshot *situ_snapshot_of(const situ_place_entry *entries, int64_t count);
SITU_API void situ_snapshot_free(situ_snapshot *snapshot);
SITU_API int64_t situ_snapshot_count(const situ_snapshot *snapshot);
/** The i-th entry, modules before their parts; NULL (no error) out of range. */
SITU_API const situ_place_entry *situ_snapshot_at(const situ_snapshot *snapshot, int64_t i);

/** What the functions of the same names with `place` say of a module. */
SITU_API int64_t situ_snapshot_to_string(const situ_snapshot *snapshot, const situ_place_print_options *options,
                                         char *buffer, size_t size);
SITU_API void situ_snapshot_print(const situ_snapshot *snapshot);
SITU_API SITU_CHECKED situ_status situ_snapshot_svg(const situ_snapshot *snapshot, const char *path,
                                                    const situ_place_svg_options *options);
SITU_API int64_t situ_snapshot_json(const situ_snapshot *snapshot, char *buffer, size_t size);

/** What changed from one snapshot to another, a line for each tensor: "encoder.fc1.weight: cpu ->
    sim:0", added, removed, dtype, shape, role, tied or no longer. Length 0: nothing. */
SITU_API int64_t situ_place_diff(const situ_snapshot *before, const situ_snapshot *after, char *buffer, size_t size);

/** Reads a device's name without asking whether this machine has it: for plans and files. */
SITU_API SITU_CHECKED situ_status situ_place_device(const char *name, situ_device *out);

/* ---- lock files ------------------------------------------------------------------------------ */

/** Writes down where each tensor is (with role, dtype, shape and ties; a line each, for a version
    control system to keep). Replaces path as a whole. */
SITU_API SITU_CHECKED situ_status situ_place_lock_write(situ_nn_module *m, const char *path);
/** Is everything as the file says? If not: SITU_E_STATE, and the message lists what differs. */
SITU_API SITU_CHECKED situ_status situ_place_lock_check(situ_nn_module *m, const char *path);

SITU_END
#endif
