/* A character transformer learns any text file, and writes some of its own.
   usage: 06_char_gpt [FILE [STEPS]]     (by default the GPL, 400 steps)
   SPDX-License-Identifier: MIT */
/* test-args: /usr/share/common-licenses/GPL-3 40 */
/* test-slow: cpu/sanitized opencl:0 */
#include <math.h>
#include <stdio.h>

#include "device.h"
#include "situ/situ.h"
#include "text.h"

enum { CONTEXT = 64, WIDTH = 64, HEADS = 4, LAYERS = 2, BATCH = 16, WRITE = 300 };

/* ---- the model: class CharGPT(nn.Module) ---- */

typedef struct {
  situ_nn_module base;
  situ_nn_module *tokens, *positions, *blocks, *norm, *head;
} char_gpt;

static situ_tensor *gpt_forward(situ_nn_module *self, situ_tensor *ids) {
  char_gpt *m = (char_gpt *)self;
  situ_tensor *place = situ_arange(0, (double)situ_size(ids, 1), 1, NULL); /* on the model's device */
  situ_tensor *x = situ_add(situ_nn_forward(m->tokens, ids), situ_nn_forward(m->positions, place));
  for (int64_t i = 0; i < situ_nn_len(m->blocks); i++)
    x = situ_nn_encode(situ_nn_at(m->blocks, i), x, &(situ_nn_attend_options){ .is_causal = true });
  return situ_nn_forward(m->head, situ_nn_forward(m->norm, x));
}
static const situ_nn_type gpt_type = { .name = "CharGPT", .size = sizeof(char_gpt), .forward = gpt_forward };

static situ_nn_module *char_gpt_new(int64_t symbols) {
  char_gpt *m = situ_nn_alloc(&gpt_type);
  situ_nn_child(m, tokens, situ_nn_embedding(symbols, WIDTH, NULL));
  situ_nn_child(m, positions, situ_nn_embedding(CONTEXT, WIDTH, NULL));
  situ_nn_child(m, blocks, situ_nn_module_list_of(0, NULL));
  situ_nn_transformer_options block = situ_nn_transformer_defaults();
  block.dim_feedforward = 4 * WIDTH;
  block.dropout = 0;
  block.gelu = true;
  block.batch_first = true;
  block.norm_first = true;
  for (int i = 0; m && i < LAYERS; i++)
    situ_nn_append(m->blocks, situ_nn_transformer_encoder_layer(WIDTH, HEADS, &block));
  situ_nn_child(m, norm, situ_nn_layer_norm(SITU_SHAPE(WIDTH), NULL));
  situ_nn_child(m, head, situ_nn_linear(WIDTH, symbols, NULL));
  return situ_nn_done(m);
}

/* ---- training: the next character, at every place of a few passages ---- */

static situ_status train_step(situ_nn_module *gpt, situ_optim *optim, situ_tensor *all, situ_tensor *offsets,
                              double *loss_out) {
  situ_scope s;
  situ_scope_begin(&s);
  situ_tensor *start = situ_randint(0, situ_numel(all) - CONTEXT - 1, SITU_SHAPE(BATCH, 1), NULL);
  situ_tensor *at = situ_add(start, offsets); /* [BATCH, CONTEXT + 1] */
  situ_tensor *passage =
      situ_reshape(situ_index_select(all, 0, situ_reshape(at, SITU_SHAPE(-1))), SITU_SHAPE(BATCH, CONTEXT + 1));
  situ_tensor *scores = situ_nn_forward(gpt, situ_narrow(passage, 1, 0, CONTEXT));
  situ_tensor *next = situ_reshape(situ_narrow(passage, 1, 1, CONTEXT), SITU_SHAPE(-1));
  situ_tensor *loss = situ_cross_entropy(situ_flatten(scores, 0, 1), next, NULL);
  SITU_TRY(situ_optim_zero_grad(optim, true));
  SITU_TRY(situ_backward(loss, NULL));
  SITU_TRY(situ_optim_clip_grad_norm_(optim, 1, 2, NULL));
  SITU_TRY(situ_optim_step(optim));
  SITU_TRY(situ_item(loss, loss_out));
  return situ_scope_end(&s);
}

/* ---- writing: draw a character from the scores, append, again ---- */

static int64_t draw(const float *scores, int symbols, situ_generator *generator) {
  double chance = 0, sum = 0, top = -INFINITY;
  situ_tensor *u =
      situ_rand(SITU_SCALAR, &(situ_options){ .dtype = SITU_F64, .generator = generator, .device = situ_dev("cpu") });
  if (situ_item(u, &chance) != SITU_OK) return 0;
  for (int i = 0; i < symbols; i++) top = fmax(top, (double)scores[i]);
  for (int i = 0; i < symbols; i++) sum += exp(((double)scores[i] - top) / 0.8);
  for (int i = 0; i < symbols; i++)
    if ((chance -= exp(((double)scores[i] - top) / 0.8) / sum) <= 0) return i;
  return symbols - 1;
}

static situ_status write_some(situ_nn_module *gpt, const text *t) {
  int64_t ids[CONTEXT + WRITE];
  float scores[256];
  situ_generator generator = situ_generator_seeded(42);
  memcpy(ids, t->symbol, CONTEXT * sizeof *ids);
  situ_nn_eval(gpt);
  for (int n = 0; n < WRITE; n++) {
    situ_scope s;
    situ_scope_begin_no_grad(&s);
    situ_tensor *x = situ_from_host(ids + n, CONTEXT * sizeof *ids, SITU_SHAPE(1, CONTEXT),
                                    &(situ_options){ .dtype = SITU_I64, .device = situ_nn_home(gpt) });
    situ_tensor *last = situ_select(situ_select(situ_nn_forward(gpt, x), 0, 0), 0, CONTEXT - 1);
    SITU_TRY(situ_copy_to_host(last, scores, (size_t)t->symbols * sizeof *scores));
    ids[CONTEXT + n] = draw(scores, t->symbols, &generator);
    SITU_TRY(situ_scope_end(&s));
    putchar(t->letter[ids[CONTEXT + n]]);
  }
  putchar('\n');
  return SITU_OK;
}

int main(int argc, char **argv) {
  situ_device device = device_of(&argc, argv, "cpu");
  text t = { 0 };
  if (!text_read(&t, argc > 1 ? argv[1] : "/usr/share/common-licenses/GPL-3", CONTEXT + 1)) return 1;
  long steps = argc > 2 ? strtol(argv[2], NULL, 10) : 400;

  situ_scope s;
  situ_scope_begin(&s);
  situ_manual_seed(6);
  if (situ_set_default_device(device) != SITU_OK) return 1;
  situ_tensor *all = situ_from_host(t.symbol, (size_t)t.length * sizeof *t.symbol, SITU_SHAPE(t.length),
                                    &(situ_options){ .dtype = SITU_I64 });
  situ_tensor *offsets = situ_arange(0, CONTEXT + 1, 1, NULL);
  situ_nn_module *gpt = char_gpt_new(t.symbols);
  situ_optim *optim = situ_optim_adamw(situ_nn_parameters(gpt), 3e-3, NULL);
  printf("%lld characters, %d different; %lld parameters\n", (long long)t.length, t.symbols,
         (long long)situ_nn_num_parameters(gpt));

  double loss = 0, first = 0;
  situ_status status = gpt && optim ? SITU_OK : SITU_E_STATE;
  situ_progress bar;
  situ_progress_begin(&bar, "learning", steps, &(situ_progress_options){ .unit = "step" });
  for (long i = 0; status == SITU_OK && i < steps; i++) {
    status = train_step(gpt, optim, all, offsets, &loss);
    if (!i) first = loss;
    situ_progress_note(&bar, "loss %.3f", loss);
    situ_progress_add(&bar, 1);
  }
  situ_progress_end(&bar);
  if (status == SITU_OK) printf("loss %.3f at first, %.3f now; it writes:\n\n", first, loss);
  if (status == SITU_OK) status = write_some(gpt, &t);
  situ_optim_free(optim);
  situ_nn_free(gpt);
  free(t.symbol);
  situ_status end = situ_scope_end(&s);
  return status != SITU_OK || end != SITU_OK || !(loss < first);
}
