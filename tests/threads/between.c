/* At each allocation of a save, and of a look at a module, another thread changes the module; at each allocation of a
   change, another thread makes the call: it is refused, or gives what it gives before or behind the change. So each
   moment is tried, not those that luck brings.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu */
/* test-options: -DSITU_TEST_THREADS */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "situ/situ.h"
#include "situ/sys/alloc.h"
#include "support/test.h"

static struct {
  situ_nn_module *net, *program;
  situ_optim *optim;
  situ_tree *inputs, *dict, *load[2];
} w;

/* Takes its input wherever it is, as what its parameters are and where they are: it runs in every state. */
typedef struct suited {
  situ_nn_module base;
  situ_nn_module *body;
} suited;
static situ_tensor *suited_forward(situ_nn_module *self, situ_tensor *x) {
  const suited *m = (suited *)self;
  const situ_tensor *like = situ_nn_get_tensor(m->body, "0.weight");
  return situ_nn_forward(m->body, situ_to(situ_to_dtype(x, situ_dtype_of(like)), situ_device_of(like)));
}
static const situ_nn_type suited_type = { .name = "Suited", .size = sizeof(suited), .forward = suited_forward };

static situ_nn_module *make_net(void) {
  suited *m = situ_nn_alloc(&suited_type);
  situ_nn_child(
      m, body,
      situ_nn_sequential(situ_nn_linear(3, 4, NULL), situ_nn_batch_norm1d(4, NULL), situ_nn_linear(4, 2, NULL)));
  return situ_nn_done(m);
}

/* ---- changes, there and back ---- */

static situ_status cast_net(bool there) { return situ_nn_to_dtype(w.net, there ? SITU_F64 : SITU_F32); }
static situ_status move_net(bool there) { return situ_nn_to(w.net, situ_dev(there ? "sim:0" : "cpu")); }
static situ_status load_net(bool there) { return situ_nn_load_state_dict(w.net, w.load[there], NULL); }
static situ_status set_mode(bool there) {
  return situ_nn_train(w.net, there) && situ_nn_train(w.program, there) ? SITU_OK : situ_error();
}

static const struct change {
  const char *name;
  situ_status (*make)(bool there);
} changes[] = {
  { "nn_to_dtype", cast_net }, { "nn_to", move_net }, { "nn_load_state_dict", load_net }, { "nn_train", set_mode }
};
enum { CHANGES = sizeof changes / sizeof *changes };
static const struct change *change;

/* ---- the other thread ---- */

static void (*job)(void); /* NULL: end */
static sem_t begin, end;
static bool paused, has_ended;      /* has_ended: before the pause was over */
static _Thread_local int64_t until; /* allocations of this thread to the pause, 1: the next; 0: no pause */
static _Thread_local const char *path = "between.out";

static void *do_jobs(void *unused) {
  path = "between.other";
  for (sem_wait(&begin); job; sem_wait(&begin)) {
    situ_scope s;
    situ_scope_begin(&s);
    job();
    SITU_IGNORE(situ_scope_end(&s));
    situ_error_clear();
    sem_post(&end);
  }
  return unused;
}

/* This thread may hold a lock that the job needs: then it goes on. */
static void pause_perhaps(void) {
  enum { NANOSECONDS = 1000000000, MOST = 20000000 };
  struct timespec t;
  if (!until || --until) return;
  paused = true;
  sem_post(&begin);
  (void)clock_gettime(CLOCK_REALTIME, &t);
  t.tv_nsec += MOST;
  t.tv_sec += t.tv_nsec / NANOSECONDS;
  t.tv_nsec %= NANOSECONDS;
  has_ended = sem_timedwait(&end, &t) == 0;
}
static void pause_at(int64_t nth) {
  paused = false;
  until = nth;
}
/* Returns whether there was a pause. */
static bool end_pause(void) {
  until = 0;
  if (paused && !has_ended) sem_wait(&end);
  return paused;
}

static void *take(size_t bytes, size_t alignment, void *payload) {
  (void)payload;
  pause_perhaps();
  return alignment ? aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment) : malloc(bytes);
}
static void *retake(void *old, size_t bytes, void *payload) {
  (void)payload;
  pause_perhaps();
  return realloc(old, bytes);
}
static void give(void *memory, void *payload) {
  (void)payload;
  free(memory);
}

/* ---- calls; each writes what it gives ---- */

enum { WORDS = 1 << 15 };

static situ_status put_file(FILE *to, situ_status status) {
  char bytes[4096];
  FILE *f = status == SITU_OK ? fopen(path, "rb") : NULL;
  for (size_t n; f && (n = fread(bytes, 1, sizeof bytes, f)) > 0;) (void)fwrite(bytes, 1, n, to);
  if (f) (void)fclose(f);
  return status;
}
static situ_status put_text(FILE *to, const char *text, int64_t length) {
  if (length < 0) return situ_error();
  (void)fputs(text, to);
  return SITU_OK;
}
static situ_status put_tensor(const situ_nn_visit *at, void *to) {
  char text[WORDS], device[SITU_DEVICE_NAME_MAX];
  if (situ_to_string(at->tensor, text, sizeof text) < 0) return situ_error();
  (void)fprintf(to, "%s %s %s %s\n", at->path, situ_device_name(situ_device_of(at->tensor), device),
                situ_dtype_name(situ_dtype_of(at->tensor)), text);
  return SITU_OK;
}

static const situ_save_options quick = { .no_sync = true };
static situ_status save_dict(FILE *to) { return put_file(to, situ_save(path, w.dict, &quick)); }
static situ_status save_new_dict(FILE *to) {
  situ_tree *dict = situ_nn_state_dict(w.net);
  const situ_status status = dict ? situ_save(path, dict, &quick) : situ_error();
  situ_tree_free(dict);
  return put_file(to, status);
}
static situ_status save_checkpoint(FILE *to) {
  return put_file(to, situ_checkpoint_save(path, &(situ_checkpoint){ .model = w.net, .optimizer = w.optim }, &quick));
}
static situ_status save_npy(FILE *to) {
  return put_file(to, situ_npy_save(path, situ_tree_tensor_at(w.dict, 0), &quick));
}
static situ_status save_program(FILE *to) { return put_file(to, situ_export_save(w.program, path)); }
static situ_status save_onnx(FILE *to) { return put_file(to, situ_onnx_export(w.program, path, NULL)); }
/* The program is saved with the tensors that it was made of. */
static situ_status trace(FILE *to) {
  situ_nn_module *program = situ_export(w.net, w.inputs);
  until = 0;
  if (!program) return situ_error();
  situ_status status = change->make(false);
  if (status == SITU_OK) status = situ_export_save(program, path);
  situ_nn_free(program);
  return put_file(to, status);
}
static situ_status clone_net(FILE *to) {
  situ_nn_module *copy = situ_nn_clone(w.net);
  const situ_status status = copy ? situ_nn_walk(copy, SITU_NN_VISIT_TENSORS, put_tensor, to) : situ_error();
  situ_nn_free(copy);
  return status;
}
static situ_status walk_net(FILE *to) { return situ_nn_walk(w.net, SITU_NN_VISIT_TENSORS, put_tensor, to); }
static situ_status draw_svg(FILE *to) { return put_file(to, situ_place_svg(w.net, path, NULL)); }
static situ_status write_lock(FILE *to) { return put_file(to, situ_place_lock_write(w.net, path)); }
static situ_status check_net(FILE *to) {
  char text[WORDS];
  situ_place_report report;
  if (situ_place_check(w.net, w.inputs, NULL, &report) != SITU_OK) return situ_error();
  const situ_status status = put_text(to, text, situ_place_report_to_string(&report, text, sizeof text));
  situ_place_report_free(&report);
  return status;
}
static situ_status mend_net(FILE *to) {
  char text[WORDS];
  situ_place_fixes fixes;
  if (situ_place_mend(w.net, w.inputs, NULL, &fixes) != SITU_OK) return situ_error();
  const situ_status status = put_text(to, text, situ_place_fixes_to_string(&fixes, text, sizeof text));
  situ_place_fixes_free(&fixes);
  return status;
}
static situ_status fit_net(FILE *to) {
  const situ_place_limit limit[] = { { .device = situ_dev("cpu") }, { .device = situ_dev("sim:1"), .bytes = 1 << 20 } };
  situ_place_layout layout;
  if (situ_place_fit(w.net, w.inputs, limit, 2, NULL, &layout) != SITU_OK) return situ_error();
  (void)fprintf(to, "%s\n", layout.map);
  situ_place_layout_free(&layout);
  return SITU_OK;
}
static situ_status compare_net(FILE *to) {
  situ_place_comparison found;
  if (situ_place_compare(w.net, w.inputs, situ_dev("cpu"), situ_dev("sim:1"), NULL, &found) != SITU_OK)
    return situ_error();
  return put_text(to, found.text, 0);
}
#define LOOK(name, call)              \
  static situ_status name(FILE *to) { \
    char text[WORDS];                 \
    return put_text(to, text, call);  \
  }
LOOK(print_net, situ_nn_to_string(w.net, text, sizeof text))
LOOK(place_text, situ_place_to_string(w.net, NULL, text, sizeof text))
LOOK(place_json, situ_place_json(w.net, text, sizeof text))
LOOK(lint_net, situ_place_lint_to_string(w.net, NULL, text, sizeof text))
LOOK(sign_net, situ_place_signature(w.net, w.inputs, text, sizeof text))
LOOK(plan_move,
     situ_place_plan_to_string(w.net, &(situ_nn_to_options){ .device = situ_dev("sim:1") }, NULL, text, sizeof text))

static const struct call {
  const char *name;
  situ_status (*make)(FILE *to);
} calls[] = { { "save of a dict made before", save_dict },
              { "save of a new dict", save_new_dict },
              { "checkpoint_save", save_checkpoint },
              { "npy_save", save_npy },
              { "export_save", save_program },
              { "onnx_export", save_onnx },
              { "export", trace },
              { "nn_clone", clone_net },
              { "nn_walk", walk_net },
              { "nn_to_string", print_net },
              { "place_to_string", place_text },
              { "place_json", place_json },
              { "place_svg", draw_svg },
              { "place_lock_write", write_lock },
              { "place_lint", lint_net },
              { "place_plan", plan_move },
              { "place_signature", sign_net },
              { "place_check", check_net },
              { "place_mend", mend_net },
              { "place_fit", fit_net },
              { "place_compare", compare_net } };
enum { CALLS = sizeof calls / sizeof *calls };

/* ---- a pair ---- */

typedef struct outcome {
  situ_status status;
  char *text; /* what the call gives, and its error */
  size_t length;
} outcome;

static const struct call *call;
static outcome rest[2], other; /* before and after the change, at rest; of the other thread */
static situ_status changed;
static int64_t right, refused;

static outcome make_call(void) {
  outcome o;
  situ_scope s;
  situ_scope_begin(&s);
  FILE *to = open_memstream(&o.text, &o.length);
  o.status = call->make(to);
  if (o.status != SITU_OK) (void)fprintf(to, "error %d: %s", (int)o.status, situ_error_message());
  (void)fclose(to);
  SITU_IGNORE(situ_scope_end(&s));
  situ_error_clear();
  return o;
}
static void call_there(void) { other = make_call(); }
static void change_there(void) { changed = change->make(true); }

static bool is_same(const outcome *a, const outcome *b) {
  return a->length == b->length && memcmp(a->text, b->text, a->length) == 0;
}
static bool is_refusal(const outcome *o) {
  return o->status == SITU_E_STATE &&
         (strstr(o->text, "is busy: another thread") || strstr(o->text, "written by another thread"));
}

/* o: what a call has given, beside a change or without. It is freed. */
static void expect_a_moment(outcome *o, const char *beside, int64_t nth) {
  if (changed != SITU_OK && changed != SITU_E_STATE)
    fail_msg("%s beside %s at allocation %d: error %d", beside, call->name, (int)nth, (int)changed);
  if (!is_refusal(o) && !is_same(o, &rest[0]) && !(changed == SITU_OK && is_same(o, &rest[1])))
    fail_msg("%s beside %s at allocation %d gives:\n%.*s\nbut before:\n%.*s\nand behind:\n%.*s", call->name, beside,
             (int)nth, (int)o->length, o->text, (int)rest[0].length, rest[0].text, (int)rest[1].length, rest[1].text);
  refused += is_refusal(o);
  right += !is_refusal(o);
  free(o->text);
}

static void change_in_a_call(void) {
  job = change_there;
  for (int64_t nth = 1;; nth = test_next_fault((long)nth)) {
    pause_at(nth);
    outcome o = make_call();
    if (!end_pause()) {
      free(o.text);
      return;
    }
    expect_a_moment(&o, change->name, nth);
    if (changed == SITU_OK) assert_int_equal(change->make(false), SITU_OK);
  }
}
static void call_in_a_change(void) {
  job = call_there;
  for (int64_t nth = 1, more = 1; more; nth = test_next_fault((long)nth)) {
    pause_at(nth);
    changed = change->make(true);
    more = end_pause();
    if (more) expect_a_moment(&other, change->name, nth);
    situ_error_clear();
    if (changed == SITU_OK) assert_int_equal(change->make(false), SITU_OK);
  }
}
static void call_in_itself(void) {
  job = call_there;
  changed = SITU_E_STATE;
  for (int64_t nth = 1;; nth = test_next_fault((long)nth)) {
    pause_at(nth);
    outcome o = make_call();
    if (!end_pause()) {
      free(o.text);
      return;
    }
    expect_a_moment(&o, call->name, nth);
    expect_a_moment(&other, call->name, nth);
  }
}

static void run_pair(bool first) {
  for (int there = 1; there >= 0; there--) {
    assert_int_equal(change->make(there), SITU_OK);
    rest[there] = make_call();
  }
  change_in_a_call();
  call_in_a_change();
  if (first) call_in_itself();
  free(rest[0].text);
  free(rest[1].text);
}

static situ_tensor *next_of(situ_tensor *t, void *payload) {
  (void)payload;
  return situ_dtype_is_floating(situ_dtype_of(t)) ? situ_add_scalar(situ_detach(t), 1) : situ_clone(t);
}
static situ_tensor *copy_of(situ_tensor *t, void *payload) {
  (void)payload;
  return situ_clone(situ_detach(t));
}

static void a_change_at_each_allocation(void **state) {
  pthread_t thread;
  (void)state;
  w.net = make_net();
  w.inputs = SITU_TREE(situ_ones(SITU_SHAPE(2, 3), NULL));
  w.optim = situ_optim_sgd(situ_nn_parameters(w.net), 1, NULL);
  situ_nn_eval(w.net);
  w.dict = situ_nn_state_dict(w.net);
  w.load[0] = situ_tree_map(w.dict, copy_of, NULL);
  w.load[1] = situ_tree_map(w.dict, next_of, NULL);
  assert_non_null(w.program = situ_export(w.net, w.inputs));
  sem_init(&begin, 0, 0);
  sem_init(&end, 0, 0);
  assert_int_equal(pthread_create(&thread, NULL, do_jobs, NULL), 0);
  for (int i = 0; i < CALLS; i++)
    for (int k = 0; k < CHANGES; k++) {
      call = &calls[i];
      change = &changes[k];
      run_pair(k == 0);
    }
  job = NULL;
  sem_post(&begin);
  assert_int_equal(pthread_join(thread, NULL), 0);
  printf("%lld calls are right, %lld refused\n", (long long)right, (long long)refused);
  situ_tree *trees[] = { w.inputs, w.dict, w.load[0], w.load[1] };
  for (int i = 0; i < 4; i++) situ_tree_free(trees[i]);
  situ_optim_free(w.optim);
  situ_nn_free(w.program);
  situ_nn_free(w.net);
  (void)remove("between.out");
  (void)remove("between.other");
}

static int no_fsync(int fd) { return (void)fd, 0; }

int main(void) {
  static const situ_allocator pausing = { take, retake, give, NULL };
  situ_set_allocator(&pausing);
  situ__sys.fsync = no_fsync; /* thousands of files */
  const struct CMUnitTest tests[] = { TEST(a_change_at_each_allocation) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
