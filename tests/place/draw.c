/* Trees, JSON, snapshots and what changed between two: exact, shared storages once, hostile names
   harmless.
   SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "place/draw_model.h"

static char text[1 << 16];

static const char *tree(situ_nn_module *m, const situ_place_print_options *options) {
  int64_t length = situ_place_to_string(m, options, text, sizeof text);
  assert_int_equal(length, strlen(text));
  return text;
}

static void says(const char *what) {
  if (!strstr(text, what)) fail_msg("no \"%s\" in:\n%s", what, text);
}
static void does_not_say(const char *what) {
  if (strstr(text, what)) fail_msg("\"%s\" in:\n%s", what, text);
}

static const situ_place_print_options ascii = { .ascii = true };

/* placement: B14, J2, J3 */
static void a_stranger_reads_the_tree(void **state) {
  (void)state;
  situ_nn_module *m = draw_model();
  assert_string_equal(tree(m, &ascii),
                      "ModuleList                    6.5 KiB  mixed (cpu 2.1 KiB, sim:0 3.3 KiB, sim:1 1.1 KiB)\n"
                      "|- 0: Embedding               2.0 KiB  cpu\n"
                      "|  `- weight                  2.0 KiB  cpu    f32  [64, 8]  parameter\n"
                      "|- 1: ModuleList              4.4 KiB  mixed (sim:0 3.3 KiB, sim:1 1.1 KiB)\n"
                      "|  |- 0 .. 2: 3 x Sequential  3.3 KiB  sim:0  each 1.1 KiB\n"
                      "|  |  |- 0: Linear              576 B  sim:0\n"
                      "|  |  |  |- weight              512 B  sim:0  f32  [16, 8]  parameter\n"
                      "|  |  |  `- bias                 64 B  sim:0  f32  [16]     parameter\n"
                      "|  |  |- 1: ReLU\n"
                      "|  |  `- 2: Linear              544 B  sim:0\n"
                      "|  |     |- weight              512 B  sim:0  f32  [8, 16]  parameter\n"
                      "|  |     `- bias                 32 B  sim:0  f32  [8]      parameter\n"
                      "|  `- 3: Sequential           1.1 KiB  sim:1\n"
                      "|     |- 0: Linear              576 B  sim:1\n"
                      "|     |  |- weight              512 B  sim:1  f32  [16, 8]  parameter\n"
                      "|     |  `- bias                 64 B  sim:1  f32  [16]     parameter\n"
                      "|     |- 1: ReLU\n"
                      "|     `- 2: Linear              544 B  sim:1\n"
                      "|        |- weight              512 B  sim:1  f32  [8, 16]  parameter\n"
                      "|        `- bias                 32 B  sim:1  f32  [8]      parameter\n"
                      "|- 2: BatchNorm1d               136 B  cpu\n"
                      "|  |- weight                     32 B  cpu    f32  [8]      parameter\n"
                      "|  |- bias                       32 B  cpu    f32  [8]      parameter\n"
                      "|  |- running_mean               32 B  cpu    f32  [8]      buffer\n"
                      "|  |- running_var                32 B  cpu    f32  [8]      buffer\n"
                      "|  `- num_batches_tracked         8 B  cpu    i64  []       buffer\n"
                      "`- 3: Embedding                     -  cpu    = 0\n"
                      "\n"
                      "total    6.5 KiB in 22 tensors on 3 devices\n"
                      "cpu          2.1 KiB  32.8 %  ##############\n"
                      "sim:0        3.3 KiB  50.4 %  #####################\n"
                      "sim:1        1.1 KiB  16.8 %  #######\n");
  situ_nn_free(m);
}

static void options_change_what_is_shown(void **state) {
  (void)state;
  situ_nn_module *m = draw_model();
  tree(m, &(situ_place_print_options){ .ascii = true, .depth = 1 });
  says("|- 1: ModuleList   4.4 KiB  mixed (sim:0 3.3 KiB, sim:1 1.1 KiB)\n|- 2");
  does_not_say("Linear");
  tree(m, &(situ_place_print_options){ .expand = true });
  says("│  ├─ 1: Sequential");
  does_not_say("..");
  tree(m, &(situ_place_print_options){ .colour = true });
  says("\033[36msim:0\033[0m");
  says("mixed (\033[32mcpu\033[0m 2.1 KiB, ");
  tree(m, NULL);
  does_not_say("\033");
  /* As snprintf does. */
  char cut[9];
  int64_t length = (int64_t)strlen(tree(m, &ascii));
  assert_int_equal(situ_place_to_string(m, &ascii, cut, sizeof cut), length);
  assert_string_equal(cut, "ModuleLi");
  assert_int_equal(situ_place_to_string(m, &ascii, NULL, 0), length);
  situ_nn_free(m);
}

/* Two parameters on one storage, and a module that is only sums. */
static void shared_storages_count_once(void **state) {
  (void)state;
  situ_tensor *whole = situ_zeros(SITU_SHAPE(4, 8), NULL);
  situ_nn_module *m = situ_nn_module_list(situ_nn_relu()), *pair = situ_nn_module_list(situ_nn_relu());
  situ_nn_add_tensor(pair, "whole", NULL, whole, SITU_NN_BUFFER);
  situ_nn_add_tensor(pair, "row", NULL, situ_select(whole, 0, 1), SITU_NN_TRANSIENT);
  situ_nn_add_child(m, "pair", NULL, pair);
  tree(m, &ascii);
  says("   |- whole          128 B  cpu  f32  [4, 8]  buffer\n");
  says("   |- row                -  cpu  f32  [8]     transient  = pair.whole\n");
  says("total      128 B in 1 tensor on 1 device\n");
  situ_placement place;
  must(situ_place_of(m, &place));
  assert_int_equal(place.bytes, 128);
  assert_int_equal(place.buffers, 1);
  assert_false(place.mixed);
  situ_nn_free(m);
}

/* Blocks are shown together only if they have the same parts: not if one begins as the other and goes on. */
static void equal_blocks_are_equal_to_the_end(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_module_list(situ_nn_sequential(situ_nn_linear(2, 2, NULL)),
                                          situ_nn_sequential(situ_nn_linear(2, 2, NULL), situ_nn_relu()));
  tree(m, &ascii);
  says("|- 0: Sequential");
  says("`- 1: Sequential");
  says("   `- 1: ReLU\n");
  does_not_say("..");
  situ_nn_free(m);
  situ_nn_module *part = situ_nn_relu();
  m = situ_nn_module_list(part, situ_nn_retain(part), situ_nn_retain(part));
  tree(m, &ascii);
  says("|- 1: ReLU");
  says("`- 2: ReLU"); /* each second name says whose it is */
  situ_nn_free(m);
}

static void nothing_is_shown_as_nothing(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_relu();
  assert_string_equal(tree(m, &ascii), "ReLU\n\ntotal        0 B in 0 tensors on 0 devices\n");
  situ_placement place;
  must(situ_place_of(m, &place));
  assert_int_equal(place.device.kind, 0);
  situ_nn_free(m);
}

static void json_has_the_same_facts(void **state) {
  (void)state;
  situ_nn_module *m = draw_model();
  int64_t length = situ_place_json(m, text, sizeof text);
  assert_int_equal(length, strlen(text));
  says("{\"bytes\": 6664,\n \"devices\": [{\"device\": \"cpu\", \"bytes\": 2184, \"tensors\": "
       "6},\n  "
       "{\"device\": \"sim:0\", \"bytes\": 3360, \"tensors\": 12},");
  says("{\"path\": \"1\", \"type\": \"ModuleList\", \"bytes\": 4480, \"devices\": [{\"device\": "
       "\"sim:0\", "
       "\"bytes\": 3360, \"tensors\": 12}, {\"device\": \"sim:1\", \"bytes\": 1120, \"tensors\": "
       "4}], "
       "\"tied\": null}");
  says("{\"path\": \"1.3.0.weight\", \"role\": \"parameter\", \"device\": \"sim:1\", \"dtype\": "
       "\"f32\", "
       "\"shape\": [16, 8], \"bytes\": 512, \"reason\": \"moved\", \"by\": \"nn_to\"");
  says("{\"path\": \"3.weight\", \"role\": \"parameter\", \"device\": \"cpu\", \"dtype\": \"f32\", "
       "\"shape\": [64, 8], \"bytes\": 0, \"reason\": \"default\"");
  says("\"tied\": \"0.weight\"}]}\n");
  situ_nn_free(m);
}

/* ---- snapshots ------------------------------------------------------------------------------- */

/* placement: J5 */
static void a_diff_says_what_changed(void **state) {
  (void)state;
  situ_nn_module *m = draw_model();
  situ_snapshot *before = situ_place_snapshot(m);
  assert_int_equal(situ_place_diff(before, before, text, sizeof text), 0);
  assert_string_equal(text, "");

  must(situ_nn_to(situ_nn_get_submodule(m, "1.0.2"), situ_dev("cpu")));
  /* The tie is broken by hand. */
  situ_nn_module *own = situ_nn_embedding(64, 8, NULL);
  situ_nn_add_child(m, "3", NULL, own);
  situ_nn_add_tensor(own, "scale", NULL, situ_ones(SITU_SHAPE(2), NULL), SITU_NN_TRANSIENT);
  situ_nn_add_tensor(situ_nn_get_submodule(m, "2"), "running_var", NULL,
                     situ_ones(SITU_SHAPE(9), &(situ_options){ .dtype = SITU_F64 }), SITU_NN_BUFFER);
  situ_snapshot *after = situ_place_snapshot(m);
  static const char want[] = "1.0.2.bias: sim:0 -> cpu\n"
                             "1.0.2.weight: sim:0 -> cpu\n"
                             "2.running_var: f32 -> f64, [8] -> [9]\n"
                             "3.scale: added (cpu f32 [2] transient)\n"
                             "3.weight: tied to 0.weight -> tied to nothing\n";
  assert_int_equal(situ_place_diff(before, after, text, sizeof text), sizeof want - 1);
  assert_string_equal(text, want);
  situ_place_diff(after, before, text, sizeof text);
  says("3.scale: removed (cpu f32 [2] transient)\n");
  says("3.weight: tied to nothing -> tied to 0.weight\n");
  /* A snapshot holds nothing of the module. */
  situ_nn_free(m);
  assert_string_equal(situ_snapshot_at(before, 0)->type, "ModuleList");
  assert_int_equal(situ_snapshot_at(before, 0)->bytes, 6664);
  assert_null(situ_snapshot_at(before, situ_snapshot_count(before)));
  assert_null(situ_snapshot_at(before, -1));
  situ_snapshot_free(before);
  situ_snapshot_free(after);
}

static void a_diff_tells_roles_apart(void **state) {
  (void)state;
  situ_place_entry e = { .path = "w", .role = SITU_PLACE_BUFFER, .type = "f32", .device = { SITU_CPU, 0 }, .bytes = 4 };
  situ_snapshot *before = situ_snapshot_of(&e, 1);
  e.role = SITU_PLACE_TRANSIENT;
  situ_snapshot *after = situ_snapshot_of(&e, 1);
  situ_place_diff(before, after, text, sizeof text);
  assert_string_equal(text, "w: buffer -> transient\n");
  assert_int_equal(situ_place_diff(before, NULL, text, sizeof text), -1);
  expect_error(SITU_E_ARG, "place_diff", "`after` is NULL");
  situ_snapshot_free(before);
  situ_snapshot_free(after);
}

static void facts_from_elsewhere_make_a_snapshot(void **state) {
  (void)state;
  situ_device cuda;
  must(situ_place_device("cuda:7", &cuda)); /* of a machine that this one need not be */
  const situ_place_entry entries[] = {
    { .path = "", .role = SITU_PLACE_MODULE, .type = "a file" },
    { .path = "a.b.w",
      .role = SITU_PLACE_TENSOR,
      .type = "F8_E4M3",
      .device = cuda,
      .shape = SITU_SHAPE(3),
      .bytes = 3 },
    { .path = "a.c.w", .role = SITU_PLACE_TENSOR, .type = "f32", .device = cuda, .shape = SITU_SCALAR, .bytes = 4 },
    { .path = "d", .role = SITU_PLACE_TENSOR, .type = "f32", .device = cuda, .shape = SITU_SCALAR, .tied = "a.c.w" },
  };
  situ_snapshot *s = situ_snapshot_of(entries, 4);
  assert_int_equal(situ_snapshot_count(s), 7);
  assert_string_equal(situ_snapshot_at(s, 1)->path, "a");
  assert_int_equal(situ_snapshot_at(s, 1)->bytes, 7);
  assert_string_equal(situ_snapshot_at(s, 2)->path, "a.b");
  int64_t length = situ_snapshot_to_string(s, &ascii, text, sizeof text);
  assert_int_equal(length, strlen(text));
  says("a file      7 B  cuda:7\n|- a        7 B  cuda:7\n");
  says("`- d          -  cuda:7  f32      []   tensor  = a.c.w\n");
  situ_snapshot_free(s);
}

static void a_root_is_added(void **state) {
  (void)state;
  const situ_place_entry w = {
    .path = "a.w", .role = SITU_PLACE_BUFFER, .type = "f32", .device = { SITU_CPU, 0 }, .bytes = 4
  };
  situ_snapshot *s = situ_snapshot_of(&w, 1);
  assert_int_equal(situ_snapshot_count(s), 3);
  assert_string_equal(situ_snapshot_at(s, 0)->path, "");
  assert_int_equal(situ_snapshot_at(s, 0)->bytes, 4);
  assert_string_equal(situ_snapshot_at(s, 1)->path, "a");
  situ_snapshot_free(s);
}

static void bad_facts_are_refused(void **state) {
  (void)state;
  const situ_place_entry good = {
    .path = "a.w", .role = SITU_PLACE_BUFFER, .type = "f32", .device = { SITU_CPU, 0 }, .bytes = 4
  };
  situ_place_entry two[2] = { good, good };
  expect_refused(situ_snapshot_of(two, 2), SITU_E_ARG, "snapshot_of", "'a.w' is there twice");
  two[1] = (situ_place_entry){ .path = "b", .role = SITU_PLACE_BUFFER, .type = "f32", .tied = "nobody" };
  expect_refused(situ_snapshot_of(two, 2), SITU_E_ARG, "snapshot_of", "does not come before");
  two[1] = (situ_place_entry){ .path = "", .role = SITU_PLACE_MODULE, .type = "" };
  expect_refused(situ_snapshot_of(two, 2), SITU_E_ARG, "snapshot_of", "the root");
  two[1] = good, two[1].path = NULL;
  expect_refused(situ_snapshot_of(two, 2), SITU_E_ARG, "snapshot_of", "`path` is NULL");
  two[1] = good, two[1].path = "b", two[1].device.kind = 99;
  expect_refused(situ_snapshot_of(two, 2), SITU_E_ARG, "snapshot_of", "that is none");
  two[1] = good, two[1].path = "b", two[1].shape.ndim = SITU_MAX_DIMS + 1;
  expect_refused(situ_snapshot_of(two, 2), SITU_E_ARG, "snapshot_of", "that is none");
  two[1] = good, two[1].path = "b", two[1].bytes = UINT64_MAX;
  expect_refused(situ_snapshot_of(two, 2), SITU_E_OVERFLOW, "snapshot_of", "64 bits");
  expect_refused(situ_snapshot_of(NULL, 1), SITU_E_ARG, "snapshot_of", "`entries` is NULL");
  expect_refused(situ_place_snapshot(NULL), SITU_E_ARG, "place_snapshot", "`module` is NULL");
  assert_int_equal(situ_place_to_string(NULL, NULL, text, sizeof text), -1);
  expect_error(SITU_E_ARG, "place_snapshot", "");
  situ_device device = { SITU_SIM, 1 };
  static const char *const names[] = { "",        "cpu:1", "cpu:0",   "gpu",        "cuda:",  "cuda:01",
                                       "cuda:-1", "CPU",   "cuda:0 ", "cuda:99999", "default" };
  assert_int_equal(situ_place_device(NULL, &device), SITU_E_ARG);
  expect_error(SITU_E_ARG, "place_device", "`name` is NULL");
  assert_int_equal(situ_place_device("cpu", NULL), SITU_E_ARG);
  expect_error(SITU_E_ARG, "place_device", "`out` is NULL");
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (situ_place_device(names[i], &device) != SITU_E_ARG) fail_msg("'%s' was read", names[i]);
    expect_error(SITU_E_ARG, "place_device", names[i]);
    assert_true(device.kind == SITU_SIM && device.index == 1);
  }
}

/* What a name says must not steer a terminal or break JSON; a very deep one must not be followed
   down. */
static void hostile_names_are_harmless(void **state) {
  (void)state;
  enum { DOTS = 5000 };
  static char deep[2 * DOTS + 2];
  for (int i = 0; i < DOTS; i++) memcpy(deep + (size_t)i * 2, "a.", 2);
  deep[2 * DOTS] = 'w';
  const situ_place_entry entries[] = {
    { .path = "a\033[31m\n\"b\\\xff\xc2\x9b.w\xe2\x82\xac",
      .role = SITU_PLACE_TENSOR,
      .type = "f32",
      .device = { SITU_CPU, 0 },
      .bytes = 4 },
    { .path = deep, .role = SITU_PLACE_TENSOR, .type = "f32", .device = { SITU_CPU, 0 }, .bytes = 4 },
    { .path = "..", .role = SITU_PLACE_TENSOR, .type = "f32", .device = { SITU_CPU, 0 }, .bytes = 4 },
  };
  situ_snapshot *s = situ_snapshot_of(entries, 3);
  assert_non_null(s);
  assert_int_equal(situ_snapshot_at(s, 0)->bytes, 12);
  int64_t length = situ_snapshot_to_string(s, &ascii, NULL, 0);
  char *whole = malloc((size_t)length + 1);
  situ_snapshot_to_string(s, &ascii, whole, (size_t)length + 1);
  assert_null(strchr(whole, '\033'));
  assert_non_null(strstr(whole, "a?[31m?\"b\\??"));
  free(whole);
  length = situ_snapshot_json(s, NULL, 0);
  whole = malloc((size_t)length + 1);
  situ_snapshot_json(s, whole, (size_t)length + 1);
  assert_non_null(strstr(whole, "\"a?[31m?\\\"b\\\\??.w\xe2\x82\xac\""));
  free(whole);
  situ_snapshot_free(s);
}

/* ---- on a terminal --------------------------------------------------------------------------- */

#define END "-- end --"

/* What situ_place_print writes to a terminal (or to a pipe) is in text. */
static void print_to(situ_nn_module *m, bool terminal) {
  int from, to, saved = dup(STDOUT_FILENO), ends[2];
  if (terminal) {
    from = posix_openpt(O_RDWR | O_NOCTTY);
    assert_true(from >= 0 && grantpt(from) == 0 && unlockpt(from) == 0);
    to = open(ptsname(from), O_RDWR | O_NOCTTY);
  } else {
    assert_int_equal(pipe(ends), 0);
    from = ends[0], to = ends[1];
  }
  fflush(stdout);
  dup2(to, STDOUT_FILENO);
  situ_place_print(m);
  fputs(END, stdout);
  fflush(stdout);
  dup2(saved, STDOUT_FILENO);
  /* A terminal hands over what was written in pieces: one read may get the first of them only. */
  size_t length = 0;
  char *end = NULL;
  while (!end && length < sizeof text - 1) {
    ssize_t got = read(from, text + length, sizeof text - 1 - length);
    if (got <= 0) break;
    length += (size_t)got;
    text[length] = 0;
    end = strstr(text, END);
  }
  assert_non_null(end);
  *end = 0;
  close(saved), close(to), close(from);
}

static void colours_are_for_terminals(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_linear(2, 2, NULL);
  setenv("TERM", "xterm", 1);
  setenv("LC_ALL", "C", 1);
  unsetenv("NO_COLOR");
  print_to(m, true);
  says("\033[1mLinear\033[0m");
  says("\033[32mcpu\033[0m");
  says("|- weight");
  print_to(m, false);
  does_not_say("\033");
  setenv("NO_COLOR", "1", 1);
  print_to(m, true);
  does_not_say("\033");
  setenv("NO_COLOR", "", 1); /* set to nothing is not set */
  print_to(m, true);
  says("\033");
  setenv("TERM", "dumb", 1);
  setenv("LC_ALL", "de_DE.UTF-8", 1);
  print_to(m, true);
  does_not_say("\033");
  says("├─ weight");
  situ_nn_free(m);
}

/* ---- without memory -------------------------------------------------------------------------- */

static int64_t all_of_it(situ_nn_module *m, char *out, size_t size) {
  situ_snapshot *s = situ_place_snapshot(m);
  int64_t length = s ? situ_snapshot_to_string(s, NULL, out, size) : -1;
  if (length >= 0) length = situ_snapshot_json(s, out, size);
  if (length >= 0) length = situ_place_diff(s, s, out, size);
  situ_snapshot *nothing = length >= 0 ? situ_snapshot_of(NULL, 0) : NULL;
  if (length >= 0) length = nothing ? situ_place_diff(nothing, s, out, size) : -1;
  situ_snapshot_free(nothing);
  situ_snapshot_free(s);
  return length;
}

static void every_allocation_may_fail(void **state) {
  (void)state;
  situ_nn_module *m = draw_model();
  uint64_t nth = 1;
  for (;; nth++) {
    situ_fail_allocation(nth, false);
    int64_t length = all_of_it(m, text, sizeof text);
    situ_fail_allocation(0, false);
    if (length >= 0) break;
    expect_error(SITU_E_NOMEM, "", "no memory");
  }
  assert_true(nth > 10);
  situ_nn_free(m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    DRAW_TEST(a_stranger_reads_the_tree),
    DRAW_TEST(options_change_what_is_shown),
    DRAW_TEST(shared_storages_count_once),
    DRAW_TEST(equal_blocks_are_equal_to_the_end),
    DRAW_TEST(nothing_is_shown_as_nothing),
    DRAW_TEST(json_has_the_same_facts),
    DRAW_TEST(a_diff_says_what_changed),
    DRAW_TEST(facts_from_elsewhere_make_a_snapshot),
    DRAW_TEST(a_root_is_added),
    TEST(bad_facts_are_refused),
    DRAW_TEST(hostile_names_are_harmless),
    DRAW_TEST(every_allocation_may_fail),
    DRAW_TEST(a_diff_tells_roles_apart),
    DRAW_TEST(colours_are_for_terminals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
