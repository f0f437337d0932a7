/* A custom module: a struct, a forward, registration by assignment; then moved as a whole to another device.
   SPDX-License-Identifier: MIT */
/* test-slow: cpu/sanitized */
#include <stdio.h>

#include "device.h"
#include "situ/situ.h"

/* class MyModule(nn.Module) */
typedef struct {
  situ_nn_module base;
  situ_nn_module *fc1, *fc2;
  situ_tensor *offset;
} my_module;

static situ_tensor *my_forward(situ_nn_module *self, situ_tensor *x) {
  my_module *m = (my_module *)self;
  x = situ_relu(situ_nn_forward(m->fc1, x));
  x = situ_add(x, situ_randn_like(x, NULL)); /* on x's device */
  return situ_add(situ_nn_forward(m->fc2, x), m->offset);
}

static const situ_nn_type my_type = { .name = "MyModule", .size = sizeof(my_module), .forward = my_forward };

static situ_nn_module *my_module_new(int64_t in, int64_t hidden) {
  my_module *m = situ_nn_alloc(&my_type);
  situ_nn_child(m, fc1,
                situ_nn_linear(in, hidden, NULL)); /* self.fc1 = nn.Linear(in, hidden): assignment is registration */
  situ_nn_child(m, fc2, situ_nn_linear(hidden, in, NULL));
  situ_nn_buffer(m, offset, situ_zeros(SITU_SHAPE(in), NULL)); /* registered: it moves, it is saved */
  return situ_nn_done(m);                                      /* frees all and returns NULL if a part is NULL */
}

int main(int argc, char **argv) {
  /* A second device on any machine: sim:0 has separate memory that the host cannot read. */
  situ_device device =
      device_of(&argc, argv, situ_device_is_available((situ_device){ .kind = SITU_SIM }) ? "sim:0" : "cpu");
  situ_scope s;
  situ_scope_begin(&s);
  situ_nn_module *model = my_module_new(5, 10);
  situ_tensor *weight = situ_nn_get_tensor(model, "fc1.weight"); /* our handle, taken before the move */
  if (situ_nn_to(model, device) != SITU_OK) return 1;
  situ_place_print(model);

  char name[SITU_DEVICE_NAME_MAX];
  printf("\nthe handle taken before follows: %s\n\n", situ_device_name(situ_device_of(weight), name));
  situ_print(situ_nn_forward(model, situ_randn(SITU_SHAPE(2, 5), &(situ_options){ .device = device })));

  /* An input on the wrong device is refused, with an explanation and a fix. */
  if (device.kind != SITU_CPU) {
    situ_error_mode(SITU_ERROR_QUIET);
    situ_tensor *x = situ_set_name(situ_randn(SITU_SHAPE(2, 5), NULL), "x");
    if (!situ_nn_forward(model, x)) printf("\n%s\n", situ_error_message());
    situ_error_clear();
  }
  situ_nn_free(model);
  SITU_IGNORE(situ_scope_end(&s));
  return 0;
}
