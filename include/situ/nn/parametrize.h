/* Parametrizations: a tensor of a module is computed from parameters at every call (torch.nn.utils.parametrizations,
   torch.nn.utils.parametrize). The module's own tensor moves to a part "parametrizations.<name>", with torch's names:
   "original", or "original0" and "original1" for weight_norm, and a module "0" for each computation. So an optimiser
   that was made before continues to train it, and the state dict is torch's. `name` is that of a parameter that the
   module keeps in a field of its struct; a module that is called in several threads computes it in each.

   The forward of a parametrized module cannot register parts, free or share the module (SITU_E_STATE).
   SPDX-License-Identifier: MIT */
#ifndef SITU_NN_PARAMETRIZE_H
#define SITU_NN_PARAMETRIZE_H

#include "../nn.h"

SITU_BEGIN

/** weight_norm (Salimans and Kingma, arXiv:1602.07868): the parameter is original0 * original1 / |original1|, where the
    norm is taken over all dimensions but dim, and original0 begins as that norm. dim -1 is torch's None: one norm of
    the whole tensor; torch's default is 0. name NULL: "weight". Returns m, NULL on error: then m is unchanged. */
SITU_API situ_nn_module *situ_nn_utils_weight_norm(situ_nn_module *m, const char *name, int dim);

typedef struct situ_nn_spectral_norm_options {
  size_t size;                /**< of this struct; from situ_nn_spectral_norm_defaults(), as the other defaults */
  int64_t n_power_iterations; /**< steps at each call in training mode; torch's default is 1 */
  double eps;                 /**< torch's default is 1e-12 */
  bool has_dim;               /**< false: dim is 1 for transposed convolutions, else 0 */
  int dim; /**< the dimension of outputs; negative counts from the end. Without has_dim it must be 0 */
} situ_nn_spectral_norm_options;
/** torch's defaults. */
static inline situ_nn_spectral_norm_options situ_nn_spectral_norm_defaults(void) {
  situ_nn_spectral_norm_options o = SITU_ZERO_;
  o.size = sizeof o;
  o.n_power_iterations = 1;
  o.eps = 1e-12;
  return o;
}
/** spectral_norm (Miyato et al., arXiv:1802.05957): the parameter is original / sigma, where sigma is the largest
    singular value of original as a matrix [size of dim, rest], estimated by power iteration from the buffers _u and _v,
    which a call in training mode changes. A vector is divided by its norm. name NULL: "weight". Returns m, NULL on
    error: then m is unchanged. */
SITU_API situ_nn_module *situ_nn_utils_spectral_norm(situ_nn_module *m, const char *name,
                                                     const situ_nn_spectral_norm_options *options);

/** register_parametrization: the parameter becomes parametrization's result for it, which must have its shape, dtype
    and device; another one is applied to the result of those before. Takes ownership of parametrization, also on error.
    Returns m, NULL on error: then m is unchanged. */
SITU_API situ_nn_module *situ_nn_utils_register_parametrization(situ_nn_module *m, const char *name,
                                                                situ_nn_module *parametrization);
/** remove_parametrizations: the parameter is one of m's again, with the value that was computed (leave_parametrized,
    torch's default), or with that of "original", which weight_norm does not have (SITU_E_ARG). Returns m, NULL on
    error: then m is unchanged. */
SITU_API situ_nn_module *situ_nn_utils_remove_parametrizations(situ_nn_module *m, const char *name,
                                                               bool leave_parametrized);
/** Whether m has a parametrized tensor of that name; NULL: of any name. */
SITU_API bool situ_nn_utils_is_parametrized(const situ_nn_module *m, const char *name);
/** Computes the tensor, recorded, as a call of m does: torch's m.weight. It belongs to the innermost scope. NULL on
    error. */
SITU_API SITU_CHECKED situ_tensor *situ_nn_utils_parametrized(situ_nn_module *m, const char *name);

SITU_END
#endif
