/* Layers on quantised weights (blocks.h), and low-rank adapters that are trained in place of frozen weights.
   SPDX-License-Identifier: MIT */
#ifndef SITU_NN_ADAPT_H
#define SITU_NN_ADAPT_H

#include "../blocks.h"
#include "layers.h"

SITU_BEGIN

/** Linear whose weight is a buffer of blocks of [out_features, in_features], without a value until a state is loaded
    (gguf.h). in_features must be a multiple of the block's numbers. bias [out_features] is a parameter, as Linear's;
    options->dtype is its dtype; options->activation must be none. The weight has no gradient, the input has one. */
SITU_API situ_nn_module *situ_nn_block_linear(int64_t in_features, int64_t out_features, situ_block_type type,
                                              const situ_nn_linear_options *options);
/** Embedding whose weight is a buffer of blocks of [num_embeddings, embedding_dim], as situ_nn_block_linear's, on
    options' device (its other fields are not read). Results are f32 and have no gradient. */
SITU_API situ_nn_module *situ_nn_block_embedding(int64_t num_embeddings, int64_t embedding_dim, situ_block_type type,
                                                 const situ_options *options);

/* LoRA (Hu et al., arXiv:2106.09685), with the names of Hugging Face's peft: a layer becomes a module of the parts
   base_layer (the frozen layer), lora_A and lora_B (Linear without bias), lora_dropout; it computes
   base_layer(x) + lora_B(lora_A(lora_dropout(x))) lora_alpha / r. */

typedef struct situ_nn_lora_options {
  size_t size;         /**< of this struct; from situ_nn_lora_defaults(), as the other defaults */
  int64_t r;           /**< rank; peft's default is 8 */
  double lora_alpha;   /**< peft's default is 8 */
  double lora_dropout; /**< probability */
  bool use_rslora;     /**< the factor is lora_alpha / sqrt(r) */
} situ_nn_lora_options;
/** peft's defaults. */
static inline situ_nn_lora_options situ_nn_lora_defaults(void) {
  situ_nn_lora_options o = SITU_ZERO_;
  o.size = sizeof o;
  o.r = 8;
  o.lora_alpha = 8;
  return o;
}
/** An adapter around one layer that has a 2-dim tensor `weight` [out, in]: Linear, situ_nn_block_linear. Takes
    ownership of base_layer, also on error, and freezes it. lora_A is drawn as Linear's weight, lora_B is 0, so that the
    result is the layer's at first; both are on the weight's device, of its dtype (f32 for blocks). */
SITU_API situ_nn_module *situ_nn_lora(situ_nn_module *base_layer, const situ_nn_lora_options *options);
/** peft's get_peft_model: freezes m, and puts an adapter around each descendant whose name, or the last parts of whose
    path, is one of target_modules ("q_proj", "self_attn.v_proj"). Fields of m's structs point to the adapters then.
    SITU_E_ARG if a target names none. On error m is unchanged. */
SITU_API SITU_CHECKED situ_status situ_nn_lora_add(situ_nn_module *m, const char *const *target_modules, int64_t count,
                                                   const situ_nn_lora_options *options);
/** The part of m's state dict that belongs to adapters: "layers.0.q_proj.lora_A.weight", ... The caller frees it, or
    saves it first. NULL on error. */
SITU_API situ_tree *situ_nn_lora_state_dict(situ_nn_module *m);
/** Loads such a state; all adapters of m and no other tensors must be in it. options as in situ_nn_load_state_dict:
    peft's files need the row { "base_model.model", "" } of .rename. On error nothing has changed. */
SITU_API SITU_CHECKED situ_status situ_nn_lora_load_state_dict(situ_nn_module *m, const situ_tree *state,
                                                               const situ_nn_load_options *options);

SITU_END
#endif
