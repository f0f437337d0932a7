/* Golden values: shapes, views, copies and conversions.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 opencl:1 meta */
#include <string.h>

#include "support/gold_run.h"

static int dim(const gold_call *c, const char *name, int64_t otherwise) { return (int)gold_int(c, name, otherwise); }

static void listed(gold_call *c, situ_tensor *(*f)(situ_tensor *, situ_shape), const char *name) {
  c->out[0] = f(c->in[0], gold_list(c, name));
}
static void reshape(gold_call *c) { listed(c, situ_reshape, "shape"); }
static void view(gold_call *c) { listed(c, situ_view, "shape"); }
static void expand(gold_call *c) { listed(c, situ_expand, "shape"); }
static void permute(gold_call *c) { listed(c, situ_permute, "dims"); }
static void flip(gold_call *c) { listed(c, situ_flip, "dims"); }
static void repeat(gold_call *c) { listed(c, situ_repeat, "repeats"); }
static void squeeze(gold_call *c) { listed(c, situ_squeeze, "dim"); }

static void flatten(gold_call *c) { c->out[0] = situ_flatten(c->in[0], dim(c, "start_dim", 0), dim(c, "end_dim", -1)); }
static void unsqueeze(gold_call *c) { c->out[0] = situ_unsqueeze(c->in[0], dim(c, "dim", 0)); }
static void transpose(gold_call *c) { c->out[0] = situ_transpose(c->in[0], dim(c, "dim0", 0), dim(c, "dim1", 0)); }

static void narrow(gold_call *c) {
  c->out[0] = situ_narrow(c->in[0], dim(c, "dim", 0), gold_int(c, "start", 0), gold_int(c, "length", 0));
}
static void pick(gold_call *c) { c->out[0] = situ_select(c->in[0], dim(c, "dim", 0), gold_int(c, "index", 0)); }

static void slice(gold_call *c) {
  c->out[0] = situ_slice(c->in[0], dim(c, "dim", 0), gold_int(c, "start", 0), gold_int(c, "end", INT64_MAX),
                         gold_int(c, "step", 1));
}

static void as_strided(gold_call *c) {
  /* torch counts from the storage's first element, and so does situ; the case's input begins there */
  c->out[0] = situ_as_strided(c->in[0], gold_list(c, "size"), gold_list(c, "stride"), gold_int(c, "storage_offset", 0));
}

static void split(gold_call *c) {
  const gold_attr *size = gold_find(c->c, "split_size_or_sections");
  int64_t count = size->kind == 'l'
                      ? situ_split_sizes(c->in[0], gold_list(c, size->name), dim(c, "dim", 0), c->out, GOLD_MAX_OUTPUTS)
                      : situ_split(c->in[0], size->i, dim(c, "dim", 0), c->out, GOLD_MAX_OUTPUTS);
  if (count != c->c->outputs) c->out[0] = NULL;
}

static void chunk(gold_call *c) {
  if (situ_chunk(c->in[0], gold_int(c, "chunks", 1), dim(c, "dim", 0), c->out, GOLD_MAX_OUTPUTS) != c->c->outputs)
    c->out[0] = NULL;
}

static void unbind(gold_call *c) {
  if (situ_unbind(c->in[0], dim(c, "dim", 0), c->out, GOLD_MAX_OUTPUTS) != c->c->outputs) c->out[0] = NULL;
}

static void joined(gold_call *c, situ_tensor *(*f)(situ_tensor *const *, int, int)) {
  situ_tensor *parts[GOLD_MAX_INPUTS + 1];
  int count = gold_tensors(c, "tensors", parts);
  c->out[0] = f(parts, count, dim(c, "dim", 0));
}
static void cat(gold_call *c) { joined(c, situ_cat); }
static void stack(gold_call *c) { joined(c, situ_stack); }

static void roll(gold_call *c) { c->out[0] = situ_roll(c->in[0], gold_list(c, "shifts"), gold_list(c, "dims")); }

static void pad(gold_call *c) {
  const char *words[] = { "constant", "reflect", "replicate", "circular" };
  const char *word = gold_word(c, "mode", "constant");
  int mode = 0;
  while (strcmp(words[mode], word) != 0) { mode++; }
  c->out[0] = situ_pad(c->in[0], gold_list(c, "pad"), (situ_pad_mode)mode, gold_real(c, "value", 0));
}

static void to(gold_call *c) { c->out[0] = situ_to_dtype(c->in[0], gold_dtype(c, "dtype")); }

static const gold_op ops[] = {
  { "reshape", .run = reshape },
  { "view", .run = view },
  { "flatten", .run = flatten },
  { "squeeze", .run = squeeze },
  { "unsqueeze", .run = unsqueeze },
  { "permute", .run = permute },
  { "transpose", .run = transpose },
  { "expand", .run = expand },
  { "narrow", .run = narrow },
  { "select", .run = pick },
  { "slice", .run = slice },
  { "as_strided", .run = as_strided },
  { "split", .run = split },
  { "chunk", .run = chunk },
  { "unbind", .run = unbind },
  { "cat", .run = cat },
  { "stack", .run = stack },
  { "flip", .run = flip },
  { "roll", .run = roll },
  { "repeat", .run = repeat, .grad_steps = 2, .why = GOLD_ROUNDS },
  { "pad", .run = pad, .grad_steps = 3, .why = GOLD_ROUNDS },
  { "to", .run = to },
  { "clone", .one = situ_clone },
  { "contiguous", .one = situ_contiguous },
  { "copy_", .two = situ_copy_ },
  { 0 },
};

int main(void) { return gold_main("shape", ops, NULL); }
