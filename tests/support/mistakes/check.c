/* Mistakes that the preflight must find: a model that lives `there`, and what is wrong with its
   forward.
   SPDX-License-Identifier: MIT */
#include "support/mistakes/mistakes.h"

typedef struct net {
  situ_nn_module base;
  situ_nn_module *fc1, *fc2, *loose[2];
  situ_tensor *weight, *offset;
} net;

static situ_tensor *call(situ_nn_module *layer, situ_tensor *x) { return situ_nn_forward(layer, x); }

static situ_options on(situ_device device) { return (situ_options){ .device = device }; }

static situ_nn_module *linear(int64_t in, int64_t out) { return situ_nn_linear(in, out, NULL); }

/* A net of two layers, [2, 4] -> [2, 4], still open. */
static net *begin(const situ_nn_type *type) {
  net *m = situ_nn_alloc(type);
  situ_nn_child(m, fc1, linear(4, 4));
  situ_nn_child(m, fc2, linear(4, 4));
  return m;
}

/* The model moves there, as its input does. */
static void finish(planted *p, net *m) {
  situ_options options = on(there());
  p->model = situ_nn_done(m);
  expect_ok(situ_nn_to(p->model, there()));
  p->inputs = situ_tree_tensor(situ_set_name(situ_randn(SITU_SHAPE(2, 4), &options), "x"));
}

static void plain(planted *p, const situ_nn_type *type) { finish(p, begin(type)); }

static void wrong_input(planted *p, situ_tensor *x) {
  situ_tree_free(p->inputs);
  p->inputs = situ_tree_tensor(situ_set_name(x, "x"));
}

static situ_tensor *both(situ_nn_module *self, situ_tensor *x) {
  net *m = (net *)self;
  return call(m->fc2, situ_relu(call(m->fc1, x)));
}
static const situ_nn_type both_type = { .name = "Net", .size = sizeof(net), .forward = both };

/* ---- something in forward is elsewhere ---- */

static void input_elsewhere(planted *p) {
  situ_options options = on(here());
  plain(p, &both_type);
  wrong_input(p, situ_randn(SITU_SHAPE(2, 4), &options));
}

static situ_tensor *layer_made_in_forward(situ_nn_module *self, situ_tensor *x) {
  (void)self;
  situ_nn_linear_options options = { .device = here() };
  situ_nn_module *layer = situ_nn_linear(4, 4, &options);
  situ_tensor *y = call(layer, x);
  situ_nn_free(layer);
  return y;
}
static const situ_nn_type made_type = { .name = "Net", .size = sizeof(net), .forward = layer_made_in_forward };
static void layer_in_forward(planted *p) { plain(p, &made_type); }

static situ_tensor *noise_made_in_forward(situ_nn_module *self, situ_tensor *x) {
  situ_options options = on(here());
  x = call(((net *)self)->fc1, x);
  return situ_add(x, situ_randn(situ_shape_of(x), &options));
}
static const situ_nn_type noise_type = { .name = "Net", .size = sizeof(net), .forward = noise_made_in_forward };
static void tensor_in_forward(planted *p) { plain(p, &noise_type); }

static situ_tensor *attribute_forward(situ_nn_module *self, situ_tensor *x) {
  net *m = (net *)self;
  return situ_add(call(m->fc1, x), m->offset);
}
static const situ_nn_type attribute_type = { .name = "Net", .size = sizeof(net), .forward = attribute_forward };
static void attribute_stays_behind(planted *p) {
  net *m = begin(&attribute_type);
  m->offset = situ_set_name(situ_ones(SITU_SHAPE(4), NULL), "offset");
  finish(p, m);
}

static situ_tensor *list_forward(situ_nn_module *self, situ_tensor *x) {
  net *m = (net *)self;
  for (int i = 0; i < 2; i++) x = call(m->loose[i], x);
  return x;
}
static const situ_nn_type list_type = { .name = "Net", .size = sizeof(net), .forward = list_forward };
static void list_stays_behind(planted *p) {
  net *m = begin(&list_type);
  for (int i = 0; i < 2; i++) p->others[i] = m->loose[i] = linear(4, 4);
  finish(p, m);
}

static void half_moved(planted *p) {
  plain(p, &both_type);
  expect_ok(situ_to_(situ_nn_get_tensor(p->model, "fc2.weight"), here()));
}

static void index_elsewhere(planted *p) {
  situ_options options = on(here());
  options.dtype = SITU_I64;
  p->model = situ_nn_sequential(situ_nn_embedding(9, 4, NULL), linear(4, 4));
  expect_ok(situ_nn_to(p->model, there()));
  wrong_input(p, situ_zeros(SITU_SHAPE(3), &options));
}

static void convolution_left_behind(planted *p) {
  situ_options options = on(there());
  p->model = situ_nn_sequential(situ_nn_conv2d(3, 4, SITU_DIMS(3), NULL), situ_nn_relu());
  wrong_input(p, situ_randn(SITU_SHAPE(1, 3, 8, 8), &options));
}

static void statistics_left_behind(planted *p) {
  situ_options options = on(there());
  p->model = situ_nn_sequential(linear(4, 4), situ_nn_batch_norm1d(4, NULL));
  expect_ok(situ_nn_to(p->model, there()));
  expect_ok(situ_to_(situ_nn_get_tensor(p->model, "1.running_mean"), here()));
  wrong_input(p, situ_randn(SITU_SHAPE(3, 4), &options));
}

static situ_tensor *joined(situ_nn_module *self, situ_tensor *x) {
  situ_options options = on(here());
  situ_tensor *parts[] = { call(((net *)self)->fc1, x), situ_zeros(SITU_SHAPE(2, 4), &options) };
  return situ_cat(parts, 2, 0);
}
static const situ_nn_type joined_type = { .name = "Net", .size = sizeof(net), .forward = joined };
static void padding_elsewhere(planted *p) { plain(p, &joined_type); }

/* ---- shapes, dtypes, several at once ---- */

static situ_tensor *multiplied(situ_nn_module *self, situ_tensor *x) { /* 002, example 3 */
  net *m = (net *)self;
  x = call(m->fc1, x);
  return situ_add(x, situ_matmul(x, m->weight));
}
static const situ_nn_type multiplied_type = { .name = "Net", .size = sizeof(net), .forward = multiplied };
static void wrong_shape(planted *p) {
  net *m = begin(&multiplied_type);
  situ_nn_param(m, weight, situ_randn(SITU_SHAPE(4, 3), NULL));
  finish(p, m);
}

/* One fault hides the other: the input is elsewhere, and would not fit if it were not. */
static void shape_behind_device(planted *p) {
  situ_options options = on(here());
  plain(p, &both_type);
  wrong_input(p, situ_randn(SITU_SHAPE(2, 5), &options));
}

static void two_in_one_model(planted *p) {
  net *m = begin(&attribute_type);
  m->offset = situ_set_name(situ_ones(SITU_SHAPE(4), NULL), "offset");
  finish(p, m);
  expect_ok(situ_to_(situ_nn_get_tensor(p->model, "fc1.bias"), here()));
}

static void wrong_dtype(planted *p) {
  situ_options options = on(there());
  options.dtype = SITU_F64;
  plain(p, &both_type);
  wrong_input(p, situ_randn(SITU_SHAPE(2, 4), &options));
}

static void dtype_that_the_device_has_not(planted *p) {
  situ_options options = on(there());
  options.dtype = SITU_F16;
  plain(p, &both_type);
  expect_ok(situ_nn_to_dtype(p->model, SITU_F16));
  wrong_input(p, situ_zeros(SITU_SHAPE(2, 4), &options));
  expect_ok(situ_sim_without((int)there().index, 1u << SITU_F16));
}

/* ---- copies that hide a mistake ---- */

static situ_tensor *weight_moved_in_forward(situ_nn_module *self, situ_tensor *x) { /* 002, example 3 */
  net *m = (net *)self;
  return situ_matmul(call(m->fc1, x), situ_to(m->weight, situ_device_of(x)));
}
static const situ_nn_type moving_type = { .name = "Net", .size = sizeof(net), .forward = weight_moved_in_forward };
static void weight_copied_each_time(planted *p) {
  net *m = begin(&moving_type);
  situ_nn_param(m, weight, situ_randn(SITU_SHAPE(4, 4), NULL));
  finish(p, m);
  expect_ok(situ_to_(m->weight, here()));
}

static situ_tensor *noise_moved_in_forward(situ_nn_module *self, situ_tensor *x) { /* 002, example 2 */
  situ_options options = on(here());
  x = call(((net *)self)->fc1, x);
  return situ_add(x, situ_to(situ_randn(situ_shape_of(x), &options), situ_device_of(x)));
}
static const situ_nn_type carried_type = { .name = "Net", .size = sizeof(net), .forward = noise_moved_in_forward };
static void noise_copied_each_time(planted *p) { plain(p, &carried_type); }

/* ---- on the way back ---- */

static situ_tensor *detached(situ_nn_module *self, situ_tensor *x) { /* .data, or .to() of a leaf */
  net *m = (net *)self;
  return call(m->fc2, situ_detach(call(m->fc1, x)));
}
static const situ_nn_type detached_type = { .name = "Net", .size = sizeof(net), .forward = detached };
static void gradient_goes_nowhere(planted *p) { plain(p, &detached_type); }

const mistake check_mistakes[] = {
  { "the input is elsewhere", "001-ex1", input_elsewhere, SITU_PLACE_DEVICE, 0, { "fc1", "x", "input" } },
  { "a layer is made in forward", "000-ex1; #42358", layer_in_forward, SITU_PLACE_DEVICE, 0, { "linear", "Linear" } },
  { "a tensor is made in forward", "001-1; 002-1", tensor_in_forward, SITU_PLACE_DEVICE, 0, { "add", "check.c" } },
  { "an attribute stays behind", "000-ex3b", attribute_stays_behind, SITU_PLACE_DEVICE, 0, { "offset", "add" } },
  { "a list of layers stays behind", "S13; #1053", list_stays_behind, SITU_PLACE_DEVICE, 2, { "linear" } },
  { "a model is half moved", "S10", half_moved, SITU_PLACE_DEVICE, 0, { "fc2", "weight" } },
  { "an index is elsewhere", "S2", index_elsewhere, SITU_PLACE_DEVICE, 0, { "embedding" } },
  { "a convolution is left behind", "S1", convolution_left_behind, SITU_PLACE_DEVICE, 0, { "conv2d" } },
  { "statistics are left behind", "S8; S6", statistics_left_behind, SITU_PLACE_DEVICE, 0, { "running_mean" } },
  { "padding is elsewhere", "S4", padding_elsewhere, SITU_PLACE_DEVICE, 0, { "cat" } },
  { "shapes that do not fit", "002-ex3", wrong_shape, SITU_PLACE_SHAPE, 0, { "add", "4 and 3" } },
  { "a shape behind a device", "1.4: shape masks device", shape_behind_device, SITU_PLACE_SHAPE, 2, { "linear", "5" } },
  { "two mistakes in one model", "000-ex3b; S10", two_in_one_model, SITU_PLACE_DEVICE, 2, { "offset" } },
  { "an input of another dtype", "1.4; #42358", wrong_dtype, SITU_PLACE_DTYPE, 0, { "fc1", "f64", "f32" } },
  { "a dtype that the device has not",
    "S23; #114458",
    dtype_that_the_device_has_not,
    SITU_PLACE_UNSUPPORTED,
    MANY,
    { "linear", "f16", "cannot compute" } },
  { "a weight is copied at each step", "S16; 002-ex3b", weight_copied_each_time, A_COPY, 0, { "weight" } },
  { "noise is copied at each step", "002-ex2", noise_copied_each_time, A_COPY, 0, { "" } },
  { "a gradient that goes nowhere",
    "S11; #9303",
    gradient_goes_nowhere,
    SITU_PLACE_GRADIENT,
    0,
    { "fc1.weight", "no result depends" } },
};
const int check_mistake_count = sizeof check_mistakes / sizeof *check_mistakes;
