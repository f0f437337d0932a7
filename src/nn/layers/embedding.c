/* Embedding and EmbeddingBag.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/fail.h"
#include "base/options.h"
#include "base/pair.h"
#include "nn/nn.h"
#include "situ/sys/layers.h"

typedef struct embedding {
  situ_nn_module base;
  situ_tensor *weight;
  situ_embedding_options options;
} embedding;

static situ_tensor *embedding_forward(situ_nn_module *self, situ_tensor *x) {
  embedding *m = (embedding *)self;
  return situ_embedding(x, m->weight, &m->options);
}

/* What both layers print: sizes and torch's options, `mode` and padding_idx where each has them. */
static int print_options(const situ_tensor *weight, const situ_embedding_options *o, const char *mode, char *buffer,
                         size_t size) {
  char number[SITU__NUMBER], padding[48] = "", norm[SITU__NUMBER + 16] = "", type[SITU__NUMBER + 16] = "";
  if (o->has_padding_idx) snprintf(padding, sizeof padding, ", padding_idx=%" PRId64, o->padding_idx);
  if (o->max_norm != SITU_NONE) snprintf(norm, sizeof norm, ", max_norm=%s", situ__nn_number(o->max_norm, number));
  if (o->norm_type != 2) snprintf(type, sizeof type, ", norm_type=%s", situ__nn_number(o->norm_type, number));
  return snprintf(buffer, size, "%" PRId64 ", %" PRId64 "%s%s%s%s%s%s", situ_size(weight, 0), situ_size(weight, 1),
                  mode ? "" : padding, norm, type, o->scale_grad_by_freq ? ", scale_grad_by_freq=True" : "",
                  mode ? mode : "", mode ? padding : "");
}

static int embedding_repr(const situ_nn_module *self, char *buffer, size_t size) {
  const embedding *m = (const embedding *)self;
  return print_options(m->weight, &m->options, NULL, buffer, size);
}

static const situ_nn_type embedding_type = { .name = "Embedding",
                                             .size = sizeof(embedding),
                                             .forward = embedding_forward,
                                             .single_op = true,
                                             .extra_repr = embedding_repr };

bool situ_nn_embedding_read(const situ_nn_module *m, situ_embedding_options *options) {
  const char *op = "nn_embedding_read";
  if (!situ__nn_given(op, "module", m) || !situ__given(op, "options", options)) return false;
  if (m->type != &embedding_type) return false;
  *options = ((const embedding *)m)->options;
  return true;
}

/* Normally distributed rows, that of padding_idx 0; *o gets a padding_idx that is not negative. Returns NULL after
   recording an error. */
static situ_tensor *make_table(const char *op, situ_shape shape, const situ_options *where, situ_embedding_options *o) {
  if (!situ__check_pair(op, "padding_idx", o->has_padding_idx, o->padding_idx)) return NULL;
  if (!(o->max_norm >= 0 || o->max_norm == SITU_NONE) || isnan(o->norm_type))
    return situ__fail(SITU_E_ARG, op, "max_norm %g, norm_type %g: max_norm must not be negative, neither may be NaN",
                      o->max_norm, o->norm_type),
           NULL;
  situ_tensor *weight = situ_nn_init_normal_(situ_empty(shape, where), 0, 1, NULL);
  if (!weight || !o->has_padding_idx) return weight;
  const int64_t rows = shape.dim[0], row = o->padding_idx + (o->padding_idx < 0 ? rows : 0);
  if (row < 0 || row >= rows)
    return situ__fail(SITU_E_INDEX, op, "padding_idx %" PRId64 " of %" PRId64 " rows", o->padding_idx, rows), NULL;
  o->padding_idx = row;
  return situ_nn_init_zeros_(situ_select(weight, 0, row)) ? weight : NULL;
}

situ_nn_module *situ_nn_embedding(int64_t num_embeddings, int64_t embedding_dim,
                                  const situ_nn_embedding_options *options) {
  static const char op[] = "nn_embedding";
  situ_nn_embedding_options o = situ_nn_embedding_defaults();
  if (!situ__options_read(op, "situ_nn_embedding_defaults", options, &o, sizeof o)) return NULL;
  const situ_options where = { .dtype = o.dtype, .device = o.device };
  embedding *m = situ_nn_alloc(&embedding_type);
  if (!m) return NULL;
  m->base.home = o.device;
  m->options = (situ_embedding_options){ .size = sizeof m->options,
                                         .has_padding_idx = o.has_padding_idx,
                                         .padding_idx = o.padding_idx,
                                         .max_norm = o.max_norm,
                                         .norm_type = o.norm_type,
                                         .scale_grad_by_freq = o.scale_grad_by_freq };
  situ_nn_param(m, weight, make_table(op, SITU_SHAPE(num_embeddings, embedding_dim), &where, &m->options));
  return situ_nn_done(m);
}

/* ---- EmbeddingBag ---- */

typedef struct embedding_bag {
  situ_nn_module base;
  situ_tensor *weight;
  situ_embedding_options options;
  situ_embedding_bag_mode mode;
  bool include_last_offset;
} embedding_bag;

static situ_tensor *bag_forward(situ_nn_module *self, situ_tensor *x, const void *kwargs) {
  static const situ_nn_embedding_bag_kwargs none;
  const embedding_bag *m = (const embedding_bag *)self;
  const situ_nn_embedding_bag_kwargs *k = kwargs ? kwargs : &none;
  const situ_embedding_bag_options options = { .size = sizeof options,
                                               .offsets = k->offsets,
                                               .per_sample_weights = k->per_sample_weights,
                                               .mode = m->mode,
                                               .include_last_offset = k->offsets && m->include_last_offset,
                                               .has_padding_idx = m->options.has_padding_idx,
                                               .padding_idx = m->options.padding_idx,
                                               .max_norm = m->options.max_norm,
                                               .norm_type = m->options.norm_type,
                                               .scale_grad_by_freq = m->options.scale_grad_by_freq };
  return situ_embedding_bag(x, m->weight, &options);
}

static int bag_repr(const situ_nn_module *self, char *buffer, size_t size) {
  static const char *const modes[] = { ", mode='mean'", ", mode='sum'", ", mode='max'" };
  const embedding_bag *m = (const embedding_bag *)self;
  return print_options(m->weight, &m->options, modes[m->mode], buffer, size);
}

static const situ_nn_type bag_type = {
  .name = "EmbeddingBag", .size = sizeof(embedding_bag), .forward_kwargs = bag_forward, .extra_repr = bag_repr
};

situ_nn_module *situ_nn_embedding_bag(int64_t num_embeddings, int64_t embedding_dim,
                                      const situ_nn_embedding_bag_options *options) {
  static const char op[] = "nn_embedding_bag";
  situ_nn_embedding_bag_options o = situ_nn_embedding_bag_defaults();
  if (!situ__options_read(op, "situ_nn_embedding_bag_defaults", options, &o, sizeof o)) return NULL;
  const situ_options where = { .dtype = o.dtype, .device = o.device };
  if ((unsigned)o.mode > SITU_EMBEDDING_BAG_MAX || (o.mode == SITU_EMBEDDING_BAG_MAX && o.scale_grad_by_freq))
    return situ__fail(SITU_E_ARG, op, "mode %d%s", (int)o.mode,
                      o.scale_grad_by_freq ? ", with scale_grad_by_freq: that is for mean and sum"
                                           : " is not one of mean, sum and max"),
           NULL;
  embedding_bag *m = situ_nn_alloc(&bag_type);
  if (!m) return NULL;
  m->base.home = o.device;
  m->options = (situ_embedding_options){ .size = sizeof m->options,
                                         .has_padding_idx = o.has_padding_idx,
                                         .padding_idx = o.padding_idx,
                                         .max_norm = o.max_norm,
                                         .norm_type = o.norm_type,
                                         .scale_grad_by_freq = o.scale_grad_by_freq };
  m->mode = o.mode;
  m->include_last_offset = o.include_last_offset;
  situ_nn_param(m, weight, make_table(op, SITU_SHAPE(num_embeddings, embedding_dim), &where, &m->options));
  return situ_nn_done(m);
}
