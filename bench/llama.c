/* Decoding with a Llama-shaped GGUF file that bench/torch/llama.py has beside llama.cpp: llama MODEL. Each line of
   input is a number of tokens: they are decoded from an empty cache, each the most probable one after those before it;
   the answer is the processor time of one, in seconds. The line "save" writes the scores after the first tokens to
   out.npy.
   SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "situ/blocks.h"
#include "situ/gguf.h"
#include "support/measure.h"

enum { LAYERS = 64, LONGEST = 128, FIRST = 1, SAVED = 8 };

typedef struct llama {
  situ_tree *state;
  int64_t width, heads, groups, head, layers;
  double eps;
  situ_tensor *cos, *sin; /* [LONGEST, head] */
  situ_tensor *keys[LAYERS], *values[LAYERS];
} llama;

static void refuse(const char *what) {
  (void)fprintf(stderr, "llama: %s\n", what);
  exit(1);
}

static int64_t integer(const situ_gguf *file, const char *key) {
  int64_t value = 0;
  if (!situ_gguf_integer(file, key, 0, &value)) refuse(key);
  return value;
}

static situ_tensor *weight(const llama *m, int64_t layer, const char *name) {
  char full[64];
  if (layer < 0) (void)snprintf(full, sizeof full, "%s.weight", name);
  else (void)snprintf(full, sizeof full, "blk.%d.%s.weight", (int)layer, name);
  return situ_tree_get(m->state, full);
}

static void open_model(llama *m, const char *path) {
  situ_gguf *file = situ_gguf_open(path, &(situ_load_options){ .map = true });
  need(situ_error());
  *m = (llama){ .state = situ_gguf_state_dict(file),
                .width = integer(file, "llama.embedding_length"),
                .heads = integer(file, "llama.attention.head_count"),
                .groups = integer(file, "llama.attention.head_count_kv"),
                .layers = integer(file, "llama.block_count") };
  m->head = m->width / m->heads;
  double base = 10000;
  (void)situ_gguf_number(file, "llama.rope.freq_base", 0, &base);
  (void)situ_gguf_number(file, "llama.attention.layer_norm_rms_epsilon", 0, &m->eps);
  situ_gguf_close(file);
  if (m->layers > LAYERS) refuse("too many layers");
  situ_tensor *rate =
      situ_exp(situ_mul_scalar(situ_arange(0, (double)m->head / 2, 1, NULL), -2 * log(base) / (double)m->head));
  situ_tensor *angle = situ_outer(situ_arange(0, LONGEST, 1, NULL), rate);
  angle = situ_cat((situ_tensor *[]){ angle, angle }, 2, 1);
  m->cos = situ_cos(angle);
  m->sin = situ_sin(angle);
  for (int64_t i = 0; i < m->layers; i++) {
    m->keys[i] = situ_zeros(SITU_SHAPE(1, m->groups, LONGEST, m->head), NULL);
    m->values[i] = situ_zeros_like(m->keys[i], NULL);
  }
  need(situ_error());
}

static situ_tensor *product(const llama *m, int64_t layer, const char *name, situ_tensor *x) {
  return situ_block_linear(x, weight(m, layer, name), NULL);
}

static situ_tensor *heads_of(const llama *m, situ_tensor *x, int64_t count) {
  return situ_reshape(x, SITU_SHAPE(1, count, 1, m->head));
}

/* Rotary positions, for Hugging Face's order of rows, which situ_gguf_state_dict gives. */
static situ_tensor *rotate(const llama *m, situ_tensor *x, int64_t at) {
  situ_tensor *a = situ_narrow(x, -1, 0, m->head / 2), *b = situ_narrow(x, -1, m->head / 2, m->head / 2);
  situ_tensor *turned = situ_cat((situ_tensor *[]){ situ_neg(b), a }, 2, -1);
  return situ_add(situ_mul(x, situ_narrow(m->cos, 0, at, 1)), situ_mul(turned, situ_narrow(m->sin, 0, at, 1)));
}

static situ_tensor *append(situ_tensor *cache, situ_tensor *x, int64_t at) {
  situ_copy_(situ_narrow(cache, 2, at, 1), x);
  return situ_narrow(cache, 2, 0, at + 1);
}

static situ_tensor *norm(const llama *m, int64_t layer, const char *name, situ_tensor *x) {
  return situ_rms_norm(x, SITU_SHAPE(m->width), weight(m, layer, name), m->eps);
}

static situ_tensor *layer_of(const llama *m, int64_t i, situ_tensor *x, int64_t at) {
  situ_tensor *h = norm(m, i, "attn_norm", x);
  situ_tensor *query = rotate(m, heads_of(m, product(m, i, "attn_q", h), m->heads), at);
  situ_tensor *key = append(m->keys[i], rotate(m, heads_of(m, product(m, i, "attn_k", h), m->groups), at), at);
  situ_tensor *value = append(m->values[i], heads_of(m, product(m, i, "attn_v", h), m->groups), at);
  situ_attention_options grouped = situ_attention_defaults();
  grouped.enable_gqa = true;
  h = situ_scaled_dot_product_attention(query, key, value, &grouped);
  x = situ_add(x, product(m, i, "attn_output", situ_reshape(h, SITU_SHAPE(1, m->width))));
  h = norm(m, i, "ffn_norm", x);
  h = situ_mul(situ_silu(product(m, i, "ffn_gate", h)), product(m, i, "ffn_up", h));
  return situ_add(x, product(m, i, "ffn_down", h));
}

/* The scores of the token after `token`, which is at place `at`. */
static situ_tensor *decode(const llama *m, int64_t token, int64_t at) {
  situ_tensor *id = situ_from_host(&token, sizeof token, SITU_SHAPE(1), &(situ_options){ .dtype = SITU_I64 });
  situ_tensor *x = situ_block_embedding(id, weight(m, -1, "token_embd"));
  for (int64_t i = 0; i < m->layers; i++) x = layer_of(m, i, x, at);
  return product(m, -1, "output", norm(m, -1, "output_norm", x));
}

/* Seconds of one token; path: where the last scores go, or NULL. */
static double run(const llama *m, int tokens, const char *path) {
  const double began = processor_seconds();
  int64_t token = FIRST;
  for (int at = 0; at < tokens; at++) {
    double next;
    situ_scope scope;
    situ_scope_begin_no_grad(&scope);
    situ_tensor *scores = decode(m, token, at);
    need(situ_item(situ_argmax(scores, NULL), &next));
    if (path && at + 1 == tokens) need(situ_npy_save(path, scores, NULL));
    token = path ? at + 2 : (int64_t)next; /* saved scores are those of given tokens */
    need(situ_scope_end(&scope));
  }
  return (processor_seconds() - began) / tokens;
}

int main(int argc, char **argv) {
  char line[64];
  llama m;
  if (argc != 2) return fprintf(stderr, "usage: llama MODEL.gguf\n"), 2;
  need(situ_set_num_threads(1));
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  open_model(&m, argv[1]);
  while (fgets(line, sizeof line, stdin)) {
    const bool save = strncmp(line, "save", 4) == 0;
    const long tokens = save ? SAVED : strtol(line, NULL, 10);
    if (tokens < 1 || tokens > LONGEST) refuse("too many tokens");
    printf("%.9g\n", run(&m, (int)tokens, save ? "out.npy" : NULL));
    (void)fflush(stdout);
  }
  situ_tree_free(m.state);
  need(situ_scope_end(&scope));
  return 0;
}
