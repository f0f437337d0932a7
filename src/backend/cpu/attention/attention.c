/* The attention verb: takes the first algorithm that suits.
   SPDX-License-Identifier: MIT */
#include "attention.h"

#include "device/profile/profile.h"

enum {
  SHORT = 64, /* keys, for which ops keep all weights */
  /* From which tile registers pay: */
  LEAST_TILED = 32, /* queries, */
  LEAST_KEYS = 256, /* keys, */
  LEAST_WIDTH = 64  /* features of a key and a value together */
};

/* They write whole squares, which those of dk and dv must be. */
static bool suits_amx(const situ__attention *p) {
  const situ__panels *tiles = situ__panels_of_tiles();
  const bool pays =
      p->compute == SITU__F32 && p->l >= LEAST_TILED && p->s >= LEAST_KEYS && p->e + p->v_width >= LEAST_WIDTH;
  return tiles && pays &&
         (p->work->op != SITU_ATTENTION_GRAD || (p->e % tiles->full == 0 && p->v_width % tiles->full == 0));
}
static situ_status forward_amx(const situ__attention *p) { return situ__attention_forward(p, situ__panels_of_tiles()); }
static situ_status grad_amx(const situ__attention *p) { return situ__attention_grad(p, situ__panels_of_tiles()); }

static bool suits_vectors(const situ__attention *p) { return (void)p, true; }
static situ_status forward_vectors(const situ__attention *p) { return situ__attention_forward(p, NULL); }
static situ_status grad_vectors(const situ__attention *p) { return situ__attention_grad(p, NULL); }

enum { ROWS = 2 };
const situ__attention_algorithm situ__attention_algorithms[ROWS] = {
  { "amx_bf16x3", suits_amx, forward_amx, grad_amx, SITU__ISA_AMX },
  { "vectors", suits_vectors, forward_vectors, grad_vectors, SITU__ISA_BASE },
};

static const char *name_of(int row) { return row < ROWS ? situ__attention_algorithms[row].name : NULL; }
situ__algorithm_choice situ__attention_choice = { .variable = "SITU_CPU_ATTENTION", .name_of = name_of };

/* The weights of so few keys are as small as the operands, so they are kept: cheaper than to compute them again. */
situ_status situ__cpu_offers_attention(const situ_work *work) {
  const situ_view_desc *k = work->in[1];
  return k->size[k->ndim - 2] <= SHORT ? SITU_E_UNSUPPORTED : SITU_OK;
}

situ_status situ__cpu_attention(int index, const situ_work *work) {
  (void)index;
  const bool backward = work->op == SITU_ATTENTION_GRAD;
  const int mask = backward ? 6 : 3, choice = situ__choice_of(&situ__attention_choice);
  const situ__attention p = situ__attention_of(work, work->ins > mask ? work->in[mask] : NULL);
  uint32_t suiting = 0;
  for (int i = 0; i < ROWS; i++) {
    const situ__attention_algorithm *row = &situ__attention_algorithms[i];
    if (!row->suits(&p)) continue;
    suiting |= UINT32_C(1) << i;
    if (!situ__choice_allows(choice, i)) continue;
    situ__profile_algorithm(row->name);
    return backward ? row->grad(&p) : row->forward(&p);
  }
  return situ__choice_refuse(&situ__attention_choice, "attention", suiting);
}
