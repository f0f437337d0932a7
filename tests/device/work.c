/* The way to a kernel: what happens to the outputs, and what a refusal says.
   SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "situ/scope.h"
#include "situ/sys/sim.h"
#include "support/rows.h"

static const situ_device cpu = { SITU_CPU, 0 }, sim = { SITU_SIM, 0 }, meta = { SITU_META, 0 };

static int fresh(void **state) {
  (void)state;
  (void)situ_error_mode(SITU_ERROR_QUIET);
  situ_error_clear();
  return situ_sim_create(1) != SITU_OK || situ_sim_reset(0) != SITU_OK;
}

static void versions_count_writes(void **state) {
  (void)state;
  const situ_device device[] = { cpu, sim, meta };
  for (int i = 0; i < 3; i++) {
    situ_view_desc a = row_new(device[i]), b = row_new(device[i]);
    assert_int_equal(a.storage->flags, SITU_STORAGE_UNWRITTEN);
    assert_int_equal(row_fill(&a, 1), SITU_OK);
    assert_int_equal(row_fill(&a, 2), SITU_OK);
    assert_int_equal(a.storage->version, 2);
    assert_int_equal(a.storage->flags, 0);
    assert_int_equal(row_add(&a, &a, &b), SITU_OK);
    assert_int_equal(a.storage->version, 2); /* inputs are not written */
    assert_int_equal(b.storage->version, 1);
    if (device[i].kind != SITU_META) assert_true(row_value(&b) == 4);
    situ__storage_release(a.storage);
    situ__storage_release(b.storage);
  }
}

/* Two outputs in one storage, and an output that is not wanted: each storage counts once. */
static void outputs_are_counted_once(void **state) {
  (void)state;
  situ_view_desc a = row_new(meta), b = a, c = row_new(meta);
  b.offset = 3;
  situ_work w = { .verb = SITU_VERB_NORM, .outs = 3, .out = { &a, NULL, &b, &c } };
  assert_int_equal(situ__run("layer_norm", meta, &w), SITU_OK);
  assert_int_equal(c.storage->version, 0); /* behind the last */
  assert_int_equal(a.storage->version, 1);
  w.outs = 4;
  a.storage->version = 0;
  assert_int_equal(situ__run("layer_norm", meta, &w), SITU_OK);
  assert_int_equal(a.storage->version, 1);
  assert_int_equal(c.storage->version, 1);
  situ_view_desc p = row_new(meta), g = row_new(meta), m = row_new(meta);
  situ_optimizer_item item = { .param = &p, .grad = &g, .state = { NULL, &m } };
  w = (situ_work){ .verb = SITU_VERB_OPTIMIZER, .list = &item, .list_count = 1 };
  assert_int_equal(situ__run("step", meta, &w), SITU_OK);
  assert_int_equal(p.storage->version, 1);
  assert_int_equal(g.storage->version, 0);
  assert_int_equal(m.storage->version, 1);
  situ_storage *all[] = { a.storage, c.storage, p.storage, g.storage, m.storage };
  for (int i = 0; i < 5; i++) situ__storage_release(all[i]);
}

static void empty_outputs_reach_no_kernel(void **state) {
  (void)state;
  situ_sim_statistics before, after;
  situ_view_desc y = row_new(sim);
  situ_work w = row_filling(&y, 1);
  y.numel = y.size[0] = 0;
  assert_int_equal(situ_sim_stats(0, &before), SITU_OK);
  assert_int_equal(situ__run("fill", sim, &w), SITU_OK);
  assert_int_equal(situ_sim_stats(0, &after), SITU_OK);
  assert_int_equal(after.launches, before.launches);
  y.numel = y.size[0] = ROW;
  assert_int_equal(situ__run("fill", sim, &w), SITU_OK);
  assert_int_equal(situ_sim_stats(0, &after), SITU_OK);
  assert_int_equal(after.launches, before.launches + 1);
  situ__storage_release(y.storage);
}

/* Names op, device, verb and dtype, and who can. */
/* placement: A17, D18 */
static void unsupported_says_who_can(void **state) {
  (void)state;
  situ_view_desc y = row_new(sim);
  situ_work w = row_filling(&y, 1);
  assert_int_equal(situ_sim_without(0, 1u << SITU_F32), SITU_OK);
  assert_int_equal(situ__run("zeros", sim, &w), SITU_E_UNSUPPORTED);
  assert_string_equal(situ_error_op(), "zeros");
  assert_non_null(strstr(situ_error_message(), "zeros: sim:0 cannot compute with f32 (fill); cpu"));
  assert_non_null(strstr(situ_error_message(), " can"));
  const char *others = strchr(situ_error_message(), ';');
  assert_non_null(others);
  assert_null(strstr(others, "sim:0")); /* it is not one of those that can */
  assert_int_equal(strstr(others, "sim:1") != NULL, situ_device_count("sim") > 1);
  assert_int_equal(y.storage->version, 0);
  assert_int_equal(y.storage->flags, SITU_STORAGE_UNWRITTEN);
  situ_error_clear();
  w.compute = SITU_F64; /* the operands may be had, the dtype of the computation not */
  assert_int_equal(situ_sim_without(0, 1u << SITU_F64), SITU_OK);
  assert_int_equal(situ__run("zeros", sim, &w), SITU_E_UNSUPPORTED);
  assert_non_null(strstr(situ_error_message(), "cannot compute with f64"));
  situ_error_clear();
  assert_int_equal(situ_sim_without(0, 0), SITU_OK);
  situ_view_desc x = row_new(sim); /* only an operand has the dtype */
  assert_int_equal(row_fill(&x, 1), SITU_OK);
  x.dtype = SITU_I16;
  const situ_work cast = { .verb = SITU_VERB_COPY, .ins = 1, .outs = 1, .in = { &x }, .out = { &y } };
  assert_int_equal(situ_sim_without(0, 1u << SITU_I16), SITU_OK);
  assert_int_equal(situ__run("to", sim, &cast), SITU_E_UNSUPPORTED);
  assert_non_null(strstr(situ_error_message(), "i16"));
  situ__storage_release(x.storage);
  situ__storage_release(y.storage);
}

static void a_kernel_that_is_not_there_is_named(void **state) {
  (void)state;
  situ_view_desc y = row_new(sim);
  situ_work w = { .verb = SITU_VERB_PACK, .compute = SITU_F32, .outs = 1, .out = { &y } };
  assert_int_equal(situ__run("to", sim, &w), SITU_E_UNSUPPORTED);
  assert_non_null(strstr(situ_error_message(), "to: sim:0 has no kernel for pack (f32)"));
  situ__storage_release(y.storage);
}

/* A kernel that follows no strides meets none; a convolution may get images whose channels come last. */
static void strides_are_refused_where_none_are_followed(void **state) {
  (void)state;
  situ_view_desc x = row_new(meta), y = row_new(meta), w = row_new(meta);
  x.contiguous = false;
  x.ndim = 2;
  x.size[0] = 4, x.size[1] = 2;
  x.stride[0] = 1, x.stride[1] = 4;
  situ_work work = { .verb = SITU_VERB_SOFTMAX, .ins = 1, .in = { &x }, .outs = 1, .out = { &y } };
  assert_int_equal(situ__run("softmax", meta, &work), SITU_E_UNSUPPORTED);
  assert_non_null(strstr(situ_error_message(), "operand 0 of softmax is not contiguous"));
  situ_error_clear();
  assert_int_equal(y.storage->version, 0);
  work = (situ_work){ .verb = SITU_VERB_CONV, .ins = 2, .in = { &x, &w }, .outs = 1, .out = { &y } };
  assert_int_equal(situ__run("conv", meta, &work), SITU_E_UNSUPPORTED);
  situ_error_clear();
  x.ndim = 4;
  for (int d = 0; d < 4; d++) x.size[d] = d ? 2 : 1, x.stride[d] = (int64_t[]){ 8, 1, 4, 2 }[d];
  assert_int_equal(situ__run("conv", meta, &work), SITU_OK);
  x.stride[2] = 2, x.stride[3] = 4;
  assert_int_equal(situ__run("conv", meta, &work), SITU_E_UNSUPPORTED);
  situ_storage *all[] = { x.storage, y.storage, w.storage };
  for (int i = 0; i < 3; i++) situ__storage_release(all[i]);
}

static void waiting(void **state) {
  (void)state;
  const situ_device all[] = { cpu, sim, meta, { 0 } };
  for (int i = 0; i < 4; i++) assert_int_equal(situ_synchronize(all[i]), SITU_OK);
  assert_int_equal(situ_synchronize((situ_device){ SITU_SIM, 15 }), SITU_E_ARG);
  assert_int_equal(situ_error(), SITU_E_ARG);
}

/* placement: A17 */
static void verbs(void **state) {
  (void)state;
  assert_true(situ__has_verb(cpu, SITU_VERB_FILL));
  assert_true(situ__has_verb(meta, SITU_VERB_ATTENTION));
  for (int verb = 0; verb < SITU_VERBS; verb++) {
    /* sim has none of its own for packing, so that what is done without it is tested too */
    bool wanted = verb != SITU_VERB_PACK && situ__has_verb(cpu, (situ_verb)verb);
    assert_int_equal(situ__has_verb(sim, (situ_verb)verb), wanted);
    assert_string_not_equal(situ__verb_name((situ_verb)verb), "?");
  }
  assert_false(situ__has_verb(cpu, SITU_VERBS));
  const situ_device cuda = { SITU_CUDA, 0 };
  assert_int_equal(situ__has_verb(cuda, SITU_VERB_FILL), situ__backend(cuda) != NULL);
  assert_string_equal(situ__verb_name(SITU_VERBS), "?");
}

static void lost_is_for_good(void **state) {
  (void)state;
  char bytes[ROW * sizeof(float)];
  situ_view_desc y = row_new(sim);
  situ_work w = row_filling(&y, 1);
  assert_int_equal(situ_sim_fail(0, SITU_SIM_LOST, 1, false), SITU_OK);
  assert_int_equal(situ__run("fill", sim, &w), SITU_E_LOST);
  assert_non_null(strstr(situ_error_message(), "fill: sim:0 is lost"));
  assert_true(situ__device_lost(sim));
  situ_error_clear();
  assert_int_equal(situ__run("fill", sim, &w), SITU_E_LOST);
  assert_non_null(strstr(situ_error_message(), "fill: sim:0 is lost")); /* the same text */
  assert_int_equal(situ_synchronize(sim), SITU_E_LOST);
  assert_int_equal(situ__copy_to_host("read", y.storage, 0, bytes, sizeof bytes, SITU__COPY_READ), SITU_E_LOST);
  assert_null(situ__storage_new("empty", sim, 4));
  assert_int_equal(situ_error(), SITU_E_LOST);
  int64_t live = situ_live_bytes();
  situ__storage_release(y.storage); /* freeing works */
  assert_int_equal(situ_live_bytes(), live - (int64_t)sizeof bytes);
  situ_error_clear();
  situ_view_desc other = row_new(cpu);
  situ_work on_cpu = row_filling(&other, 1);
  assert_int_equal(situ__run("fill", cpu, &on_cpu), SITU_OK); /* others go on */
  situ__storage_release(other.storage);
  assert_int_equal(situ_sim_reset(0), SITU_OK);
  assert_false(situ__device_lost(sim));
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup(versions_count_writes, fresh),
    cmocka_unit_test_setup(outputs_are_counted_once, fresh),
    cmocka_unit_test_setup(empty_outputs_reach_no_kernel, fresh),
    cmocka_unit_test_setup(unsupported_says_who_can, fresh),
    cmocka_unit_test_setup(a_kernel_that_is_not_there_is_named, fresh),
    cmocka_unit_test_setup(strides_are_refused_where_none_are_followed, fresh),
    cmocka_unit_test_setup(waiting, fresh),
    cmocka_unit_test_setup(verbs, fresh),
    cmocka_unit_test_setup(lost_is_for_good, fresh),
  };
  return cmocka_run_group_tests_name("device/work", tests, NULL, NULL);
}
