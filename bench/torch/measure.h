// What the programs beside libtorch share: time of this process, medians, and both sides in turn.
// SPDX-License-Identifier: MIT
#ifndef SITU_BENCH_TORCH_MEASURE_H
#define SITU_BENCH_TORCH_MEASURE_H

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <vector>

#include "situ/situ.h"

#include "../support/rounds.h"

// Processor time of this process: both sides run on one thread, and a neighbour on the machine does not count.
inline double seconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

// Seconds a call takes, over `calls` of them.
inline double time_of(const std::function<void()> &f, int calls) {
  double begin = seconds();
  for (int i = 0; i < calls; i++) f();
  return (seconds() - begin) / calls;
}

inline double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

inline void need(situ_status status) {
  if (status == SITU_OK) return;
  std::fprintf(stderr, "%s\n", situ_error_message());
  std::exit(1);
}

struct goal {
  const char *id, *what;
  double must;
  std::function<void()> ours, theirs;
  int calls, their_calls;
};

// Both sides in turn, so that a slow moment of the machine hits both; the ratio of each quiet round, then its median.
inline void measure(const goal &g) {
  double ratio[ROUNDS_MAX], ours[ROUNDS_MAX], theirs[ROUNDS_MAX];
  time_of(g.ours, g.calls / 4 + 1);
  time_of(g.theirs, g.their_calls / 4 + 1);
  rounds r = {};
  r.wanted = 21;
  r.threads = 1;
  while (next_round(&r)) {
    ours[r.now] = time_of(g.ours, g.calls);
    theirs[r.now] = time_of(g.theirs, g.their_calls);
    ratio[r.now] = theirs[r.now] / ours[r.now];
  }
  const int kept = keep_quiet(&r, ratio);
  keep_quiet(&r, ours);
  keep_quiet(&r, theirs);
  double result = median({ ratio, ratio + kept });
  std::printf("%-4s %-44s %10.0f ns %12.0f ns %9.1fx  must %gx  %s\n", g.id, g.what,
              1e9 * median({ ours, ours + kept }), 1e9 * median({ theirs, theirs + kept }), result, g.must,
              result >= g.must ? "met" : "NOT MET");
  std::sort(ratio, ratio + kept);
  std::printf("{\"goal\": \"%s\", \"what\": \"%s\", \"ratio\": %.3f, \"low\": %.3f, \"high\": %.3f, "
              "\"must\": %g%s}\n",
              g.id, g.what, result, ratio[kept / 4], ratio[3 * kept / 4], g.must,
              was_disturbed(&r) ? ", \"disturbed\": true" : "");
  std::fflush(stdout);
}

#endif
