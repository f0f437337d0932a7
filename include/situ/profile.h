/* Profiles: how long each op takes, what it reads and computes, and in which module (torch.profiler).
   Threads: a profile records the work of the thread that began it (docs/threads.md).
   SPDX-License-Identifier: MIT */
#ifndef SITU_PROFILE_H
#define SITU_PROFILE_H

#include "device.h"

SITU_BEGIN

/* if (situ_profile_begin(NULL) != SITU_OK) ...
   train_step();
   situ_profile *profile = situ_profile_end();
   situ_profile_print(profile);
   situ_profile_free(profile);

   Recorded are launches of kernels, copies between host and devices, and replays of graphs. Without a profile they cost
   nothing extra. */

/** What a thread did between situ_profile_begin and situ_profile_end. */
typedef struct situ_profile situ_profile;

typedef struct situ_profile_options {
  /** For devices with a queue (sim, opencl, cuda): do not wait for the work, so that the times are those of queueing it
      and the queue is undisturbed. By default each launch is waited for: its time is that of the work, and the whole
      takes longer, because nothing overlaps. */
  bool queued;
} situ_profile_options;

/** Starts recording what this thread does. options may be NULL. SITU_E_STATE if it records already. */
SITU_API SITU_CHECKED situ_status situ_profile_begin(const situ_profile_options *options);
/** Ends recording. The caller frees the profile: situ_profile_free. NULL if this thread records none, or if memory ran
    out meanwhile (SITU_E_NOMEM), which has not disturbed the work. */
SITU_API situ_profile *situ_profile_end(void);
/** NULL is fine. */
SITU_API void situ_profile_free(situ_profile *profile);

/* ---- reading it ---- */

/** One launch, copy or replay. */
typedef struct situ_profile_event {
  const char *name;      /**< the op that the program called: "linear", "linear backward", "add_"; valid for ever */
  const char *module;    /**< path of the module that ran: "model.fc1"; in backward, of the module whose forward it
                           differentiates; "": none. Valid for ever */
  const char *verb;      /**< what the device did: "matmul", "copy", ...; "transfer" between memories, "replay"; static
                           text */
  const char *algorithm; /**< of convolutions, products and attention on the cpu: the one that was chosen ("winograd",
                              "packed"), as SITU_CPU_CONV, SITU_CPU_MATMUL and SITU_CPU_ATTENTION name it; NULL:
                              of other work. Static text */
  situ_device device;    /**< where */
  situ_device from;      /**< of a transfer: its source; else device */
  double begin;          /**< seconds since situ_profile_begin */
  double seconds;
  uint64_t bytes;    /**< of the operands and results, each once; a broadcast operand counts what it has in memory */
  uint64_t used;     /**< bytes that live storages hold on `device` at its end, of all threads */
  double operations; /**< of products, convolutions, attention, Fourier transforms: multiplications and additions; of
                          other work: elements of the largest operand; 0 for copies and linear algebra */
} situ_profile_event;

/** Writes the events in the order of time, at most `capacity`, to out (may be NULL if capacity is 0). Returns how many
    there are; negative on error. */
SITU_API int64_t situ_profile_events(const situ_profile *profile, situ_profile_event *out, int64_t capacity);
/** Seconds from situ_profile_begin to situ_profile_end; NaN on error. */
SITU_API double situ_profile_seconds(const situ_profile *profile);

/** What events have in common to be one row. */
typedef enum situ_profile_key {
  SITU_PROFILE_NAME, /**< the op */
  SITU_PROFILE_MODULE,
  SITU_PROFILE_VERB,
  SITU_PROFILE_KEYS
} situ_profile_key;

/** Sums over the events of a key. */
typedef struct situ_profile_row {
  const char *key; /**< valid for ever */
  int64_t count;
  double seconds;
  uint64_t bytes;
  double operations;
} situ_profile_row;

/** Writes a row for each key, most seconds first, at most `capacity`, to out (may be NULL if capacity is 0). Returns
    how many there are; negative on error. */
SITU_API int64_t situ_profile_key_averages(const situ_profile *profile, situ_profile_key key, situ_profile_row *out,
                                           int64_t capacity);
/** A table of ops, each with the algorithms that computed it, and one of modules. Written to buffer (truncated at size,
    always terminated; may be NULL if size is 0); returns the length of the whole text, as snprintf does; negative on
    error. */
SITU_API int64_t situ_profile_to_string(const situ_profile *profile, char *buffer, size_t size);
/** Prints the text of situ_profile_to_string to stdout. */
SITU_API void situ_profile_print(const situ_profile *profile);
/** The events in Chrome's trace format, which chrome://tracing and ui.perfetto.dev show: modules inside each other, a
    track for each device, and the memory that is in use there. Written as by situ_profile_to_string. */
SITU_API int64_t situ_profile_json(const situ_profile *profile, char *buffer, size_t size);
/** Writes the text of situ_profile_json to a file, which is replaced as a whole. */
SITU_API SITU_CHECKED situ_status situ_profile_export_chrome_trace(const situ_profile *profile, const char *path);

SITU_END
#endif
