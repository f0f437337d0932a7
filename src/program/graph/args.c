/* The arguments of a call while the program runs. Their types were checked when the program was loaded.
   SPDX-License-Identifier: MIT */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/problem.h"
#include "bind.h"
#include "build.h"
#include "program.h"
#include "situ/sys/dry.h"
#include "situ/sys/op.h"
#include "situ/sys/plain.h"

static const situ__value *value_of(const situ__op_call *c, const situ__arg *a) { return &c->value[a->integer]; }

static situ_tensor *tensor_of(const situ__op_call *c, const situ__arg *a) {
  return a->kind == SITU__ARG_VALUE ? value_of(c, a)->tensor : NULL;
}

static int64_t int_of(const situ__op_call *c, const situ__arg *a) {
  return a->kind == SITU__ARG_VALUE ? value_of(c, a)->integer : a->integer;
}

static bool is_real(const situ__arg *a) {
  return a->kind == SITU__ARG_FLOAT || (a->kind == SITU__ARG_VALUE && a->of == SITU__VALUE_FLOAT);
}

/* A double holds all whole numbers up to this. */
static const int64_t widest = INT64_C(1) << 53;

static double number_of(const situ__op_call *c, const situ__arg *a) {
  if (is_real(a)) return a->kind == SITU__ARG_VALUE ? value_of(c, a)->real : a->real;
  const int64_t integer = int_of(c, a);
  const double real = (double)integer; /* up to 2^63, which an int64_t is not */
  if (real < 0x1p63 && (int64_t)real == integer) return real;
  return situ__call_refuse(c, "has a whole number beyond 2^53 that a double does not hold"), 0;
}

bool situ__arg_given(const situ__op_call *c, int k) { return c->arg[k].kind != SITU__ARG_NONE; }

bool situ__arg_is_tensor(const situ__op_call *c, int k) {
  return c->arg[k].kind == SITU__ARG_VALUE && c->arg[k].of == SITU__VALUE_TENSOR;
}

situ_tensor *situ__arg_tensor(const situ__op_call *c, int k) {
  return k == 0 && c->self ? c->self : tensor_of(c, &c->arg[k]);
}
int64_t situ__arg_int(const situ__op_call *c, int k) { return int_of(c, &c->arg[k]); }
double situ__arg_number(const situ__op_call *c, int k) { return number_of(c, &c->arg[k]); }

bool situ__arg_is_wide(const situ__op_call *c, int k) {
  const int64_t integer = is_real(&c->arg[k]) || c->arg[k].kind == SITU__ARG_NONE ? 0 : int_of(c, &c->arg[k]);
  return integer > widest || integer < -widest;
}

bool situ__arg_is_integer(const situ__op_call *c, int k) { return !is_real(&c->arg[k]); }
bool situ__arg_is_bool(const situ__op_call *c, int k) {
  const situ__arg *a = &c->arg[k];
  return a->kind == SITU__ARG_BOOL || (a->kind == SITU__ARG_VALUE && a->of == SITU__VALUE_BOOL);
}

situ_tensor *situ__arg_scalar(const situ__op_call *c, int k, situ_tensor *like) {
  const situ__arg *a = &c->arg[k];
  situ_dtype dtype = situ_dtype_of(like);
  if (!situ_dtype_is_floating(dtype) && is_real(a)) dtype = situ__call_real(c);
  else if (dtype == SITU_BOOL && !situ__arg_is_bool(c, k)) dtype = SITU_I64;
  situ_options o = { .dtype = dtype, .device = situ_device_of(like) };
  if (is_real(a)) return situ_full(SITU_SCALAR, number_of(c, a), &o);
  int64_t integer = int_of(c, a);
  if (situ_dtype_is_floating(dtype)) {
    if (!situ__arg_is_wide(c, k)) return situ_full(SITU_SCALAR, (double)integer, &o);
    o.dtype = SITU_I64;
    return situ_to_dtype(situ_from_host(&integer, sizeof integer, SITU_SCALAR, &o), dtype);
  }
  if (dtype == SITU_BOOL) return situ_full(SITU_SCALAR, integer != 0, &o);
  /* The low bytes of a little-endian number are the number that wraps. */
  return situ_from_host(&integer, situ_dtype_size(dtype), SITU_SCALAR, &o);
}

double situ__arg_element(const situ__op_call *c, int k, situ_dtype dtype) {
  const double value = situ__arg_number(c, k);
  return dtype == SITU_BOOL ? value != 0 : situ_dtype_is_floating(dtype) ? value : trunc(value);
}

situ_shape situ__arg_dims(const situ__op_call *c, int k) {
  const situ__arg *a = &c->arg[k];
  if (a->kind == SITU__ARG_NONE) return SITU_SCALAR;
  if (a->kind != SITU__ARG_LIST) return SITU_SHAPE(int_of(c, a));
  situ_shape dims = { .ndim = a->count };
  for (int i = 0; i < a->count; i++) dims.dim[i] = int_of(c, &a->list[i]);
  return dims;
}

int situ__arg_numbers(const situ__op_call *c, int k, double *out, int capacity) {
  const situ__arg *a = &c->arg[k];
  const int count = a->kind == SITU__ARG_LIST && a->count <= capacity ? a->count : 0;
  for (int i = 0; i < count; i++) out[i] = number_of(c, &a->list[i]);
  return count;
}

struct situ__call_block {
  struct situ__call_block *older;
  _Alignas(16) char data[];
};

void *situ__call_take(const situ__op_call *c, int64_t count, size_t size) {
  situ__call_memory *m = c->memory;
  const size_t bytes = (size_t)count * size;
  if ((uint64_t)count <= (sizeof m->few - m->used) / size) {
    void *taken = memset(m->few + m->used, 0, bytes);
    m->used += (bytes + 15) / 16 * 16;
    return taken;
  }
  /* Pages that are not written cost nothing: the size may be that of a tensor without values. */
  struct situ__call_block *block = (uint64_t)count <= INT32_MAX ? situ__calloc(1, sizeof *block + bytes) : NULL;
  if (!block) return situ__no_memory(c->node->row->target, bytes), NULL;
  block->older = m->more;
  m->more = block;
  return block->data;
}

void situ__call_memory_free(situ__call_memory *memory) {
  for (struct situ__call_block *older; memory->more; memory->more = older) {
    older = memory->more->older;
    situ__free(memory->more);
  }
}

situ_tensor **situ__arg_tensors(const situ__op_call *c, int k, int *count) {
  const situ__arg *a = &c->arg[k];
  *count = a->kind == SITU__ARG_LIST ? a->count : 0;
  situ_tensor **out = situ__call_take(c, *count, sizeof *out);
  for (int i = 0; out && i < *count; i++) out[i] = tensor_of(c, &a->list[i]);
  if (!out) *count = -1;
  return out;
}

/* Whether t has values, also in a dry run: constants of the program, and what was computed of them and of sizes. */
static bool has_values(const situ__op_call *c, const situ_tensor *t) {
  const bool onnx = c->node->row->inputs || c->node->host; /* its calls write nothing in place */
  const situ_view_desc *v = t && onnx ? situ_desc(t) : NULL;
  return v && !(v->storage->flags & SITU_STORAGE_VOID) && v->storage->device.kind == SITU_CPU;
}

bool situ__arg_has_values(const situ__op_call *c, int k) { return has_values(c, tensor_of(c, &c->arg[k])); }

static bool all_have_values(const situ__op_call *c, const situ__arg *a) {
  for (int32_t i = 0; a->kind == SITU__ARG_LIST && i < a->count; i++)
    if (!all_have_values(c, &a->list[i])) return false;
  return a->kind != SITU__ARG_VALUE || a->of != SITU__VALUE_TENSOR || has_values(c, tensor_of(c, a));
}

bool situ__call_pause(const situ__op_call *c) {
  const char *target = c->node->row->target;
  if (!c->node->host || !c->node->row->inputs || !situ_is_dry()) return false;
  const bool sizes = strcmp(target, "Shape") == 0 || strcmp(target, "Size") == 0;
  for (int k = situ__op_row_args(c->node->row); k-- > 0 && !sizes;)
    if (!all_have_values(c, &c->arg[k])) return false;
  return situ_dry_pause();
}

/* How many values argument k has; -1 after recording an error: more than `capacity`. */
static int count_values(const situ__op_call *c, int k, int capacity) {
  const situ__arg *a = &c->arg[k];
  const int64_t count = situ__arg_is_tensor(c, k)   ? situ_numel(situ__arg_tensor(c, k))
                        : a->kind == SITU__ARG_LIST ? a->count
                                                    : a->kind != SITU__ARG_NONE;
  if (count <= capacity) return (int)count;
  return situ__fail(SITU_E_LIMIT, c->node->row->target, "has %lld values where at most %d are read", (long long)count,
                    capacity),
         -1;
}

/* The values of argument k as `dtype` of `size` bytes: of a tensor of so many. */
static int read_values(const situ__op_call *c, int k, situ_dtype dtype, size_t size, void *out, int count) {
  situ_tensor *t = situ__arg_tensor(c, k);
  const bool paused = has_values(c, t) && situ_dry_pause();
  const situ_status status = situ_copy_to_host(situ_to_dtype(t, dtype), out, (size_t)count * size);
  if (paused) situ_dry_resume();
  return status == SITU_OK ? count : -1;
}

int situ__arg_host_ints(const situ__op_call *c, int k, int64_t *out, int capacity) {
  const situ__arg *a = &c->arg[k];
  const int count = count_values(c, k, capacity);
  if (count < 1) return count;
  if (situ__arg_is_tensor(c, k)) return read_values(c, k, SITU_I64, sizeof *out, out, count);
  if (a->kind != SITU__ARG_LIST) return out[0] = int_of(c, a), 1;
  for (int i = 0; i < count; i++) out[i] = int_of(c, &a->list[i]);
  return count;
}

int64_t *situ__arg_host_list(const situ__op_call *c, int k, int *count) {
  *count = count_values(c, k, INT32_MAX);
  int64_t *out = *count < 0 ? NULL : situ__call_take(c, *count, sizeof *out);
  *count = out ? situ__arg_host_ints(c, k, out, *count) : -1;
  return *count < 0 ? NULL : out;
}

int situ__arg_host_numbers(const situ__op_call *c, int k, double *out, int capacity) {
  const situ__arg *a = &c->arg[k];
  const int count = count_values(c, k, capacity);
  if (count < 1) return count;
  if (situ__arg_is_tensor(c, k)) return read_values(c, k, SITU_F64, sizeof *out, out, count);
  if (a->kind != SITU__ARG_LIST) return out[0] = number_of(c, a), 1;
  return situ__arg_numbers(c, k, out, capacity);
}

bool situ__arg_host_number(const situ__op_call *c, int k, double *out, const char *lacks) {
  const int count = situ__arg_host_numbers(c, k, out, 1);
  if (count == 0) situ__call_refuse(c, lacks);
  return count > 0;
}

situ_tensor *situ__arg_operand(const situ__op_call *c, int k, int n) {
  situ_tensor *t = situ__arg_tensor(c, k);
  return is_real(&c->arg[n]) && !situ_dtype_is_floating(situ_dtype_of(t)) ? situ_to_dtype(t, situ__call_real(c)) : t;
}

situ_tensor *situ__arg_cast(const situ__op_call *c, int k) {
  const situ_dtype dtype = situ__arg_dtype(c, k);
  return dtype ? situ_to_dtype(situ__arg_tensor(c, 0), dtype) : situ__arg_tensor(c, 0);
}

situ_tensor *situ__call_pieces(situ__op_call *c, situ_tensor *const *piece, int64_t count) {
  if (count < 0) return NULL;
  if (count != c->node->outs || !count) return situ__call_refuse(c, "gives another number of pieces than in the file");
  if (piece != c->result) memcpy(c->result, piece, (size_t)count * sizeof *piece);
  return piece[0];
}

situ_tensor *situ__call_split(situ__op_call *c, situ_tensor *x, int dim, const int64_t *size, int count) {
  int64_t at = 0;
  if (count >= 0 && count != c->node->outs) return situ__call_refuse(c, "has another number of sizes than of results");
  for (int i = 0; i < count; at += size[i++])
    if (!(c->result[i] = situ_narrow(x, dim, at, size[i]))) return NULL;
  if (count > 0 && at != situ_size(x, dim))
    return situ__call_refuse(c, "has sizes that do not add up to its dimension");
  return situ__call_pieces(c, c->result, count);
}

bool situ__call_trains(const situ__op_call *c) {
  const situ_nn_module *owner = situ_nn_get_submodule(c->root, c->node->module);
  return owner && owner->training;
}

/* "f32 [2, 3]", "7", "'text'", "[1, 2]" */
static void add_arg(situ__text *text, const situ__op_call *c, const situ__arg *a) {
  enum { MOST = 4 };
  char shown[SITU__SHOWN_MAX];
  const bool value = a->kind == SITU__ARG_VALUE;
  if (a->kind == SITU__ARG_LIST) {
    for (int32_t i = 0; i < a->count && i < MOST; i++) {
      situ__text_add(text, i ? ", " : "[");
      add_arg(text, c, &a->list[i]);
    }
    situ__text_add(text, a->count > MOST ? ", ...]" : a->count ? "]" : "[]");
  } else if (value && a->of == SITU__VALUE_TENSOR) {
    const situ_tensor *t = tensor_of(c, a);
    const situ_shape shape = t ? situ_shape_of(t) : SITU_SCALAR;
    situ__text_add(text, t ? "%s " : "None", t ? situ_dtype_name(situ_dtype_of(t)) : "");
    if (t) situ__text_dims(text, shape.dim, shape.ndim);
  } else if (is_real(a)) {
    situ__text_add(text, "%g", value ? value_of(c, a)->real : a->real);
  } else if (a->kind == SITU__ARG_TEXT) {
    situ__text_add(text, "'%s'", situ__shown(a->text, shown));
  } else if (a->kind == SITU__ARG_DTYPE) {
    situ__text_add(text, "%s", situ_dtype_name((situ_dtype)a->integer));
  } else {
    situ__text_add(text, "%lld", (long long)int_of(c, a));
  }
}

void *situ__call_refuse(const situ__op_call *c, const char *what) {
  situ__text text = { 0 };
  const char *name;
  int length;
  const situ__arg *arg = c->node->arg; /* those of the file: a row's function may call another one with its own */
  for (int k = 0; c->value && arg && situ__op_parameter(c->node->row, k, &name, &length); k++) {
    if (arg[k].kind == SITU__ARG_NONE || arg[k].kind == SITU__ARG_OTHER) continue;
    situ__text_add(&text, "%s%.*s ", text.data ? ", " : " (", length, name);
    add_arg(&text, c, &arg[k]);
  }
  situ__fail(SITU_E_UNSUPPORTED, c->node->row->target, "%s%s%s", what, text.data ? text.data : "",
             text.data ? ")" : "");
  situ__text_free(&text);
  return NULL;
}

/* ---- weights that are laid out once ---- */

bool situ__call_prepack(const situ__op_call *c, situ_tensor *input, situ_tensor *weight, situ_tensor **packed) {
  *packed = c->prepacked ? *c->prepacked : NULL;
  if (!c->prepacked || c->is_prepacked || situ_dim(input) < 1 || !situ_numel(input)) return true;
  return situ_linear_lay_out(weight, situ_numel(input) / situ_size(input, -1), packed) &&
         (!*packed || situ_set(c->prepacked, *packed));
}

/* Whether the weight can be multiplied by the gate instead of one image, which is larger: another rounding. */
static bool scales_weight(situ_tensor *input, situ_tensor *weight, situ_tensor *gate) {
  if (!situ_is_plain() || situ_dim(input) != 4 || situ_dim(gate) != 4 || situ_size(input, 0) != 1) return false;
  const int64_t channels = situ_size(weight, 1); /* of a group */
  return situ_size(input, 1) == channels && situ_size(gate, 1) == channels && situ_numel(gate) == channels &&
         2 * situ_numel(weight) <= situ_numel(input);
}

situ_tensor *situ__call_conv2d(const situ__op_call *c, situ_tensor *input, situ_tensor *weight, situ_tensor *bias,
                               situ_tensor *gate, const situ_conv_options *options, bool max_pool) {
  situ_tensor *packed = c->prepacked ? *c->prepacked : NULL;
  if (c->prepacked && !c->is_prepacked &&
      (!situ_conv2d_lay_out(weight, options, &packed) || (packed && !situ_set(c->prepacked, packed))))
    return NULL;
  if (gate && !packed && scales_weight(input, weight, gate)) weight = situ_mul(gate, weight);
  else if (gate) input = situ_mul(gate, input);
  return situ_conv2d_by(input, weight, bias, options, packed, max_pool);
}
