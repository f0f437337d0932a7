/* Comparing two devices: which module computes something else on one of them.
   SPDX-License-Identifier: MIT */
#ifndef SITU_PLACE_COMPARE_H
#define SITU_PLACE_COMPARE_H

#include "../nn.h"

SITU_BEGIN

typedef struct situ_place_compare_options {
  /** The largest difference that is none, relative to the largest value of the tensor. 0: by dtype, the coarser of the
      two: f64 1e-9, f32 1e-4, f16 1e-2, bf16 5e-2; other dtypes have to be equal. */
  double tolerance;
  bool exact;          /**< every difference counts, whatever .tolerance is */
  bool forward_only;   /**< no backward */
  situ_dtype autocast; /**< the second run is in autocast to this dtype; 0: it is not */
} situ_place_compare_options;

/** What differs first. Texts may be cut. */
typedef struct situ_place_comparison {
  bool differs;     /**< false: all else is 0, but calls */
  bool backward;    /**< a gradient differs, and no result of forward does */
  bool caused;      /**< it differs also where all that was computed before it is the same: the module is the cause.
                          false: it has made a difference larger that came from before it */
  int64_t calls;    /**< number of calls of modules, and of programs, that were compared */
  double absolute;  /**< largest difference of an element; infinite where one alone is NaN, or shapes differ */
  double relative;  /**< the same, relative to the largest value */
  double before;    /**< the relative difference of what came in: inputs, in backward gradients of results */
  char module[256]; /**< its path; "" for the model itself */
  char tensor[64];  /**< "output", or "input"; in backward a parameter's name, or "input" */
  char text[1024];  /**< all of this in words */
} situ_place_comparison;

/** Runs copies of the module on two devices, or twice on one, with the same inputs and random state: forward, and
    backward from the sum of all floating results times fixed random numbers, where they need a gradient. Compares what
    goes into each call of a module and what comes out of it, then, in the reverse order, gradients of the same and of
    parameters; and names the first that differ. A module is named for its own code too, between calls of its parts.
    Of a loaded program the results of its calls are compared, by the modules that they were in; its gradients as one.
    Where something differs, the second copy runs again, with what the first has computed before it, which tells whether
    the module is the cause.

    The module, its gradients, its hooks and the random state stay as they are. The program's hooks are called; those of
    ddp and ZeRO are not. A type whose forward keeps values in its struct needs a .copy, as the copies run, and what is
    kept is not moved. All that the calls of the first copy take and give is kept on the host meanwhile. Layers that
    compute over ranks are collective calls, so all ranks must compare.

    SITU_OK: *out tells. With out NULL a difference is an error, SITU_E_STATE, with out->text for a message.
    SITU_E_UNSUPPORTED for a module that cannot be copied; other errors are those of either run. options may be NULL. */
SITU_API SITU_CHECKED situ_status situ_place_compare(situ_nn_module *m, const situ_tree *inputs, situ_device a,
                                                     situ_device b, const situ_place_compare_options *options,
                                                     situ_place_comparison *out);

SITU_END
#endif
