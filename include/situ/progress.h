/* A progress bar for loops, as tqdm draws it.
   SPDX-License-Identifier: MIT */
#ifndef SITU_PROGRESS_H
#define SITU_PROGRESS_H

#include "api.h"

SITU_BEGIN

/** A progress bar, on the caller's stack between situ_progress_begin and situ_progress_end. Its fields are private. On
    a terminal one line of stderr is redrawn at most ten times a second:

      epoch 3  62%|######2   | 34/56 [00:02<00:01, 15.9 batch/s] loss 0.213

    Elsewhere (a log file, a pipe) it is written once, at the end. Without colours if NO_COLOR is set, without block
    characters unless the locale is UTF-8. */
typedef struct situ_progress {
  char label[48];
  char unit[16];
  char note[80];
  int64_t done, total;
  double started, drawn; /* seconds of the monotonic clock */
  int columns;           /* of the line on the terminal; 0: not a terminal */
  bool utf8, color, quiet;
} situ_progress;

typedef struct situ_progress_options {
  const char *unit; /**< name of the unit that is counted; NULL: "it" */
  bool quiet;       /**< draw nothing */
} situ_progress_options;

/** Starts the clock and draws. total < 1: unknown, so only count and rate are shown. Long texts are truncated. */
SITU_API void situ_progress_begin(situ_progress *bar, const char *label, int64_t total,
                                  const situ_progress_options *options);
/** Adds n to the count. Cheap: reads a clock, and redraws the line if it is due. */
SITU_API void situ_progress_add(situ_progress *bar, int64_t n);
/** Sets the text at the end of the line, shown from the next redraw on: situ_progress_note(&bar, "loss
    %.3f", loss). */
SITU_API void situ_progress_note(situ_progress *bar, const char *fmt, ...) SITU_PRINTF(2, 3);
/** Draws the final state and ends the line. */
SITU_API void situ_progress_end(situ_progress *bar);

SITU_END
#endif
