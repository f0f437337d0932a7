/* Compares the dtypes and sizes that an ONNX file declares with those that are computed: the program runs on meta, and
   once more, with other free sizes, if a size differs. Results that depend on the values of tensors are not compared.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/text.h"
#include "program/graph/module.h"
#include "onnx.h"

bool situ__onnx_declare(situ__onnx *f, int32_t value, const situ__program_input *about) {
  if (!situ__grow(NULL, &f->declared, &f->declared_capacity, sizeof *f->declared, f->declareds + 1))
    return situ__onnx_no_memory();
  situ__onnx_declared *d = &f->declared[f->declareds++];
  *d = (situ__onnx_declared){ .value = value, .dtype = about->dtype, .dims = about->dims };
  for (int k = 0; k < about->dims; k++) d->size[k] = about->size[k].size, d->first[k] = -1;
  return true;
}

/* ---- a run on meta ---- */

static bool put_meta(situ__value *to, situ_dtype dtype, situ_shape shape) {
  const situ_options o = { .dtype = dtype, .device = { .kind = SITU_META } };
  situ_tensor *t = situ_empty(shape, &o);
  return t && situ_set(&to->tensor, t);
}

/* What cannot be stays NULL: a part is refused when it is made, an input when it is given. */
static void put_if_possible(situ__value *to, situ_dtype dtype, situ_shape shape) {
  char message[64];
  situ__errors own;
  situ__errors_aside(&own);
  if (dtype) SITU_IGNORE(put_meta(to, dtype, shape));
  (void)situ__errors_back(&own, message, sizeof message);
}

/* Free sizes: other ones in each round, and for each of eight symbols, of which images can be halved some times. */
static void put_inputs(const situ__program *p, situ__value *value, int round) {
  for (int32_t i = 0; i < p->inputs; i++) {
    const situ__program_input *in = &p->input[i];
    situ_shape shape = { .ndim = in->dims };
    for (int d = 0; d < in->dims; d++) {
      const int64_t n = (in->size[d].symbol >= 0 ? in->size[d].symbol : p->symbols + i) % 8;
      shape.dim[d] = in->size[d].size >= 0 ? in->size[d].size : round ? 128 + 96 * n : 64 + 32 * n;
    }
    if (in->dims >= 0) put_if_possible(&value[in->value], in->dtype, shape);
  }
}

static bool put_parts(situ__onnx *f, situ__value *value) {
  const situ__program *p = f->program;
  for (int32_t i = 0; i < p->parts; i++) {
    const int32_t v = f->part_of[i];
    situ_tensor *known = f->known[v].tensor;
    situ__onnx_tensor t;
    if (!known && !situ__onnx_read_tensor(f, f->about[v].source, &t)) return false;
    put_if_possible(&value[f->about[v].on_device], known ? situ_dtype_of(known) : t.dtype,
                    known ? situ_shape_of(known) : t.shape);
  }
  for (int32_t i = 0; i < p->constants; i++)
    if (!situ_set(&value[p->constant[i].value].tensor, p->constant[i].tensor)) return false;
  return true;
}

static bool is_there(const situ__arg *a, const situ__value *value) {
  bool there = a->kind != SITU__ARG_VALUE || value[a->integer].tensor;
  for (int32_t i = 0; a->kind == SITU__ARG_LIST && i < a->count && there; i++) there = is_there(&a->list[i], value);
  return there;
}

/* A node of the host computes values, of which a file may ask for any number: *budget bytes of them. */
static bool fits_budget(situ__onnx *f, const situ__program_node *n, situ__value *value, int64_t *budget) {
  const int64_t bytes = n->host ? situ__onnx_size_results(f, n, value) : 0;
  if (bytes < 0 || bytes > *budget) return false;
  *budget -= bytes;
  return true;
}

/* What cannot be run leaves its results NULL. */
static void run_node(situ__onnx *f, const situ__program_node *n, situ__value *value, int64_t *budget) {
  situ__op_call c = { .node = n, .arg = n->arg, .value = value };
  const int args = situ__op_row_args(n->row);
  /* Sizes may change from iteration to iteration, and a sequence may be long. */
  bool there = n->loop == 0 && n->format != &situ__onnx_sequence;
  char message[64];
  situ__errors own;
  for (int k = 0; k < args && there; k++) there = is_there(&n->arg[k], value);
  if (!there || situ__onnx_draws(n->row->target) || (n->guard && !value[n->guard - 1].integer)) return;
  situ__errors_aside(&own);
  bool fine;
  if (strcmp(n->row->target, "to_device") == 0) {
    const situ_tensor *t = value[n->arg[0].integer].tensor;
    fine = put_meta(&value[n->out[0]], situ_dtype_of(t), situ_shape_of(t));
  } else {
    fine = fits_budget(f, n, value, budget) && situ__program_run_node(&c);
  }
  (void)situ__errors_back(&own, message, sizeof message);
  for (int32_t k = 0; !fine && k < n->outs; k++)
    if (n->out[k] >= 0) situ_drop(&value[n->out[k]].tensor);
}

/* ---- comparison ---- */

static bool refuse(situ__onnx *f, const situ__onnx_declared *d, const situ_tensor *t) {
  const situ__program *p = f->program;
  const situ__program_node *maker = NULL;
  const situ_shape shape = situ_shape_of(t);
  situ__text said = { 0 }, found = { 0 };
  char place[SITU__PLACE_MAX] = "";
  for (int32_t i = 0; i < p->nodes; i++)
    for (int32_t k = 0; k < p->node[i].outs; k++)
      if (p->node[i].out[k] == d->value) maker = &p->node[i];
  if (maker) situ__node_place(maker, place);
  situ__text_add(&said, "%s", d->dtype ? situ_dtype_name(d->dtype) : "a tensor");
  for (int k = 0; k < d->dims; k++) {
    situ__text_add(&said, k ? ", " : " [");
    situ__text_add(&said, d->size[k] < 0 ? "?" : "%lld", (long long)d->size[k]);
  }
  if (d->dims >= 0) situ__text_add(&said, d->dims ? "]" : " []");
  situ__text_dims(&found, shape.dim, shape.ndim);
  situ__onnx_bad(f, SITU_E_FORMAT, "declares '%s' as %s, but %s%s%s%s computes %s %s", f->about[d->value].name,
                 said.failed ? "another" : said.data, maker ? maker->row->target : "what is constant",
                 *place ? " (" : "", place, *place ? ")" : "", situ_dtype_name(situ_dtype_of(t)),
                 found.failed ? "" : found.data);
  situ__text_free(&said);
  situ__text_free(&found);
  return false;
}

/* A size that is another than the declared one in both rounds is refused; one that only the first has follows the
   inputs. *doubt: whether the second round is needed for that. */
static bool compare(situ__onnx *f, const situ__value *value, int round, bool *doubt) {
  for (int32_t i = 0; i < f->declareds; i++) {
    situ__onnx_declared *d = &f->declared[i];
    const situ_tensor *known = f->known[d->value].tensor, *t = known ? known : value[d->value].tensor;
    if (!t) continue;
    const situ_shape shape = situ_shape_of(t);
    bool fits = (!d->dtype || d->dtype == situ_dtype_of(t)) && (d->dims < 0 || d->dims == shape.ndim);
    for (int k = 0; fits && k < d->dims; k++) {
      const bool other = d->size[k] >= 0 && d->size[k] != shape.dim[k];
      if (round == 0) d->first[k] = shape.dim[k];
      *doubt = *doubt || other;
      fits = round == 0 || !other || d->first[k] != shape.dim[k];
    }
    if (!fits) return refuse(f, d, t);
  }
  return true;
}

static bool check_round(situ__onnx *f, int round, bool *doubt) {
  const situ__program *p = f->program;
  situ__value *value = situ__calloc((size_t)p->values + 1, sizeof *value);
  if (!value) return situ__onnx_no_memory();
  int64_t budget = f->budget;
  put_inputs(p, value, round);
  bool fine = put_parts(f, value);
  for (int32_t i = 0; fine && i < p->nodes; i++) run_node(f, &p->node[i], value, &budget);
  fine = fine && compare(f, value, round, doubt);
  for (int32_t v = 0; v < p->values; v++) situ_drop(&value[v].tensor);
  situ__free(value);
  return fine;
}

bool situ__onnx_check_declared(situ__onnx *f) {
  situ_setting before;
  bool doubt = false;
  if (!f->declareds) return true;
  if (situ_default_device_begin(&before, (situ_device){ .kind = SITU_META }) != SITU_OK) return false;
  const bool fine = check_round(f, 0, &doubt) && (!doubt || check_round(f, 1, &doubt));
  situ_default_device_end(&before);
  return fine;
}
