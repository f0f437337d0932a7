/* The transfer ledger: every copy between host and devices, with its bytes, its reason and the source line.
   Threads: a ledger is used on the thread that began it (docs/threads.md).
   SPDX-License-Identifier: MIT */
#ifndef SITU_LEDGER_H
#define SITU_LEDGER_H

#include "device.h"

SITU_BEGIN

/* situ_ledger l;
   situ_ledger_begin_none(&l);
   train_step();
   if (situ_ledger_end(&l) != SITU_OK) ...   the message lists each copy and its source line

   Copies are recorded only while a ledger is open; otherwise they cost nothing extra. */

typedef enum situ_direction {
  SITU_HOST_TO_DEVICE,
  SITU_DEVICE_TO_HOST,
  SITU_DEVICE_TO_DEVICE,
  SITU_DIRECTIONS
} situ_direction;

typedef struct situ_transfers {
  uint64_t count, bytes;
} situ_transfers;

typedef struct situ_ledger_options {
  bool all_threads;   /**< record the copies of all threads, not only of this one */
  bool none;          /**< any wait, and any copy but of images on one device, makes situ_ledger_end fail */
  bool allow_waits;   /**< with none: only copies do */
  bool allow_offload; /**< with none: copies of situ_nn_offload do not */
} situ_ledger_options;

/** An open ledger, on the caller's stack between begin and end. Its fields are private. */
typedef struct situ_ledger {
  situ_transfers sum[SITU_DIRECTIONS]; /* while open: the totals before it; afterwards: its own totals */
  uint64_t waits, offloads, images;    /* as sum; of the latter two their number */
  uint64_t first;                      /* number of its first transfer */
  double began;
  const void *thread;
  uint32_t depth, others; /* open ledgers of this thread, this one included; those before it that record all threads */
  bool open, all_threads, none, allow_waits, allow_offload;
} situ_ledger;

/** Starts recording the copies of this thread. Ledgers nest: a copy is recorded in every open one. */
SITU_API void situ_ledger_begin(situ_ledger *ledger);
/** situ_ledger_begin for code that must neither copy nor wait: both make situ_ledger_end fail. */
SITU_API void situ_ledger_begin_none(situ_ledger *ledger);
/** situ_ledger_begin with options, which may be NULL. */
SITU_API void situ_ledger_begin_with(situ_ledger *ledger, const situ_ledger_options *options);
/** Ends the ledger, and any inner one that was not ended. SITU_E_STATE if copies were made and none was allowed: the
    message lists each with its bytes, tensor and line, and the last wait. The totals stay available, the list of
    transfers does not. */
SITU_API SITU_CHECKED situ_status situ_ledger_end(situ_ledger *ledger);

/* ---- reading it: on the thread that began it ---- */

/** Count and bytes of all copies since it began; exact. */
SITU_API situ_transfers situ_ledger_total(const situ_ledger *ledger);
/** Count and bytes of the copies in one direction; exact. */
SITU_API situ_transfers situ_ledger_sum(const situ_ledger *ledger, situ_direction direction);

/** How often a device was waited for since it began: by situ_synchronize, or by a call that must know whether queued
    work has failed (situ_scatter_). A copy to or from the host may wait too, and is not counted here. Exact. */
SITU_API uint64_t situ_ledger_waits(const situ_ledger *ledger);

/** One copy. */
typedef struct situ_transfer {
  situ_device from, to;
  uint64_t bytes;
  const char *op; /**< the call that copied: "to", "item", "nn_to"; static text */
  /** "asked for", "read", "move", "policy", "input", "offload", "image", "fallback" or "internal"; static text */
  const char *reason;
  const char *role; /**< role of the tensor: "parameter", "buffer", "tensor", ...; static text */
  uint64_t storage; /**< serial number of the storage that was read (written, if the source is host memory); unique */
  uint32_t version; /**< number of writes to that storage so far */
  double seconds;   /**< since the ledger began */
  char tensor[64];  /**< its name or module path (the end of it, if it is too long); "" if it has none */
  char module[64];  /**< path of the module in whose call it was made, of "policy" and "input"; "" if in none */
  char at[160];     /**< source line of the program: "train.c:41 in step"; "" if unknown */
} situ_transfer;

/** Writes the newest transfers, oldest first, at most `capacity`, to out (may be NULL if capacity is 0). Returns how
    many are available: those among the newest 65536 of the process; negative on error. */
SITU_API int64_t situ_ledger_transfers(const situ_ledger *ledger, situ_transfer *out, int64_t capacity);

/** Repeated copies of one storage in the same direction at the same line. */
typedef struct situ_ledger_repeat {
  situ_transfer last; /**< the newest copy */
  situ_transfers sum;
} situ_ledger_repeat;

/** Finds repeated copies that are likely mistakes: of parameters and buffers to the device where they are used, changed
    or not; of any other tensor (and of all reads to the host) the same unchanged part, if few different tensors are
    copied at that line: so neither a new batch each step nor the parts of a dataset count. threshold: minimum number of
    copies; 0: 4. Writes the largest first, at most `capacity`, to out (may be NULL if capacity is 0). Returns how many
    there are; negative on error. */
SITU_API int64_t situ_ledger_repeats(const situ_ledger *ledger, int64_t threshold, situ_ledger_repeat *out,
                                     int64_t capacity);

/** The totals, one line per kind of copy, the largest first, and one line per repeated copy with a fix. Written to
    buffer (truncated at size, always terminated; may be NULL if size is 0); returns the length of the whole text, as
    snprintf does; negative on error. */
SITU_API int64_t situ_ledger_to_string(const situ_ledger *ledger, char *buffer, size_t size);
/** Prints the text of situ_ledger_to_string to stdout. */
SITU_API void situ_ledger_print(const situ_ledger *ledger);
/** The ledger as JSON, with every transfer: {"count", "bytes", "directions": {"host_to_device":
    {"count", "bytes"}, ...}, "repeats": [{..., "times"}], "transfers": [{"from", "to", "bytes", "op", "reason", "role",
    "tensor", "module", "storage", "version", "seconds", "at"}]}. */
SITU_API int64_t situ_ledger_json(const situ_ledger *ledger, char *buffer, size_t size);

SITU_END
#endif
