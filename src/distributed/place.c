/* Placement over several ranks: moves that all make or none, plans and checks of all.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "distributed/comm/comm.h"
#include "situ/dist.h"

enum { WORDS = SITU__COMM_WORDS };

/* ---- moves ---- */

/* The options' own question is asked first. */
typedef struct motion {
  situ_comm *comm;
  const situ_nn_to_options *given;
  bool asked;
} motion;

static bool agree(void *payload) {
  motion *w = payload;
  if (w->given->agree && !w->given->agree(w->given->payload)) return false;
  w->asked = true;
  return situ__comm_all_ready("dist_to", w->comm, NULL, SITU_E_COMM);
}

situ_status situ_dist_to(situ_nn_module *m, situ_comm *comm, const situ_nn_to_options *options) {
  static const char op[] = "dist_to";
  if (!situ__comm_given(op, comm)) return situ_error();
  motion w = { .comm = comm, .given = options };
  situ_nn_to_options asking = options ? *options : (situ_nn_to_options){ .lossy = false };
  asking.agree = agree, asking.payload = &w;
  const situ_status status = options ? situ_nn_to_with(m, &asking) : situ__null(op, "options");
  if (status != SITU_OK && !w.asked) (void)situ__comm_all_ready(op, comm, situ_error_message(), SITU_E_COMM);
  return status;
}

/* ---- plans ---- */

typedef struct prospect {
  situ_place_plan plan;
  char words[WORDS]; /* the plan's verdict */
} prospect;

/* The line of a plan's text behind that of the memory: that it can be made, or why not. */
static void keep_verdict(const char *text, prospect *p) {
  const char *memory = strstr(text, "\nmemory needed meanwhile"), *end = memory ? strchr(memory + 1, '\n') : NULL;
  const char *verdict = end ? end + 1 : "";
  (void)snprintf(p->words, sizeof p->words, "%.*s", (int)strcspn(verdict, "\n"), verdict);
}

static bool plan_own(situ_nn_module *m, const situ_nn_to_options *options, prospect *p) {
  const int64_t length = situ_place_plan_to_string(m, options, &p->plan, NULL, 0);
  if (length < 0) return false;
  char *text = situ__alloc((size_t)length + 1);
  if (!text) return situ__no_memory("dist_plan_to_string", (size_t)length + 1), false;
  const bool good = situ_place_plan_to_string(m, options, &p->plan, text, (size_t)length + 1) >= 0;
  if (good) keep_verdict(text, p);
  situ__free(text);
  return good;
}

static void describe(situ__text *text, const prospect *all, int ranks) {
  char before[SITU__BYTES_TEXT], after[SITU__BYTES_TEXT], peak[SITU__BYTES_TEXT];
  situ__text_add(text, "%4s %9s %12s %12s %12s\n", "rank", "storages", "bytes", "then", "meanwhile");
  for (int r = 0; r < ranks; r++) {
    const situ_place_plan *p = &all[r].plan;
    situ__text_add(text, "%4d %9" PRId64 " %12s %12s %12s  %.*s\n", r, p->storages, situ__bytes_text(p->bytes, before),
                   situ__bytes_text(p->after, after), situ__bytes_text(p->peak, peak), WORDS - 1, all[r].words);
  }
}

int64_t situ_dist_plan_to_string(situ_nn_module *m, situ_comm *comm, const situ_nn_to_options *options,
                                 situ_place_plan *plans, char *buffer, size_t size) {
  static const char op[] = "dist_plan_to_string";
  if (!situ__comm_given(op, comm) || (size && !situ__given(op, "buffer", buffer))) return -1;
  prospect mine = { .words = "" }, *all = situ__alloc((size_t)comm->size * sizeof *all);
  if (!all) situ__no_memory(op, (size_t)comm->size * sizeof *all);
  const bool planned = all && plan_own(m, options, &mine);
  int64_t length = -1;
  if (situ__comm_all_ready(op, comm, planned ? NULL : situ_error_message(), SITU_E_COMM) &&
      situ__comm_gather(op, comm, op, 0, &mine, all, sizeof mine)) {
    situ__text text = { 0 };
    describe(&text, all, comm->size);
    for (int r = 0; plans && r < comm->size; r++) plans[r] = all[r].plan;
    length = situ__text_deliver(op, &text, buffer, size);
  }
  situ__free(all);
  return length;
}

/* ---- checks ---- */

/* The first lines of a report. */
static void keep_findings(const situ_place_report *report, char words[WORDS]) {
  if (situ_place_report_to_string(report, words, WORDS) < 0) (void)snprintf(words, WORDS, "%s", situ_error_message());
}

situ_status situ_dist_check(situ_nn_module *m, const situ_tree *inputs, situ_comm *comm,
                            const situ_place_check_options *options, situ_place_report *report) {
  static const char op[] = "dist_check";
  if (!situ__comm_given(op, comm)) return situ_error();
  situ_place_report own = { .finished = false };
  char words[WORDS];
  situ_status status = situ_place_check(m, inputs, options, &own);
  if (status != SITU_OK) (void)snprintf(words, sizeof words, "%s", situ_error_message());
  else if (own.mistakes) keep_findings(&own, words);
  const bool wrong = status != SITU_OK || own.mistakes;
  if (!situ__comm_all_ready(op, comm, wrong ? words : NULL, SITU_E_STATE) && status == SITU_OK)
    status = own.mistakes ? situ__fail(SITU_E_STATE, op, "rank %d: %s", comm->rank, words) : situ_error();
  if (report) *report = own;
  else situ_place_report_free(&own);
  return status;
}
