/* The findings of one preflight together: their lines are the program's own, and their fixes, all applied as they are
   printed, mend the model with the fewest bytes moved. Models are made from a number: layers in layers, shared or not, on
   several devices by calls or by a map. */
/* test-devices: sim:0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "situ/policy.h"
#include "support/pairs.h"

enum { WIDTH = 4, LAYERS = 5 };

static situ_device far(int i) { return test_device_at(i); }
static situ_device any(int i) { return i ? far(i - 1) : situ_dev("cpu"); }

static situ_tensor *batch(situ_device device) {
  return situ_set_name(situ_ones(SITU_SHAPE(2, WIDTH), &(situ_options){ .device = device }), "x");
}
static situ_nn_module *layer(void) { return situ_nn_linear(WIDTH, WIDTH, NULL); }
static situ_nn_module *row_of(int count) {
  situ_nn_module *m = situ_nn_sequential(layer());
  while (--count) assert_non_null(situ_nn_append(m, layer()));
  return situ_nn_set_name(m, "model");
}

static void check(situ_nn_module *m, situ_tensor *x, situ_place_report *r) {
  situ_tree *in = situ_tree_tensor(x);
  expect_ok(situ_place_check(m, in, NULL, r));
  situ_tree_free(in);
}

/* ---- lines ---- */

/* placement: D7 */
static void a_finding_has_the_lines_of_the_program(void **state) {
  (void)state;
  if (!test_has_lines()) skip();
  const int line = __LINE__;
  situ_nn_module *m = situ_nn_set_name(situ_nn_sequential(situ_nn_linear(4, 4, NULL), situ_nn_relu()), "model");
  situ_tensor *x = situ_set_name(situ_ones(SITU_SHAPE(2, 4), &(situ_options){ .device = far(0) }), "x");
  situ_place_report r;
  check(m, x, &r);
  assert_int_equal(r.finding_count, 1);
  char made[2][64];
  for (int i = 0; i < 2; i++) (void)snprintf(made[i], sizeof made[i], "created at agree.c:%d\n", line + 1 + i);
  const char *weight = strstr(r.findings[0].text, made[0]), *input = strstr(r.findings[0].text, made[1]);
  if (!weight || !input || !strstr(weight + 1, made[0])) fail_msg("not line %d on:\n%s", line, r.findings[0].text);
  situ_place_report_free(&r);
  const int moved = __LINE__;
  expect_ok(situ_nn_to(m, far(1)));
  (void)snprintf(made[0], sizeof made[0], "moved by situ_nn_to at agree.c:%d\n", moved + 1);
  check(m, x, &r);
  if (!strstr(r.findings[0].text, made[0])) fail_msg("not line %d:\n%s", moved + 1, r.findings[0].text);
  situ_place_report_free(&r);
  situ_nn_free(m);
}

/* ---- cases by hand ---- */

static void what_is_right_is_not_blamed(void **state) {
  (void)state;
  situ_nn_module *m = row_of(4);
  expect_ok(situ_nn_to(m, far(0)));
  for (int k = 1; k < 4; k += 2) expect_ok(situ_nn_to(situ_nn_at(m, k), situ_dev("cpu")));
  situ_place_report r;
  check(m, batch(far(0)), &r);
  assert_int_equal(r.finding_count, 2);
  for (int k = 0; k < 2; k++) {
    char fix[128];
    (void)snprintf(fix, sizeof fix, "situ_nn_to(situ_nn_get_submodule(model, \"%d\"), situ_dev(\"%s\"));", 2 * k + 1,
                   name_of(far(0)));
    assert_ptr_equal(strstr(r.findings[k].fix, fix), r.findings[k].fix);
    assert_null(strchr(r.findings[k].fix, '\n'));
    assert_non_null(strstr(r.findings[k].text, ">weight"));
  }
  situ_place_report_free(&r);
  situ_nn_free(m);
}

/* The first layer and x are on the host: no operand of the refused call can say so. */
static void the_fewest_bytes_move(void **state) {
  (void)state;
  situ_nn_module *m = row_of(4);
  for (int k = 1; k < 4; k++) expect_ok(situ_nn_to(situ_nn_at(m, k), far(0)));
  situ_place_report r;
  char fix[160];
  check(m, batch(situ_dev("cpu")), &r);
  assert_int_equal(r.finding_count, 1);
  (void)snprintf(fix, sizeof fix, "situ_nn_to(model, situ_dev(\"%s\"));", name_of(far(0)));
  assert_ptr_equal(strstr(r.findings[0].fix, fix), r.findings[0].fix);
  (void)snprintf(fix, sizeof fix, "\nx = situ_to(x, situ_dev(\"%s\"));", name_of(far(0)));
  assert_non_null(strstr(r.findings[0].fix, fix));
  assert_non_null(strstr(r.findings[0].text, "\n       x = situ_to(x, "));
  situ_place_report_free(&r);
  situ_nn_free(m);
}

/* A map is meant: what moves is an operand, by a policy; who does not want that moves all to one place. */
static void a_map_stays_and_the_other_choice_is_one(void **state) {
  (void)state;
  situ_nn_module *m = row_of(3);
  char map[64], fix[128];
  (void)snprintf(map, sizeof map, "0=%s,1=%s", name_of(far(0)), name_of(far(1)));
  expect_ok(situ_nn_to_map(m, map));
  situ_place_report r;
  check(m, batch(far(0)), &r);
  assert_int_equal(r.finding_count, 2);
  (void)snprintf(fix, sizeof fix, "\nor situ_nn_to(model, situ_dev(\"%s\"));", name_of(far(0)));
  for (int k = 0; k < 2; k++) {
    assert_ptr_equal(strstr(r.findings[k].fix, "situ_policy_begin("), r.findings[k].fix);
    assert_ptr_equal(strstr(r.findings[k].fix, fix), strchr(r.findings[k].fix, '\n'));
  }
  situ_place_report_free(&r);
  situ_nn_free(m);
}

/* ---- programs from numbers ---- */

typedef struct program {
  situ_nn_module *model;
  situ_tensor *x;
  situ_policy policy;
} program;

static uint64_t numbers;
static int draw(int below) {
  numbers = numbers * 6364136223846793005u + 1442695040888963407u;
  return (int)((numbers >> 33) % (uint64_t)below);
}

static situ_nn_module *make_part(situ_nn_module *before) {
  const int kind = draw(6);
  if (kind == 0 && before) return situ_nn_retain(before);
  return kind == 1 ? situ_nn_sequential(layer(), situ_nn_tanh(), layer()) : layer();
}

static void place(program *p, int count) {
  char map[128] = "";
  const int how = draw(3);
  if (how == 1) expect_ok(situ_nn_to(p->model, any(draw(3))));
  for (int k = 0; k < count; k++) {
    const situ_device d = any(draw(3));
    if (how == 2) (void)snprintf(map + strlen(map), sizeof map - strlen(map), "%s%d=%s", k ? "," : "", k, name_of(d));
    else if (how == 0 || draw(3) == 0) expect_ok(situ_nn_to(situ_nn_at(p->model, k), d));
  }
  if (how == 2 && situ_nn_to_map(p->model, map) != SITU_OK) situ_error_clear(); /* a shared layer is in two rules */
}

static program make(uint64_t seed) {
  numbers = seed * 2654435761u + 12345;
  const int count = 1 + draw(LAYERS);
  situ_nn_module *part = make_part(NULL);
  program p = { .model = situ_nn_set_name(situ_nn_sequential(part), "model") };
  for (int k = 1; k < count; k++) assert_non_null(situ_nn_append(p.model, part = make_part(part)));
  place(&p, count);
  p.x = batch(any(draw(3)));
  return p;
}

static bool run(const program *p) {
  situ_setting before;
  situ_policy_begin(&before, p->policy);
  const situ_tensor *y = situ_nn_forward(p->model, p->x);
  situ_policy_end(&before);
  return y != NULL;
}

/* ---- what the texts say ---- */

static void allow_copies(program *p, const char *line) {
  const char *end = strchr(line, '}');
  const char *const said[] = { strstr(line, "host_to_device"), strstr(line, "device_to_host"),
                               strstr(line, "device_to_device") };
  uint8_t *const field[] = { &p->policy.host_to_device, &p->policy.device_to_host, &p->policy.device_to_device };
  for (int i = 0; i < 3; i++)
    if (said[i] && said[i] < end) *field[i] = SITU_POLICY_COPY;
}

static void make_statement(program *p, const char *line) {
  char device[16], path[64];
  if (sscanf(line, "x = situ_to(x, situ_dev(\"%15[^\"]", device) == 1)
    p->x = situ_set_name(situ_to(p->x, situ_dev(device)), "x");
  else if (sscanf(line, "situ_nn_to(model, situ_dev(\"%15[^\"]", device) == 1)
    expect_ok(situ_nn_to(p->model, situ_dev(device)));
  else if (sscanf(line, "situ_nn_to(situ_nn_get_submodule(model, \"%63[^\"]\"), situ_dev(\"%15[^\"]", path, device) ==
           2)
    expect_ok(situ_nn_to(situ_nn_get_submodule(p->model, path), situ_dev(device)));
  else if (strncmp(line, "situ_policy_begin(", 18) == 0) allow_copies(p, line);
  else fail_msg("no statement of this program: %s", line);
}

static int count_choices(const char *fix) {
  int count = *fix != 0;
  for (const char *at = fix; (at = strstr(at, "\nor ")); at++) count++;
  return count;
}

static void make_choice(program *p, const char *fix, int choice) {
  for (int at = 0; *fix; fix += strcspn(fix, "\n"), fix += *fix != 0) {
    const bool other = strncmp(fix, "or ", 3) == 0;
    at += other;
    if (at == choice) make_statement(p, fix + (other ? 3 : 0));
  }
}

/* Bytes of the model and x by device: cpu, far(0), far(1). */
static void weigh(const program *p, uint64_t bytes[3]) {
  situ_tree *list = situ_nn_parameters(p->model);
  memset(bytes, 0, 3 * sizeof *bytes);
  for (int64_t i = 0; i <= situ_tree_count(list); i++) {
    const situ_tensor *t = i < situ_tree_count(list) ? situ_tree_tensor_at(list, i) : p->x;
    for (int d = 0; d < 3; d++)
      if (situ_device_equal(situ_device_of(t), any(d))) bytes[d] += 4 * (uint64_t)situ_numel(t);
  }
  situ_tree_free(list);
}

/* Of all that moved to another device. */
static uint64_t bytes_away(const uint64_t before[3], const uint64_t after[3]) {
  uint64_t away = 0;
  for (int d = 0; d < 3; d++)
    if (before[d] > after[d]) away += before[d] - after[d];
  return away;
}

/* Returns the number of choices that the findings offer together. */
static int try_choice(uint64_t seed, int choice, int *findings) {
  uint64_t before[3], after[3], most = 0, all = 0;
  situ_place_report r;
  int choices = 1;
  situ_scope s;
  situ_scope_begin(&s);
  program p = make(seed);
  weigh(&p, before);
  check(p.model, p.x, &r);
  *findings = (int)r.mistakes;
  for (int64_t i = 0; i < r.finding_count; i++) {
    if (r.findings[i].note) continue;
    const int own = count_choices(r.findings[i].fix);
    if (!own) fail_msg("program %d: no fix:\n%s", (int)seed, r.findings[i].text);
    if (!i || own < choices) choices = own;
    make_choice(&p, r.findings[i].fix, choice);
  }
  if (!run(&p)) {
    situ_place_report_print(&r);
    fail_msg("program %d: choice %d of all findings does not mend:\n%s", (int)seed, choice, situ_error_message());
  }
  weigh(&p, after);
  for (int d = 0; d < 3; d++) all += before[d], most = before[d] > most ? before[d] : most;
  if (!choice && bytes_away(before, after) > all - most) {
    situ_place_report_print(&r);
    fail_msg("program %d: more bytes moved than all to one device need", (int)seed);
  }
  situ_place_report_free(&r);
  situ_nn_free(p.model);
  SITU_IGNORE(situ_scope_end(&s));
  return choices;
}

/* placement: D8, D10 */
static void all_fixes_of_a_report_mend_together(void **state) {
  (void)state;
  const int programs = getenv("SITU_TEST_ALL") ? 5000 : 300;
  int wrong = 0, several = 0, tried = 0;
  for (int seed = 0; seed < programs; seed++) {
    int findings, choices = 1;
    for (int choice = 0; choice < choices; choice++, tried++) choices = try_choice((uint64_t)seed, choice, &findings);
    wrong += findings > 0;
    several += findings > 1;
  }
  printf("%d programs, %d with mistakes, %d with several; %d times all fixes applied\n", programs, wrong, several,
         tried);
  assert_true(wrong > programs / 2 && several > programs / 4);
}

/* ---- one answer ---- */

/* Makes all statements but one, and runs. */
static bool runs_with(program *p, const situ_place_fixes *f, int64_t without) {
  for (int64_t i = 0; i < f->count; i++)
    if (i != without) make_statement(p, f->statements[i].code);
  return run(p);
}

static bool try_answer(uint64_t seed) {
  uint64_t before[3], after[3], most = 0, all = 0;
  situ_place_fixes f;
  situ_scope s;
  situ_scope_begin(&s);
  program p = make(seed);
  situ_tree *in = situ_tree_tensor(p.x);
  expect_ok(situ_place_mend(p.model, in, NULL, &f));
  assert_int_equal(f.left, 0);
  assert_true(!f.mistakes == !f.count);
  weigh(&p, before);
  for (int64_t without = f.count - 1; without >= -1; without--) {
    program own = make(seed);
    if (runs_with(&own, &f, without) != (without < 0))
      fail_msg("program %d: statement %d of %d: %s", (int)seed, (int)without, (int)f.count, situ_error_message());
    situ_error_clear();
    weigh(&own, after);
    situ_nn_free(own.model);
  }
  for (int d = 0; d < 3; d++) all += before[d], most = before[d] > most ? before[d] : most;
  assert_int_equal(f.bytes, bytes_away(before, after));
  assert_in_range(f.bytes, 0, all - most);
  const bool wrong = f.mistakes > 0;
  situ_place_fixes_free(&f);
  situ_tree_free(in);
  situ_nn_free(p.model);
  SITU_IGNORE(situ_scope_end(&s));
  return wrong;
}

static void one_answer_moves_the_fewest_bytes(void **state) {
  (void)state;
  const int programs = getenv("SITU_TEST_ALL") ? 5000 : 300;
  int wrong = 0;
  for (int seed = 0; seed < programs; seed++) wrong += try_answer((uint64_t)seed);
  assert_in_range(wrong, programs / 2 + 1, programs - 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    MODULE_TEST(a_finding_has_the_lines_of_the_program),
    MODULE_TEST(what_is_right_is_not_blamed),
    MODULE_TEST(the_fewest_bytes_move),
    MODULE_TEST(a_map_stays_and_the_other_choice_is_one),
    MODULE_TEST(all_fixes_of_a_report_mend_together),
    MODULE_TEST(one_answer_moves_the_fewest_bytes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
