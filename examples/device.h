/* Every example takes `--device D` (cpu, sim:0, opencl:0, cuda:0): where it computes. An installed situ builds each, at
   the root of the tree, where their data is:

     cc -std=c17 -g examples/01_tensor.c -o 01_tensor $(pkg-config --cflags --libs situ) -lm && ./01_tensor

   SPDX-License-Identifier: MIT */
#ifndef SITU_EXAMPLE_DEVICE_H
#define SITU_EXAMPLE_DEVICE_H

#include <string.h>

#include "situ/device.h"

#ifndef SITU_DATA_DIR
#define SITU_DATA_DIR "demo/data"
#define SITU_EXAMPLE_DATA "examples/data"
#endif

/* Removes `--device D` from the arguments and returns the device, or `otherwise`. An unavailable device is an error of
   the first call that gets it. */
static inline situ_device device_of(int *argc, char **argv, const char *otherwise) {
  for (int i = 1; i + 1 < *argc; i++) {
    if (strcmp(argv[i], "--device") != 0) continue;
    otherwise = argv[i + 1];
    *argc -= 2;
    memmove(argv + i, argv + i + 2, (size_t)(*argc - i + 1) * sizeof *argv);
  }
  return situ_dev(otherwise);
}

#endif
