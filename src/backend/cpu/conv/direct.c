/* Forward at strides 1 and 2 as it is, and the maxima of its results.
   SPDX-License-Identifier: MIT */
#include "algorithm.h"

static bool suits(const situ__conv *g) {
  if ((g->dtype != SITU_F32 && g->dtype != SITU_F64) || g->channels_last || !situ__conv_suits_offsets(g)) return false;
  return !g->pool_2x2 || (!g->activation && situ__conv_suits_maxima(g));
}

const situ__conv_algorithm situ__conv_direct = { suits, situ__conv_implicit_gemm };
