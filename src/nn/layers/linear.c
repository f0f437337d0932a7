/* Linear, LazyLinear, Identity.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/fail.h"
#include "base/mutex.h"
#include "nn/nn.h"
#include "situ/random.h"
#include "situ/sys/layers.h"
#include "situ/sys/shape.h"

typedef struct linear {
  situ_nn_module base;
  situ_tensor *weight, *bias;
  int64_t in, out;
  situ_nn_linear_options options;
} linear;

static situ_tensor *linear_forward(situ_nn_module *self, situ_tensor *x) {
  linear *m = (linear *)self;
  return situ_linear_activation(x, m->weight, m->bias, m->options.activation);
}

static int linear_repr(const situ_nn_module *self, char *buffer, size_t size) {
  const linear *m = (const linear *)self;
  static const char *const also[] = { "", ", activation=relu", ", activation=gelu_tanh", ", activation=gelu",
                                      ", activation=silu" };
  return snprintf(buffer, size, "in_features=%" PRId64 ", out_features=%" PRId64 ", bias=%s%s", m->in, m->out,
                  situ__nn_bool(!m->options.no_bias), also[m->options.activation]);
}

static int linear_brief(const situ_nn_module *self, char *buffer, size_t size) {
  const linear *m = (const linear *)self;
  return snprintf(buffer, size, "%" PRId64 " -> %" PRId64, m->in, m->out);
}

static const situ_nn_type linear_type = { .name = "Linear",
                                          .size = sizeof(linear),
                                          .forward = linear_forward,
                                          .single_op = true,
                                          .extra_repr = linear_repr,
                                          .brief = linear_brief };

bool situ_nn_linear_read(const situ_nn_module *m, situ_nn_linear_options *options) {
  const char *op = "nn_linear_read";
  if (!situ__nn_given(op, "module", m) || !situ__given(op, "options", options)) return false;
  if (situ__nn_type(m) != &linear_type) return false;
  *options = ((const linear *)m)->options;
  return true;
}

/* Creates the parameters: `values` fills them as torch does, uniform within 1 / sqrt(in). */
static bool make(linear *m, int64_t in, situ_device device, bool values) {
  situ_options where = { .dtype = m->options.dtype, .device = device };
  situ_tensor *weight = situ_empty(SITU_SHAPE(m->out, in), &where);
  if (values) weight = situ_nn_init_kaiming_uniform_(weight, &(situ_nn_kaiming_options){ .a = sqrt(5) }, NULL);
  bool ok = situ_nn_param(m, weight, weight) != NULL;
  if (!m->options.no_bias) {
    double bound = in > 0 ? 1 / sqrt((double)in) : 0;
    situ_tensor *bias = situ_empty(SITU_SHAPE(m->out), &where);
    if (values) bias = situ_nn_init_uniform_(bias, -bound, bound, NULL);
    ok = situ_nn_param(m, bias, bias) && ok;
  }
  m->in = in;
  return ok;
}

static linear *alloc(const situ_nn_type *type, int64_t out, const situ_nn_linear_options *options) {
  linear *m = situ_nn_alloc(type);
  if (!m) return NULL;
  m->out = out;
  if (options) m->options = *options;
  m->base.home = m->options.device;
  if ((unsigned)m->options.activation > SITU_ACTIVATION_SILU) {
    situ__fail(SITU_E_ARG, "nn_linear", "activation is %d, must be one of situ_activation", (int)m->options.activation);
    m->options.activation = SITU_ACTIVATION_NONE;
    m->base.broken = true;
  }
  return m;
}

situ_nn_module *situ_nn_linear(int64_t in_features, int64_t out_features, const situ_nn_linear_options *options) {
  linear *m = alloc(&linear_type, out_features, options);
  if (m) make(m, in_features, m->options.device, true);
  return situ_nn_done(m);
}

/* ---- lazy ---- */

static const situ_nn_type lazy_type;

/* In this order, so that threads that see the new type see the parameters. */
static void woken(linear *m) {
  __atomic_store_n(&m->base.pending, false, __ATOMIC_RELEASE);
  __atomic_store_n(&m->base.type, &linear_type, __ATOMIC_RELEASE);
}

static situ_tensor *wake_and_forward(situ_nn_module *self, situ_tensor *x) {
  linear *m = (linear *)self;
  /* The module's home is the default device here. While it is lazy, it refuses an input on another device. */
  situ_device home = situ_get_default_device(), there = situ_device_of(x);
  if (there.kind && !situ_device_equal(home, there)) {
    char a[SITU_DEVICE_NAME_MAX], b[SITU_DEVICE_NAME_MAX];
    return situ__fail(SITU_E_DEVICE, "linear",
                      "this LazyLinear lives on %s, and would make its parameters there, but its input is on %s; "
                      "move one of them (it is lazy still)",
                      situ_device_name(home, a), situ_device_name(there, b)),
           NULL;
  }
  if (situ_dim(x) < 1)
    return situ__fail(SITU_E_SHAPE, "linear",
                      "this LazyLinear takes its in_features from the last dimension of its input, which is 0-dim"),
           NULL;
  const situ_generator before = situ_get_rng_state();
  if (make(m, situ_size(x, -1), home, true)) {
    woken(m);
    situ_tensor *y = linear_forward(self, x);
    if (y) return y;
  }
  situ__nn_forget(self, &lazy_type); /* refused: resets the module to lazy */
  situ_set_rng_state(before);
  return NULL;
}

/* If several threads make the first forward concurrently, one creates the parameters. */
static situ_tensor *lazy_forward(situ_nn_module *self, situ_tensor *x) {
  static situ__mutex waking = SITU__MUTEX_INIT;
  situ__mutex_lock(&waking);
  situ_tensor *y = situ__nn_pending(self) ? wake_and_forward(self, x) : linear_forward(self, x);
  situ__mutex_unlock(&waking);
  return y;
}

/* Without a home it creates parameters on meta. Loading moves them to their device. */
static situ_status lazy_wake(situ_nn_module *self, const situ_tree *state, const char *path) {
  linear *m = (linear *)self;
  char key[512];
  int length = snprintf(key, sizeof key, "%s%sweight", path, *path ? "." : "");
  const situ_tree *weight = length > 0 && (size_t)length < sizeof key ? situ_tree_find(state, key) : NULL;
  if (!weight) return SITU_OK;
  situ_shape shape = situ_shape_of(situ_tree_value(weight));
  if (shape.ndim != 2 || shape.dim[0] != m->out) {
    char text[SITU_SHAPE_TEXT];
    return situ__fail(SITU_E_SHAPE, "nn_load_state_dict", "%s: %s in the state, [%" PRId64 ", any] in the module", key,
                      situ_shape_text(&shape, text), m->out);
  }
  situ_device home = self->home.kind ? self->home : (situ_device){ SITU_META, 0 };
  if (!make(m, shape.dim[1], home, false)) return situ_error();
  woken(m);
  return SITU_OK;
}

static const situ_nn_type lazy_type = {
  .name = "LazyLinear", .size = sizeof(linear), .forward = lazy_forward, .extra_repr = linear_repr, .wake = lazy_wake
};

situ_nn_module *situ_nn_lazy_linear(int64_t out_features, const situ_nn_linear_options *options) {
  linear *m = alloc(&lazy_type, out_features, options);
  if (m) m->base.pending = true;
  if (m && out_features < 0) {
    situ__fail(SITU_E_SHAPE, "nn_lazy_linear", "%" PRId64 " outputs", out_features);
    m->base.broken = true;
  }
  return situ_nn_done(m);
}

/* ---- identity ---- */

static situ_tensor *identity_forward(situ_nn_module *self, situ_tensor *x) {
  (void)self;
  return x;
}

static const situ_nn_type identity_type = {
  .name = "Identity", .size = sizeof(situ_nn_module), .forward = identity_forward, .single_op = true
};

situ_nn_module *situ_nn_identity(void) { return situ_nn_done(situ_nn_alloc(&identity_type)); }
