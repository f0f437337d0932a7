/* Devices that are not here: profiles, drawn wrong ones too; models that are checked and fitted for them beside the same on sim
   with that memory; what would store or compute there is refused.
   SPDX-License-Identifier: MIT */
/* test-devices: sim:0 */
#include <stdlib.h>

#include "place/preflight/models.h"
#include "situ/optim.h"
#include "situ/policy.h"
#include "support/pairs.h"

static const situ_device plan0 = { SITU_PLAN, 0 }, plan1 = { SITU_PLAN, 1 };

static int begin(void **state) { return pair_begin(state) | (situ_sim_create(2) != SITU_OK); }
static int end(void **state) {
  for (int i = 0; i < 2; i++) SITU_IGNORE(situ_sim_reset(i));
  return (situ_plan_devices("") != SITU_OK) | pair_end(state);
}

static void begin_copying(situ_setting *before) {
  situ_policy_begin(before, (situ_policy){ .host_to_device = SITU_POLICY_COPY,
                                           .device_to_host = SITU_POLICY_COPY,
                                           .device_to_device = SITU_POLICY_COPY });
}

static situ_tree *input(int64_t rows, int64_t columns, situ_device device) {
  return SITU_TREE(situ_zeros(SITU_SHAPE(rows, columns), &(situ_options){ .device = device }));
}

static uint64_t peak_on(const situ_place_report *r, situ_device device) {
  for (int64_t i = 0; i < r->load_count; i++)
    if (situ_device_equal(r->loads[i].device, device)) return r->loads[i].peak;
  return 0;
}

static const situ_place_finding *finding_of(const situ_place_report *r, situ_place_problem problem) {
  for (int64_t i = 0; i < r->finding_count; i++)
    if (r->findings[i].problem == problem && !r->findings[i].note) return &r->findings[i];
  return NULL;
}

/* ---- profiles --------------------------------------------------------------------------------- */

static void a_profile_is_what_it_says(void **state) {
  (void)state;
  const uint32_t all = (1u << SITU_DTYPES) - 2;
  situ_device_properties p;
  expect_ok(situ_plan_devices("2 x 24 GiB, no f64, 12 GB/s; 1.5KB ,no bf16,no f16;\n3x1TiB"));
  assert_int_equal(situ_device_count("plan"), 6);
  for (uint16_t i = 0; i < 6; i++) {
    expect_ok(situ_device_info((situ_device){ SITU_PLAN, i }, &p));
    assert_true(p.memory_total == (i < 2 ? UINT64_C(24) << 30 : i == 2 ? 1500 : UINT64_C(1) << 40));
    assert_int_equal(p.copy_rate, i < 2 ? 12000000000 : 0);
    assert_int_equal(all & ~p.dtypes, i < 2 ? 1u << SITU_F64 : i == 2 ? 1u << SITU_BF16 | 1u << SITU_F16 : 0);
    assert_string_equal(p.name, "planned device");
  }
  assert_true(situ_device_equal(situ_dev("plan:1"), plan1) && situ_device_is_available(plan1));
  expect_ok(situ_plan_devices(" \n"));
  assert_int_equal(situ_device_count("plan"), 0);
  assert_false(situ_device_is_available(plan0));
  assert_non_null(strstr(situ_device_status("plan"), "none is planned (SITU_PLAN=\"2 x 24 GiB\""));
}

static void a_wrong_profile_changes_nothing(void **state) {
  (void)state;
  static const struct {
    const char *profile, *at, *why;
  } rows[] = {
    { "24", "", "a number of bytes with its unit" },
    { "24 Gib", "Gib", "a number of bytes with its unit" },
    { "24. GiB", ". GiB", "a number of bytes with its unit" },
    { "two x 24 GiB", "two x 24 GiB", "a number of bytes with its unit" },
    { "-1 GiB", "-1 GiB", "a number of bytes with its unit" },
    { "2 x", "", "a number of bytes with its unit" },
    { "0 GiB", "", "0 bytes are not possible" },
    { "0 x 1 GiB", "0 x 1 GiB", "1 to 64 devices are possible" },
    { "65 x 1 GiB", "65 x 1 GiB", "1 to 64 devices are possible" },
    { "64 x 1 GiB; 1 GiB", " 1 GiB", "1 to 64 devices are possible" },
    { "18446744073709551616 B", "6 B", "this number is too large" },
    { "16777216 TiB", "", "this number is too large" },
    { "1 GiB,", "", "\"no DTYPE\" or a speed" },
    { "1 GiB, f64", "f64", "\"no DTYPE\" or a speed" },
    { "1 GiB, no f65", "f65", "this must be a dtype" },
    { "1 GiB, no f64, no f64", "f64", "this dtype was named before" },
    { "1 GiB, 12 GB", "", "a speed is in bytes a second" },
    { "1 GiB, 12 GB/s, 1 GB/s", "1 GB/s", "a second speed" },
    { "1 GiB no f64", "no f64", "a comma or a semicolon must be here" },
    { "1 GiB; ", "", "a number of bytes with its unit" },
  };
  char message[256];
  expect_ok(situ_plan_devices("7 GiB"));
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    assert_int_equal(situ_plan_devices(rows[i].profile), SITU_E_ARG);
    (void)snprintf(message, sizeof message, "at \"%s\": %s", rows[i].at, rows[i].why);
    if (!strstr(situ_error_message(), message)) fail_msg("%s: %s", rows[i].profile, situ_error_message());
    expect_error(SITU_E_ARG, "plan_devices", "a profile reads \"2 x 24 GiB, no f64, 12 GB/s\"");
    assert_int_equal(situ_device_count("plan"), 1);
  }
  assert_int_equal(situ_plan_devices(NULL), SITU_E_ARG);
  expect_error(SITU_E_ARG, "plan_devices", "profile");
}

/* Cut, doubled and changed profiles: read, or refused with all as it was. */
static void drawn_profiles_are_read_or_refused(void **state) {
  (void)state;
  static const char good[] = "2 x 24 GiB, no f64, 12 GB/s; 80 GiB", characters[] = "0129.,;x/sGiBno f64\n\x01\xff";
  unsigned seed = 55;
  int read = 0;
  for (int i = 0; i < 20000; i++) {
    char profile[2 * sizeof good];
    (void)snprintf(profile, sizeof profile, "%s", good);
    for (int changes = 1 + i % 3; changes > 0; changes--) {
      char *at = profile + rand_r(&seed) % (sizeof good - 1);
      if (changes == 2) memmove(at, at + 1, strlen(at) + (*at == '\0'));
      else *at = characters[rand_r(&seed) % (sizeof characters - 1)];
    }
    const int before = situ_device_count("plan");
    if (situ_plan_devices(profile) != SITU_OK) {
      expect_error(SITU_E_ARG, "plan_devices", "a profile reads");
      assert_int_equal(situ_device_count("plan"), before);
      continue;
    }
    read++;
    for (int k = situ_device_count("plan") - 1; k >= 0; k--) {
      situ_device_properties p;
      expect_ok(situ_device_info((situ_device){ SITU_PLAN, (uint16_t)k }, &p));
      assert_true(p.memory_total > 0);
    }
  }
  assert_in_range(read, 500, 15000);
}

/* ---- models ----------------------------------------------------------------------------------- */

/* What is found is what is found on sim with that memory and these dtypes, byte by byte. */
/* placement: K4 */
static void a_model_is_checked_as_on_a_device_that_is_here(void **state) {
  (void)state;
  situ_nn_module *(*const make[])(void) = { mlp, cnn, norms, deep };
  const situ_device sim[] = { { SITU_SIM, 0 }, { SITU_SIM, 1 } };
  for (size_t k = 0; k < sizeof make / sizeof *make; k++)
    for (int meta = 0; meta < 2; meta++) {
      uint64_t peak[2][2];
      for (int planned = 0; planned < 2; planned++) {
        situ_nn_module *m = make[k]();
        situ_tree *in =
            make[k] == cnn
                ? SITU_TREE(situ_zeros(SITU_SHAPE(2, 3, 32, 32), &(situ_options){ .device = situ_dev("meta") }))
                : input(4,
                        make[k] == mlp     ? 256
                        : make[k] == norms ? 128
                                           : 64,
                        situ_dev("meta"));
        situ_optim *o = situ_optim_adam(situ_nn_parameters(m), .001, NULL);
        expect_ok(situ_plan_devices("2 x 1 GiB"));
        if (meta) expect_ok(situ_nn_to(m, situ_dev("meta")));
        const situ_place_check_options training = { .device = planned ? plan0 : sim[0],
                                                    .optims = &o,
                                                    .optim_count = 1,
                                                    .map = planned ? "0=plan:1, *=plan:0" : "0=sim:1, *=sim:0" };
        situ_setting before;
        situ_place_report r;
        begin_copying(&before);
        expect_ok(situ_place_check(m, in, &training, &r));
        situ_policy_end(&before);
        assert_true(r.finished && r.differentiated && r.mistakes == 0);
        for (int i = 0; i < 2; i++) peak[planned][i] = peak_on(&r, planned ? (i ? plan1 : plan0) : sim[i]);
        situ_place_report_free(&r);
        situ_optim_free(o);
        situ_tree_free(in);
        situ_nn_free(m);
      }
      assert_true(peak[0][0] > 0 && peak[0][1] > 0);
      assert_memory_equal(peak[0], peak[1], sizeof peak[0]);
    }
}

/* placement: K4 */
static void mistakes_show_on_a_laptop(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_eval(mlp());
  situ_tree *in = input(4, 256, situ_dev("meta"));
  situ_place_report r;
  expect_ok(situ_plan_devices("24 GiB, no f64; 1 MiB"));
  /* Operands on two devices. */
  expect_ok(situ_place_check(m, in, &(situ_place_check_options){ .device = plan0, .map = "0=plan:1, *=plan:0" }, &r));
  const situ_place_finding *f = finding_of(&r, SITU_PLACE_DEVICE);
  assert_true(f && strstr(f->text, "plan:0") && strstr(f->text, "plan:1"));
  situ_place_report_free(&r);
  /* A device that is too small for the parameters, and for the run, with what is largest there. */
  expect_ok(situ_place_check(m, in, &(situ_place_check_options){ .device = plan1, .map = "*=plan:1" }, &r));
  f = finding_of(&r, SITU_PLACE_MEMORY);
  assert_true(f && strstr(f->text, "2.weight (1.0 MiB)") &&
              strstr(f->text, "needs 1.5 MiB on plan:1, where 1.0 MiB of 1.0 MiB"));
  situ_place_report_free(&r);
  expect_ok(situ_nn_to(m, situ_dev("meta")));
  expect_ok(situ_place_check(m, in, &(situ_place_check_options){ .device = plan1 }, &r));
  f = finding_of(&r, SITU_PLACE_MEMORY);
  assert_true(f && strstr(f->text, "plan:1 has 1.0 MiB of memory") && strstr(f->text, "2.weight (1.0 MiB)"));
  situ_place_report_free(&r);
  /* A dtype that it lacks. */
  expect_ok(situ_nn_to_dtype(m, SITU_F64));
  situ_tree_free(in);
  in = SITU_TREE(situ_zeros(SITU_SHAPE(4, 256), &(situ_options){ .dtype = SITU_F64, .device = situ_dev("meta") }));
  expect_ok(situ_place_check(m, in, &(situ_place_check_options){ .device = plan0 }, &r));
  f = finding_of(&r, SITU_PLACE_UNSUPPORTED);
  assert_true(f && strstr(f->text, "plan:0 cannot compute with f64") && strstr(f->text, "cpu"));
  situ_place_report_free(&r);
  /* The same of a module that is to come there: the move itself is refused. */
  expect_ok(situ_place_check(m, in, &(situ_place_check_options){ .map = "*=plan:0" }, &r));
  f = finding_of(&r, SITU_PLACE_UNSUPPORTED);
  assert_true(r.mistakes == 1 && f && strstr(f->text, "f64"));
  situ_place_report_free(&r);
  situ_tree_free(in);
  situ_nn_free(m);
}

static void own_release(situ_nn_module *m) { (void)m; }
static situ_tensor *own_forward(situ_nn_module *m, situ_tensor *x) { return (void)m, situ_neg(x); }

static void a_module_that_cannot_be_copied_takes_no_map(void **state) {
  (void)state;
  static const situ_nn_type type = {
    .name = "Owner", .size = sizeof(situ_nn_module), .forward = own_forward, .release = own_release
  };
  situ_nn_module *m = situ_nn_alloc(&type);
  assert_non_null(situ_nn_done(m));
  situ_tree *in = input(1, 1, (situ_device){ SITU_SIM, 0 });
  situ_place_report r;
  assert_int_equal(situ_place_check(m, in, &(situ_place_check_options){ .map = "*=sim:0" }, &r), SITU_E_UNSUPPORTED);
  expect_error(SITU_E_UNSUPPORTED, "place_check", "options.map: nn_clone: ");
  situ_tree_free(in);
  situ_nn_free(m);
}

/* The map of a program: a wrong one is an error, on any device, and changes nothing. */
static void a_map_is_tried_before_the_model_moves(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_eval(mlp());
  situ_tree *in = input(4, 256, (situ_device){ SITU_SIM, 0 });
  situ_place_report r;
  situ_place_fixes fixes;
  expect_ok(situ_place_check(m, in, NULL, &r));
  assert_true(r.mistakes > 0); /* the model is on the host */
  situ_place_report_free(&r);
  expect_ok(situ_place_check(m, in, &(situ_place_check_options){ .map = "*=sim:0" }, &r));
  assert_true(r.finished && r.mistakes == 0);
  situ_place_report_free(&r);
  expect_ok(situ_place_mend(m, in, &(situ_place_check_options){ .map = "*=sim:0" }, &fixes));
  assert_int_equal(fixes.mistakes, 0);
  situ_place_fixes_free(&fixes);
  static const char *const wrong[] = { "decoder=sim:0", "*=sim:9", "sim:0" };
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    const situ_place_check_options o = { .map = wrong[i] };
    expect_ok(situ_place_check(m, in, &o, &r));
    assert_true(r.mistakes == 1 && !r.finished && r.findings[0].status == SITU_E_ARG);
    situ_place_report_free(&r);
    assert_int_equal(situ_place_check(m, in, &o, NULL), SITU_E_STATE);
    situ_error_clear();
    expect_ok(situ_place_mend(m, in, &o, &fixes));
    assert_int_equal(fixes.mistakes, 1);
    situ_place_fixes_free(&fixes);
  }
  const situ_place_limit limit = { { SITU_SIM, 0 }, 0 };
  situ_place_layout l;
  assert_int_equal(situ_place_fit(m, in, &limit, 1, &(situ_place_fit_options){ .run = { .map = "*=sim:0" } }, &l),
                   SITU_E_ARG);
  expect_error(SITU_E_ARG, "place_fit", "options.run.map");
  expect_on(situ_nn_get_tensor(m, "0.weight"), situ_dev("cpu"));
  situ_tree_free(in);
  situ_nn_free(m);
}

/* A model of 37 GiB on two devices of 24: the map is that of simulated ones of a millionth of it; and its seconds. */
/* placement: K4 */
static void a_model_that_no_laptop_holds_is_fitted(void **state) {
  (void)state;
  const situ_nn_linear_options far = { .device = situ_dev("meta") };
  situ_nn_module *m = situ_nn_eval(situ_nn_sequential(
      situ_nn_linear(50000, 50000, &far), situ_nn_relu(), situ_nn_linear(50000, 50000, &far), situ_nn_relu(),
      situ_nn_linear(50000, 50000, &far), situ_nn_relu(), situ_nn_linear(50000, 50000, &far)));
  situ_tree *in = input(8, 50000, situ_dev("meta"));
  const situ_place_limit limits[] = { { plan0, 0 }, { plan1, 0 } };
  situ_place_layout l;
  situ_setting before;
  double seconds = -1;
  begin_copying(&before);
  expect_ok(situ_plan_devices("2 x 24 GiB, 2 MB/s; 1 KiB"));
  expect_ok(situ_place_fit(m, in, limits, 2, NULL, &l));
  assert_true(l.best && l.bytes == 8 * 50000 * 4);
  assert_string_equal(l.map, "0=plan:0, 2=plan:0, 4=plan:1, 6=plan:1");
  for (int i = 0; i < 2; i++)
    assert_true(peak_on(&l.check, i ? plan1 : plan0) > 20000000000 &&
                peak_on(&l.check, i ? plan1 : plan0) < (UINT64_C(24) << 30));
  expect_ok(situ_place_layout_seconds(&l, &seconds));
  assert_true(seconds > .79 && seconds < .81);
  expect_ok(situ_plan_devices("2 x 24 GiB"));
  assert_int_equal(situ_place_layout_seconds(&l, &seconds), SITU_E_ARG);
  expect_error(SITU_E_ARG, "place_layout_seconds", "says no speed of copies; add it, as in \"24 GiB, 12 GB/s\"");
  situ_place_layout_free(&l);
  expect_ok(situ_plan_devices("2 x 16 GiB"));
  assert_int_equal(situ_place_fit(m, in, limits, 2, NULL, &l), SITU_E_NOMEM);
  expect_error(SITU_E_NOMEM, "place_fit", "no map over the devices fits");
  situ_policy_end(&before);
  situ_tree_free(in);
  situ_nn_free(m);
}

/* ---- what is refused -------------------------------------------------------------------------- */

static void nothing_is_there(void **state) {
  (void)state;
  static const char sentence[] = "plan:0 is planned, not here: it holds no tensor. situ_place_check and situ_place_fit";
  expect_ok(situ_plan_devices("24 GiB"));
  situ_nn_module *m = mlp();
  expect_refused(situ_zeros(SITU_SHAPE(2), &(situ_options){ .device = plan0 }), SITU_E_UNSUPPORTED, "zeros", sentence);
  expect_refused(situ_to(situ_ones(SITU_SHAPE(2), NULL), plan0), SITU_E_UNSUPPORTED, "to", sentence);
  expect_refused(situ_empty(SITU_SHAPE(0), &(situ_options){ .device = plan0 }), SITU_E_UNSUPPORTED, "empty", sentence);
  expect_refused(situ_pin_memory(situ_ones(SITU_SHAPE(2), NULL), plan0), SITU_E_UNSUPPORTED, "pin_memory", sentence);
  expect_refused(situ_zeros(SITU_SHAPE(2), &(situ_options){ .pinned = plan0 }), SITU_E_UNSUPPORTED, "zeros", sentence);
  char text[4096];
  situ_place_plan plan;
  assert_true(situ_place_plan_to_string(m, &(situ_nn_to_options){ .device = plan0 }, &plan, text, sizeof text) > 0);
  assert_int_equal(plan.status, SITU_E_UNSUPPORTED);
  assert_non_null(strstr(text, "it would be refused: "));
  assert_non_null(strstr(text, sentence));
  assert_string_equal(situ_device_status("plan:0"), "planned by a profile, for preflight and fit");
  assert_int_equal(situ_nn_to(m, plan0), SITU_E_UNSUPPORTED);
  expect_error(SITU_E_UNSUPPORTED, "nn_to", sentence);
  expect_on(situ_nn_get_tensor(m, "0.weight"), situ_dev("cpu"));
  expect_ok(situ_synchronize(plan0));
  expect_ok(situ_empty_cache(plan0));
  /* A real device's work is not sent there. */
  expect_ok(situ_sim_without(0, 1u << SITU_F32));
  expect_refused(situ_neg(situ_to(situ_ones(SITU_SHAPE(2), NULL), (situ_device){ SITU_SIM, 0 })), SITU_E_UNSUPPORTED,
                 "", "sim:0 cannot compute with f32");
  situ_tensor *x = situ_to(situ_ones(SITU_SHAPE(2), NULL), (situ_device){ SITU_SIM, 0 });
  assert_null(situ_neg(x));
  assert_null(strstr(situ_error_message(), "plan:"));
  situ_error_clear();
  situ_nn_free(m);
}

#define PLAN_TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void) {
  const struct CMUnitTest tests[] = {
    PLAN_TEST(a_profile_is_what_it_says),
    PLAN_TEST(a_wrong_profile_changes_nothing),
    PLAN_TEST(drawn_profiles_are_read_or_refused),
    PLAN_TEST(a_model_is_checked_as_on_a_device_that_is_here),
    PLAN_TEST(mistakes_show_on_a_laptop),
    PLAN_TEST(a_map_is_tried_before_the_model_moves),
    PLAN_TEST(a_module_that_cannot_be_copied_takes_no_map),
    PLAN_TEST(a_model_that_no_laptop_holds_is_fitted),
    PLAN_TEST(nothing_is_there),
  };
  return cmocka_run_group_tests_name("place/fit/planned", tests, NULL, NULL);
}
