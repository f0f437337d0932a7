/* Names and values of a GGUF file as Hugging Face's modules have them: what llama.cpp's convert_hf_to_gguf.py changes,
   undone.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "gguf.h"
#include "situ/ops.h"

/* ---- names ---- */

/* What the decoders share; norms differ. */
#define DECODER                                                                                                       \
  { "token_embd", "model.embed_tokens" }, { "output_norm", "model.norm" }, { "output", "lm_head" },                   \
      { "blk", "model.layers" }, { "attn_q", "self_attn.q_proj" }, { "attn_k", "self_attn.k_proj" },                  \
      { "attn_v", "self_attn.v_proj" }, { "attn_output", "self_attn.o_proj" }, { "attn_q_norm", "self_attn.q_norm" }, \
      { "attn_k_norm", "self_attn.k_norm" }, { "ffn_gate", "mlp.gate_proj" }, { "ffn_up", "mlp.up_proj" },            \
      { "ffn_down", "mlp.down_proj" }, {                                                                              \
    "attn_norm", "input_layernorm"                                                                                    \
  }

/* rope_freqs is computed by the modules. */
static const situ_nn_rename llama[] = { DECODER, { "ffn_norm", "post_attention_layernorm" }, { "rope_freqs", NULL } };
static const situ_nn_rename gemma2[] = { DECODER,
                                         { "post_attention_norm", "post_attention_layernorm" },
                                         { "ffn_norm", "pre_feedforward_layernorm" },
                                         { "post_ffw_norm", "post_feedforward_layernorm" } };
static const situ_nn_rename bert[] = { { "token_embd", "embeddings.word_embeddings" },
                                       { "token_types", "embeddings.token_type_embeddings" },
                                       { "position_embd", "embeddings.position_embeddings" },
                                       { "token_embd_norm", "embeddings.LayerNorm" },
                                       { "blk", "encoder.layer" },
                                       { "attn_q", "attention.self.query" },
                                       { "attn_k", "attention.self.key" },
                                       { "attn_v", "attention.self.value" },
                                       { "attn_output", "attention.output.dense" },
                                       { "attn_output_norm", "attention.output.LayerNorm" },
                                       { "ffn_up", "intermediate.dense" },
                                       { "ffn_down", "output.dense" },
                                       { "layer_output_norm", "output.LayerNorm" } };

#define ROWS(table) table, sizeof(table) / sizeof *(table)
static const struct architecture {
  const char *name;
  const situ_nn_rename *rows;
  size_t count;
} architectures[] = { { "llama", ROWS(llama) }, { "qwen2", ROWS(llama) },   { "qwen3", ROWS(llama) },
                      { "gemma", ROWS(llama) }, { "gemma2", ROWS(gemma2) }, { "gemma3", ROWS(gemma2) },
                      { "bert", ROWS(bert) } };

const situ_nn_rename *situ_gguf_names(const char *architecture, int64_t *count) {
  static const char op[] = "gguf_names";
  char shown[SITU__SHOWN_MAX];
  if (!situ__given(op, "architecture", architecture) || !situ__given(op, "count", count)) return NULL;
  for (size_t i = 0; i < sizeof architectures / sizeof *architectures; i++)
    if (strcmp(architectures[i].name, architecture) == 0) {
      *count = (int64_t)architectures[i].count;
      return architectures[i].rows;
    }
  return situ__fail(SITU_E_UNSUPPORTED, op, "the names of architecture '%s' are not known",
                    situ__shown(architecture, shown)),
         NULL;
}

/* ---- values ---- */

static bool ends_with(const char *name, const char *end) {
  const size_t length = strlen(name), part = strlen(end);
  return length >= part && strcmp(name + length - part, end) == 0;
}

/* Rows of a head lie as (0, n/2, 1, n/2 + 1, ...) in the file: row 2 j + h of it is row h n/2 + j of the module. */
static situ_tensor *order_rows(const char *op, situ_tensor *t, int64_t heads) {
  const int64_t rows = situ_size(t, 0), width = heads > 0 ? rows / heads : 0;
  if (heads <= 0 || rows % heads || width % 2)
    return situ__fail(SITU_E_FORMAT, op, "%s has %lld rows, which are not %lld heads of pairs", situ_name(t),
                      (long long)rows, (long long)heads),
           NULL;
  int64_t *from = situ__alloc((size_t)rows * sizeof *from + 1);
  if (!from) return situ__no_memory(op, (size_t)rows * sizeof *from), NULL;
  for (int64_t row = 0; row < rows; row++) {
    const int64_t at = row % width, half = at / (width / 2), pair = at % (width / 2);
    from[row] = row - at + 2 * pair + half;
  }
  situ_tensor *index = situ_from_host(from, (size_t)rows * sizeof *from, SITU_SHAPE(rows),
                                      &(situ_options){ .dtype = SITU_I64, .device = situ_device_of(t) });
  situ__free(from);
  return situ_set_name(situ_index_select(t, 0, index), situ_name(t));
}

/* Number of heads of a tensor whose rows the converter has reordered; 0: it has not. */
static int64_t reordered_heads(const situ_gguf *f, const char *architecture, const char *name) {
  int64_t heads = 0, keys = 0;
  if (strcmp(architecture, "llama") != 0 || strncmp(name, "blk.", 4) != 0) return 0;
  const bool q = ends_with(name, ".attn_q.weight") || ends_with(name, ".attn_q.bias"),
             k = ends_with(name, ".attn_k.weight") || ends_with(name, ".attn_k.bias");
  if (!q && !k) return 0;
  if (!situ_gguf_integer(f, "llama.attention.head_count", 0, &heads)) heads = -1;
  if (!situ_gguf_integer(f, "llama.attention.head_count_kv", 0, &keys)) keys = heads;
  return q ? heads : keys;
}

static situ_tensor *load_value(situ_gguf *f, const char *architecture, const char *name) {
  situ_tensor *t = situ_gguf_load(f, name);
  const int64_t heads = reordered_heads(f, architecture, name);
  if (t && heads) return order_rows("gguf_state_dict", t, heads);
  if (t && strncmp(architecture, "gemma", 5) == 0 && ends_with(name, "norm.weight"))
    return situ_set_name(situ_add_scalar(t, -1), name);
  return t;
}

situ_tree *situ_gguf_state_dict(situ_gguf *file) {
  SITU__MADE_OF_OPS("gguf_state_dict");
  if (!situ__given("gguf_state_dict", "file", file)) return NULL;
  const char *architecture = situ_gguf_string(file, "general.architecture", 0, NULL);
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  situ_tree *dict = situ_tree_dict();
  for (int64_t i = 0; dict && i < situ_gguf_count(file); i++) {
    const char *name = situ_gguf_entry(file, i)->name;
    dict = situ_tree_put(dict, name, situ_tree_tensor(load_value(file, architecture ? architecture : "", name)));
  }
  if (situ_scope_end(&scope) == SITU_OK) return dict;
  situ_tree_free(dict);
  return NULL;
}
