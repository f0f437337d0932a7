/* Explains the placement of one tensor.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>

#include "base/fail.h"
#include "base/text.h"
#include "place/draw/snapshot.h"
#include "situ/autograd.h"
#include "situ/place/explain.h"
#include "situ/sys/explain.h"
#include "situ/sys/part.h"
#include "situ/sys/tensor.h"

enum { NAMED = 4 }; /* relatives that are named; the others are counted */

/* The tensor's path or name. */
enum { LABEL = SITU_PATH_TEXT + 16 };
static const char *label(const situ_tensor *t, situ_explained *x, char text[LABEL]) {
  *x = (situ_explained){ .tensor = t };
  situ_explain_look(&(situ_explanation){ .operand = x, .count = 1 });
  const char *name = situ_name(t);
  bool own = *x->path && !x->view;
  if (x->view && !*name) snprintf(text, LABEL, "a view of %s", x->path);
  else snprintf(text, LABEL, "%s", own ? x->path : *name ? name : "a tensor without a name");
  return text;
}

static const char *role(const situ_explained *x) {
  return x->held == SITU_HELD_UNREGISTERED ? "plain tensor (not registered)" : situ_role_name(situ_role_of(x->tensor));
}

typedef struct kin {
  situ__text names[SITU_RELATIONS];
  int count[SITU_RELATIONS];
} kin;

static void meet(situ_relation how, const situ_tensor *other, void *payload) {
  kin *k = payload;
  situ_explained x;
  char name[LABEL];
  int met = k->count[how]++;
  if (met < NAMED) situ__text_add(&k->names[how], "%s%s", met ? ", " : "", label(other, &x, name));
}

static void add_kin(situ__text *text, kin *k) {
  static const char *const title[] = {
    [SITU_SHARES] = "shared with", [SITU_FOLLOWS] = "follows", [SITU_LEADS] = "followed by"
  };
  for (int how = 0; how < SITU_RELATIONS; how++) {
    if (!k->count[how]) continue;
    situ__text_add(text, "\n  %-12s %s", title[how], k->names[how].data ? k->names[how].data : "?");
    if (k->count[how] > NAMED) situ__text_add(text, " and %d more", k->count[how] - NAMED);
  }
}

static bool explain(const situ_tensor *t, situ__text *text) {
  situ_facts facts;
  if (!situ_facts_of("explain", t, &facts)) return false;
  situ_explained x;
  situ_shape shape = situ_shape_of(t);
  situ_part whole = { .whole = shape };
  SITU_IGNORE(situ_part_of(t, &whole));
  char part[SITU__PLACE_PART];
  char name[LABEL], sizes[SITU_SHAPE_TEXT], device[SITU_DEVICE_NAME_MAX], bytes[SITU__BYTES_TEXT];
  situ__text_add(text, "%s", label(t, &x, name));
  situ__text_add(text, "\n  %-12s %s, %s %s, %s", "is a", role(&x), situ_dtype_name(situ_dtype_of(t)),
                 situ_shape_text(&shape, sizes),
                 situ__bytes_text((uint64_t)situ_numel(t) * situ_dtype_size(situ_dtype_of(t)), bytes));
  if (x.view) situ__text_add(text, ", a view of %s", x.path);
  situ_device_name(situ_device_of(t), device);
  if (facts.moved_by)
    situ__text_add(text, "\n  %-12s %s, because situ_%s moved it there at %s", "is on", device, facts.moved_by,
                   *facts.moved ? facts.moved : "a place that is not known");
  else situ__text_add(text, "\n  %-12s %s, because it was made there and never moved", "is on", device);
  if (*facts.adopted) situ__text_add(text, "\n  %-12s %s was adopted at %s", "device", device, facts.adopted);
  if (facts.memory) situ__text_add(text, "\n  %-12s %s", "memory", facts.memory);
  if (*facts.created) situ__text_add(text, "\n  %-12s %s", "created at", facts.created);
  if (x.held == SITU_HELD_UNREGISTERED)
    situ__text_add(text, "\n  %-12s nothing: register it (situ_nn_buffer), or it stays behind", "moves with");
  if (situ_requires_grad(t) && !situ_is_leaf(t) && !situ_grad(t))
    situ__text_add(text,
                   "\n  %-12s goes to the leaves that it was made of, since it is the result of an op; "
                   "situ_retain_grad keeps it here, too",
                   "gradient");
  kin k = { .count = { 0 } };
  situ_each_relative(t, meet, &k);
  add_kin(text, &k);
  for (int how = 0; how < SITU_RELATIONS; how++) situ__text_free(&k.names[how]);
  if (situ__place_part(t, part))
    situ__text_add(text, "\n  %-12s has %s of %s, %s", "this rank", part, situ_shape_text(&whole.whole, sizes),
                   situ__bytes_text(situ__place_bytes(t), bytes));
  situ__text_add(text, "\n  %-12s %s (version %" PRIu32 ")", "values",
                 situ_memory_is_away(t) ? "in parts on the ranks"
                 : facts.written        ? situ_has_values(t) ? "written" : "written in part"
                                        : "none yet: nothing was written since it was made",
                 situ_version_of(t));
  if (text->failed) situ__no_memory("explain", text->capacity);
  return !text->failed;
}

int64_t situ_explain_to_string(situ_tensor *t, char *buffer, size_t size) {
  situ__text text = { 0 };
  if (explain(t, &text)) return situ__text_give(&text, buffer, size);
  situ__text_free(&text);
  return -1;
}

void situ_explain(situ_tensor *t) {
  situ__text text = { 0 };
  if (explain(t, &text)) puts(text.data);
  situ__text_free(&text);
}
