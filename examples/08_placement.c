/* A model spread over three devices: compared with what it was, looked at as a tree, drawn as a
   picture. Writes placement.svg, or the file that is named; docs/placement.svg is this one.
   SPDX-License-Identifier: MIT */
/* test-slow: cpu/sanitized */
#include <stdio.h>
#include <string.h>

#include "device.h"
#include "situ/place.h"
#include "situ/situ.h"
#include "situ/sys/sim.h"

enum { WORDS = 4000, LENGTH = 64, WIDTH = 192, LAYERS = 6, HEADS = 6, BATCH = 8 };

/* ---- the model ------------------------------------------------------------------------------- */

typedef struct {
  situ_nn_module base;
  situ_nn_module *embed, *layers, *norm, *head;
  situ_tensor *positions;
} language_model;

static situ_tensor *language_forward(situ_nn_module *self, situ_tensor *words) {
  language_model *m = (language_model *)self;
  situ_tensor *x = situ_add(situ_nn_forward(m->embed, words), m->positions);
  for (int i = 0; i < LAYERS; i++) {
    situ_nn_module *layer = situ_nn_at(m->layers, i);
    x = situ_nn_forward(layer, situ_to(x, situ_nn_home(layer))); /* copies only between devices */
  }
  x = situ_nn_forward(m->norm, situ_to(x, situ_nn_home(m->norm)));
  return situ_nn_forward(m->head, situ_to(x, situ_nn_home(m->head)));
}

static const situ_nn_type language_type = { .name = "LanguageModel",
                                            .size = sizeof(language_model),
                                            .forward = language_forward };

static situ_nn_module *language_model_new(void) {
  situ_nn_transformer_options block = situ_nn_transformer_defaults();
  block.dim_feedforward = 4 * WIDTH;
  situ_nn_module *layer[LAYERS];
  for (int i = 0; i < LAYERS; i++) layer[i] = situ_nn_transformer_encoder_layer(WIDTH, HEADS, &block);
  language_model *m = situ_nn_alloc(&language_type);
  situ_nn_child(m, embed, situ_nn_embedding(WORDS, WIDTH, NULL));
  situ_nn_buffer(m, positions, situ_randn(SITU_SHAPE(LENGTH, WIDTH), NULL));
  situ_nn_child(m, layers, situ_nn_module_list_of(LAYERS, layer));
  situ_nn_child(m, norm, situ_nn_layer_norm(SITU_SHAPE(WIDTH), NULL));
  situ_nn_child(m, head, situ_nn_linear(WIDTH, WORDS, NULL));
  return situ_nn_done(m);
}

/* ---- showing it ------------------------------------------------------------------------------ */

static situ_status look(situ_nn_module *model, situ_device rest, const char *picture) {
  static char changes[8192];
  char map[128], name[SITU_DEVICE_NAME_MAX];
  situ_snapshot *before = situ_place_snapshot(model);
  snprintf(map, sizeof map, "layers.0=sim:0, layers.1=sim:0, layers.2=sim:0, layers.*=sim:1, norm=sim:1, *=%s",
           situ_device_name(rest, name));
  situ_status status = situ_nn_to_map(model, map);
  situ_snapshot *after = situ_place_snapshot(model);
  int64_t length = situ_place_diff(before, after, changes, sizeof changes);
  situ_snapshot_free(before);
  situ_snapshot_free(after);
  if (status != SITU_OK || length < 0) return situ_error();
  situ_place_print(model);
  int lines = 0;
  for (const char *c = changes; *c; c++) lines += *c == '\n';
  printf("\n%d tensors have moved, the first of them:\n%.*s\n", lines, (int)strcspn(changes, "\n"), changes);

  /* The copies of one forward, found by a dry run: the words need no values. */
  const situ_options words = { .dtype = SITU_I64, .device = situ_dev("meta") };
  const situ_place_check_options there = { .device = rest, .backward = SITU_PLACE_BACKWARD_NEVER };
  situ_tree *inputs = SITU_TREE(situ_empty(SITU_SHAPE(BATCH, LENGTH), &words));
  situ_place_report report;
  status = situ_place_check(model, inputs, &there, &report);
  situ_tree_free(inputs);
  if (status != SITU_OK) return status;
  const situ_place_svg_options options = { .title = "A language model on three devices",
                                           .edges = report.edges,
                                           .edge_count = report.edge_count };
  status = situ_place_svg(model, picture, &options);
  situ_place_report_free(&report);
  return status;
}

int main(int argc, char **argv) {
  situ_device rest = device_of(&argc, argv, "cpu"); /* of the tensors on neither of the two simulated devices */
  const char *picture = argc > 1 ? argv[1] : "placement.svg";
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  if (situ_sim_create(2) != SITU_OK) return 1;
  situ_manual_seed(1);
  situ_nn_module *model = language_model_new();
  situ_status status = model ? look(model, rest, picture) : situ_error();
  if (status == SITU_OK) printf("\n%s shows it, with the copies of one forward\n", picture);
  situ_nn_free(model);
  situ_status ended = situ_scope_end(&s);
  return status != SITU_OK || ended != SITU_OK;
}
