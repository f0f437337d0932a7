/* oneDNN behind its adapter: fast implementations only, a cache that gives out one primitive for one geometry, and forgets.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu */
/* test-sanitized: onednn */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "backend/cpu/conv/dnnl.h"
#include "support/verbs/views.h"

static void needs_onednn(void) {
  if (!situ__dnnl_is_there()) skip();
}

typedef struct shape {
  int64_t images, groups, channels, outputs, size, kernel, stride, padding, dilation;
} shape;

static situ__conv geometry(const shape *s, int pass, situ_window *w) {
  *w = (situ_window){ .kernel = { s->kernel, s->kernel },
                      .stride = { s->stride, s->stride },
                      .padding = { s->padding, s->padding },
                      .dilation = { s->dilation, s->dilation },
                      .groups = s->groups };
  const int64_t out = (s->size + 2 * s->padding - s->dilation * (s->kernel - 1) - 1) / s->stride + 1;
  return (situ__conv){ .pass = (situ_conv_pass)pass,
                       .window = w,
                       .dtype = SITU_F32,
                       .images = s->images,
                       .groups = s->groups,
                       .channels = s->channels,
                       .outputs = s->outputs,
                       .height = s->size,
                       .width = s->size,
                       .out_height = out,
                       .out_width = out };
}

/* The trap: with the forward's layouts the passes back fall to loops that are 400 times slower. */
static void never_a_reference_implementation(void **state) {
  (void)state;
  needs_onednn();
  const shape shapes[] = { { 64, 1, 1, 6, 28, 5, 1, 0, 1 },   { 64, 1, 6, 16, 12, 5, 1, 0, 1 },
                           { 16, 1, 32, 32, 26, 3, 1, 1, 1 }, { 8, 1, 64, 64, 56, 3, 1, 1, 1 },
                           { 8, 1, 64, 128, 28, 3, 2, 1, 1 }, { 4, 4, 32, 32, 28, 3, 1, 1, 1 },
                           { 4, 128, 1, 1, 28, 3, 1, 1, 1 },  { 2, 1, 3, 64, 112, 7, 2, 3, 1 },
                           { 4, 1, 16, 16, 20, 3, 1, 2, 2 } };
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    for (int pass = 0; pass < 3; pass++) {
      situ_window w;
      const situ__conv c = geometry(&shapes[i], pass, &w);
      situ__dnnl *d = situ__dnnl_conv(&c, c.images);
      if (!d) fail_msg("oneDNN has no fast way for shape %zu, pass %d", i, pass);
      if (strstr(situ__dnnl_name(d), "ref")) fail_msg("shape %zu, pass %d: %s", i, pass, situ__dnnl_name(d));
      situ__dnnl_close(d);
    }
}

static void one_primitive_for_one_geometry(void **state) {
  (void)state;
  needs_onednn();
  const shape s = { 4, 1, 16, 16, 14, 3, 1, 1, 1 };
  situ_window w;
  situ__conv c = geometry(&s, SITU_CONV_FORWARD, &w);
  situ__dnnl *a = situ__dnnl_conv(&c, 4), *b = situ__dnnl_conv(&c, 4), *other = situ__dnnl_conv(&c, 2);
  assert_non_null(a);
  assert_ptr_equal(a, b);
  assert_ptr_not_equal(a, other);
  c.pass = SITU_CONV_GRAD_DATA;
  situ__dnnl *back = situ__dnnl_conv(&c, 4);
  assert_ptr_not_equal(a, back);
  situ__dnnl_close(a), situ__dnnl_close(b), situ__dnnl_close(other), situ__dnnl_close(back);
}

/* More geometries than the cache holds: those in use stay, the others make room. */
static void the_cache_forgets(void **state) {
  (void)state;
  needs_onednn();
  const shape s = { 2, 1, 16, 16, 14, 3, 1, 1, 1 };
  situ_window w;
  const situ__conv held = geometry(&s, SITU_CONV_FORWARD, &w);
  situ__dnnl *d = situ__dnnl_conv(&held, 2);
  assert_non_null(d);
  for (int64_t i = 0; i < 300; i++) {
    const shape many = { 1, 1, 8, 8, 3 + i, 3, 1, 1, 1 };
    situ_window window;
    const situ__conv c = geometry(&many, SITU_CONV_FORWARD, &window);
    situ__dnnl *next = situ__dnnl_conv(&c, 1);
    assert_non_null(next);
    situ__dnnl_close(next);
  }
  situ__dnnl *again = situ__dnnl_conv(&held, 2);
  assert_ptr_equal(d, again);
  situ__dnnl_close(d), situ__dnnl_close(again);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(never_a_reference_implementation),
    cmocka_unit_test(one_primitive_for_one_geometry),
    cmocka_unit_test(the_cache_forgets),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
