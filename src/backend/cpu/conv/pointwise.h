/* Weights of 1 x 1 that are laid out before for vectors (pointwise.c).
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_CONV_POINTWISE_H
#define SITU_BACKEND_CPU_CONV_POINTWISE_H

#include "conv.h"

bool situ__conv_pointwise_offers_prepack(const situ__conv *geometry);
void situ__conv_pointwise_prepack(const situ__conv *geometry, char *to);

#endif
