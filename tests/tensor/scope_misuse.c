/* Scopes that are forgotten, begun twice, ended twice, copied, handed to other threads, or were never begun: nothing of the
   library's depends on where the variable is, or on what it holds. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "situ/sys/alloc.h"
#include "situ/sys/tensor.h"
#include "support/test.h"

/* ---- an allocator that counts, and can refuse ---- */

static long taken;
static bool refusing;

static void *take(size_t bytes, size_t alignment, void *payload) {
  (void)payload;
  taken++;
  void *memory = NULL;
  if (refusing) return NULL;
  if (alignment <= _Alignof(max_align_t)) return malloc(bytes);
  return posix_memalign(&memory, alignment, bytes) == 0 ? memory : NULL;
}

static void *take_more(void *old, size_t bytes, void *payload) {
  (void)payload;
  taken++;
  return refusing ? NULL : realloc(old, bytes);
}

static void give(void *memory, void *payload) {
  (void)payload;
  free(memory);
}

static situ_tensor *one(double value) { return situ_full(SITU_SHAPE(1), value, NULL); }

/* ---- on one thread ---- */

/* Leaves a scope open, and its variable in a frame that is gone. */
static __attribute__((noinline)) void forget(void) {
  situ_scope s;
  situ_scope_begin(&s);
  one(1);
}

static __attribute__((noinline)) int overwrite(void) {
  volatile char room[4096];
  for (size_t i = 0; i < sizeof room; i++) room[i] = 0x41;
  return room[99];
}

static void a_forgotten_scope_depends_on_no_frame(void **state) {
  (void)state;
  int64_t before = situ_live_tensors();
  situ_scope outer;
  situ_scope_begin(&outer);
  for (int i = 0; i < 100; i++) {
    forget();
    assert_int_equal(overwrite(), 0x41);
    expect_exact(one(i), SITU_SHAPE(1), i);
  }
  assert_int_equal(situ_live_tensors(), before + 200);
  assert_int_equal(situ_scope_end(&outer), SITU_OK);
  assert_int_equal(situ_live_tensors(), before);
}

static void begun_twice_the_first_is_forgotten(void **state) {
  (void)state;
  int64_t before = situ_live_tensors();
  situ_scope outer, s;
  situ_scope_begin(&outer);
  situ_scope_begin(&s);
  one(1);
  situ_scope_begin(&s);
  one(2);
  assert_int_equal(situ_scope_end(&s), SITU_OK);
  assert_int_equal(situ_live_tensors(), before + 1);
  assert_int_equal(situ_scope_end(&s), SITU_E_STATE);
  expect_error(SITU_E_STATE, "scope_end", "ended already");
  assert_int_equal(situ_scope_end(&outer), SITU_OK);
  assert_int_equal(situ_live_tensors(), before);
}

static void a_copy_names_the_same_scope(void **state) {
  (void)state;
  int64_t before = situ_live_tensors();
  situ_scope s, *copy = malloc(sizeof *copy);
  situ_scope_begin(&s);
  *copy = s;
  memset(&s, 0, sizeof s);
  one(1);
  assert_true(situ_scope_is_open(copy));
  assert_false(situ_scope_is_open(&s));
  assert_int_equal(situ_scope_end(copy), SITU_OK);
  assert_int_equal(situ_live_tensors(), before);
  assert_int_equal(situ_scope_end(copy), SITU_E_STATE);
  expect_error(SITU_E_STATE, "scope_end", "not open");
  free(copy);
}

/* Neither NULL, nor what was never begun, nor what has ended closes anything. */
static void what_is_not_open_closes_nothing(void **state) {
  (void)state;
  situ_scope s, never[4] = { { 0, 0 }, { 1, 0 } }, ended;
  memset(&never[2], 0x41, sizeof *never);
  memset(&never[3], 0xff, sizeof *never);
  situ_scope_begin(&ended);
  assert_int_equal(situ_scope_end(&ended), SITU_OK);
  situ_scope_begin(&s);
  situ_tensor *x = one(1);
  for (int i = 0; i < 6; i++) {
    situ_scope *bad = i < 4 ? &never[i] : i == 4 ? &ended : NULL;
    const situ_status status = bad ? SITU_E_STATE : SITU_E_ARG;
    assert_false(situ_scope_is_open(bad));
    assert_int_equal(situ_scope_owned(bad, NULL), 0);
    assert_int_equal(situ_scope_end(bad), status);
    expect_error(status, "scope_end", "");
    expect_refused(situ_escape(bad, x), status, "escape", "");
  }
  situ_scope_begin(NULL);
  expect_error(SITU_E_ARG, "scope_begin", "`scope` is NULL");
  situ_scope_begin_no_grad(NULL);
  expect_error(SITU_E_ARG, "scope_begin_no_grad", "`scope` is NULL");
  assert_true(situ_is_grad_enabled());
  expect_exact(x, SITU_SHAPE(1), 1);
  assert_int_equal(situ_scope_end(&s), SITU_OK);
}

static void a_dead_tensor_is_neither_escaped_nor_set(void **state) {
  (void)state;
  situ_scope s, in;
  situ_tensor *slot = NULL, *good = one(3);
  assert_true(situ_set(&slot, good));
  situ_scope_begin(&s);
  situ_scope_begin(&in);
  situ_tensor *dead = one(1);
  assert_int_equal(situ_scope_end(&in), SITU_OK);
  expect_refused(situ_escape(&s, dead), SITU_E_ARG, "escape", "");
  assert_false(situ_set(&slot, dead));
  expect_error(SITU_E_ARG, "set", "");
  assert_ptr_equal(slot, good);
  assert_false(situ_set(NULL, good));
  expect_error(SITU_E_ARG, "set", "`slot` is NULL");
  assert_int_equal(situ_scope_end(&s), SITU_OK);
  situ_drop(&slot);
}

/* ---- a release that calls back into the program ---- */

static situ_scope around;

static void begin_and_end(void *payload) {
  situ_scope s, forgotten;
  situ_scope_begin(&s);
  situ_scope_begin(&forgotten);
  for (int i = 0; i < 20; i++) one(i);
  assert_int_equal(situ_scope_end(&s), SITU_OK);
  if (payload) assert_int_equal(situ_scope_end(&around), *(situ_status *)payload);
  situ_scope_begin(&s); /* forgotten too */
  one(1);
}

static void a_release_may_begin_and_end_scopes(void **state) {
  (void)state;
  static float memory[2];
  static situ_status ends = SITU_OK;
  int64_t before = situ_live_tensors();
  situ_scope s, outermost;
  situ_scope_begin(&outermost);
  for (int i = 0; i < 2; i++) {
    situ_scope_begin(&around);
    situ_scope_begin(&s);
    one(1);
    situ_from_blob(memory, SITU_SHAPE(2), NULL, begin_and_end, i ? &ends : NULL, NULL);
    one(2);
    assert_int_equal(situ_scope_end(&s), SITU_OK);
    if (!i) assert_int_equal(situ_scope_end(&around), SITU_OK);
    assert_false(situ_scope_is_open(&around));
  }
  assert_int_equal(situ_scope_end(&outermost), SITU_OK);
  assert_int_equal(situ_live_tensors(), before);
}

/* ---- memory ---- */

static void steady(int count) {
  for (int i = 0; i < count; i++) {
    situ_scope a, b, c;
    situ_scope_begin(&a);
    situ_scope_begin_no_grad(&b);
    for (int k = 0; k < 40; k++) one(k);
    situ_scope_begin(&c);
    for (int k = 0; k < 3; k++) one(k);
    assert_int_equal(situ_scope_end(&a), SITU_OK);
  }
}

static void nothing_is_allocated_in_a_steady_state(void **state) {
  (void)state;
  steady(200);
  long before = taken;
  steady(200);
  assert_int_equal(taken, before);
}

static void without_memory_no_scope_is_opened(void **state) {
  (void)state;
  enum { MANY = 200 };
  static situ_scope s[MANY];
  situ_scope outer;
  situ_scope_begin(&outer);
  refusing = true;
  int opened = 0;
  while (opened < MANY && (situ_scope_begin(&s[opened]), situ_error() == SITU_OK)) opened++;
  refusing = false;
  assert_in_range(opened, 0, MANY - 1);
  expect_error(SITU_E_NOMEM, "scope_begin", "");
  assert_false(situ_scope_is_open(&s[opened]));
  assert_int_equal(situ_scope_end(&s[opened]), SITU_E_STATE);
  expect_error(SITU_E_STATE, "scope_end", "never begun");
  assert_non_null(one(1));
  assert_int_equal(situ_scope_end(&outer), SITU_OK);
}

/* ---- threads ---- */

typedef struct task {
  situ_scope scope;
  situ_tensor *kept, *outside;
  situ_status status;
} task;

static void *end_it(void *payload) {
  task *t = payload;
  t->status = situ_scope_end(&t->scope);
  situ_error_clear();
  return NULL;
}

static void a_scope_ends_on_its_own_thread_only(void **state) {
  (void)state;
  task t = { .status = SITU_OK };
  pthread_t thread;
  situ_scope_begin(&t.scope);
  situ_tensor *x = one(1);
  assert_int_equal(pthread_create(&thread, NULL, end_it, &t), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_int_equal(t.status, SITU_E_STATE);
  expect_exact(x, SITU_SHAPE(1), 1);
  assert_int_equal(situ_scope_end(&t.scope), SITU_OK);
}

static void *forget_all(void *payload) {
  task *t = payload;
  t->outside = one(5);
  situ_scope_begin(&t->scope);
  t->kept = situ_retain(one(4));
  for (int i = 0; i < 100; i++) {
    forget();
    one(2);
  }
  return NULL;
}

/* What its open scopes own goes with the thread; what others hold, or was made outside any scope, stays. */
static void a_thread_takes_its_open_scopes_with_it(void **state) {
  (void)state;
  int64_t before = situ_live_tensors();
  for (int i = 0; i < 8; i++) {
    task t = { .status = SITU_OK };
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, forget_all, &t), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(situ_live_tensors(), before + 2);
    assert_int_equal(situ_scope_end(&t.scope), SITU_E_STATE);
    expect_error(SITU_E_STATE, "scope_end", "another thread");
    expect_exact(t.kept, SITU_SHAPE(1), 4);
    expect_exact(t.outside, SITU_SHAPE(1), 5);
    situ_release(t.kept);
    situ_release(t.outside);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(a_forgotten_scope_depends_on_no_frame),
                                      TEST(begun_twice_the_first_is_forgotten),
                                      TEST(a_copy_names_the_same_scope),
                                      TEST(what_is_not_open_closes_nothing),
                                      TEST(a_dead_tensor_is_neither_escaped_nor_set),
                                      TEST(a_release_may_begin_and_end_scopes),
                                      TEST(nothing_is_allocated_in_a_steady_state),
                                      TEST(without_memory_no_scope_is_opened),
                                      TEST(a_scope_ends_on_its_own_thread_only),
                                      TEST(a_thread_takes_its_open_scopes_with_it) };
  situ_set_allocator(&(situ_allocator){ take, take_more, give, NULL });
  return cmocka_run_group_tests(tests, NULL, NULL);
}
