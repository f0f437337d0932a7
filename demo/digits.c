/* The digits: loaded, scaled, split.
   SPDX-License-Identifier: MIT */
#include "demo.h"

enum { HELD_BACK = 360 };

situ_status demo_digits_load(demo_digits *d, const char *path) {
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_tree *file = situ_load(path, NULL);
  situ_tensor *images = situ_tree_get(file, "images"), *labels = situ_tree_get(file, "labels");
  situ_tensor *x = situ_unsqueeze(situ_div_scalar(situ_to_dtype(images, SITU_F32), 16), 1);
  situ_tensor *y = situ_to_dtype(labels, SITU_I64);

  /* A split of its own seed: the same digits are held back in every run. */
  situ_generator generator = situ_generator_seeded(1998);
  int64_t count = images ? situ_size(images, 0) : 0;
  situ_tensor *order = situ_randperm(count, &(situ_options){ .generator = &generator });
  situ_tensor *train = situ_narrow(order, 0, HELD_BACK, count - HELD_BACK), *test = situ_narrow(order, 0, 0, HELD_BACK);
  situ_set(&d->train_x, situ_index_select(x, 0, train));
  situ_set(&d->train_y, situ_index_select(y, 0, train));
  situ_set(&d->test_x, situ_index_select(x, 0, test));
  situ_set(&d->test_y, situ_index_select(y, 0, test));
  situ_tree_free(file);
  return situ_scope_end(&s);
}

void demo_digits_free(demo_digits *d) {
  situ_drop(&d->train_x);
  situ_drop(&d->train_y);
  situ_drop(&d->test_x);
  situ_drop(&d->test_y);
}
