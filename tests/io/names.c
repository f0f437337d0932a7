/* What fails inside a function is recorded under the name of the function that was called: each allocation fails in turn.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "situ/io.h"
#include "situ/optim.h"
#include "situ/sys/alloc.h"
#include "support/modules.h"

static situ_nn_module *module;
static situ_tree *state, *steps;
static situ_optim *optimiser;

static bool freed(situ_tree *t) {
  situ_tree_free(t);
  return t != NULL;
}
static bool call_load(void) { return freed(situ_load("names.safetensors", NULL)); }
static bool call_save(void) { return situ_save("names.safetensors", state, NULL) == SITU_OK; }
static bool call_npy_save(void) {
  return situ_npy_save("names.npy", situ_nn_get_tensor(module, "weight"), NULL) == SITU_OK;
}
static bool call_npy_load(void) { return situ_npy_load("names.npy", NULL) != NULL; }
static bool call_nn_state_dict(void) { return freed(situ_nn_state_dict(module)); }
static bool call_nn_load_state_dict(void) { return situ_nn_load_state_dict(module, state, NULL) == SITU_OK; }
static bool call_nn_clone(void) {
  situ_nn_module *copy = situ_nn_clone(module);
  situ_nn_free(copy);
  return copy != NULL;
}
static bool call_optim_state_dict(void) { return freed(situ_optim_state_dict(optimiser)); }
static bool call_optim_load_state_dict(void) { return situ_optim_load_state_dict(optimiser, steps) == SITU_OK; }
static bool call_optim_clip_grad_norm_(void) {
  double total;
  return situ_optim_clip_grad_norm_(optimiser, 1, 2, &total) == SITU_OK;
}

static const struct {
  const char *name;
  bool (*call)(void);
} rows[] = {
  { "save", call_save }, /* first: the others read what it has written */
  { "load", call_load },
  { "npy_save", call_npy_save },
  { "npy_load", call_npy_load },
  { "nn_state_dict", call_nn_state_dict },
  { "nn_load_state_dict", call_nn_load_state_dict },
  { "nn_clone", call_nn_clone },
  { "optim_state_dict", call_optim_state_dict },
  { "optim_load_state_dict", call_optim_load_state_dict },
  { "optim_clip_grad_norm_", call_optim_clip_grad_norm_ },
};

static void errors_name_the_function_called(void **test_state) {
  (void)test_state;
  module = situ_nn_linear(3, 4, NULL);
  state = situ_nn_state_dict(module);
  optimiser = situ_optim_adam(situ_nn_parameters(module), 1e-3, NULL);
  assert_int_equal(situ_backward(situ_sum(situ_nn_forward(module, situ_ones(SITU_SHAPE(2, 3), NULL)), NULL), NULL),
                   SITU_OK);
  assert_int_equal(situ_optim_step(optimiser), SITU_OK);
  steps = situ_optim_state_dict(optimiser);
  int failures = 0;
  for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
    bool done = false;
    if (!rows[k].call()) fail_msg("%s: %s", rows[k].name, situ_error_message());
    for (uint64_t nth = 1; !done; nth++) {
      situ_fail_allocation(nth, false);
      const bool good = rows[k].call();
      situ_fail_allocation(0, false);
      if (good != (situ_error() == SITU_OK))
        fail_msg("%s, allocation %d: %s", rows[k].name, (int)nth, good ? situ_error_message() : "no error");
      if (!good && strcmp(situ_error_op(), rows[k].name))
        fail_msg("%s, allocation %d: the error names %s", rows[k].name, (int)nth, situ_error_op());
      failures += !good;
      done = good;
      situ_error_clear();
    }
  }
  print_message("  %d failures, all named\n", failures);
  situ_optim_free(optimiser);
  situ_tree_free(state);
  situ_tree_free(steps);
  situ_nn_free(module);
}

int main(void) {
  const struct CMUnitTest tests[] = { MODULE_TEST(errors_name_the_function_called) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
