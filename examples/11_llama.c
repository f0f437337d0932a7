/* A decoder in Llama's shape (llama.h) learns a text character by character, then writes: with a cache of keys and
   values, each character drawn from the most probable ones.
   usage: 11_llama [FILE [STEPS]]     (by default the GPL, 300 steps)
   SPDX-License-Identifier: MIT */
/* test-args: /usr/share/common-licenses/GPL-3 40 */
/* test-slow: cpu/sanitized opencl:0 */
#include "device.h"
#include "llama.h"
#include "start.h"
#include "text.h"

enum { CONTEXT = 64, BATCH = 16, PROMPT = 24, WRITE = LONGEST - PROMPT, TOP = 8 };

/* ---- learning: the next symbol at each place of passages, taken in order ---- */

static situ_status train_step(situ_nn_module *net, situ_optim *optim, situ_tensor *all, long step, double *loss_out) {
  situ_scope s;
  situ_scope_begin(&s);
  int64_t passages = situ_numel(all) / CONTEXT - BATCH - 1, start = step * BATCH % passages * CONTEXT;
  situ_tensor *ids = situ_reshape(situ_narrow(all, 0, start, BATCH * CONTEXT), SITU_SHAPE(BATCH, CONTEXT));
  situ_tensor *next = situ_narrow(all, 0, start + 1, BATCH * CONTEXT);
  situ_tensor *loss = situ_cross_entropy(situ_flatten(situ_nn_forward(net, ids), 0, 1), next, NULL);
  SITU_TRY(situ_optim_zero_grad(optim, true));
  SITU_TRY(situ_backward(loss, NULL));
  SITU_TRY(situ_optim_step(optim));
  SITU_TRY(situ_item(loss, loss_out));
  return situ_scope_end(&s);
}

/* ---- writing ---- */

/* One of the TOP symbols, by its probability at temperature 0.8 (the Gumbel-max trick: it stays on the device). */
static situ_tensor *draw(situ_tensor *scores) {
  situ_tensor *ids, *top = situ_topk(scores, TOP, 0, true, &ids);
  situ_tensor *noise = situ_neg(situ_log(situ_neg(situ_log(situ_rand(SITU_SHAPE(TOP), NULL)))));
  situ_tensor *chosen = situ_argmax(situ_add(situ_div_scalar(top, 0.8), noise), NULL);
  return situ_reshape(situ_index_select(ids, 0, situ_reshape(chosen, SITU_SHAPE(1))), SITU_SHAPE(1, 1));
}

static situ_status write_some(situ_nn_module *net, situ_tensor *prompt, const char *letter) {
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  llama_cache cache;
  if (!llama_cache_new(&cache)) return situ_error();
  situ_tensor *all = situ_zeros(SITU_SHAPE(1, LONGEST), &(situ_options){ .dtype = SITU_I64 });
  situ_tensor *scores = NULL;
  situ_copy_(situ_narrow(all, 1, 0, PROMPT), prompt);
  for (int64_t length = PROMPT; cache.filled < LONGEST - 1; length = 1) { /* the prompt at once, then one by one */
    situ_scope step;
    situ_scope_begin(&step);
    situ_tensor *out = situ_nn_forward_kwargs(net, situ_narrow(all, 1, cache.filled, length), &cache);
    cache.filled += length;
    situ_set(&scores, situ_select(situ_select(out, 0, 0), 0, length - 1));
    situ_copy_(situ_narrow(all, 1, cache.filled, 1), draw(scores));
    SITU_TRY(situ_scope_end(&step));
  }
  int64_t ids[LONGEST];
  SITU_TRY(situ_copy_to_host(all, ids, sizeof ids));
  for (int i = 0; i < LONGEST; i++) putchar(letter[ids[i]]);
  /* The same scores without the cache. */
  situ_tensor *again = situ_select(situ_nn_forward(net, situ_narrow(all, 1, 0, LONGEST - 1)), 0, 0);
  double off;
  situ_tensor *difference = situ_sub(situ_select(again, 0, LONGEST - 2), scores);
  SITU_TRY(situ_item(situ_max(situ_abs(difference)), &off));
  printf("\n\nwithout the cache the last scores are %s\n", off < 1e-4 ? "the same" : "others");
  situ_drop(&scores);
  return situ_scope_end(&s);
}

int main(int argc, char **argv) {
  situ_device device = device_of(&argc, argv, "cpu");
  text t = { 0 };
  bool named = argc > 1 && argv[1][0] != '-';
  if (!text_read(&t, named ? argv[1] : "/usr/share/common-licenses/GPL-3", (BATCH + 2) * CONTEXT)) return 1;
  long steps = argc > 2 && named ? strtol(argv[2], NULL, 10) : 300;
  situ_scope s;
  situ_scope_begin(&s);
  situ_manual_seed(11);
  if (situ_set_default_device(device) != SITU_OK) return 1;

  situ_tensor *all = situ_from_host(t.symbol, (size_t)t.length * sizeof *t.symbol, SITU_SHAPE(t.length),
                                    &(situ_options){ .dtype = SITU_I64 });
  situ_nn_module *net = llama_new(t.symbols);
  situ_optim *optim = situ_optim_adamw(situ_nn_parameters(net), 3e-3, NULL);
  situ_status status = net && optim ? save_start(argc, argv, net) : SITU_E_STATE;
  double loss = 0;
  for (long step = 0; status == SITU_OK && step <= steps; step++) {
    status = train_step(net, optim, all, step, &loss);
    if (status == SITU_OK && step % 20 == 0) printf("step %ld  loss %.6f\n", step, loss);
  }
  if (status == SITU_OK)
    status = write_some(net, situ_reshape(situ_narrow(all, 0, 0, PROMPT), SITU_SHAPE(1, PROMPT)), t.letter);
  situ_optim_free(optim);
  situ_nn_free(net);
  free(t.symbol);
  situ_status end = situ_scope_end(&s);
  return status != SITU_OK || end != SITU_OK;
}
