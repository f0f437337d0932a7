/* Describes a program: its inputs, results and calls.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>

#include "base/fail.h"
#include "base/handle.h"
#include "base/text.h"
#include "module.h"
#include "situ/export.h"

/* The program of a module; NULL after recording an error. */
static const situ__program *program_of(const char *op, const situ_nn_module *m) {
  if (!situ__valid(op, "program", m, SITU__A_MODULE)) return NULL;
  const situ__program *p = situ__program_of(m);
  if (!p) situ__fail(SITU_E_STATE, op, "%s is not a program of situ_export_load or situ_export", m->type->name);
  return p;
}

bool situ_export_input_at(const situ_nn_module *program, int64_t index, situ_export_input *out) {
  static const char op[] = "export_input_at";
  const situ__program *p = program_of(op, program);
  if (!p || !situ__given(op, "out", out) || index < 0 || index >= p->inputs) return false;
  const situ__program_input *in = &p->input[index];
  *out = (situ_export_input){ .name = in->name, .dtype = in->dtype, .ndim = in->dims };
  for (int d = 0; d < in->dims; d++) {
    const struct situ__program_size *from = &in->size[d];
    out->size[d] = (situ_export_size){ .size = from->size, .symbol = "", .most = INT64_MAX, .multiple = 1 };
    if (from->size >= 0 || from->symbol < 0) continue;
    const situ__program_symbol *s = &p->symbol[from->symbol];
    out->size[d] = (situ_export_size){
      .size = -1, .symbol = s->name, .least = s->least, .most = s->most, .multiple = situ__symbol_multiple(s)
    };
  }
  return true;
}

const char *situ_export_target_at(const situ_nn_module *program, int64_t index) {
  const situ__program *p = program_of("export_target_at", program);
  return p && index >= 0 && index < p->nodes ? p->node[index].row->target : NULL;
}

/* ---- results ---- */

typedef struct search {
  int64_t left; /* results before the one that is searched */
  int32_t at;   /* in the prefix order of the tree */
} search;

/* Appends to `path` what leads from a part of the tree to the result. Returns false if it is not in this part. */
static bool find_result(const situ__program *p, search *s, const char *key, situ__text *path) {
  const situ__program_out *o = &p->out[s->at++];
  const size_t length = path->length;
  situ__text_add(path, "%s%s", length && *key ? "." : "", key);
  if (o->kind == SITU_TREE_TENSOR && s->left-- == 0) return true;
  for (int32_t i = 0; i < o->count && (o->kind == SITU_TREE_DICT || o->kind == SITU_TREE_LIST); i++) {
    char number[16];
    (void)snprintf(number, sizeof number, "%" PRId32, i);
    if (find_result(p, s, o->kind == SITU_TREE_DICT ? p->out[s->at].key : number, path)) return true;
  }
  path->length = length;
  return false;
}

int64_t situ_export_result_at(const situ_nn_module *program, int64_t index, char *buffer, size_t size) {
  static const char op[] = "export_result_at";
  const situ__program *p = program_of(op, program);
  if (!p || index < 0 || !p->outs) return -1;
  search s = { .left = index };
  situ__text path = { 0 };
  const char *alone = p->out[0].kind == SITU_TREE_TENSOR && p->out[0].key ? p->out[0].key : "";
  if (find_result(p, &s, alone, &path)) return situ__text_give(&path, buffer, size);
  situ__text_free(&path);
  return -1;
}
