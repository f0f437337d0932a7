/* What torch's functions have that situ's headers have not: names of arguments that differ, and defaults.
   SPDX-License-Identifier: MIT */
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "support/api/invoke.h"

/* Functions as patterns, without situ_, and their settings (invoke.h). A function has those of all rows that it
   matches. */
static const struct row {
  const char *functions, *settings;
} rows[] = {
  /* element by element */
  { "*elu", "alpha=1" },
  { "*leaky_relu", "negative_slope=0.01" },
  { "*gelu", "approximate=none" },
  { "*softplus", "beta=1 threshold=20" },
  { "*hardtanh", "min_val=-1 max_val=1" },
  { "*softshrink *hardshrink", "lambd=0.5" },
  { "*glu", "dim=-1" },
  { "logit", "eps=0" },
  { "clamp clamp_", "min=-inf max=inf" },
  { "addcmul* addcdiv*", "value=1" },
  { "scalar_pow", "base:input" },
  { "isclose", "rtol=1e-5 atol=1e-8 equal_nan=0" },
  { "dropout", "p=0.5 training=1" },
  /* shapes */
  { "diagonal*", "offset=0 dim1=0 dim2=1" },
  { "diag_embed", "offset=0 dim1=-2 dim2=-1" },
  { "diag tril triu", "diagonal=0" },
  { "tril_indices triu_indices", "offset=0" },
  { "rot90", "k=1 dims=0,1" },
  { "flatten", "start_dim=0 end_dim=-1" },
  { "nn_flatten", "start_dim=1 end_dim=-1" },
  { "slice*", "start=0 end=9223372036854775807 step=1" },
  { "split* chunk tensor_split* unbind cat stack", "dim=0" },
  { "pad", "mode=constant value=0" },
  /* made */
  { "logspace", "base=10" },
  { "arange", "start=0 step=1" },
  { "eye", "m=-1" },
  { "fft_*freq", "d=1" },
  { "*_window", "periodic=1" },
  { "hamming_window", "alpha=0.54 beta=0.46" },
  { "kaiser_window", "beta=12" },
  { "multinomial", "replacement=0" },
  { "exponential_", "lambd=1" },
  /* by index */
  { "index_add*", "alpha=1" },
  { "one_hot", "num_classes=-1" },
  /* reductions and statistics */
  { "var* std* cov", "correction=1" },
  { "norm dist pdist cdist pairwise_distance normalize", "p=2" },
  { "sort argsort", "dim=-1 descending=0" },
  { "topk", "dim=-1 largest=1" },
  { "kthvalue mode", "dim=-1" },
  { "*quantile", "interpolation=linear" },
  { "diff", "n=1 dim=-1" },
  { "isin", "invert=0" },
  { "bincount", "minlength=0" },
  { "histc", "bins=100" },
  { "*trapezoid", "dx=1 dim=-1" },
  /* matrices */
  { "linalg_cross linalg_vecdot", "dim=-1" },
  { "linalg_vector_norm", "ord=2" },
  { "linalg_vander", "N=0" },
  { "linalg_*solve*", "left=1 unitriangular=0 adjoint=0" },
  { "*cholesky*", "upper=0" },
  { "linalg_qr", "mode=reduced" },
  { "linalg_eigh linalg_eigvalsh", "upper:UPLO=U" },
  { "linalg_lstsq", "rcond=none" },
  { "linalg_ldl_factor_ex", "check_errors=0" },
  { "linalg_tensorinv", "ind=2" },
  { "stft istft", "two_sided:!onesided" },
  /* losses */
  { "*", "reduction=mean" },
  { "*smooth_l1_loss", "beta=1" },
  { "huber_loss", "delta=1" },
  { "*kl_div*", "log_target=0" },
  { "poisson_nll_loss", "log_input=1 full=0 eps=1e-8" },
  { "gaussian_nll_loss", "full=0 eps=1e-6" },
  { "hinge_embedding_loss", "margin=1" },
  { "margin_ranking_loss cosine_embedding_loss", "margin=0" },
  { "normalize", "dim=1 eps=1e-12" },
  { "cosine_similarity", "dim=1 eps=1e-8" },
  { "pairwise_distance", "eps=1e-6" },
  /* images and norms */
  { "max_pool?d avg_pool?d", "kernel:kernel_size" },
  { "*avg_pool?d", "exclude_pad:!count_include_pad" },
  { "*max_pool?d", "-return_indices" },
  { "lp_pool?d", "ceil_mode=0" },
  { "interpolate", "scale_factor:scale" },
  { "affine_grid", "align_corners=0" },
  { "layer_norm group_norm", "eps=1e-5" },
  { "rms_norm", "eps=none" },
  { "instance_norm", "no_input_stats:!use_input_stats" },
  { "local_response_norm", "alpha=1e-4 beta=0.75 k=1" },
  /* layers and schedules */
  { "nn_*", "-training" },
  { "nn_layer_norm nn_rms_norm", "no_affine:!elementwise_affine" },
  { "nn_transformer_*", "gelu:activation=gelu" },
  { "nn_rnn*", "relu:nonlinearity=relu" },
  { "lr_scheduler_*", "-lr gamma=0.1 factor=0.1 eta_min=0 t_mult=1 anneal_epochs=10" },
  { "lr_scheduler_*", "linear:anneal_strategy=linear linear=0 keep_momentum:!cycle_momentum" },
  { "lr_scheduler_reduce_lr_on_plateau", "max:mode=max threshold_abs:threshold_mode=abs" },
  /* everywhere */
  { "*", "shape:size dims:dim keepdim=0" },
};

const char *invoke_setting(const char *settings, const char *name, char mark) {
  const size_t length = strlen(name);
  for (const char *at = settings; at && *at; at += strcspn(at, " "), at += strspn(at, " ")) {
    const bool is_own = mark == '-' ? *at == '-' && strncmp(at + 1, name, length) == 0 && strchr(" ", at[length + 1])
                                    : strncmp(at, name, length) == 0 && at[length] == mark;
    if (is_own) return at + length + 1;
  }
  return NULL;
}

static bool matches(const char *patterns, const char *function) {
  char word[64];
  for (const char *at = patterns; *at; at += strcspn(at, " "), at += strspn(at, " ")) {
    snprintf(word, sizeof word, "%.*s", (int)strcspn(at, " "), at);
    if (fnmatch(word, function, 0) == 0) return true;
  }
  return false;
}

const char *invoke_setting_of(const char *function, const char *name, char mark) {
  const char *found = NULL;
  for (size_t k = 0; k < sizeof rows / sizeof *rows && !found; k++)
    if ((found = invoke_setting(rows[k].settings, name, mark)) && !matches(rows[k].functions, function)) found = NULL;
  return found;
}
