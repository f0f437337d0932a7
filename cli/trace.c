/* Traces a program with the free sizes that its file leaves free, as far as a program can have them.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

enum { NAME = 96 };

typedef struct free_sizes {
  situ_export_dim *dim;
  char (*name)[NAME]; /* of each */
  bool *kept;         /* it is free in the new file, too */
  int64_t count;
} free_sizes;

static int64_t count_sizes(const situ_nn_module *program) {
  situ_export_input in;
  int64_t count = 0;
  for (int64_t i = 0; situ_export_input_at(program, i, &in); i++)
    for (int d = 0; d < in.ndim; d++) count += in.size[d].size < 0;
  return count;
}

/* A size without a name has one of its own, INPUT_DIM. */
static void list_sizes(const situ_nn_module *program, free_sizes *f) {
  situ_export_input in;
  for (int64_t i = 0; situ_export_input_at(program, i, &in); i++)
    for (int d = 0; d < in.ndim; d++) {
      const situ_export_size *s = &in.size[d];
      if (s->size >= 0) continue;
      char *name = f->name[f->count];
      if (*s->symbol) snprintf(name, NAME, "%s", s->symbol);
      else snprintf(name, NAME, "%.*s_%d", NAME - 16, in.name, d);
      f->dim[f->count++] = (situ_export_dim){ .input = in.name,
                                              .dim = d,
                                              .name = name,
                                              .least = s->least,
                                              .most = s->most < INT64_MAX ? s->most : 0,
                                              .multiple = s->multiple };
    }
}

static situ_nn_module *trace(situ_nn_module *program, const situ_tree *inputs, const free_sizes *f) {
  situ_export_dim *dim = malloc(((size_t)f->count + 1) * sizeof *dim);
  int64_t count = 0;
  for (int64_t i = 0; dim && i < f->count; i++)
    if (f->kept[i]) dim[count++] = f->dim[i];
  situ_nn_module *traced = situ_export_dynamic(program, inputs, dim, count);
  free(dim);
  return traced;
}

static void keep(free_sizes *f, const char *name, bool kept, int64_t multiple) {
  for (int64_t i = 0; i < f->count; i++)
    if (strcmp(f->name[i], name) == 0) f->kept[i] = kept, f->dim[i].multiple = multiple;
}

static void tell(const situ_export_dim *d, const char *how, int64_t number, const char *why) {
  char shown[CLI_SHOWN];
  fprintf(stderr, "situ: note: %s is %s %" PRId64 " in the new file: %s\n", cli_shown(d->name, strlen(d->name), shown),
          how, number, why);
}

/* The program with one size more that is free, in multiples of 32 if not otherwise: nets for images halve them. NULL:
   it is fixed. */
static situ_nn_module *trace_more(situ_nn_module *program, const situ_tree *inputs, free_sizes *f, int64_t i) {
  enum { HALVED = 32 };
  const int64_t size = situ_shape_of(situ_tree_get(inputs, f->dim[i].input)).dim[f->dim[i].dim];
  const int64_t own = f->dim[i].multiple;
  situ_error_clear();
  keep(f, f->name[i], true, own);
  situ_nn_module *traced = trace(program, inputs, f);
  if (traced) return traced;
  char why[256]; /* the first line */
  snprintf(why, sizeof why, "%.*s", (int)strcspn(situ_error_message(), "\n"), situ_error_message());
  situ_error_clear();
  keep(f, f->name[i], true, HALVED);
  traced = size && size % HALVED == 0 && HALVED % own == 0 ? trace(program, inputs, f) : NULL;
  if (!traced) keep(f, f->name[i], false, own);
  tell(&f->dim[i], traced ? "a multiple of" : "fixed (see --shape) at", traced ? HALVED : size, why);
  return traced;
}

/* With the sizes that can be free together, name by name. */
static situ_nn_module *trace_some(situ_nn_module *program, const situ_tree *inputs, free_sizes *f) {
  situ_error_clear();
  situ_nn_module *last = situ_export(program, inputs);
  memset(f->kept, 0, (size_t)f->count);
  for (int64_t i = 0; last && i < f->count; i++) {
    bool first = true;
    for (int64_t k = 0; k < i; k++) first = first && strcmp(f->name[k], f->name[i]) != 0;
    situ_nn_module *traced = first ? trace_more(program, inputs, f, i) : NULL;
    if (traced) situ_nn_free(last);
    if (traced) last = traced;
  }
  if (last) situ_error_clear();
  return last;
}

situ_nn_module *cli_trace(situ_nn_module *program, const situ_tree *inputs) {
  const size_t count = (size_t)count_sizes(program);
  if (!count) return situ_export(program, inputs);
  free_sizes f = { .dim = calloc(count, sizeof *f.dim), .name = calloc(count, NAME), .kept = malloc(count) };
  situ_nn_module *traced = NULL;
  if (f.dim && f.name && f.kept) {
    list_sizes(program, &f);
    memset(f.kept, 1, count);
    traced = trace(program, inputs, &f);
    if (!traced) traced = trace_some(program, inputs, &f);
  }
  free(f.dim);
  free(f.name);
  free(f.kept);
  return traced;
}
