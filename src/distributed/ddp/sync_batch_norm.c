/* SyncBatchNorm: batch norm whose statistics are those of the batches that all ranks have at the same time. Ranks
   exchange sums in f64 and add them in one order, so that all of them get the same bits.
   SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "ddp.h"
#include "situ/sys/layers.h"
#include "situ/sys/shape.h"

static const char op[] = "sync_batch_norm";

/* One call, until its backward has run. */
typedef struct sync_call {
  situ_comm *comm;
  situ_nn_normalise_call what;
  int64_t channels;
  double count;               /* values of a channel, over all ranks */
  char name[SITU__COMM_NAME]; /* the layer's, for messages */
} sync_call;

/* ---- sums over ranks ---- */

/* Numbers of one rank: of a channel the mean and the sum of squared distances from it, or two plain sums. */
typedef struct moments {
  double count, *first, *second;
} moments;

static moments moments_at(double *memory, int64_t channels) {
  return (moments){ memory[0], memory + 1, memory + 1 + channels };
}

/* Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979. */
static void join_statistics(moments *a, const moments *b, int64_t channels) {
  const double count = a->count + b->count;
  for (int64_t c = 0; c < channels && b->count > 0; c++) {
    const double distance = b->first[c] - a->first[c];
    a->first[c] += distance * (b->count / count);
    a->second[c] += b->second[c] + distance * distance * (a->count * b->count / count);
  }
  a->count = count;
}

static void join_sums(moments *a, const moments *b, int64_t channels) {
  for (int64_t c = 0; c < channels; c++) {
    a->first[c] += b->first[c];
    a->second[c] += b->second[c];
  }
}

typedef void (*join)(moments *a, const moments *b, int64_t channels);

/* In the tree that micro-batches have, over ranks [lo, hi), into the memory of rank lo. */
static moments join_ranks(double *all, int64_t channels, join how, int64_t lo, int64_t hi) {
  if (hi - lo == 1) return moments_at(all + lo * (2 * channels + 1), channels);
  const int64_t mid = situ__dist_split(lo, hi);
  moments left = join_ranks(all, channels, how, lo, mid);
  const moments right = join_ranks(all, channels, how, mid, hi);
  how(&left, &right, channels);
  return left;
}

/* Values of a tensor of any floating dtype. */
static bool read_channels(situ_tensor *t, double *values, int64_t channels) {
  t = situ_to_dtype(situ_to(t, (situ_device){ SITU_CPU, 0 }), SITU_F64);
  return t && (situ_is_dry() || situ_copy_to_host(t, values, (size_t)channels * sizeof *values) == SITU_OK);
}

/* Memory for the moments of all ranks, and behind them this rank's own. */
static double *alloc_moments(const sync_call *s) {
  const size_t bytes = (size_t)(s->comm->size + 1) * (size_t)(2 * s->channels + 1) * sizeof(double);
  double *memory = situ__calloc(1, bytes);
  if (!memory) situ__no_memory(op, bytes);
  return memory;
}

/* In a dry run: all ranks have what this one has. */
static bool rehearse(const sync_call *s, const situ_comm_call *call) {
  situ_comm_request *r = situ__comm_simulate(op, s->comm, call);
  double *all = call->receive;
  for (int i = 0; r && i < s->comm->size; i++)
    memcpy(all + i * call->count, call->send, (size_t)call->count * sizeof *all);
  situ__comm_close(r);
  return r;
}

/* Sends this rank's moments to all. Returns those of all ranks in *total, which is in `memory`; false after
   recording. */
static bool exchange(const sync_call *s, double *memory, double count, situ_tensor *const values[2], join how,
                     moments *total) {
  const int64_t length = 2 * s->channels + 1;
  double *own = memory + s->comm->size * length;
  own[0] = count;
  if (count > 0 && (!read_channels(values[0], own + 1, s->channels) ||
                    !read_channels(values[1], own + 1 + s->channels, s->channels)))
    return false;
  const situ_comm_call call = { SITU_COMM_ALL_GATHER, .dtype = SITU_F64, .count = length,
                                .send = own,          .receive = memory, .name = s->name };
  if (situ_is_dry() ? !rehearse(s, &call) : situ__comm_call(op, s->comm, &call) != SITU_OK) return false;
  *total = join_ranks(memory, s->channels, how, 0, s->comm->size);
  return true;
}

/* [C] or, to be broadcast over a tensor of ndim dimensions, [1, C, 1, ...]. */
static situ_tensor *channel_tensor(const double *values, int64_t channels, situ_dtype dtype, situ_device device) {
  if (situ_is_dry()) return situ_zeros(SITU_SHAPE(channels), &(situ_options){ .dtype = dtype, .device = device });
  situ_tensor *t = situ_from_host(values, (size_t)channels * sizeof *values, SITU_SHAPE(channels),
                                  &(situ_options){ .dtype = SITU_F64, .device = { SITU_CPU, 0 } });
  return situ_to(situ_to_dtype(t, dtype), device);
}

static situ_tensor *spread(situ_tensor *t, int ndim) {
  situ_shape shape = { .ndim = ndim };
  for (int i = 0; i < ndim; i++) shape.dim[i] = i == 1 ? situ_numel(t) : 1;
  return situ_reshape(t, shape);
}

static situ_reduce_options but_channels(int ndim) {
  situ_reduce_options o = { .dim = SITU_DIMS(0) };
  for (int i = 2; i < ndim; i++) o.dim.dim[o.dim.ndim++] = i;
  return o;
}

static situ_dtype statistics_dtype(const situ_tensor *x) { return situ_dtype_of(x) == SITU_F64 ? SITU_F64 : SITU_F32; }
static double values_a_channel(const situ_tensor *x) {
  return situ_size(x, 1) ? (double)(situ_numel(x) / situ_size(x, 1)) : 0;
}

/* ---- forward ---- */

static bool update_running(const situ_nn_normalise_call *w, situ_tensor *mean, situ_tensor *unbiased_var) {
  situ_tensor *const running[2] = { w->running_mean, w->running_var }, *const now[2] = { mean, unbiased_var };
  situ_tensor *next[2];
  for (int i = 0; i < 2; i++)
    if (!(next[i] = situ_add_alpha(situ_mul_scalar(running[i], 1 - w->momentum),
                                   situ_to_dtype(now[i], situ_dtype_of(running[i])), w->momentum)))
      return false;
  const uint64_t locks = situ__write_begin(situ__write_lock_of(situ_desc(running[0])->storage) |
                                           situ__write_lock_of(situ_desc(running[1])->storage));
  const bool good = situ_copy_(running[0], next[0]) && situ_copy_(running[1], next[1]);
  situ__write_end(locks);
  return good;
}

/* Statistics of the ranks together: mean, var and 1 / sqrt(var + eps), and the variance for the running one. */
static bool find_statistics(sync_call *s, double *memory, situ_tensor *x, situ_tensor *out[4]) {
  const situ_dtype dtype = statistics_dtype(x);
  const double own = values_a_channel(x);
  situ_tensor *values[2] = { NULL };
  if (own > 0) {
    situ_reduce_options o = but_channels(situ_dim(x));
    o.dtype = dtype;
    values[1] = situ_mul_scalar(situ_var_mean(situ_to_dtype(x, dtype), 0, &o, &values[0]), own);
  }
  moments all;
  if (!exchange(s, memory, own, values, join_statistics, &all)) return false;
  s->count = all.count;
  if (all.count < 2)
    return situ__fail(SITU_E_ARG, op, "%g value a channel over all ranks has no variance; training needs more",
                      all.count),
           false;
  double *var = all.second, *unbiased = memory + s->comm->size * (2 * s->channels + 1), *rstd = unbiased + s->channels;
  for (int64_t c = 0; c < s->channels; c++) {
    unbiased[c] = var[c] / (all.count - 1);
    var[c] /= all.count;
    rstd[c] = 1 / sqrt(var[c] + s->what.eps);
  }
  const double *const from[4] = { all.first, var, rstd, unbiased };
  for (int i = 0; i < 4; i++)
    if (!(out[i] = channel_tensor(from[i], s->channels, dtype, situ_device_of(x)))) return false;
  return true;
}

static bool normalise(sync_call *s, double *memory, situ_tensor **out) {
  const situ_nn_normalise_call *w = &s->what;
  situ_tensor *found[4]; /* mean, var, rstd, unbiased var */
  if (!find_statistics(s, memory, w->input, found)) return false;
  const situ_batch_norm_options o = { .size = sizeof o, .eps = w->eps };
  out[0] = situ_batch_norm(w->input, found[0], found[1], w->weight, w->bias, &o);
  out[1] = found[0];
  out[2] = found[2];
  return out[0] && (!w->running_mean || update_running(w, found[0], found[3]));
}

/* What fails on this rank alone is told to the others, which wait for it. */
static situ_status end_call(const sync_call *s, double *memory, bool good) {
  situ__free(memory);
  if (good) return SITU_OK;
  situ_comm_abort(s->comm, situ_error_message());
  return situ_error();
}

static situ_status forward(situ_tensor *const *in, int ins, situ_tensor **out, int outs, void *payload) {
  sync_call *s = payload;
  (void)in, (void)ins, (void)outs;
  double *memory = alloc_moments(s);
  return end_call(s, memory, memory && normalise(s, memory, out));
}

/* ---- backward ---- */

/* dx = (dy - mean(dy) - (x - mean) rstd^2 mean(dy (x - mean))) rstd weight, with means over all ranks. The gradients of
   weight and bias are this rank's own, as those of all other parameters. */
static bool differentiate(const sync_call *s, double *memory, situ_tensor *const *in, int ins, situ_tensor *const *out,
                          situ_tensor *dy, situ_tensor **grad_in) {
  situ_tensor *x = in[0], *mean = out[1], *rstd = out[2];
  const situ_dtype dtype = statistics_dtype(x);
  const situ_device device = situ_device_of(x);
  const int ndim = situ_dim(x);
  const situ_reduce_options o = but_channels(ndim);
  const uint64_t errors = situ__error_count();
  dy = situ_to_dtype(dy, dtype);
  situ_tensor *centred = situ_sub(situ_to_dtype(x, dtype), spread(mean, ndim));
  situ_tensor *const sums[2] = { situ_sum(dy, &o), situ_sum(situ_mul(dy, centred), &o) };
  moments all;
  if (!sums[0] || !sums[1] || !exchange(s, memory, 1, sums, join_sums, &all)) return false;
  for (int64_t c = 0; c < s->channels; c++) {
    all.first[c] /= s->count;
    all.second[c] /= s->count;
  }
  situ_tensor *mean_dy = channel_tensor(all.first, s->channels, dtype, device),
              *slope = situ_mul(channel_tensor(all.second, s->channels, dtype, device), situ_square(rstd)),
              *scale = ins == 1 ? rstd : situ_mul(rstd, situ_to_dtype(in[1], dtype));
  situ_tensor *dx = situ_sub(situ_sub(dy, spread(mean_dy, ndim)), situ_mul(centred, spread(slope, ndim)));
  grad_in[0] = situ_to_dtype(situ_mul(dx, spread(scale, ndim)), situ_dtype_of(x));
  if (ins > 1) {
    grad_in[1] = situ_to_dtype(situ_mul(sums[1], rstd), situ_dtype_of(in[1]));
    grad_in[2] = situ_to_dtype(sums[0], situ_dtype_of(in[2]));
  }
  return situ__error_count() == errors;
}

static situ_status backward(situ_tensor *const *in, int ins, situ_tensor *const *out, int outs,
                            situ_tensor *const *grad_out, situ_tensor **grad_in, void *payload) {
  const sync_call *s = payload;
  (void)outs;
  if (situ_is_grad_enabled()) /* sums of other ranks have no history here */
    return situ__fail(SITU_E_UNSUPPORTED, op, "create_graph: the sums over ranks have no second derivative");
  double *memory = alloc_moments(s);
  return end_call(s, memory, memory && differentiate(s, memory, in, ins, out, grad_out[0], grad_in));
}

static void release(void *payload) { situ__free(payload); }

static const situ_function function = { op, forward, backward, release };

/* ---- layers ---- */

/* In a dry run: the checks and the results' shapes, without the other ranks. One value a channel is enough here, as the
   statistics are of their batches too. */
static situ_tensor *simulate(const situ_nn_normalise_call *w) {
  const situ_options like = { .dtype = statistics_dtype(w->input), .device = situ_device_of(w->input) };
  situ_tensor *some = situ_zeros(SITU_SHAPE(situ_size(w->input, 1)), &like);
  const situ_batch_norm_options o = { .size = sizeof o, .eps = w->eps };
  situ_tensor *y = situ_batch_norm(w->input, some, some, w->weight, w->bias, &o);
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  const bool updated = !y || !w->running_mean || update_running(w, some, some);
  return situ_scope_end(&s) == SITU_OK && updated ? y : NULL;
}

static situ_tensor *through(const situ_nn_normalise_call *w, void *payload) {
  situ_comm *comm = payload;
  if (!situ__comm_given(op, comm)) return NULL;
  const situ_batch_norm_options o = { .size = sizeof o, .training = true, .momentum = w->momentum, .eps = w->eps };
  if (comm->size == 1 || situ_device_of(w->input).kind == SITU_META)
    return situ_batch_norm(w->input, w->running_mean, w->running_var, w->weight, w->bias, &o);
  if (situ_is_dry() && !situ_dry_tell_exchange(NULL)) return simulate(w);
  sync_call *s = situ__alloc(sizeof *s);
  if (!s) return situ__no_memory(op, sizeof *s), NULL;
  *s = (sync_call){ .comm = comm, .what = *w, .channels = situ_size(w->input, 1) };
  char path[256];
  (void)snprintf(s->name, sizeof s->name, "batch norm %.50s", situ_nn_running(path, sizeof path));
  situ_tensor *in[3] = { w->input, w->weight, w->bias }, *out[3];
  return situ_function_apply(&function, in, w->weight ? 3 : 1, out, 3, s) == SITU_OK ? out[0] : NULL;
}

situ_nn_module *situ_nn_sync_batch_norm(int64_t num_features, situ_comm *comm,
                                        const situ_nn_batch_norm_options *options) {
  if (!situ__comm_given("nn_sync_batch_norm", comm)) return NULL;
  situ_nn_module *m = situ_nn_batch_norm2d(num_features, options);
  if (!m || situ_nn_batch_norm_through(m, through, comm)) return m;
  situ_nn_free(m);
  return NULL;
}

static situ_status convert(const situ_nn_visit *at, void *payload) {
  const uint64_t errors = situ__error_count();
  (void)situ_nn_batch_norm_through(at->module, through, payload);
  return situ__error_count() == errors ? SITU_OK : situ_error();
}

situ_nn_module *situ_nn_convert_sync_batchnorm(situ_nn_module *module, situ_comm *comm) {
  static const char name[] = "nn_convert_sync_batchnorm";
  if (!situ__valid(name, "module", module, SITU__A_MODULE) || !situ__comm_given(name, comm)) return NULL;
  const unsigned which = SITU_NN_VISIT_MODULES | SITU_NN_VISIT_ONCE | SITU_NN_VISIT_UNNAMED;
  return situ_nn_walk(module, which, convert, comm) == SITU_OK ? module : NULL;
}
