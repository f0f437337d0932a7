/* Headers: whether two ranks are at the same call, and what they say if not.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>

#include "comm.h"

const char *situ_comm_op_name(situ_comm_op op) {
  static const char *const name[] = { "all_reduce", "reduce_scatter", "all_gather", "broadcast",
                                      "all_to_all", "send",           "receive",    "barrier" };
  return (unsigned)op < sizeof name / sizeof *name ? name[op] : "?";
}

const char *situ__comm_call_text(const situ__comm_header *h, char text[SITU__COMM_NAME * 3]) {
  char number[32] = "";
  if (h->number) (void)snprintf(number, sizeof number, "call %" PRId64 ", ", h->number);
  (void)snprintf(text, SITU__COMM_NAME * 3, "%s%s%.63s%s (%sstep %" PRId64 ")", situ_comm_op_name((situ_comm_op)h->op),
                 *h->name ? " \"" : "", h->name, *h->name ? "\"" : "", number, h->step);
  return text;
}

/* The op that a peer must be in when this rank is in `op`. */
static int32_t counterpart(int32_t op) {
  return op == SITU_COMM_SEND ? SITU_COMM_RECEIVE : op == SITU_COMM_RECEIVE ? SITU_COMM_SEND : op;
}

static const char *reduction_name(int32_t reduction) {
  static const char *const name[] = { "sum", "min", "max" };
  return (uint32_t)reduction < 3 ? name[reduction] : "?";
}

/* The values that must be the same; what differs is in all texts, so that each rank's message shows both sides. */
static void values_text(const situ__comm_header *h, char text[64]) {
  const bool reduces = h->op == SITU_COMM_ALL_REDUCE || h->op == SITU_COMM_REDUCE_SCATTER;
  int n = snprintf(text, 64, "%" PRId64 " x %s", h->count, situ_dtype_name((situ_dtype)h->dtype));
  if (reduces) n += snprintf(text + n, 64 - (size_t)n, ", %s", reduction_name(h->reduction));
  if (h->op == SITU_COMM_BROADCAST) n += snprintf(text + n, 64 - (size_t)n, ", from rank %d", (int)h->peer);
  if (h->op == SITU_COMM_ALL_TO_ALL && h->peer)
    (void)snprintf(text + n, 64 - (size_t)n, ", node_size %d", (int)h->peer);
  if (situ__comm_is_pair((situ_comm_op)h->op))
    (void)snprintf(text + n, 64 - (size_t)n, ", behind call %" PRId64, h->behind);
}

bool situ__comm_match(const situ__comm_header *mine, const situ__comm_header *its, int rank, int peer,
                      char text[SITU__COMM_TEXT]) {
  if (its->magic != SITU__COMM_MAGIC) {
    (void)snprintf(text, SITU__COMM_TEXT, "rank %d runs another version of the library", peer);
    return false;
  }
  const bool pair = situ__comm_is_pair((situ_comm_op)mine->op);
  if (its->op == counterpart(mine->op) && its->dtype == mine->dtype && its->count == mine->count &&
      its->reduction == mine->reduction && its->number == mine->number && its->behind == mine->behind &&
      its->step == mine->step && strncmp(its->name, mine->name, SITU__COMM_NAME) == 0 &&
      its->peer == (pair ? rank : mine->peer))
    return true;
  char a[SITU__COMM_NAME * 3], b[SITU__COMM_NAME * 3], here[64], there[64];
  values_text(mine, here);
  values_text(its, there);
  (void)snprintf(text, SITU__COMM_TEXT,
                 "calls of ranks do not match: rank %d in %.150s of %.63s, rank %d in %.150s of %.63s", rank,
                 situ__comm_call_text(mine, a), here, peer, situ__comm_call_text(its, b), there);
  return false;
}
