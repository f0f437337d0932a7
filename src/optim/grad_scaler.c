/* Gradient scaling (torch.amp.GradScaler): prevents f16 gradients from underflowing, and skips steps with infinite
   ones.
   SPDX-License-Identifier: MIT */
#include <float.h>
#include <inttypes.h>
#include <math.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/options.h"
#include "optim/optim.h"
#include "optim/record.h"
#include "situ/amp.h"
#include "situ/ops.h"
#include "situ/sys/grad_scaler.h"
#include "situ/sys/graph.h"

/* Progress of an optimiser since the last update. */
typedef enum stage { READY, UNSCALED, STEPPED } stage;

typedef struct seen {
  situ_optim *o; /* referenced until the update */
  stage stage;
  bool finite;          /* all of its gradients are finite */
  situ_tensor *largest; /* in a graph: the tensor that tells; owned, NULL: outside of graphs */
} seen;

struct situ_grad_scaler {
  uint32_t head;
  situ__alone alone;
  double scale, growth, backoff;
  int64_t interval, tracker; /* tracker: successful steps since the scale changed */
  bool disabled;
  bool scaled; /* scale has been called: gradients have something to be divided by */
  seen *seen;
  int count;
  int64_t capacity;
};

static bool is_scaler(const char *op, const situ_grad_scaler *s) {
  return situ__valid(op, "scaler", s, SITU__A_SCALER);
}
static const char itself[] = "this gradient scaler";

/* ---- creation ---- */

/* The scale is an f32, as in torch: it multiplies values of at most f32. */
static bool good_values(const char *op, const situ_grad_scaler *s) {
  const char *wrong = !(s->scale > 0 && s->scale <= FLT_MAX)    ? "the scale must be positive and finite"
                      : !(s->growth > 1 && isfinite(s->growth)) ? "growth_factor must be above 1"
                      : !(s->backoff > 0 && s->backoff < 1)     ? "backoff_factor must be between 0 and 1"
                      : s->interval < 0 || s->tracker < 0       ? "growth_interval must be at least 0"
                                                                : NULL;
  if (!wrong) return true;
  return situ__fail(SITU_E_ARG, op, "%s (scale %g, growth_factor %g, backoff_factor %g, growth_interval %" PRId64 ")",
                    wrong, s->scale, s->growth, s->backoff, s->interval),
         false;
}

situ_grad_scaler *situ_grad_scaler_new(const situ_grad_scaler_options *options) {
  situ_grad_scaler_options o = situ_grad_scaler_defaults();
  if (!situ__options_read("grad_scaler_new", "situ_grad_scaler_defaults", options, &o, sizeof o)) return NULL;
  const situ_grad_scaler values = { .head = SITU__LIVE(SITU__A_SCALER),
                                    .scale = (double)(float)o.init_scale,
                                    .growth = o.growth_factor,
                                    .backoff = o.backoff_factor,
                                    .interval = o.growth_interval,
                                    .disabled = o.disabled };
  if (!good_values("grad_scaler_new", &values)) return NULL;
  situ_grad_scaler *s = situ__handle_new(SITU__A_SCALER, sizeof *s);
  if (s) *s = values;
  else situ__no_memory("grad_scaler_new", sizeof *s);
  return s;
}

static void forget_all(situ_grad_scaler *s) {
  while (s->count) {
    situ_release(s->seen[--s->count].largest);
    situ__optim_let_go(s->seen[s->count].o);
  }
}

void situ_grad_scaler_free(situ_grad_scaler *s) {
  if (!s || !is_scaler("grad_scaler_free", s) || !situ__alone_begin(&s->alone, "grad_scaler_free", itself)) return;
  forget_all(s);
  situ__free(s->seen);
  situ__handle_free(s, sizeof *s, NULL);
}

/* The entry of an optimiser, new if necessary. Returns NULL after recording that memory is not available. */
static seen *find(situ_grad_scaler *s, const char *op, situ_optim *o) {
  for (int i = 0; i < s->count; i++)
    if (s->seen[i].o == o) return &s->seen[i];
  if (!situ__grow(op, &s->seen, &s->capacity, sizeof *s->seen, s->count + 1)) return NULL;
  __atomic_fetch_add(&o->refs, 1, __ATOMIC_RELAXED);
  s->seen[s->count] = (seen){ .o = o };
  return &s->seen[s->count++];
}

/* ---- in graphs: each replay reads the scale, decides and updates as the calls would ---- */

static situ_status refresh_scale(void *payload, situ_work *work, situ_optimizer_params *params,
                                 situ_optimizer_item *list) {
  const situ_grad_scaler *s = payload;
  if (!is_scaler("graph_replay", s)) return situ_error();
  if (!params && !list) work->scalar[0] = work->verb == SITU_VERB_FILL ? s->scale : 1 / s->scale;
  return SITU_OK;
}

/* Work until situ_graph_values_end is a fill by the scale, or a product with its reciprocal. True outside of graphs. */
static bool begin_live_scale(situ_grad_scaler *s) {
  return !situ_graph_is_capturing() ||
         situ_graph_values_begin(&(situ_graph_values){ .payload = s, .refresh = refresh_scale }) == SITU_OK;
}

/* The step of an optimiser that is captured. */
typedef struct step_section {
  situ_grad_scaler *s;
  situ_optim *o;        /* referenced */
  situ_tensor *largest; /* owned */
  bool unscaled;        /* the graph does it before */
  double grad_scale;    /* of this replay */
} step_section;

static situ_status decide_step(void *payload, bool *skip) {
  const char *op = "graph_replay";
  step_section *x = payload;
  double largest;
  if (!is_scaler(op, x->s)) return situ_error();
  seen *k = find(x->s, op, x->o);
  if (!k) return situ_error();
  if (k->stage != READY)
    return situ__fail(SITU_E_STATE, op, "this optimiser has stepped already since the last grad_scaler_update");
  if (situ_item(x->largest, &largest) != SITU_OK) return situ_error();
  k->finite = isfinite(largest);
  k->stage = STEPPED;
  x->grad_scale = x->unscaled ? 1 : 1 / x->s->scale;
  *skip = !k->finite;
  return SITU_OK;
}

static void release_section(void *payload) {
  step_section *x = payload;
  situ_release(x->largest);
  situ__optim_let_go(x->o);
  situ__free(x);
}

/* A step within a section that replays skip unless the gradients are finite. */
static situ_status capture_step(situ_grad_scaler *s, const situ_grad_scaler_source *source, const seen *k) {
  const char *op = "grad_scaler_step";
  situ_optim *o = source->optim;
  if (!k->finite)
    return situ__fail(SITU_E_STATE, op,
                      "the gradients of the step that is captured are not finite, so it would not be in the graph; "
                      "update the scale, and capture another one");
  step_section *x = situ__alloc(sizeof *x);
  if (!x) return situ__no_memory(op, sizeof *x);
  *x = (step_section){ s, o, situ_retain(k->largest), k->stage == UNSCALED, k->stage == UNSCALED ? 1 : 1 / s->scale };
  __atomic_fetch_add(&o->refs, 1, __ATOMIC_RELAXED);
  const situ_graph_values values = { .payload = x, .decide = decide_step, .release = release_section };
  if (situ_graph_values_begin(&values) != SITU_OK) return situ_error();
  o->live_scale = &x->grad_scale;
  const situ_status status = source->step(source->payload, x->grad_scale);
  o->live_scale = NULL;
  situ_graph_values_end();
  return status;
}

typedef struct captured_update {
  situ_grad_scaler *s;
  double new_scale;
} captured_update;

static void update_after(void *payload, situ_graph_outcome outcome) {
  const captured_update *x = payload;
  if (outcome == SITU_GRAPH_RAN) SITU_IGNORE(situ_grad_scaler_update(x->s, x->new_scale));
}

static situ_status capture_update(situ_grad_scaler *s, double new_scale) {
  captured_update *x = situ__alloc(sizeof *x);
  if (!x) return situ__no_memory("grad_scaler_update", sizeof *x);
  *x = (captured_update){ s, new_scale };
  const situ_graph_values values = { .payload = x, .ended = update_after, .release = situ__free };
  const situ_status status = situ_graph_values_begin(&values);
  if (status == SITU_OK) situ_graph_values_end();
  return status;
}

/* ---- scaling ---- */

situ_tensor *situ_grad_scaler_scale(situ_grad_scaler *s, situ_tensor *loss) {
  if (!is_scaler("grad_scaler_scale", s) || !situ__valid("grad_scaler_scale", "loss", loss, SITU__A_TENSOR))
    return NULL;
  SITU__ALONE(in, &s->alone, "grad_scaler_scale", itself);
  if (!in) return NULL;
  if (s->disabled) return loss;
  s->scaled = true;
  if (!begin_live_scale(s)) return NULL;
  situ_tensor *scale =
      situ_full(SITU_SCALAR, s->scale, &(situ_options){ .dtype = SITU_F32, .device = situ_device_of(loss) });
  situ_graph_values_end();
  return situ_mul(loss, scale);
}

/* ---- are the gradients finite? ---- */

/* The largest magnitude among the gradients on one device: Inf or NaN if any element is. Removes that device's
   gradients from the list. Returns NULL after recording an error. */
static situ_tensor *largest_on(situ_tensor **grad, int *count, situ_device device) {
  int here = 0, left = 0;
  situ_tensor **norm = situ__alloc((size_t)*count * sizeof *norm);
  if (!norm) return situ__no_memory("grad_scaler_step", (size_t)*count * sizeof *norm), NULL;
  bool good = true;
  for (int i = 0; i < *count; i++) {
    if (!situ_device_equal(situ_device_of(grad[i]), device)) grad[left++] = grad[i];
    else
      good = good && (norm[here++] = situ_norm(
                          grad[i], INFINITY,
                          &(situ_reduce_options){ .dtype = situ_dtype_of(grad[i]) == SITU_F64 ? SITU_F64 : SITU_F32 }));
  }
  *count = left;
  situ_tensor *all = good ? situ_norm(situ_stack(norm, here, 0), INFINITY, NULL) : NULL;
  situ__free(norm);
  return all;
}

/* One reduction for each gradient and one over all, on each device, and one value read from it. Empties the list. */
static bool look(situ_tensor **grad, int count, bool *finite, situ_tensor **kept) {
  *finite = true;
  while (count) {
    double value;
    situ_tensor *largest = largest_on(grad, &count, situ_device_of(grad[0]));
    const bool captured = situ_graph_pause(); /* a replay reads it when it decides */
    const bool good = situ_item(largest, &value) == SITU_OK;
    if (captured) situ_graph_resume();
    if (!good || (captured && !situ_set(kept, largest))) return false;
    *finite = *finite && isfinite(value);
  }
  return true;
}

static int gather(const situ_grad_scaler_source *source, int64_t most, situ_tensor **grad) {
  int count = 0;
  for (int64_t i = 0; i < most; i++) {
    situ_tensor *g = source->gradient(source->payload, i);
    if (g && situ_numel(g)) grad[count++] = g;
  }
  return count;
}

static bool divide(situ_grad_scaler *s, situ_tensor **grad, int count) {
  bool good = begin_live_scale(s);
  for (int i = 0; good && i < count; i++) good = situ_mul_scalar_(grad[i], 1 / s->scale) != NULL;
  situ_graph_values_end();
  return good;
}

/* unscale: gradients are divided by the scale. */
static bool check(const char *op, const situ_grad_scaler_source *source, situ_grad_scaler *s, bool unscale, seen *k) {
  bool *finite = &k->finite;
  const int64_t most = source->count(source->payload);
  const size_t bytes = 2 * (size_t)(most + 1) * sizeof(situ_tensor *);
  situ_tensor **grad = situ__alloc(bytes), **list = grad + most;
  const uint64_t errors = situ__error_count();
  if (!grad) situ__no_memory(op, bytes);
  const int count = grad ? gather(source, most, grad) : 0;
  bool good = situ__error_count() == errors;
  if (good && !count && !source->agree)
    good = (situ__fail(SITU_E_STATE, op, "no parameter of the optimiser has a gradient; call backward first"), false);
  for (int i = 0; good && i < count; i++) {
    if (unscale && situ_dtype_of(grad[i]) == SITU_F16)
      good = (situ__fail(SITU_E_DTYPE, op,
                         "a gradient is f16, where small ones would vanish; step without unscale_ "
                         "divides in f32, or keep parameters in f32"),
              false);
    list[i] = grad[i];
  }
  good = good && look(list, count, finite, &k->largest);
  bool scaled = s->scaled;
  if (source->agree) good = source->agree(source->payload, good, finite, &scaled) == SITU_OK && good;
  if (good && !scaled)
    good = (situ__fail(SITU_E_STATE, op,
                       "this scaler has scaled no loss, and would divide gradients by %g; call situ_backward on "
                       "situ_grad_scaler_scale(scaler, loss)",
                       s->scale),
            false);
  good = good && (!unscale || divide(s, grad, count));
  situ__free(grad);
  return good;
}

static bool check_in_scope(const char *op, const situ_grad_scaler_source *source, situ_grad_scaler *s, bool unscale,
                           seen *k) {
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  bool good = check(op, source, s, unscale, k);
  SITU_IGNORE(situ_scope_end(&scope));
  return good;
}

/* ---- the three calls of a training step ---- */

static int64_t count_of(const void *payload) { return ((const situ_optim *)payload)->count; }
static situ_tensor *gradient_of(const void *payload, int64_t i) {
  const situ_optim *o = payload;
  situ_tensor *grad = NULL;
  SITU_IGNORE(!situ__optim_gradient("grad_scaler", o->items[i].param, o->names[i], &grad));
  return grad;
}
static situ_status step_of(const void *payload, double grad_scale) {
  return situ_optim_step_scaled((situ_optim *)(uintptr_t)payload, grad_scale);
}
static situ_grad_scaler_source source_of(situ_optim *o) {
  return (situ_grad_scaler_source){ o, o, count_of, gradient_of, NULL, step_of };
}

situ_status situ_grad_scaler_source_of(situ_optim *o, situ_grad_scaler_source *source) {
  const char *op = "grad_scaler_source_of";
  if (!situ__optim_given(op, o) || !situ__given(op, "source", source)) return situ_error();
  *source = source_of(o);
  return SITU_OK;
}

static bool is_source(const char *op, const situ_grad_scaler_source *source) {
  if (!situ__given(op, "source", source) || !situ__optim_given(op, source->optim)) return false;
  if (source->count && source->gradient && source->step) return true;
  return situ__fail(SITU_E_ARG, op, "the source lacks count, gradient or step"), false;
}

situ_status situ_grad_scaler_unscale_(situ_grad_scaler *s, situ_optim *o) {
  if (!situ__optim_given("grad_scaler_unscale_", o)) return situ_error();
  const situ_grad_scaler_source source = source_of(o);
  return situ_grad_scaler_unscale_source(s, &source);
}

situ_status situ_grad_scaler_unscale_source(situ_grad_scaler *s, const situ_grad_scaler_source *source) {
  const char *op = "grad_scaler_unscale_";
  if (!is_scaler(op, s) || !is_source(op, source)) return situ_error();
  situ_optim *o = source->optim;
  SITU__ALONE(in, &s->alone, op, itself);
  SITU__CLAIM(claim);
  if (!in || !situ__optim_claim(op, o, &claim)) return situ_error();
  if (s->disabled) return SITU_OK;
  seen *k = find(s, op, o);
  if (!k) return situ_error();
  if (k->stage != READY)
    return situ__fail(SITU_E_STATE, op, "the gradients of this optimiser were divided already since the last update%s",
                      k->stage == STEPPED ? ", and it has stepped" : "");
  if (!check_in_scope(op, source, s, true, k)) return situ_error();
  k->stage = UNSCALED;
  return SITU_OK;
}

situ_status situ_grad_scaler_step(situ_grad_scaler *s, situ_optim *o, bool *stepped) {
  if (stepped) *stepped = false;
  if (!situ__optim_given("grad_scaler_step", o)) return situ_error();
  const situ_grad_scaler_source source = source_of(o);
  return situ_grad_scaler_step_source(s, &source, stepped);
}

situ_status situ_grad_scaler_step_source(situ_grad_scaler *s, const situ_grad_scaler_source *source, bool *stepped) {
  const char *op = "grad_scaler_step";
  if (stepped) *stepped = false;
  if (!is_scaler(op, s) || !is_source(op, source)) return situ_error();
  situ_optim *o = source->optim;
  SITU__ALONE(in, &s->alone, op, itself);
  SITU__CLAIM(claim);
  if (!in || !situ__optim_claim(op, o, &claim)) return situ_error();
  situ_status status = SITU_OK;
  bool goes = true;
  if (s->disabled) {
    status = source->step(source->payload, 1);
  } else {
    seen *k = find(s, op, o);
    if (!k) return situ_error();
    if (k->stage == STEPPED)
      return situ__fail(SITU_E_STATE, op,
                        "this optimiser has stepped already since the last update; call "
                        "grad_scaler_update after each step");
    if (k->stage == READY && !check_in_scope(op, source, s, false, k)) return situ_error();
    goes = k->finite;
    if (situ_graph_is_capturing()) status = capture_step(s, source, k);
    else if (goes) status = source->step(source->payload, k->stage == UNSCALED ? 1 : 1 / s->scale);
    if (status == SITU_OK) k->stage = STEPPED;
  }
  if (stepped) *stepped = goes && status == SITU_OK;
  return status;
}

situ_status situ_grad_scaler_update(situ_grad_scaler *s, double new_scale) {
  const char *op = "grad_scaler_update";
  if (!is_scaler(op, s)) return situ_error();
  SITU__ALONE(in, &s->alone, op, itself);
  if (!in) return situ_error();
  if (s->disabled) return SITU_OK;
  if (situ_graph_is_capturing() && capture_update(s, new_scale) != SITU_OK) return situ_error();
  if (new_scale != 0) {
    const situ_grad_scaler changed = { .scale = (double)(float)new_scale,
                                       .growth = s->growth,
                                       .backoff = s->backoff,
                                       .interval = s->interval,
                                       .tracker = s->tracker };
    if (!good_values(op, &changed)) return situ_error();
    s->scale = changed.scale;
    forget_all(s);
    return SITU_OK;
  }
  bool looked = false, finite = true;
  for (int i = 0; i < s->count; i++) {
    if (s->seen[i].stage == READY) continue;
    looked = true;
    finite = finite && s->seen[i].finite;
  }
  if (!looked)
    return situ__fail(SITU_E_STATE, op,
                      "no gradients were looked at since the last update; call grad_scaler_step first");
  s->tracker = finite ? s->tracker + 1 : 0;
  double scale = finite ? s->scale : s->scale * s->backoff;
  if (finite && s->tracker == s->interval) {
    s->tracker = 0;
    scale *= s->growth;
  }
  /* Keeps the scale within f32's range and above 0. */
  if ((float)scale > 0 && scale <= FLT_MAX) s->scale = (double)(float)scale;
  forget_all(s);
  return SITU_OK;
}

double situ_grad_scaler_get_scale(const situ_grad_scaler *s) {
  if (s && !is_scaler("grad_scaler_get_scale", s)) return NAN;
  return s && !s->disabled ? s->scale : 1;
}
bool situ_grad_scaler_is_enabled(const situ_grad_scaler *s) {
  return s && is_scaler("grad_scaler_is_enabled", s) && !s->disabled;
}

/* ---- saving ---- */

situ_tree *situ_grad_scaler_state_dict(const situ_grad_scaler *s) {
  if (!is_scaler("grad_scaler_state_dict", s)) return NULL;
  SITU__ALONE(in, (situ__alone *)(uintptr_t)&s->alone, "grad_scaler_state_dict", itself);
  if (!in) return NULL;
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  situ_tree *dict = situ_tree_dict();
  if (!s->disabled) {
    dict = situ_tree_put(dict, "scale", situ__record_number(s->scale));
    dict = situ_tree_put(dict, "growth_factor", situ__record_number(s->growth));
    dict = situ_tree_put(dict, "backoff_factor", situ__record_number(s->backoff));
    dict = situ_tree_put(dict, "growth_interval", situ__record_integer(s->interval));
    dict = situ_tree_put(dict, "_growth_tracker", situ__record_integer(s->tracker));
  }
  SITU_IGNORE(situ_scope_end(&scope));
  return dict;
}

static bool read_all(const situ_tree *flat, situ_grad_scaler *s) {
  double interval, tracker;
  bool good = situ__record_read(flat, "scale", &s->scale, 1) &&
              situ__record_read(flat, "growth_factor", &s->growth, 1) &&
              situ__record_read(flat, "backoff_factor", &s->backoff, 1) &&
              situ__record_read(flat, "growth_interval", &interval, 1) &&
              situ__record_read(flat, "_growth_tracker", &tracker, 1);
  if (!good) return false;
  s->interval = interval >= 0 && interval < 0x1p53 ? (int64_t)interval : -1;
  s->tracker = tracker >= 0 && tracker < 0x1p53 ? (int64_t)tracker : -1;
  return good_values("grad_scaler_load_state_dict", s);
}

situ_status situ_grad_scaler_load_state_dict(situ_grad_scaler *s, const situ_tree *state) {
  const char *op = "grad_scaler_load_state_dict";
  if (!is_scaler(op, s) || !situ__valid(op, "state", state, SITU__A_TREE)) return situ_error();
  SITU__ALONE(in, &s->alone, op, itself);
  if (!in) return situ_error();
  if (s->disabled) return SITU_OK;
  situ_grad_scaler loaded = { 0 };
  situ_tree *flat = situ_tree_flatten(state);
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  bool good = flat && read_all(flat, &loaded);
  SITU_IGNORE(situ_scope_end(&scope));
  situ_tree_free(flat);
  if (!good) return situ_error();
  s->scale = loaded.scale;
  s->growth = loaded.growth;
  s->backoff = loaded.backoff;
  s->interval = loaded.interval;
  s->tracker = loaded.tracker;
  return SITU_OK;
}
