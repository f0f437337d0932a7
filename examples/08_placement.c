/* A model spread over three devices: looked at as a tree, drawn as a picture, compared with what
   it was.
   Writes placement.svg, or the file that is named; docs/placement.svg is this one.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "situ/place.h"
#include "situ/situ.h"
#include "situ/sys/sim.h"

enum { WORDS = 4000, LENGTH = 64, WIDTH = 192, LAYERS = 6, HEADS = 6, BATCH = 8, MOST_COPIES = 8 };

/* ---- the model ------------------------------------------------------------------------------- */

typedef struct {
  situ_nn_module base;
  situ_nn_module *embed, *layers, *norm, *head;
  situ_tensor *positions;
} language_model;

/* Copies between devices are written down where they are made, for the picture. */
static situ_place_edge copies[MOST_COPIES];
static int copy_count;

/* x, where the next module lives. */
static situ_tensor *bring(situ_tensor *x, const char *from, const char *to, situ_nn_module *next) {
  situ_device here = situ_device_of(x), there = situ_nn_home(next);
  if (!x || situ_device_equal(here, there)) return x;
  uint64_t bytes = (uint64_t)situ_numel(x) * situ_dtype_size(situ_dtype_of(x));
  if (copy_count < MOST_COPIES)
    copies[copy_count++] = (situ_place_edge){
      .from = from, .to = to, .from_device = here, .to_device = there, .bytes = bytes
    };
  return situ_to(x, there);
}

static situ_tensor *language_forward(situ_nn_module *self, situ_tensor *words) {
  static const char *const path[LAYERS] = { "layers.0", "layers.1", "layers.2",
                                            "layers.3", "layers.4", "layers.5" };
  language_model *m = (language_model *)self;
  const char *from = "embed";
  situ_tensor *x = situ_add(situ_nn_forward(m->embed, words), m->positions);
  for (int i = 0; i < LAYERS; i++) {
    situ_nn_module *layer = situ_nn_get_submodule(self, path[i]);
    x = situ_nn_forward(layer, bring(x, from, path[i], layer));
    from = path[i];
  }
  x = situ_nn_forward(m->norm, bring(x, from, "norm", m->norm));
  return situ_nn_forward(m->head, bring(x, "norm", "head", m->head));
}

static const situ_nn_type language_type = { .name = "LanguageModel",
                                            .size = sizeof(language_model),
                                            .forward = language_forward };

static situ_nn_module *language_model_new(void) {
  const situ_nn_transformer_options block = { .dim_feedforward = 4 * WIDTH };
  situ_nn_module *layer[LAYERS];
  for (int i = 0; i < LAYERS; i++)
    layer[i] = situ_nn_transformer_encoder_layer(WIDTH, HEADS, &block);
  language_model *m = situ_nn_alloc(&language_type);
  situ_nn_child(m, embed, situ_nn_embedding(WORDS, WIDTH, NULL));
  situ_nn_buffer(m, positions, situ_randn(SITU_SHAPE(LENGTH, WIDTH), NULL));
  situ_nn_child(m, layers, situ_nn_module_list_of(LAYERS, layer));
  situ_nn_child(m, norm, situ_nn_layer_norm(SITU_SHAPE(WIDTH), NULL));
  situ_nn_child(m, head, situ_nn_linear(WIDTH, WORDS, NULL));
  return situ_nn_done(m);
}

/* ---- looking at it --------------------------------------------------------------------------- */

static situ_status look(situ_nn_module *model, const char *picture) {
  static char changes[8192];
  situ_snapshot *before = situ_place_snapshot(model);
  if (situ_nn_to_map(model, "layers.0=sim:0, layers.1=sim:0, layers.2=sim:0, layers.*=sim:1, "
                            "norm=sim:1, *=cpu") != SITU_OK)
    return situ_error();
  situ_place_print(model);

  situ_snapshot *after = situ_place_snapshot(model);
  int64_t length = situ_place_diff(before, after, changes, sizeof changes);
  situ_snapshot_free(before);
  situ_snapshot_free(after);
  if (length < 0) return situ_error();
  int lines = 0;
  for (const char *c = changes; *c; c++) lines += *c == '\n';
  printf("\n%d tensors have moved, the first of them:\n%.*s\n", lines, (int)strcspn(changes, "\n"),
         changes);

  /* A forward, for the copies that it makes. */
  const situ_options words = { .dtype = SITU_I64 };
  if (!situ_nn_forward(model, situ_randint(0, WORDS, SITU_SHAPE(BATCH, LENGTH), &words)))
    return situ_error();
  const situ_place_svg_options options = { .title = "A language model on three devices",
                                           .edges = copies,
                                           .edge_count = copy_count };
  return situ_place_svg(model, picture, &options);
}

int main(int argc, char **argv) {
  const char *picture = argc > 1 ? argv[1] : "placement.svg";
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  if (situ_sim_create(2) != SITU_OK) return 1;
  situ_manual_seed(1);
  situ_nn_module *model = language_model_new();
  situ_status status = model ? look(model, picture) : situ_error();
  if (status == SITU_OK) printf("\n%s shows it, with the copies of one forward\n", picture);
  situ_nn_free(model);
  situ_status ended = situ_scope_end(&s);
  return status != SITU_OK || ended != SITU_OK;
}
