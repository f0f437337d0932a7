/* All that can be asked of a module, as text, and the calls that only look at one: for tests that these change nothing.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TEST_DIST_LOOKS_H
#define SITU_TEST_DIST_LOOKS_H

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "situ/parallel.h"
#include "situ/situ.h"
#include "situ/sys/comm_sim.h"
#include "situ/sys/grad.h"
#include "situ/sys/shape.h"
#include "situ/sys/tensor.h"

/* ---- a module with fields that are not registered ---- */

/* As docs/ownership.md describes a cache: a slot, and more of its kind. */
typedef struct keeper {
  situ_nn_module base;
  situ_tensor *cache, *before, *few[2], **many; /* many: 4 on the heap */
  situ_tree *past;
  int64_t calls;
  double scale;
} keeper;

static inline bool keep_values(keeper *m, situ_tensor *y) {
  situ_drop(&m->before);
  m->before = m->cache; /* moves from field to field */
  m->cache = situ_retain(situ_detach(y));
  m->calls++;
  m->scale *= 0.5;
  return situ_set(&m->few[m->calls % 2], y) && situ_set(&m->many[m->calls % 4], m->cache) &&
         situ_tree_set(&m->past, SITU_TREE(m->cache, situ_detach(y)));
}
static inline situ_tensor *keeper_forward(situ_nn_module *self, situ_tensor *x) {
  keeper *m = (keeper *)self;
  situ_tensor *y = x;
  if (m->cache) y = situ_add(x, situ_mul_scalar(m->cache, 0.25 * m->scale));
  if (m->past) y = situ_add(y, situ_mul_scalar(situ_tree_tensor_at(m->past, 1), 0.125));
  if (m->many[0]) y = situ_add(y, situ_mul_scalar(m->many[0], 0.0625));
  return keep_values(m, y) ? y : NULL;
}
static inline void keeper_release(situ_nn_module *self) {
  keeper *m = (keeper *)self;
  situ_drop(&m->cache);
  situ_drop(&m->before);
  for (int i = 0; i < 2; i++) situ_drop(&m->few[i]);
  for (int i = 0; m->many && i < 4; i++) situ_drop(&m->many[i]);
  free(m->many);
  m->many = NULL;
  situ_tree_free(m->past);
  m->past = NULL;
}
static inline situ_status keeper_copy(situ_nn_module *copy, const situ_nn_module *self) {
  const keeper *from = (const keeper *)self;
  keeper *m = (keeper *)copy;
  m->cache = situ_retain(from->cache);
  m->before = situ_retain(from->before);
  for (int i = 0; i < 2; i++) m->few[i] = situ_retain(from->few[i]);
  m->many = calloc(4, sizeof *m->many);
  for (int i = 0; m->many && i < 4; i++) m->many[i] = situ_retain(from->many[i]);
  m->past = m->many && from->past ? situ_tree_copy(from->past) : NULL;
  if (m->many && !m->past == !from->past) return SITU_OK;
  keeper_release(copy);
  return SITU_E_NOMEM;
}

/* SHARED: a copy has the fields of the original, and must not run beside it. ALONE: it cannot be copied. */
enum { KEEPER_SHARED, KEEPER_ALONE, KEEPER_COPIED, KEEPERS };
static const situ_nn_type keeper_types[KEEPERS] = {
  { .name = "KeeperShared", .size = sizeof(keeper), .forward = keeper_forward },
  { .name = "KeeperAlone", .size = sizeof(keeper), .forward = keeper_forward, .release = keeper_release },
  { .name = "KeeperCopied",
    .size = sizeof(keeper),
    .forward = keeper_forward,
    .release = keeper_release,
    .copy = keeper_copy },
};
static inline bool is_keeper(const situ_nn_module *m) {
  return m->type >= keeper_types && m->type < keeper_types + KEEPERS;
}

static inline situ_nn_module *make_keeper(int type) {
  keeper *m = situ_nn_alloc(&keeper_types[type]);
  if (m) m->many = calloc(4, sizeof *m->many), m->scale = 1;
  return situ_nn_done(m);
}
/* A type without .release has no other way. */
static inline situ_status empty_keeper(situ_nn_module *m, void *payload) {
  (void)payload;
  if (m->type == &keeper_types[KEEPER_SHARED]) keeper_release(m);
  return SITU_OK;
}

/* ---- what there is to be seen ---- */

/* What a look must leave as it is. */
typedef struct watched {
  situ_nn_module *model;
  situ_comm_sim *world; /* NULL: none */
  int rank;
  situ_dist_ddp *ddp; /* NULL: none; optim too */
  situ_optim *optim;
} watched;

static inline uint64_t hash_bytes(const void *data, size_t bytes) {
  uint64_t h = 1469598103934665603u;
  for (size_t i = 0; i < bytes; i++) h = (h ^ ((const unsigned char *)data)[i]) * 1099511628211u;
  return h;
}
static inline uint64_t hash_values(situ_tensor *t) {
  const size_t bytes = (size_t)situ_numel(t) * situ_dtype_size(situ_dtype_of(t));
  unsigned char *data = calloc(1, bytes + 1);
  const bool good = data && situ_copy_to_host(t, data, bytes) == SITU_OK;
  const uint64_t h = good ? hash_bytes(data, bytes) : 0;
  free(data);
  return h;
}

static inline void describe_tensor(FILE *to, const char *what, situ_tensor *t) {
  char device[SITU_DEVICE_NAME_MAX];
  if (!situ_is_tensor(t)) {
    (void)fprintf(to, "%s: %s\n", what, t ? "freed" : "none");
    return;
  }
  const situ_view_desc *v = situ_desc(t);
  const situ_shape shape = situ_shape_of(t);
  (void)fprintf(to, "%s: %p of %p \"%s\" %s %s role %d", what, (void *)t, (void *)v->storage, situ_name(t),
                situ_device_name(situ_device_of(t), device), situ_dtype_name(situ_dtype_of(t)), (int)situ_role_of(t));
  for (int d = 0; d < shape.ndim; d++)
    (void)fprintf(to, " %lld/%lld", (long long)shape.dim[d], (long long)v->stride[d]);
  (void)fprintf(to, " requires_grad %d leaf %d version %u owners %lld flags %x slots %u away %d in_parts %d",
                situ_requires_grad(t), situ_is_leaf(t), situ_version_of(t), (long long)situ_owners(t),
                v->storage->flags, v->storage->slots, situ_memory_is_away(t), situ_grad_is_in_parts(t));
  if (!situ_memory_is_away(t)) (void)fprintf(to, " values %llx", (unsigned long long)hash_values(t));
  (void)fprintf(to, "\n");
}

static inline void describe_keeper(FILE *to, const keeper *m) {
  (void)fprintf(to, "calls %lld scale %g past %d\n", (long long)m->calls, m->scale, m->past != NULL);
  describe_tensor(to, "cache", m->cache);
  describe_tensor(to, "before", m->before);
  for (int i = 0; i < 2; i++) describe_tensor(to, "few", m->few[i]);
  for (int i = 0; i < 4; i++) describe_tensor(to, "many", m->many[i]);
  for (int64_t i = 0; i < situ_tree_count(m->past); i++) describe_tensor(to, "past", situ_tree_tensor_at(m->past, i));
}

static inline situ_status describe_part(const situ_nn_visit *at, void *payload) {
  FILE *to = payload;
  if (at->tensor) {
    describe_tensor(to, at->path, at->tensor);
    describe_tensor(to, "  its gradient", situ_grad(at->tensor));
    return SITU_OK;
  }
  const situ_nn_module *m = at->module;
  (void)fprintf(to, "module %s: %p %s \"%s\" refs %d parents %d parts %lld hooks %p training %d pending %d late %d\n",
                at->path, (const void *)m, m->type->name, situ_nn_name(m), m->refs, m->parents, (long long)m->count,
                (void *)m->hooks, m->training, m->pending, m->late);
  if (is_keeper(m)) describe_keeper(to, (const keeper *)m);
  return SITU_OK;
}

/* As text, which the caller frees; NULL after an error. quiet: without what a rank has sent. */
static inline char *describe(const watched *w, bool quiet) {
  char *text = NULL, device[SITU_DEVICE_NAME_MAX];
  size_t size = 0;
  FILE *to = open_memstream(&text, &size);
  if (!to) return NULL;
  const situ_generator g = situ_get_rng_state();
  (void)fprintf(to, "generator %llu/%llu, device %s, gradients %d\n", (unsigned long long)g.seed,
                (unsigned long long)g.offset, situ_device_name(situ_get_default_device(), device),
                situ_is_grad_enabled());
  bool good = situ_nn_walk(w->model, SITU_NN_VISIT_MODULES | SITU_NN_VISIT_TENSORS, describe_part, to) == SITU_OK;
  if (w->world && !quiet)
    (void)fprintf(to, "transfers %lld, bytes %lld\n", (long long)situ_comm_sim_transfers(w->world, w->rank),
                  (long long)situ_comm_sim_bytes(w->world, w->rank));
  if (w->ddp)
    (void)fprintf(to, "ddp: step %lld, micro-batch %lld\n", (long long)situ_dist_ddp_step(w->ddp),
                  (long long)situ_dist_ddp_micro_batch(w->ddp));
  for (int64_t i = 0; w->optim && i < situ_optim_count(w->optim); i++)
    for (int k = 0; k < SITU_OPTIM_STATES; k++) describe_tensor(to, "state", situ_optim_state(w->optim, i, k, NULL));
  good = fclose(to) == 0 && good && situ_error() == SITU_OK;
  if (good) return text;
  free(text);
  return NULL;
}

/* The first line that differs, into text. */
static inline void first_difference(const char *before, const char *after, char *text, size_t size) {
  while (*before && *after && *before == *after) before++, after++;
  (void)snprintf(text, size, "...%.200s\n... became\n...%.200s", before, after);
}

/* ---- looks ---- */

/* What a look is given. */
typedef struct scene {
  situ_nn_module *model;
  situ_tree *inputs;
  situ_comm *comm;
  situ_optim *optim;
  int keeper;
  char file[64]; /* a rank's own */
} scene;

enum { WORDS = 1 << 15 };

/* What is printed goes nowhere. Ranks are threads, and have one stdout. */
static inline situ_status look_away(situ_status (*print)(const scene *s), const scene *s) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  (void)pthread_mutex_lock(&lock);
  (void)fflush(stdout);
  const int out = dup(STDOUT_FILENO), none = open("/dev/null", O_WRONLY);
  (void)dup2(none, STDOUT_FILENO);
  const situ_status status = print(s);
  (void)fflush(stdout);
  (void)dup2(out, STDOUT_FILENO);
  (void)close(none);
  (void)close(out);
  (void)pthread_mutex_unlock(&lock);
  return status;
}

static inline situ_status text_of(int64_t length) { return length >= 0 ? SITU_OK : situ_error(); }
static inline situ_status check_with(const scene *s, const situ_place_check_options *o) {
  char text[WORDS];
  situ_place_report r;
  SITU_TRY(situ_place_check(s->model, s->inputs, o, &r));
  const bool good = r.finished && !r.mistakes;
  for (int64_t i = 0; i < r.finding_count; i++) (void)situ_place_problem_name(r.findings[i].problem);
  situ_status status = text_of(situ_place_report_json(&r, text, sizeof text));
  if (status == SITU_OK) status = text_of(situ_place_report_to_string(&r, text, sizeof text));
  situ_place_report_free(&r);
  if (!good) (void)situ_comm_refuse(SITU_E_STATE, "a check", text);
  return situ_error();
}
static inline situ_status look_check(const scene *s) { return check_with(s, NULL); }
static inline situ_status look_check_backward(const scene *s) {
  return check_with(s, &(situ_place_check_options){ .backward = SITU_PLACE_BACKWARD_ALWAYS });
}
static inline situ_status look_check_alone(const scene *s) { return situ_place_check(s->model, s->inputs, NULL, NULL); }
/* With inputs of another dtype, so that statements are tried. */
static inline situ_tensor *wrong_input(situ_tensor *t, void *payload) {
  return (void)payload, situ_to_dtype(t, SITU_F64);
}
static inline situ_status look_mend(const scene *s) {
  situ_place_fixes f;
  situ_tree *wrong = situ_tree_map(s->inputs, wrong_input, NULL);
  if (situ_place_mend(s->model, wrong, NULL, &f) == SITU_OK) {
    SITU_IGNORE(text_of(situ_place_fixes_to_string(&f, NULL, 0)));
    situ_place_fixes_free(&f);
  }
  situ_tree_free(wrong);
  return situ_error();
}
static inline situ_status look_fit(const scene *s) {
  situ_place_layout l;
  const situ_place_limit limit = { .device = situ_dev("cpu") };
  double seconds;
  if (situ_place_fit(s->model, s->inputs, &limit, 1, NULL, &l) == SITU_OK) {
    SITU_IGNORE(situ_place_layout_seconds(&l, &seconds));
    situ_place_layout_free(&l);
  }
  if (situ_error() == SITU_E_UNSUPPORTED) situ_error_clear(); /* a type that cannot be copied */
  return situ_error();
}
static inline situ_status look_compare(const scene *s) {
  situ_place_comparison found;
  if (s->keeper == KEEPER_SHARED) return SITU_OK; /* copies run, with values */
  if (situ_place_compare(s->model, s->inputs, situ_dev("cpu"), situ_dev("sim:1"), NULL, &found) != SITU_OK &&
      (situ_error() == SITU_E_UNSUPPORTED || situ_error() == SITU_E_DEVICE || situ_error() == SITU_E_STATE))
    situ_error_clear(); /* a type that cannot be copied, parts of ranks, what a keeper keeps was not moved */
  return situ_error();
}
static inline situ_status look_lint(const scene *s) {
  char text[WORDS];
  return text_of(situ_place_lint_to_string(
      s->model, &(situ_lint_options){ .optims = (situ_optim *const *)&s->optim, .optim_count = s->optim != NULL }, text,
      sizeof text));
}
static inline situ_status look_lint_status(const scene *s) {
  if (situ_place_lint(s->model, NULL) != SITU_OK) situ_error_clear(); /* its findings, here of keepers */
  return SITU_OK;
}
static inline situ_status look_plan(const scene *s) {
  char text[WORDS];
  const situ_nn_to_options o = { .device = situ_dev("sim:1") };
  return text_of(situ_place_plan_to_string(s->model, &o, NULL, text, sizeof text));
}
static inline situ_status look_seconds(const scene *s) {
  double seconds;
  return situ_place_plan_seconds(s->model, &(situ_nn_to_options){ .device = situ_dev("sim:1") }, &seconds);
}
static inline situ_status look_string(const scene *s) {
  char text[WORDS];
  return text_of(situ_place_to_string(s->model, NULL, text, sizeof text));
}
static inline situ_status look_json(const scene *s) {
  char text[WORDS];
  return text_of(situ_place_json(s->model, text, sizeof text));
}
static inline situ_status look_of(const scene *s) {
  situ_placement p;
  return situ_place_of(s->model, &p);
}
static inline situ_status look_expect(const scene *s) {
  if (situ_place_expect_on(s->model, situ_dev("sim:1")) == SITU_OK) return SITU_OK;
  const bool found = strstr(situ_error_message(), "not on ") != NULL; /* what it looks for, on another device */
  if (found) situ_error_clear();
  return found ? SITU_OK : situ_error();
}
static inline situ_status look_signature(const scene *s) {
  char text[WORDS];
  SITU_TRY(text_of(situ_place_signature(s->model, s->inputs, text, sizeof text)));
  SITU_TRY(text_of(situ_place_signature(s->model, NULL, text, sizeof text)));
  SITU_TRY(situ_place_declare(s->model, text));
  return situ_place_declare(s->model, NULL);
}
static inline situ_status look_svg(const scene *s) { return situ_place_svg(s->model, s->file, NULL); }
static inline situ_status look_lock(const scene *s) {
  SITU_TRY(situ_place_lock_write(s->model, s->file));
  return situ_place_lock_check(s->model, s->file);
}
static inline situ_status use_snapshots(const scene *s, const situ_snapshot *a, const situ_snapshot *b) {
  char text[WORDS];
  const situ_place_entry *e = situ_snapshot_at(a, situ_snapshot_count(a) - 1);
  situ_device device;
  if (situ_place_diff(a, b, text, sizeof text) != 0) (void)situ_comm_refuse(SITU_E_STATE, "a difference", text);
  SITU_TRY(situ_place_device("cuda:7", &device));
  situ_snapshot_free(situ_snapshot_of(e, 1));
  SITU_TRY(text_of(situ_snapshot_json(a, text, sizeof text)));
  SITU_TRY(text_of(situ_snapshot_to_string(a, NULL, text, sizeof text)));
  SITU_TRY(text_of(situ_snapshot_dot(a, NULL, 0, text, sizeof text)));
  SITU_TRY(situ_snapshot_svg(a, s->file, NULL));
  SITU_TRY(situ_snapshot_lock_write(a, s->file));
  return situ_snapshot_lock_check(b, s->file);
}
static inline situ_status look_snapshot(const scene *s) {
  situ_snapshot *a = situ_place_snapshot(s->model), *b = a ? situ_place_snapshot(s->model) : NULL;
  situ_status status = b ? use_snapshots(s, a, b) : situ_error();
  situ_snapshot_free(a);
  situ_snapshot_free(b);
  a = situ_place_snapshot_with(s->model, &(situ_snapshot_options){ .gradients = true,
                                                                   .plain = true,
                                                                   .optims = (situ_optim *const *)&s->optim,
                                                                   .optim_count = s->optim != NULL });
  if (!a) status = situ_error();
  situ_snapshot_free(a);
  return status;
}
static inline situ_status explain_part(const situ_nn_visit *at, void *payload) {
  char text[2048];
  (void)payload;
  if (!situ_to_would_alias(at->tensor, situ_dev("sim:1"))) SITU_TRY(situ_error());
  return text_of(situ_explain_to_string(at->tensor, text, sizeof text));
}
static inline situ_status look_explain(const scene *s) {
  return situ_nn_walk(s->model, SITU_NN_VISIT_TENSORS, explain_part, NULL);
}
static inline situ_status look_print(const scene *s) {
  char text[WORDS];
  return text_of(situ_nn_to_string(s->model, text, sizeof text));
}
static inline situ_status explain_aloud(const situ_nn_visit *at, void *payload) {
  (void)payload;
  situ_explain(at->tensor);
  return situ_error();
}
static inline situ_status print_all(const scene *s) {
  situ_snapshot *a = situ_place_snapshot(s->model);
  situ_place_report none = { .finished = true };
  situ_place_print(s->model);
  if (a) situ_snapshot_print(a);
  situ_snapshot_free(a);
  situ_place_report_print(&none);
  SITU_TRY(situ_place_plan_print(s->model, &(situ_nn_to_options){ .device = situ_dev("sim:1") }));
  SITU_TRY(text_of(situ_place_lint_print(s->model, NULL)));
  (void)situ_lint_kind_name(SITU_LINT_AWAY);
  (void)situ_lint_severity_name(SITU_LINT_ERROR);
  (void)situ_place_moved();
  return situ_nn_walk(s->model, SITU_NN_VISIT_TENSORS, explain_aloud, NULL);
}
static inline situ_status look_aloud(const scene *s) { return look_away(print_all, s); }
static inline situ_status look_lists(const scene *s) {
  situ_tree *lists[] = { situ_nn_parameters(s->model), situ_nn_buffers(s->model), situ_nn_state_dict(s->model) };
  for (int i = 0; i < 3; i++) situ_tree_free(lists[i]);
  (void)situ_nn_num_parameters(s->model);
  return situ_error();
}
static inline situ_status look_export(const scene *s) {
  situ_nn_module *program = situ_export(s->model, s->inputs);
  situ_nn_free(program);
  return program ? SITU_OK : situ_error();
}
/* A profile and a ledger of another model. */
static inline situ_status look_profile(const scene *s) {
  situ_ledger ledger;
  situ_nn_module *other = situ_nn_tanh();
  SITU_TRY(situ_profile_begin(NULL));
  situ_ledger_begin(&ledger);
  SITU_IGNORE(!situ_nn_forward(other, situ_tree_tensor_at(s->inputs, 0)));
  SITU_IGNORE(situ_ledger_end(&ledger));
  situ_profile_free(situ_profile_end());
  situ_nn_free(other);
  return situ_error();
}
/* A copy, which forwards beside the training, in its mode. What it draws is put back. */
static inline situ_status look_clone(const scene *s) {
  situ_nn_module *copy = situ_nn_clone(s->model);
  if (!copy || s->keeper == KEEPER_SHARED) return situ_nn_free(copy), situ_error();
  const situ_generator drawn = situ_get_rng_state();
  situ_scope no_grad;
  situ_scope_begin_no_grad(&no_grad);
  situ_tree *out = situ_nn_call(copy, s->inputs);
  situ_tree_free(out);
  SITU_IGNORE(situ_scope_end(&no_grad));
  if (situ_get_rng_state().offset != drawn.offset) situ_set_rng_state(drawn);
  situ_nn_free(copy);
  return situ_error();
}
static inline situ_status look_dist_check(const scene *s) {
  return situ_dist_check(s->model, s->inputs, s->comm, NULL, NULL);
}
static inline situ_status look_dist_plan(const scene *s) {
  char text[WORDS];
  const situ_nn_to_options o = { .device = situ_dev("sim:1") };
  return text_of(situ_dist_plan_to_string(s->model, s->comm, &o, NULL, text, sizeof text));
}
static inline situ_status look_dist_snapshot(const scene *s) {
  situ_snapshot_free(situ_dist_snapshot(s->model, s->comm));
  return situ_error();
}

typedef struct look_row {
  const char *calls; /* the public functions that it calls */
  situ_status (*run)(const scene *s);
  bool collective; /* all ranks make the call, which exchanges what each of them has found */
  bool runs;       /* it runs the module */
} look_row;
static const look_row looks[] = {
  { "situ_place_check situ_place_report_to_string situ_place_report_json situ_place_report_free "
    "situ_place_problem_name",
    look_check, false, true },
  { "situ_place_check", look_check_backward, false, true },
  { "situ_place_check", look_check_alone, false, true },
  { "situ_place_mend situ_place_fixes_to_string situ_place_fixes_free", look_mend, false, true },
  { "situ_place_fit situ_place_layout_seconds situ_place_layout_free", look_fit, false, true },
  { "situ_place_compare", look_compare, true, true },
  { "situ_place_lint_to_string", look_lint, false, false },
  { "situ_place_lint", look_lint_status, false, false },
  { "situ_place_plan_to_string", look_plan, false, false },
  { "situ_place_plan_seconds", look_seconds, false, false },
  { "situ_place_to_string", look_string, false, false },
  { "situ_place_json", look_json, false, false },
  { "situ_place_signature situ_place_declare", look_signature, false, true },
  { "situ_place_of", look_of, false, false },
  { "situ_place_expect_on", look_expect, false, false },
  { "situ_place_svg", look_svg, false, false },
  { "situ_place_lock_write situ_place_lock_check", look_lock, false, false },
  { "situ_place_snapshot situ_place_snapshot_with situ_place_diff situ_place_device situ_snapshot_of "
    "situ_snapshot_free situ_snapshot_count situ_snapshot_at situ_snapshot_dot situ_snapshot_to_string situ_snapshot_json situ_snapshot_svg situ_snapshot_lock_write "
    "situ_snapshot_lock_check",
    look_snapshot, false, false },
  { "situ_explain_to_string situ_to_would_alias", look_explain, false, false },
  { "situ_place_print situ_snapshot_print situ_place_report_print situ_place_plan_print situ_place_lint_print "
    "situ_lint_kind_name situ_lint_severity_name situ_place_moved situ_explain",
    look_aloud, false, false },
  { "situ_nn_to_string", look_print, false, false },
  { "situ_nn_parameters", look_lists, false, false },
  { "situ_export", look_export, false, true },
  { "situ_profile_begin", look_profile, false, false },
  { "situ_nn_clone", look_clone, false, true },
  { "situ_dist_check", look_dist_check, true, true },
  { "situ_dist_plan_to_string", look_dist_plan, true, false },
  { "situ_dist_snapshot", look_dist_snapshot, true, false },
};
enum { LOOKS = sizeof looks / sizeof *looks };

#endif
