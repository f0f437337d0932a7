/* Guards: each copy that the program makes itself is allowed, warned of or refused by its direction; a refused one has
   changed nothing; places of the program that may copy are told by file, line or function. */
/* test-devices: sim:0 sim:1 opencl:0 */
#include <pthread.h>

#include "situ/io.h"
#include "situ/policy.h"
#include "support/pairs.h"

enum { SIZE = 6, DIRECTIONS = 3 };
static const situ_shape shape = { 2, { 2, 3 } };

typedef struct copying {
  situ_tensor *x, *y; /* here, and there */
  situ_nn_module *m;
  float values[SIZE];
} copying;

static situ_status given(const situ_tensor *t) { return t ? SITU_OK : situ_error(); }
static situ_status to_there(copying *c) { return given(situ_to(c->x, there())); }
static situ_status to_here(copying *c) { return given(situ_to(c->y, here())); }
static situ_status later(copying *c) { return given(situ_to_non_blocking(c->x, there())); }
static situ_status move(copying *c) { return situ_to_(c->x, there()); }
static situ_status move_module(copying *c) { return situ_nn_to(c->m, there()); }
static situ_status read(copying *c) { return situ_copy_to_host(c->y, c->values, sizeof c->values); }
static situ_status item(copying *c) {
  double value;
  return situ_item(situ_select(situ_select(c->y, 0, 1), 0, 1), &value);
}
static situ_status write(copying *c) { return situ_copy_from_host(c->y, c->values, sizeof c->values); }
static situ_status make(copying *c) {
  return given(situ_from_host(c->values, sizeof c->values, shape, &(situ_options){ .device = there() }));
}
static situ_status back(copying *c) {
  situ_tensor *x = situ_requires_grad_(situ_detach(c->x), true);
  situ_setting inner;
  situ_policy_begin(&inner, (situ_policy){ 0 });
  situ_tensor *y = situ_sum(situ_to(x, there()), NULL);
  situ_policy_end(&inner);
  return situ_backward(y, NULL);
}

static const struct way {
  const char *op;
  situ_status (*copy)(copying *c);
  bool returns, to_host, from_host; /* from there to here, or between one of them and plain host memory */
} ways[] = {
  { .op = "to", to_there },
  { .op = "to", to_here, .returns = true },
  { .op = "to_non_blocking", later },
  { .op = "to_", move },
  { .op = "nn_to", move_module },
  { .op = "copy_to_host", read, .returns = true, .to_host = true },
  { .op = "item", item, .returns = true, .to_host = true },
  { .op = "copy_from_host", write, .from_host = true },
  { .op = "from_host", make, .from_host = true },
  { .op = "to backward", back, .returns = true },
};

static int direction_of(const struct way *w) {
  if (here().kind != SITU_CPU && !w->to_host && !w->from_host) return SITU_DEVICE_TO_DEVICE;
  return w->returns ? SITU_DEVICE_TO_HOST : SITU_HOST_TO_DEVICE;
}
static situ_policy guard(int direction, situ_guard rule, const char *allow) {
  situ_policy p = { .guard_allow = allow };
  *(direction == SITU_HOST_TO_DEVICE   ? &p.guard_to_device
    : direction == SITU_DEVICE_TO_HOST ? &p.guard_to_host
                                       : &p.guard_between_devices) = rule;
  return p;
}

static int logged;
static char last_log[4096];
static void count_logs(const char *message, void *payload) {
  (void)payload;
  logged++;
  (void)snprintf(last_log, sizeof last_log, "%s", message);
}

/* Does what a way does under a policy. */
static situ_status copy_under(const struct way *w, copying *c, situ_policy policy) {
  situ_setting before;
  situ_policy_begin(&before, policy);
  const situ_status status = w->copy(c);
  situ_policy_end(&before);
  return status;
}

static void begin(copying *c) {
  *c = (copying){ .x = situ_set_name(situ_randn(shape, NULL), "x"), .m = situ_nn_linear(3, 2, NULL), .values = { 1 } };
  c->y = situ_set_name(situ_zeros(shape, &(situ_options){ .device = there() }), "y");
}

/* placement: D15 */
static void each_direction_of_explicit_copies(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
    for (int way = 0; way < DIRECTIONS; way++) {
      const struct way *w = &ways[i];
      const bool concerned = direction_of(w) == way;
      situ_scope scope;
      situ_ledger l;
      copying c;
      situ_scope_begin(&scope);
      begin(&c);
      situ_ledger_begin_none(&l);
      situ_status status = copy_under(w, &c, guard(way, SITU_GUARD_REFUSE, NULL));
      if (status != (concerned ? SITU_E_DEVICE : SITU_OK))
        fail_msg("%s, direction %d: %s", w->op, way, situ_error_message());
      if (concerned) {
        assert_non_null(strstr(situ_error_message(), "this thread's policy refuses copies"));
        assert_non_null(strstr(situ_error_message(), test_has_lines() ? "guard.c:" : ""));
        expect_error(SITU_E_DEVICE, w->op,
                     way == 0   ? "guard_to_device"
                     : way == 1 ? "guard_to_host"
                                : "guard_between_devices");
        situ_error_clear();
        expect_on(c.x, here());
        expect_ok(situ_place_expect_on(c.m, here()));
        assert_true(c.values[0] == 1);
        if (w->copy != back) expect_ok(situ_ledger_end(&l)); /* its forward copies */
        else SITU_IGNORE(situ_ledger_end(&l));
        situ_error_clear();
        expect_ok(w->copy(&c)); /* behind the policy */
      } else {
        SITU_IGNORE(situ_ledger_end(&l));
        situ_error_clear();
      }
      situ_nn_free(c.m);
      SITU_IGNORE(situ_scope_end(&scope));
    }
}

/* placement: D15 */
static void warned_of_once_for_each_line(void **state) {
  (void)state;
  copying c;
  begin(&c);
  situ_error_log(count_logs, NULL);
  const situ_policy policy = guard(direction_of(&ways[0]), SITU_GUARD_WARN, NULL);
  logged = 0;
  for (int k = 0; k < 3; k++) expect_ok(copy_under(&ways[0], &c, policy));
  assert_int_equal(logged, 1);
  assert_non_null(strstr(last_log, "to: `x` ([2, 3] f32): 24 B copied from "));
  situ_error_log(NULL, NULL);
  situ_nn_free(c.m);
}

/* The function from which situ_to is called, its line, its file, or a scope without guards. */
/* placement: D15 */
static void places_that_may_copy(void **state) {
  (void)state;
  if (!test_has_lines()) skip();
  static const struct {
    const char *list;
    bool allowed;
  } list[] = { { "to_there", true },
               { "guard.c", true },
               { "log.c,  to_there", true },
               { "to_ther", false },
               { "to_there2", false },
               { "guard", false },
               { "uard.c", false },
               { "", false },
               { "other.c", false },
               { "guard.c:1", false },
               { "tests/device/guard.c", true },
               { ", ,", false } };
  copying c;
  begin(&c);
  for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
    situ_error_clear();
    const situ_status status = copy_under(&ways[0], &c, guard(direction_of(&ways[0]), SITU_GUARD_REFUSE, list[i].list));
    if ((status == SITU_OK) != list[i].allowed) fail_msg("\"%s\": %s", list[i].list, situ_error_message());
  }
  situ_setting before, inner;
  situ_policy_begin(&before, guard(direction_of(&ways[0]), SITU_GUARD_REFUSE, NULL));
  situ_policy_begin(&inner, (situ_policy){ 0 });
  situ_error_clear();
  expect_ok(to_there(&c));
  situ_policy_end(&inner);
  expect_refused(situ_to(c.x, there()), SITU_E_DEVICE, "to", "refuses copies");
  situ_policy_end(&before);
  situ_policy_begin(&before, (situ_policy){ .guard_to_host = 3 });
  expect_error(SITU_E_ARG, "policy_begin", "must be a situ_guard");
  situ_policy_end(&before);
  situ_nn_free(c.m);
}

/* Threads look lines up at the same time: none takes an allowed line for another. */
static void *copy_often(void *unused) {
  (void)unused;
  int failed = 0;
  for (int k = 0; k < 50; k++) {
    situ_scope scope;
    situ_scope_begin(&scope);
    copying c = { .x = situ_zeros(shape, &(situ_options){ .device = here() }) };
    failed += copy_under(&ways[0], &c, guard(direction_of(&ways[0]), SITU_GUARD_REFUSE, "to_there")) != SITU_OK;
    failed += copy_under(&ways[0], &c, guard(direction_of(&ways[0]), SITU_GUARD_REFUSE, "line")) == SITU_OK;
    situ_error_clear();
    SITU_IGNORE(situ_scope_end(&scope));
  }
  return failed ? &logged : NULL;
}
static void from_several_threads(void **state) {
  (void)state;
  if (!test_has_lines()) skip();
  pthread_t thread[4];
  for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&thread[i], NULL, copy_often, NULL), 0);
  for (int i = 0; i < 4; i++) {
    void *failed;
    assert_int_equal(pthread_join(thread[i], &failed), 0);
    assert_null(failed);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
    PAIR_TEST(each_direction_of_explicit_copies),
    PAIR_TEST(warned_of_once_for_each_line),
    PAIR_TEST(places_that_may_copy),
    PAIR_TEST(from_several_threads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
