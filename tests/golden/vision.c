/* Golden values from PyTorch 2.15: ops for images.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 opencl:1 meta */
#include <string.h>

#include "support/gold_run.h"

static void interpolate(gold_call *c) {
  static const char *const modes[] = {
    "nearest", "linear", "bilinear", "bicubic", "trilinear", "area", "nearest-exact"
  };
  situ_interpolate_options o = {
    .size = gold_list(c, "size"),
    .scale_factor = { gold_real(c, "scale0", 0), gold_real(c, "scale1", 0), gold_real(c, "scale2", 0) },
    .align_corners = gold_bool(c, "align_corners", false),
    .recompute_scale_factor = gold_bool(c, "recompute_scale_factor", false),
    .antialias = gold_bool(c, "antialias", false),
  };
  const char *mode = gold_word(c, "mode", "nearest");
  while (strcmp(modes[o.mode], mode)) o.mode++;
  c->out[0] = situ_interpolate(c->in[0], &o);
}

static const gold_op ops[] = {
  { "interpolate", .run = interpolate },
  { 0 },
};

int main(void) { return gold_main("vision", ops, NULL); }
