/* Mistakes that the lint must find.
   SPDX-License-Identifier: MIT */
#include "support/mistakes/mistakes.h"
#include "support/optim.h"

#include <stdlib.h>

typedef struct node {
  situ_nn_module *layer;
  struct node *next;
} node;
typedef struct counted {
  int count, capacity;
  situ_nn_module **items;
} counted;

typedef struct net {
  situ_nn_module base;
  situ_nn_module *fc, *extra, *layers[3], **list;
  situ_tensor *weight, *offset, **tensors;
  node *head;
  counted *out;
} net;

static situ_tensor *net_forward(situ_nn_module *self, situ_tensor *x) { return situ_nn_forward(((net *)self)->fc, x); }
static const situ_nn_type net_type = { .name = "Net", .size = sizeof(net), .forward = net_forward };

static situ_nn_module *layer(void) { return situ_nn_linear(4, 4, NULL); }
static situ_tensor *ones(situ_options options) { return situ_ones(SITU_SHAPE(4), &options); }

/* A net with one layer, still open. */
static net *begin(void) {
  net *m = situ_nn_alloc(&net_type);
  situ_nn_child(m, fc, layer());
  return m;
}
static net *finish(planted *p, net *m) {
  p->model = situ_nn_done(m);
  assert_non_null(p->model);
  return m;
}
static situ_tensor *weight_of(situ_nn_module *m) { return situ_nn_get_tensor(m, "weight"); }

/* ---- in the struct ---- */

static void tensor_attribute(planted *p) {
  net *m = begin();
  m->offset = situ_set_name(ones((situ_options){ 0 }), "offset"); /* self.offset = torch.ones(4) */
  finish(p, m);
}

/* weight_norm: `weight` is computed from its parts in forward, and stays behind in a move. */
static void derived_weight(planted *p) {
  net *m = finish(p, begin());
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  assert_true(situ_set(&m->weight, situ_mul_scalar(weight_of(m->fc), 2)));
  expect_ok(situ_scope_end(&s));
  p->kept[0] = m->weight;
}

static void module_attribute(planted *p) {
  net *m = begin();
  p->others[0] = m->extra = layer();
  finish(p, m);
}

static void list_in_the_struct(planted *p) { /* self.layers = [nn.Linear(4, 4), ...] */
  net *m = begin();
  for (int i = 0; i < 3; i++) p->others[i] = m->layers[i] = layer();
  finish(p, m);
}

static void list_on_the_heap(planted *p) {
  net *m = begin();
  p->block = m->list = calloc(3, sizeof *m->list);
  for (int i = 0; i < 2; i++) p->others[i] = m->list[i] = layer();
  finish(p, m);
}

static void list_with_a_gap(planted *p) { /* layers[0] is made later, or never */
  net *m = begin();
  p->block = m->list = calloc(3, sizeof *m->list);
  p->others[0] = m->list[1] = layer();
  finish(p, m);
}

static void linked_list(planted *p) {
  net *m = begin();
  node *nodes = calloc(3, sizeof *nodes);
  p->block = m->head = nodes;
  for (int i = 0; i < 3; i++) {
    p->others[i] = nodes[i].layer = layer();
    nodes[i].next = i < 2 ? &nodes[i + 1] : NULL;
  }
  finish(p, m);
}

static void list_behind_a_pointer(planted *p) { /* a vector of one's own, with a gap */
  static situ_nn_module *items[6];
  net *m = begin();
  p->block = m->out = calloc(1, sizeof *m->out);
  *m->out = (counted){ .count = 4, .capacity = 6, .items = items };
  for (int i = 0; i < 3; i++) p->others[i] = items[i ? i + 1 : 0] = layer();
  finish(p, m);
}

static void layer_in_a_variable(planted *p) { /* a helper of the constructor keeps it in a static variable */
  static situ_nn_module *kept;
  net *m = begin();
  p->others[0] = kept = layer();
  finish(p, m);
}

static void average_in_a_field(planted *p) { /* self.ema = deepcopy(self.fc) */
  net *m = begin();
  if (m) p->others[0] = m->extra = situ_nn_clone(m->fc);
  finish(p, m);
}

static void list_of_parameters(planted *p) { /* self.weights = [nn.Parameter(...), ...] */
  net *m = begin();
  p->block = m->tensors = calloc(3, sizeof *m->tensors);
  for (int i = 0; i < 2; i++) p->kept[i] = m->tensors[i] = situ_retain(ones((situ_options){ 0 }));
  finish(p, m);
}

static void deep_inside(planted *p) {
  net *inner = begin();
  inner->offset = ones((situ_options){ 0 });
  p->model = situ_nn_sequential(layer(), situ_nn_sequential(situ_nn_done(inner)));
}

/* A helper of the constructor keeps a tensor for itself. */
static void kept_by_a_helper(planted *p) {
  net *m = begin();
  p->kept[0] = situ_retain(ones((situ_options){ 0 }));
  finish(p, m);
}

static void stale_reference(planted *p) {
  situ_scope s;
  situ_scope_begin(&s);
  net *m = begin();
  m->offset = ones((situ_options){ 0 });
  finish(p, m);
  expect_ok(situ_scope_end(&s));
}

static void assigned_past_registration(planted *p) { /* conv.weight.data = ..., by hand */
  net *m = begin();
  situ_nn_param(m, weight, ones((situ_options){ 0 }));
  finish(p, m);
  m->weight = situ_to(m->weight, there());
}

static void layer_replaced_by_hand(planted *p) { /* model.fc = nn.Linear(4, 4), past registration */
  net *m = finish(p, begin());
  p->others[0] = m->fc = layer();
}

static void field_emptied(planted *p) { /* model.weight = None, but it is trained and saved on */
  net *m = begin();
  situ_nn_param(m, weight, ones((situ_options){ 0 }));
  finish(p, m)->weight = NULL;
}

/* ---- places ---- */

static void parameter_left_elsewhere(planted *p) {
  p->model = layer();
  expect_ok(situ_to_(situ_nn_get_tensor(p->model, "bias"), there()));
}

static void buffer_left_elsewhere(planted *p) {
  p->model = situ_nn_batch_norm1d(4, NULL);
  expect_ok(situ_nn_to(p->model, there()));
  expect_ok(situ_to_(situ_nn_get_tensor(p->model, "running_mean"), here()));
}

static void moved_by_hand(planted *p) { /* for p in layer.parameters(): p.data = p.data.to(device) */
  p->model = situ_nn_sequential(layer(), situ_nn_relu(), layer());
  expect_ok(situ_nn_to(p->model, there()));
  expect_ok(situ_to_(situ_nn_get_tensor(p->model, "2.weight"), here()));
  expect_ok(situ_to_(situ_nn_get_tensor(p->model, "2.bias"), here()));
}

static void one_layer_without_a_device(planted *p) { /* factory_kwargs, forgotten in one place */
  situ_nn_linear_options placed = { .device = there() };
  p->model = situ_nn_sequential(situ_nn_linear(4, 4, &placed), layer(), situ_nn_linear(4, 4, &placed));
}

static situ_nn_module *layer_on_cpu(void) { /* by the default device, not by an option */
  situ_setting before;
  expect_ok(situ_default_device_begin(&before, situ_dev("cpu")));
  situ_nn_module *m = layer();
  situ_default_device_end(&before);
  return m;
}

static void late_layer_of_a_spread_model(planted *p) { /* model.append(head), after the device map */
  p->model = situ_nn_sequential(layer(), layer());
  expect_ok(situ_nn_to_map(p->model, "0=sim:0,1=sim:1"));
  assert_non_null(situ_nn_append(p->model, layer_on_cpu()));
}

static void late_layers_of_a_large_spread_model(planted *p) {
  p->model = situ_nn_sequential(layer(), layer(), layer(), layer());
  expect_ok(situ_nn_to_map(p->model, "0=sim:0,1=sim:0,2=sim:1,3=sim:1"));
  assert_non_null(situ_nn_append(p->model, situ_nn_sequential(layer_on_cpu(), situ_nn_relu(), layer_on_cpu())));
}

static void gradient_left_behind(planted *p) {
  net *other = situ_nn_alloc(&net_type);
  p->model = layer();
  situ_tensor *weight = weight_of(p->model);
  expect_ok(situ_set_grad(weight, situ_ones_like(weight, NULL)));
  situ_nn_buffer(other, offset, situ_grad(weight));
  p->others[0] = situ_nn_done(other);
  expect_ok(situ_nn_to(p->others[0], there()));
}

static void half_cast(planted *p) {
  p->model = situ_nn_layer_norm(SITU_SHAPE(4), NULL);
  situ_tensor *bias = ones((situ_options){ .dtype = SITU_F64 });
  assert_non_null(situ_nn_add_tensor(p->model, "bias", NULL, bias, SITU_NN_PARAMETER));
}

/* ---- values ---- */

static void meta_among_real(planted *p) {
  situ_nn_linear_options meta = { .device = situ_dev("meta") };
  p->model = situ_nn_sequential(layer(), situ_nn_linear(4, 4, &meta));
}

static void never_written(planted *p) { /* to_empty() leaves a batch norm's statistics as garbage */
  p->model = situ_nn_batch_norm1d(4, NULL);
  situ_tensor *empty = situ_empty(SITU_SHAPE(4), NULL);
  assert_non_null(situ_nn_add_tensor(p->model, "running_var", NULL, empty, SITU_NN_BUFFER));
}

static void lazy_without_input(planted *p) { p->model = situ_nn_sequential(layer(), situ_nn_lazy_linear(3, NULL)); }

/* decoder.weight = encoder.weight; later the decoder's alone is made anew */
static void tie_lost(planted *p) {
  p->model = situ_nn_sequential(layer(), layer());
  situ_nn_module *head = situ_nn_at(p->model, 1);
  situ_tensor *shared = weight_of(situ_nn_at(p->model, 0));
  assert_non_null(situ_nn_add_tensor(head, "weight", NULL, shared, SITU_NN_PARAMETER));
  expect_ok(situ_place_lint(p->model, NULL));
  situ_tensor *own = situ_detach(situ_mul_scalar(shared, 1.5));
  assert_non_null(situ_nn_add_tensor(head, "weight", NULL, own, SITU_NN_PARAMETER));
}

static void tied_by_copying(planted *p) {
  p->model = situ_nn_sequential(layer(), layer());
  situ_tensor *copy = situ_detach(situ_clone(weight_of(situ_nn_at(p->model, 0))));
  situ_nn_module *head = situ_nn_at(p->model, 1);
  assert_non_null(situ_nn_add_tensor(head, "weight", NULL, copy, SITU_NN_PARAMETER));
}

static void parameter_that_is_no_leaf(planted *p) { /* nn.Parameter(w).to(device): no Parameter */
  p->model = layer();
  situ_tensor *moved = situ_mul_scalar(weight_of(p->model), 1.5);
  assert_non_null(situ_nn_add_tensor(p->model, "weight", NULL, moved, SITU_NN_PARAMETER));
}

static void buffer_not_saved(planted *p) {
  net *m = begin();
  situ_nn_transient_buffer(m, offset, ones((situ_options){ 0 }));
  finish(p, m);
}

/* ---- optimisers ---- */

static void optimise(planted *p, situ_tree *parameters) {
  situ_optim *o = situ_optim_sgd(parameters, 1, OPTIM_MOMENTUM(0.9));
  assert_non_null(o);
  p->optims[p->optim_count++] = o;
}

static void model_replaced_after_its_optimiser(planted *p) { /* model = Net(); the old optimiser */
  situ_nn_module *old = layer();
  optimise(p, situ_nn_parameters(old));
  situ_nn_free(old);
  p->model = layer();
}

static void optimiser_of_a_copy(planted *p) { /* deepcopy(model), and the optimiser of the other */
  p->model = layer();
  p->others[0] = situ_nn_clone(p->model);
  optimise(p, situ_nn_parameters(p->others[0]));
}

static void layer_added_after_the_optimiser(planted *p) {
  net *m = finish(p, begin());
  optimise(p, situ_nn_parameters(p->model));
  situ_nn_child(m, extra, layer());
}

static void frozen_but_optimised(planted *p) {
  p->model = layer();
  optimise(p, situ_nn_parameters(p->model));
  assert_non_null(situ_requires_grad_(weight_of(p->model), false));
}

static void two_optimisers(planted *p) {
  p->model = layer();
  optimise(p, situ_nn_parameters(p->model));
  optimise(p, situ_tree_put(situ_tree_dict(), "weight", situ_tree_tensor(weight_of(p->model))));
}

static void tied_under_two_handles(planted *p) {
  p->model = situ_nn_sequential(layer(), layer());
  situ_tensor *alias = situ_detach(weight_of(situ_nn_at(p->model, 0)));
  situ_nn_module *head = situ_nn_at(p->model, 1);
  assert_non_null(situ_nn_add_tensor(head, "weight", NULL, alias, SITU_NN_PARAMETER));
  optimise(p, situ_nn_parameters(p->model));
}

static void state_left_behind(planted *p) {
  net *other = situ_nn_alloc(&net_type);
  p->model = layer();
  optimise(p, situ_nn_parameters(p->model));
  situ_tensor *weight = weight_of(p->model);
  expect_ok(situ_set_grad(weight, situ_ones_like(weight, NULL)));
  expect_ok(situ_optim_step(p->optims[0]));
  situ_nn_buffer(other, offset, situ_optim_state(p->optims[0], 0, 0, NULL));
  p->others[0] = situ_nn_done(other);
  expect_ok(situ_nn_to(p->others[0], there()));
}

const mistake lint_mistakes[] = {
  { "a plain tensor is an attribute",
    "000-ex3; #7460",
    tensor_attribute,
    SITU_LINT_TENSOR,
    0,
    { "Net", "offset", "not registered", "situ_nn_buffer(m, " } },
  { "a derived weight is an attribute",
    "1.4: weight_norm",
    derived_weight,
    SITU_LINT_TENSOR,
    0,
    { "Net", "f32 [4, 4]", "lint.c" } },
  { "a module in a field nobody registered",
    "000-6; #59925",
    module_attribute,
    SITU_LINT_MODULE,
    0,
    { "the Linear at byte", "situ_nn_child(m, " } },
  { "a list of layers in the struct",
    "S13; #1053",
    list_in_the_struct,
    SITU_LINT_MODULE,
    3,
    { "Linear", "not saved" } },
  { "a list of layers on the heap",
    "S13; #8017, #15005",
    list_on_the_heap,
    SITU_LINT_ARRAY,
    0,
    { "2 modules", "Linear", "situ_nn_module_list_of" } },
  { "a list of layers whose first entry is missing",
    "S13",
    list_with_a_gap,
    SITU_LINT_ARRAY,
    0,
    { "1 module ", "Linear", "situ_nn_module_list_of" } },
  { "a linked list of layers",
    "S13",
    linked_list,
    SITU_LINT_ARRAY,
    0,
    { "a linked list with 3 modules", "Linear", "\"layers.0\"" } },
  { "a list of layers behind a pointer",
    "S13",
    list_behind_a_pointer,
    SITU_LINT_ARRAY,
    0,
    { "a struct that has an array with 3 modules", "Linear", "situ_nn_module_list_of(m->field->n, m->field->items)" } },
  { "a layer in a static variable",
    "S13",
    layer_in_a_variable,
    SITU_LINT_STRAY,
    0,
    { "a module that was made with it (Linear)", "situ_nn_retain(module)" } },
  { "an average in a field",
    "AveragedModel",
    average_in_a_field,
    SITU_LINT_MODULE,
    0,
    { "is a copy of fc", "situ_optim_averaged_model" } },
  { "a list of parameters",
    "000-6; #29807, #72580",
    list_of_parameters,
    SITU_LINT_ARRAY,
    0,
    { "2 tensors", "not registered" } },
  { "a plain tensor deep inside", "000-ex3; #135640", deep_inside, SITU_LINT_TENSOR, 0, { "1.0", "f32 [4]" } },
  { "a helper keeps a tensor of the constructor",
    "001-7",
    kept_by_a_helper,
    SITU_LINT_STRAY,
    0,
    { "in use but not registered", "made at" } },
  { "a field shows a tensor that is gone",
    "001-9",
    stale_reference,
    SITU_LINT_DANGLING,
    0,
    { "gone", "never registered" } },
  { "a weight assigned past registration",
    "001-4; #7844",
    assigned_past_registration,
    SITU_LINT_FIELD,
    0,
    { "weight", "assigned past registration", "f32 [4]" } },
  { "a layer replaced past registration",
    "001-9; #12460",
    layer_replaced_by_hand,
    SITU_LINT_FIELD,
    0,
    { "fc", "another module", "situ_nn_child(m, fc" } },
  { "a field emptied by hand", "S12", field_emptied, SITU_LINT_FIELD, 0, { "weight", "NULL" } },
  { "a parameter moved without its layer",
    "S12",
    parameter_left_elsewhere,
    SITU_LINT_APART,
    0,
    { "bias", "is on", "situ_nn_to" } },
  { "a buffer moved without its layer",
    "S12; S8",
    buffer_left_elsewhere,
    SITU_LINT_APART,
    0,
    { "running_mean", "situ_nn_to" } },
  { "a layer moved by hand after its model",
    "000-5; S10",
    moved_by_hand,
    SITU_LINT_AWAY,
    0,
    { "2", "was moved to", "situ_nn_to" } },
  { "one layer made without the device",
    "002-ex3d",
    one_layer_without_a_device,
    SITU_LINT_ALONE,
    0,
    { "1", "the other modules" } },
  { "a layer added to a spread model",
    "S12",
    late_layer_of_a_spread_model,
    SITU_LINT_ALONE,
    0,
    { "2", "on sim:1 and on other devices", "situ_nn_get_submodule(model, \"2\"), situ_dev(\"sim:1\")" } },
  { "two layers added to a spread model",
    "S12",
    late_layers_of_a_large_spread_model,
    SITU_LINT_ALONE,
    2,
    { "4.", "where it was made" } },
  { "a gradient left behind",
    "S11, S19; #35797",
    gradient_left_behind,
    SITU_LINT_GRADIENT,
    0,
    { "weight", "its gradient is" } },
  { "one parameter of another dtype",
    "000-ex1; #42358",
    half_cast,
    SITU_LINT_DTYPES,
    0,
    { "bias", "f64", "weight", "f32" } },
  { "a layer left on meta", "S5, S9", meta_among_real, SITU_LINT_VALUES, 2, { "meta", "no values" } },
  { "statistics that were never written",
    "S6",
    never_written,
    SITU_LINT_VALUES,
    0,
    { "running_var", "nothing was ever written" } },
  { "a lazy layer without input", "S20; 000-3", lazy_without_input, SITU_LINT_LAZY, 0, { "1", "no input" } },
  { "tied weights come apart", "S9", tie_lost, SITU_LINT_TIE, 0, { "1.weight", "tied to 0.weight" } },
  { "tied by copying", "S9; 001-ex4", tied_by_copying, SITU_LINT_TWINS, 0, { "1.weight", "0.weight", "bit by bit" } },
  { "a parameter that is no leaf",
    "#9303, #12627, #13112",
    parameter_that_is_no_leaf,
    SITU_LINT_GRAPH,
    0,
    { "weight", "result of an op", "situ_detach" } },
  { "a buffer that is not saved", "000-ex3", buffer_not_saved, SITU_LINT_UNSAVED, 0, { "offset", "state dict" } },
  { "an optimiser whose model is gone",
    "S7",
    model_replaced_after_its_optimiser,
    SITU_LINT_ORPHAN,
    2,
    { "only the optimiser holds it", "made at" } },
  { "the optimiser of a copy", "S7", optimiser_of_a_copy, SITU_LINT_FOREIGN, 2, { "before another was registered" } },
  { "a layer added after the optimiser",
    "000-ex1",
    layer_added_after_the_optimiser,
    SITU_LINT_UNTRAINED,
    2,
    { "extra.", "no optimiser has it" } },
  { "a frozen parameter is optimised",
    "S7: step() without effect",
    frozen_but_optimised,
    SITU_LINT_FROZEN,
    0,
    { "weight", "wants no gradient" } },
  { "two optimisers for one parameter", "S7", two_optimisers, SITU_LINT_TWICE, 0, { "weight", "two optimisers" } },
  { "one weight optimised under two names",
    "S8, S9",
    tied_under_two_handles,
    SITU_LINT_TWICE,
    0,
    { "0.weight", "twice" } },
  { "state left on another device",
    "1.4: step() after to()",
    state_left_behind,
    SITU_LINT_STATE,
    0,
    { "weight", "momentum_buffer" } },
};
const int lint_mistake_count = sizeof lint_mistakes / sizeof *lint_mistakes;
