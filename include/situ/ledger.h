/* The ledger: every copy between memories, with its bytes, its reason and the line that asked for it.
   Threads: a ledger is used on the thread that began it (docs/threads.md).
   SPDX-License-Identifier: MIT */
#ifndef SITU_LEDGER_H
#define SITU_LEDGER_H

#include "device.h"

SITU_BEGIN

/* situ_ledger l;
   situ_ledger_begin_none(&l);
   train_step();
   if (situ_ledger_end(&l) != SITU_OK) ...   the message lists each copy that was made, and where

   Nothing is noted while no ledger is open, and then copies cost no more than ever. */

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
  bool all_threads; /**< note the copies of every thread, not of this one alone */
  bool none;        /**< no copy is allowed: situ_ledger_end reports what was made */
} situ_ledger_options;

/** An open ledger, on the caller's stack between begin and end. Its fields belong to the library. */
typedef struct situ_ledger {
  situ_transfers sum[SITU_DIRECTIONS]; /* while open: what there was before it; afterwards: what there was in it */
  uint64_t first;                      /* number of its first transfer */
  double began;
  const void *thread;
  uint32_t depth, others; /* open ledgers of this thread, this one included; those before it that note every thread */
  bool open, all_threads, none;
} situ_ledger;

/** Begins to note the copies that this thread makes. Ledgers nest: a copy is in each that is open. */
SITU_API void situ_ledger_begin(situ_ledger *ledger);
/** The same for a piece of code that must copy nothing. */
SITU_API void situ_ledger_begin_none(situ_ledger *ledger);
/** The same with options; NULL: situ_ledger_begin. */
SITU_API void situ_ledger_begin_with(situ_ledger *ledger, const situ_ledger_options *options);
/** Ends it, and any forgotten one inside it. SITU_E_STATE if none was allowed and there were some: the message has
    each with its bytes, tensor and line. The sums can still be asked for afterwards, the transfers not. */
SITU_API SITU_CHECKED situ_status situ_ledger_end(situ_ledger *ledger);

/* ---- looking at it: on the thread that began it ---- */

/** All copies since it began, exactly; and those in one direction. */
SITU_API situ_transfers situ_ledger_total(const situ_ledger *ledger);
SITU_API situ_transfers situ_ledger_sum(const situ_ledger *ledger, situ_direction direction);

/** One copy. */
typedef struct situ_transfer {
  situ_device from, to;
  uint64_t bytes;
  const char *op;     /**< the call that made it: "to", "item", "nn_to"; static text */
  const char *reason; /**< "asked for", "read", "move", "policy" or "internal"; static text */
  const char *role;   /**< what the tensor is: "parameter", "buffer", "tensor", ...; static text */
  uint64_t
      storage; /**< number of the storage that was read (written, where the source is no tensor): no other one ever has it */
  uint32_t version; /**< how often that storage had been written to */
  double seconds;   /**< since the ledger began */
  char tensor[64];  /**< its name or module path (the end of it, if it is longer); "" if it has none */
  char at[160];     /**< the line that asked for it: "train.c:41 in step"; "" if it cannot be told */
} situ_transfer;

/** The newest transfers, oldest first, at most `capacity`, into out (NULL if that is 0). Returns how many are known in
    detail: all but those before the newest 65536 of the process; negative on error. */
SITU_API int64_t situ_ledger_transfers(const situ_ledger *ledger, situ_transfer *out, int64_t capacity);

/** One storage that is copied the same way at the same line again and again. */
typedef struct situ_ledger_repeat {
  situ_transfer last; /**< the newest of them */
  situ_transfers sum;
} situ_ledger_repeat;

/** Finds them: a parameter or buffer that is copied to where it is used, whether or not it changed in between; of
    anything else (and whatever is read back) one and the same part that did not change, if it is one of few things
    copied at that line: neither a batch that is new each step nor the parts of a data set. threshold: from how many
    times on; 0: 4. The largest first, at most `capacity`, into out (NULL if that is 0). Returns how many there are;
    negative on error. */
SITU_API int64_t situ_ledger_repeats(const situ_ledger *ledger, int64_t threshold, situ_ledger_repeat *out,
                                     int64_t capacity);

/** The sums, a line for each kind of copy, the largest first, and a line for each repeated copy that says what to do.
    Written to buffer (cut at size, always ended; may be NULL if size is 0); returns the length that the whole text has,
    as snprintf does; negative on error. */
SITU_API int64_t situ_ledger_to_string(const situ_ledger *ledger, char *buffer, size_t size);
/** Prints that to stdout. */
SITU_API void situ_ledger_print(const situ_ledger *ledger);
/** The same for programs, each transfer of its own: {"count", "bytes", "directions": {"host_to_device":
    {"count", "bytes"}, ...}, "repeats": [{..., "times"}], "transfers": [{"from", "to", "bytes", "op", "reason", "role",
    "tensor", "storage", "version", "seconds", "at"}]}. */
SITU_API int64_t situ_ledger_json(const situ_ledger *ledger, char *buffer, size_t size);

SITU_END
#endif
