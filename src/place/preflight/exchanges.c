/* Calls between ranks in a preflight: what this rank sends and receives in a step.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/alloc.h"
#include "place/preflight/check.h"

static void free_texts(const situ_place_exchange *x) {
  situ__free((void *)(uintptr_t)x->op);
  situ__free((void *)(uintptr_t)x->name);
  situ__free((void *)(uintptr_t)x->module);
}

void situ__place_exchanges_free(situ_place_report *r) {
  for (int64_t i = 0; i < r->exchange_count; i++) free_texts(&r->exchanges[i]);
  situ__free(r->exchanges);
  r->exchanges = NULL;
  r->exchange_count = 0;
}

void situ__preflight_hear(situ__preflight *p) {
  situ__place_exchanges_free(&p->report);
  p->exchange_capacity = 0;
  p->hears = true;
}

/* The entry of such calls, which is added at the first one; NULL when memory runs out. */
static situ_place_exchange *entry_of(situ__preflight *p, const situ_dry_exchange *e, const char *module) {
  situ_place_report *r = &p->report;
  for (int64_t i = 0; i < r->exchange_count; i++) {
    situ_place_exchange *x = &r->exchanges[i];
    if (x->peer == e->peer && strcmp(x->op, e->op) == 0 && strcmp(x->name, e->name) == 0 &&
        strcmp(x->module, module) == 0)
      return x;
  }
  if (!situ__grow(NULL, &r->exchanges, &p->exchange_capacity, sizeof *r->exchanges, r->exchange_count + 1)) return NULL;
  situ_place_exchange *x = &r->exchanges[r->exchange_count];
  *x = (situ_place_exchange){
    .op = situ__strdup(e->op), .name = situ__strdup(e->name), .module = situ__strdup(module), .peer = e->peer
  };
  if (x->op && x->name && x->module) return r->exchange_count++, x;
  free_texts(x);
  return NULL;
}

void situ__preflight_exchanged(situ_dry *dry, const situ_dry_exchange *exchange) {
  situ__preflight *p = (situ__preflight *)dry;
  char module[SITU__PREFLIGHT_PATH];
  if (!p->hears) return;
  situ_place_exchange *x = entry_of(p, exchange, situ__preflight_running(p, module));
  if (!x) {
    p->failed = true;
    return;
  }
  x->count++;
  x->sent += exchange->sent;
  x->received += exchange->received;
}
