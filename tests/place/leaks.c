/* The tools of placement give back all memory that they take, also where they fail half-way. Every block is counted, so
   that no sanitizer is needed to see one that is lost. */
#include <stdio.h>
#include <stdlib.h>

#include "situ/place.h"
#include "situ/sys/alloc.h"
#include "place/draw_model.h"

static int64_t held;

static void *take(size_t bytes, size_t alignment, void *payload) {
  (void)payload;
  void *memory = alignment ? aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment) : malloc(bytes);
  if (memory) __atomic_add_fetch(&held, 1, __ATOMIC_RELAXED);
  return memory;
}
static void *retake(void *old, size_t bytes, void *payload) {
  (void)payload;
  void *memory = realloc(old, bytes);
  if (memory && !old) __atomic_add_fetch(&held, 1, __ATOMIC_RELAXED);
  return memory;
}
static void give(void *memory, void *payload) {
  (void)payload;
  free(memory);
  if (memory) __atomic_sub_fetch(&held, 1, __ATOMIC_RELAXED);
}

static situ_nn_module *model;
static situ_optim *optim;
static situ_tree *inputs;

static bool check(void) {
  situ_place_report r;
  char text[4096];
  if (situ_place_check(model, inputs, NULL, &r) != SITU_OK) return false;
  bool good =
      situ_place_report_to_string(&r, text, sizeof text) > 0 && situ_place_report_json(&r, text, sizeof text) > 0;
  situ_place_report_free(&r);
  return good;
}
static bool plan(void) {
  char text[4096];
  return situ_place_plan_to_string(model, &(situ_nn_to_options){ .device = situ_dev("sim:1") }, NULL, text,
                                   sizeof text) > 0;
}
static bool lint(void) {
  char text[4096];
  return situ_place_lint_to_string(model, &(situ_lint_options){ .optims = &optim, .optim_count = 1 }, text,
                                   sizeof text) >= 0;
}
static bool draw(void) {
  const situ_place_edge edge = {
    .from = "0", .to = "2", .from_device = situ_dev("sim:0"), .to_device = situ_dev("sim:1"), .bytes = 4096
  };
  return situ_place_svg(model, "leaks.svg", &(situ_place_svg_options){ .edges = &edge, .edge_count = 1 }) == SITU_OK;
}
static bool snapshot(void) {
  char text[4096];
  situ_snapshot *a = situ_place_snapshot(model), *b = a ? situ_place_snapshot(model) : NULL;
  bool good = b && situ_place_diff(a, b, text, sizeof text) == 0 && situ_snapshot_json(b, text, sizeof text) > 0;
  situ_snapshot_free(a);
  situ_snapshot_free(b);
  return good;
}
static bool lock(void) {
  return situ_place_lock_write(model, "leaks.lock") == SITU_OK && situ_place_lock_check(model, "leaks.lock") == SITU_OK;
}
static bool tell(void) {
  char text[2048];
  return situ_explain_to_string(situ_nn_get_tensor(model, "0.weight"), text, sizeof text) > 0;
}

/* Of a model that is elsewhere, so that the map moves it. */
static bool fit(void) {
  situ_place_layout layout;
  const situ_place_limit limit = { situ_dev("sim:0"), 0 };
  situ_nn_module *m = situ_nn_clone(model);
  bool good = m && situ_nn_to(m, situ_dev("cpu")) == SITU_OK;
  good = good && situ_place_fit(m, inputs, &limit, 1, NULL, &layout) == SITU_OK;
  if (good) situ_place_layout_free(&layout);
  situ_nn_free(m);
  return good;
}
static bool compare(void) {
  situ_place_comparison c;
  return situ_place_compare(model, inputs, situ_dev("sim:0"), situ_dev("sim:1"), NULL, &c) == SITU_OK;
}

static const struct {
  const char *name;
  bool (*run)(void);
} tools[] = { { "check", check }, { "plan", plan }, { "lint", lint }, { "draw", draw },      { "snapshot", snapshot },
              { "lock", lock },   { "tell", tell }, { "fit", fit },   { "compare", compare } };

/* Without what is held back of freed handles, and what is queued. */
static int64_t blocks(void) {
  for (int i = 0; i < 2; i++) must(situ_synchronize((situ_device){ SITU_SIM, (uint16_t)i }));
  must(situ_empty_cache(situ_dev("cpu")));
  return held;
}

static void every_tool_gives_back_what_it_takes(void **state) {
  (void)state;
  model = situ_nn_sequential(situ_nn_linear(8, 16, NULL), situ_nn_relu(), situ_nn_linear(16, 4, NULL));
  must(situ_nn_to(model, situ_dev("sim:0")));
  optim = situ_optim_sgd(situ_nn_parameters(model), 1e-3, NULL);
  inputs = situ_tree_tensor(situ_ones(SITU_SHAPE(2, 8), &(situ_options){ .device = situ_dev("sim:0") }));
  for (size_t i = 0; i < sizeof tools / sizeof *tools; i++) {
    for (int warm = 0; warm < 3; warm++) assert_true(tools[i].run()); /* caches are filled */
    assert_null(situ_relu(NULL));                                     /* a thread keeps the record of its first error */
    situ_error_clear();
    const int64_t before = blocks();
    for (int again = 0; again < 4; again++) assert_true(tools[i].run());
    if (blocks() != before) fail_msg("%s keeps %lld blocks", tools[i].name, (long long)(held - before));
    bool good = false;
    uint64_t nth = 1;
    for (; !good && nth < 2000; nth++) {
      situ_fail_allocation(nth, false);
      good = tools[i].run();
      situ_fail_allocation(0, false);
      situ_error_clear();
      if (blocks() > before)
        fail_msg("%s keeps %lld blocks when allocation %d fails", tools[i].name, (long long)(held - before), (int)nth);
    }
    assert_true(good);
    printf("%s: %d failed allocations\n", tools[i].name, (int)nth - 2);
  }
  situ_tree_free(inputs);
  situ_optim_free(optim);
  situ_nn_free(model);
  remove("leaks.svg");
  remove("leaks.lock");
}

int main(void) {
  const struct CMUnitTest tests[] = { DRAW_TEST(every_tool_gives_back_what_it_takes) };
  situ_set_allocator(&(situ_allocator){ take, retake, give, NULL }); /* before the library holds anything */
  return cmocka_run_group_tests(tests, NULL, NULL);
}
