/* Tensors: creation, views, arithmetic and errors, on any device.
   SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "device.h"
#include "situ/situ.h"

int main(int argc, char **argv) {
  /* Results of ops belong to the innermost scope, which frees them at its end. */
  situ_scope s;
  situ_scope_begin(&s);

  /* A device is a value. A wrong name, or an unavailable device, is an error with the reason. */
  situ_device device = device_of(&argc, argv, "cpu");
  if (situ_set_default_device(device) != SITU_OK) return 1;

  situ_tensor *a = situ_arange(0, 6, 1, &(situ_options){ .dtype = SITU_F32 });
  situ_tensor *m = situ_reshape(a, SITU_SHAPE(2, 3)); /* a view: same memory */
  puts("m =");
  situ_print(m);

  puts("\nm + its column means, broadcast:");
  situ_print(situ_add(m, situ_mean(m, &(situ_reduce_options){ .dim = SITU_DIMS(0) })));

  puts("\nm x m^T:");
  situ_print(situ_matmul(m, situ_transpose(m, 0, 1)));

  /* Writing through a view writes to its storage. */
  situ_mul_scalar_(situ_select(m, 0, 1), 10);
  puts("\na, after its second half was multiplied by 10 through m:");
  situ_print(a);

  /* The host reads values by explicit calls. */
  double largest;
  if (situ_item(situ_max(m), &largest) != SITU_OK) return 1;
  printf("\nthe largest value is %g\n", largest);

  /* A mistake is an error: the result is NULL, a NULL operand gives NULL, and the first error is kept. */
  situ_error_mode(SITU_ERROR_QUIET);
  situ_tensor *wrong = situ_relu(situ_matmul(m, situ_ones(SITU_SHAPE(4, 2), NULL)));
  if (!wrong) printf("\n%s\n", situ_error_message());
  situ_error_clear();

  SITU_IGNORE(situ_scope_end(&s)); /* would return the error above */
  return 0;
}
