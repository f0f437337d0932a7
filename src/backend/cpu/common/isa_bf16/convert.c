/* Rounds f32 to bf16 by the processor's instruction.
   SPDX-License-Identifier: MIT */
#include "backend/cpu/common/convert.h"
#include "backend/cpu/common/isa/round_bf16.h"

void situ__store_f32_as_bf16(const void *src, int64_t count, void *dst, int64_t stride) {
  const float *s = src;
  uint16_t *d = dst;
  int64_t done = 0;
  for (; stride == sizeof *d && done + 32 <= count; done += 32)
    round_32(_mm512_loadu_ps(s + done), _mm512_loadu_ps(s + done + 16), d + done);
  if (done == count) return;
  situ__convert_v4.store[SITU__F32][SITU_BF16](s + done, count - done, (char *)dst + done * stride, stride);
}
