/* The backend interface: one struct of function slots, and the work that they execute. A backend gets sizes, strides
   and memory; shape rules, gradients and modules are handled above it. docs/add-a-backend.md walks through it.
   SPDX-License-Identifier: MIT */
#ifndef SITU_SYS_BACKEND_H
#define SITU_SYS_BACKEND_H

#include <math.h>

#include "../interop.h"
#include "integer.h"

SITU_BEGIN

/** A fingerprint of the interface, which changes with every declaration that a module is compiled with: a module with
    another one is refused. tools/check_abi says when it must change, and writes it with --write. */
#define SITU_BACKEND_ABI 0x5615f3f0u

/** Memory on a device, shared by all tensors on it. A move changes `data` and `device` here, and so moves every view,
    alias and handle. */
typedef struct situ_storage {
  void *data; /**< result of the backend's alloc; only the backend may dereference it */
  size_t bytes;
  situ_device device;
  uint32_t version;                 /**< number of writes; accessed with atomic builtins */
  uint32_t flags;                   /**< SITU_STORAGE_... */
  uint32_t mark;                    /**< place, from 1, that it had in the newest plan of a move with it; private */
  uint32_t slots;                   /**< number of module slots with a tensor on it; accessed with atomic builtins */
  uint64_t busy;                    /**< newest claim of a thread that is moving or changing it; private */
  int64_t refs;                     /**< number of owners; atomic */
  uint64_t serial;                  /**< unique in the process, unlike the address */
  situ_tensor *handles;             /**< linked list of the tensors on it */
  struct situ_recipe *recipe;       /**< on meta: the recorded calls that compute its values, if known */
  struct situ_storage_links *links; /**< situ_follow relations; NULL: none */
  void *moved_at;                   /**< return address of the call that last moved it; NULL: never moved */
  const char *moved_by;             /**< that call: "nn_to"; static text */
  void (*release)(void *payload);   /**< memory of the caller (situ_from_blob): called instead of free */
  void *payload;
  struct situ_written *written; /**< with UNWRITTEN: the part that holds values; NULL: none does; private */
  struct situ_seat *seat;       /**< on an adopted device: its entry in the list of those; private */
} situ_storage;
enum {
  SITU_STORAGE_UNWRITTEN = 1u, /**< holds no value yet, or in part: `written` */
  SITU_STORAGE_SLICE = 4u,     /**< part of the memory of another storage, `payload`, to which it has a reference */
  SITU_STORAGE_FOREIGN = 2u,   /**< memory of the caller: release, if not NULL, is called instead of free */
  SITU_STORAGE_SAMPLE = 8u,    /**< in situ_func_vmap: one sample of memory that `payload` knows; no memory itself */
  SITU_STORAGE_PENDING = 1u << 18,   /**< a copy into it is queued (situ_to_non_blocking): the next use waits */
  SITU_STORAGE_HELD = 1u << 21,      /**< the host has mapped it and writes (situ_data_map): nothing else uses it */
  SITU_STORAGE_HELD_READ = 1u << 22, /**< the host has mapped it and reads: nothing else writes */
  SITU_STORAGE_AWAY = 16u,           /**< no memory now (situ_release_memory): `payload` says where the values are */
  SITU_STORAGE_BLOCKS = 0xff00u      /**< its bytes are quantised blocks: a situ_block_type, 8 bits to the left */
};

/** One operand of a kernel: a strided view of a storage. Strides and offset are in elements; strides may be 0
    (broadcast) or negative. Sizes beyond ndim are not read. */
typedef struct situ_view_desc {
  situ_storage *storage;
  int64_t offset;
  uint8_t dtype, ndim;
  bool contiguous; /**< row-major without gaps: element i is at offset + i */
  int64_t numel;
  int64_t size[SITU_MAX_DIMS], stride[SITU_MAX_DIMS];
} situ_view_desc;

/** The verbs that a backend may implement, with their operands in[], results out[] and parameters. COPY to TERNARY,
    REDUCE, GATHER, SCATTER and MATMUL get any strides; the others get contiguous operands. Results never overlap
    operands, except that an element-wise verb may get a result that is exactly one of its operands (in place). Empty
    results never reach a kernel. */
typedef enum situ_verb {
  /** y = cast(x), same shape, any strides; out[1], if there is one, is an i64 to which the number of finite values that
      became infinite is added. */
  SITU_VERB_COPY,
  /** y = scalar[0] (integer dtypes: integer[0]). */
  SITU_VERB_FILL,
  /** y[i] = scalar[0] + i * scalar[1]; op: 0 arange, 1 linspace (scalar[2] = end, exact at the end). */
  SITU_VERB_RANGE,
  /** y[i] from draw (seed, offset, i); op: situ_random. */
  SITU_VERB_RANDOM,
  /** y = x inside, else 0, over the last two dimensions; op: 0 lower, 1 upper; integer[0] diagonal. */
  SITU_VERB_TRIANGLE,
  /** y = f(x); op: situ_unary; scalar[]: its parameters. */
  SITU_VERB_UNARY,
  /** dx = f'(x, y) g; in x (or NULL), y (or NULL), g; op: situ_unary. */
  SITU_VERB_UNARY_GRAD,
  /** y = f(a, b); op: situ_binary; computed in `compute`. */
  SITU_VERB_BINARY,
  /** y = f(a, b, c); op: situ_ternary; scalar[0]. */
  SITU_VERB_TERNARY,
  /** y: x's ndim, size 1 where reduced; op: situ_reduce; scalar[0] correction or p. */
  SITU_VERB_REDUCE,
  /** out values (or NULL), indices i64; size 1 at integer[0] = dim; op: 0 min, 1 max. */
  SITU_VERB_ARG_REDUCE,
  /** Along integer[0]; op: situ_scan_pass. */
  SITU_VERB_SCAN,
  /** out values, indices i64; along integer[0]; out's size there is k; op: 0 ascending, 1 descending. */
  SITU_VERB_SORT,
  /** in x, index; out y; along integer[0]; op: situ_index_mode. */
  SITU_VERB_GATHER,
  /** in index, src; into out y along integer[0]; op: situ_index_mode | SITU_INDEX_ADD; scalar[0] alpha. integer[1]: y
      is discarded if an index is out of range; 0: all are checked before y is written. */
  SITU_VERB_SCATTER,
  /** in x; out i64 [count, ndim], allocated with the right size, in row-major order. */
  SITU_VERB_NONZERO,
  /** in a [.., m, k], b [.., k, n], bias (or NULL; broadcast to y by strides), and of a single product optionally the
      result of PREPACK for b; y = scalar[0] a b + scalar[1] bias. */
  SITU_VERB_MATMUL,
  /** Lays out the second factor of many products: in b [k, n]; integer[0]: rows of the first factor; integer[1] not 0:
      only for products that have the same bits without it; out u8 [situ_prepack_bytes(k, n)]. With a window: the weight
      of many convolutions, in w [O, C, kh, kw]; out u8 [situ_conv_prepack_bytes(O, C, kernel)]. Optional, where
      `offers` says so: products do without it. Of u8 and i8, where there is SITU_VERB_INTEGER: for that; out u8
      [groups * situ_integer_prepack_bytes(k, n)], of a convolution k = C kh kw and n = O/groups. */
  SITU_VERB_PREPACK,
  /** op: situ_conv_pass; window: geometry; 4-D (N, C, H, W); images may be channels_last where `offers` says so;
      integer[0] not 0: f = SITU_UNARY_relu, _gelu_tanh, _gelu or _silu of the result of a forward pass, and then
      integer[1] not 0: the maxima of its 2 x 2 windows (an odd last row or column is left out), where `offers` says so;
      in[3] of a forward pass: the result of PREPACK for w, or absent. */
  SITU_VERB_CONV,
  /** op: situ_pool_pass; window: geometry; always 4-D. */
  SITU_VERB_POOL,
  /** y = x with another size along integer[0], f32 or f64; op: 0, or 1 for the transpose, which is the gradient;
      integer[1]: a situ_resample_rule; integer[2] not 0: corners are aligned; scalar[0]: distance of two places of the
      result in places of the operand (of the forward pass, in the transpose too). */
  SITU_VERB_RESAMPLE,
  /** Fourier transforms along integer[0], f32 or f64; op: situ_fft_pass; integer[1] not 0: positive exponents;
      scalar[0]: a factor. A complex operand has one more dimension, the last, of size 2: real and imaginary part. */
  SITU_VERB_FFT,
  /** Factorizations and solutions of matrices, the last two dimensions, f32 or f64; op: situ_linalg_pass. Operands have
      any strides. Optional: a device without it leaves them to the CPU. */
  SITU_VERB_LINALG,
  /** Along integer[0]; op: situ_softmax_pass; integer[1] not 0: softmax of a row of -infinity is 0 instead of NaN. */
  SITU_VERB_SOFTMAX,
  /** Rows of the last dimension; op: situ_norm_pass. */
  SITU_VERB_NORM,
  /** x as [N, C, S]; op: situ_batch_norm_pass. */
  SITU_VERB_BATCH_NORM,
  /** x as [N, C, S]; op: situ_group_norm_pass. Optional: rows of layer norm and products stand in without it. */
  SITU_VERB_GROUP_NORM,
  /** Cross entropy with class indices; op: situ_nll_pass. */
  SITU_VERB_NLL,
  /** One step of a recurrent layer, element-wise in rows of H; op: situ_cell_pass. */
  SITU_VERB_CELL,
  /** op: situ_linear_pass; a product fused with its epilogue. Optional: composed of other verbs without it. */
  SITU_VERB_LINEAR,
  /** op: situ_attention_pass; scaled dot product attention, fused. Optional: composed of other verbs without it. */
  SITU_VERB_ATTENTION,
  /** Rows of quantised blocks; op: situ_blocks_pass; integer[0]: a situ_block_type. */
  SITU_VERB_BLOCKS,
  /** Products of u8 and i8, summed exactly; op: situ_integer_pass. Optional: composed of products in f64 without it. */
  SITU_VERB_INTEGER,
  /** Casts many small storages into the memory of out[0]: `pack`; op 1, for devices whose data is not addressable:
      copies from that memory into the storages, without casts. Optional: copied one by one without it. */
  SITU_VERB_PACK,
  /** One fused step over a list of parameters: `list`. */
  SITU_VERB_OPTIMIZER,
  SITU_VERBS
} situ_verb;

/** Element-wise functions of one tensor; their formulas are the rows of src/kernels/unary.h. */
/* clang-format off */
#define SITU_UNARY_NAMES(ROW) \
  ROW(neg) ROW(abs) ROW(sign) ROW(exp) ROW(expm1) ROW(log) ROW(log1p) ROW(log2) ROW(sqrt) \
  ROW(rsqrt) ROW(square) ROW(reciprocal) ROW(sin) ROW(cos) ROW(tanh) ROW(sigmoid) \
  ROW(tan) ROW(asin) ROW(acos) ROW(atan) ROW(sinh) ROW(cosh) ROW(asinh) ROW(acosh) \
  ROW(atanh) ROW(exp2) ROW(log10) ROW(erfc) ROW(erfinv) ROW(lgamma) ROW(polygamma) ROW(i0) ROW(special_entr) \
  ROW(sinc) ROW(logit) \
  ROW(relu) ROW(leaky_relu) ROW(elu) ROW(gelu) ROW(gelu_tanh) ROW(silu) ROW(softplus) \
  ROW(quick_gelu) ROW(mish) ROW(hardswish) ROW(hardsigmoid) ROW(softsign) ROW(tanhshrink) \
  ROW(softshrink) ROW(hardshrink) \
  ROW(hardtanh) ROW(erf) ROW(floor) ROW(ceil) ROW(round) ROW(trunc) ROW(clamp) ROW(isnan) \
  ROW(isinf) ROW(logical_not) ROW(nan_to_num) ROW(bitwise_not) ROW(add_scalar) \
  ROW(rsub_scalar) ROW(mul_scalar) ROW(div_scalar) ROW(pow_scalar) ROW(scalar_pow) \
  ROW(fmod_scalar) ROW(remainder_scalar) ROW(eq_scalar) ROW(ne_scalar) ROW(lt_scalar) \
  ROW(le_scalar) ROW(gt_scalar) ROW(ge_scalar)
/* clang-format on */
#define SITU_CODE_(name) SITU_UNARY_##name,
typedef enum situ_unary { SITU_UNARY_NAMES(SITU_CODE_) SITU_UNARIES } situ_unary;
#undef SITU_CODE_

/** Element-wise functions of two tensors; their formulas are the rows of src/kernels/binary.h. */
/* clang-format off */
#define SITU_BINARY_NAMES(ROW) \
  ROW(add) ROW(sub) ROW(mul) ROW(div) ROW(div_trunc) ROW(div_floor) ROW(pow) ROW(fmod) \
  ROW(remainder) ROW(maximum) ROW(minimum) ROW(eq) ROW(ne) ROW(lt) ROW(le) ROW(gt) \
  ROW(ge) ROW(logical_and) ROW(logical_or) ROW(logical_xor) ROW(bitwise_and) \
  ROW(bitwise_or) ROW(bitwise_xor) ROW(bitwise_left_shift) ROW(bitwise_right_shift) \
  ROW(gcd) ROW(lcm) ROW(atan2) ROW(hypot) ROW(copysign) ROW(nextafter) ROW(xlogy) \
  ROW(xlog1py) ROW(logaddexp) ROW(logaddexp2)
/* clang-format on */
#define SITU_CODE_(name) SITU_BINARY_##name,
typedef enum situ_binary { SITU_BINARY_NAMES(SITU_CODE_) SITU_BINARIES } situ_binary;
#undef SITU_CODE_

typedef enum situ_ternary {
  SITU_TERNARY_WHERE,   /**< a ? b : c; a is bool */
  SITU_TERNARY_LERP,    /**< a + c (b - a), with torch's formula for c >= 0.5 */
  SITU_TERNARY_ADDCMUL, /**< a + scalar[0] b c */
  SITU_TERNARY_ADDCDIV, /**< a + scalar[0] b / c */
  SITU_TERNARIES
} situ_ternary;

typedef enum situ_reduce {
  SITU_REDUCE_SUM,
  SITU_REDUCE_MEAN,
  SITU_REDUCE_PROD,
  SITU_REDUCE_MIN,
  SITU_REDUCE_MAX,
  SITU_REDUCE_ALL,
  SITU_REDUCE_ANY,
  SITU_REDUCE_VAR,
  SITU_REDUCE_STD,
  SITU_REDUCE_NORM,
  SITU_REDUCE_LOGSUMEXP,
  SITU_REDUCE_MEAN_SQUARE, /**< the mean of squares */
  SITU_REDUCE_COUNT,       /**< number of elements that are not 0, as i64 */
  SITU_REDUCES
} situ_reduce;

typedef enum situ_scan_pass {
  SITU_SCAN_SUM,      /**< y = running sum of x */
  SITU_SCAN_PROD,     /**< y = running product of x */
  SITU_SCAN_PROD_GRAD /**< in x, y, g, of one floating dtype; out dx[i] = y[i-1] s[i], s[i] = g[i] + x[i+1] s[i+1] */
} situ_scan_pass;

typedef enum situ_random {
  SITU_RANDOM_UNIFORM,     /**< scalar[0] + u (scalar[1] - scalar[0]), u in [0, 1), but at most scalar[2] */
  SITU_RANDOM_NORMAL,      /**< mean scalar[0], standard deviation scalar[1] */
  SITU_RANDOM_BERNOULLI,   /**< 1 with probability scalar[0], or in[0][i] where there is an input */
  SITU_RANDOM_INTEGER,     /**< integer[0] <= value < integer[1] */
  SITU_RANDOM_RAW,         /**< 64 raw bits, as i64: the sort keys of a short randperm */
  SITU_RANDOM_PERMUTATION, /**< the numbers 0 .. numel - 1 in random order, as i64 */
  SITU_RANDOMS
} situ_random;

typedef enum situ_index_mode {
  SITU_INDEX_ROWS = 0,     /**< 1-D index selects whole slices along dim (index_select, embedding) */
  SITU_INDEX_ELEMENTS = 1, /**< index has x's ndim and selects single elements (gather) */
  SITU_INDEX_ADD = 2       /**< flag of SCATTER: add instead of write */
} situ_index_mode;

typedef enum situ_conv_pass {
  SITU_CONV_FORWARD,    /**< in x [N, C, H, W], w [O, C/groups, kh, kw], bias [O] or NULL; out y [N, O, H', W'] */
  SITU_CONV_GRAD_DATA,  /**< in g [N, O, H', W'], w, bias [C] or NULL (for the transposed layer); out dx [N, C, H, W] */
  SITU_CONV_GRAD_WEIGHT /**< in x, g; out dw */
} situ_conv_pass;

typedef enum situ_linear_pass {
  /** in x [m, k], w [n, k], bias [n] or NULL; integer[0]: f = SITU_UNARY_relu, _gelu_tanh, _gelu or _silu; out
      y [m, n] = f(x w^T + bias), and NULL or f's operand [m, n]. */
  SITU_LINEAR,
  /** in g [m, n], x [m, k]; out dw [n, k] = g^T x, db [n] = sum of g's rows. */
  SITU_LINEAR_GRAD_WEIGHT
} situ_linear_pass;

/** dropout(softmax(scale q k^T + mask)) v; q, k and v of one dtype and number of dimensions, with any strides;
    scalar[0] = scale, scalar[1] = probability of dropout, integer[0] = 1: causal (query i sees keys 0..i). Before the
    last two dimensions k and v have the sizes of q, or 1: heads that share a key. mask: bool (true: attend), f32 or
    the dtype of q (added), or NULL; [.., L, S] by strides. Dropout keeps a weight with the draw that
    SITU_RANDOM_BERNOULLI makes for it, in row-major order, with seed and offset. Results are contiguous. A query that
    sees no key gives 0. */
typedef enum situ_attention_pass {
  /** in q [.., L, D], k [.., S, D], v [.., S, V], mask; out y, logsumexp of each row of scores, f32 (f64 for f64)
      [.., L, 1], +infinity for a row that sees no key. */
  SITU_ATTENTION,
  /** in q, k, v, y, logsumexp, g (y and g contiguous), mask; out dq, dk, dv. */
  SITU_ATTENTION_GRAD
} situ_attention_pass;

/** blocks: u8 [rows, bytes of a row], contiguous, of whole blocks: rows of `columns` numbers. */
typedef enum situ_blocks_pass {
  SITU_BLOCKS_VALUES, /**< in blocks; out y [rows, columns], f32, contiguous */
  /** in x [m, columns], f32, contiguous, blocks, bias [rows] or NULL; out y [m, rows] = x w^T + bias, contiguous.
      Optional: composed of values and a product without it. */
  SITU_BLOCKS_LINEAR
} situ_blocks_pass;

typedef enum situ_pool_pass {
  SITU_POOL_MAX,
  SITU_POOL_MAX_GRAD, /**< x -> y, index i64; g, index -> dx (zeroed by the kernel) */
  SITU_POOL_AVG,
  SITU_POOL_AVG_GRAD, /**< x -> y; g -> dx */
  SITU_POOL_ADAPTIVE_AVG,
  SITU_POOL_ADAPTIVE_AVG_GRAD
} situ_pool_pass;

/** Which places of the operand a place of the result is made of, with which weights: torch's interpolation modes. */
typedef enum situ_resample_rule {
  SITU_RESAMPLE_NEAREST,
  SITU_RESAMPLE_NEAREST_EXACT,
  SITU_RESAMPLE_LINEAR,
  SITU_RESAMPLE_CUBIC,       /**< Keys's kernel, a = -0.75 */
  SITU_RESAMPLE_LINEAR_WIDE, /**< antialiased: the kernel is as wide as the places of the result are apart */
  SITU_RESAMPLE_CUBIC_WIDE,  /**< antialiased, a = -0.5 */
  SITU_RESAMPLE_AREA,        /**< means of equal parts, as adaptive pooling */
  SITU_RESAMPLE_RULES
} situ_resample_rule;

/** y_k = factor sum_j x_j e^(-+2 pi i j k / n). The half spectrum of n real elements has n / 2 + 1 complex ones. */
typedef enum situ_fft_pass {
  SITU_FFT_COMPLEX,  /**< complex, n -> n */
  SITU_FFT_REAL,     /**< n real elements -> half spectrum */
  SITU_FFT_REAL_BACK /**< half spectrum -> n real elements, as if the other half were its mirror image, conjugated; the
                          imaginary parts of element 0, and of n / 2 for an even n, are not read */
} situ_fft_pass;

/** Results are contiguous. x^T: the result is written transposed, which is LAPACK's column-major order. A matrix that
    is not as it must be is an error that names it. */
typedef enum situ_linalg_pass {
  SITU_LINALG_CHOLESKY, /**< in a [.., n, n], its lower triangle; out L; integer[0] not 0: the upper, L^T */
  SITU_LINALG_LU,       /**< in a [.., m, n]; out (P^-1 a = L U)^T [.., n, m], row swaps i32 [.., min(m, n)] from 1, the
                               determinant [..] or NULL; where out[3] is given too, its sign, and log |det| there;
                               integer[0] not 0: a singular matrix is an error */
  SITU_LINALG_LU_SOLVE, /**< in LU^T (each contiguous), row swaps, b [.., n, k]; out x^T [.., k, n], a x = b;
                               integer[0] not 0: a^T x = b */
  SITU_LINALG_INV,      /**< in a [.., n, n]; out its inverse */
  SITU_LINALG_TRIANGULAR, /**< in a [.., n, n], b [.., n, k]; out x^T [.., k, n], a x = b; integer[0] not 0: a is upper,
                               else lower triangular; integer[1] not 0: with ones on the diagonal */
  SITU_LINALG_QR,         /**< in a [.., m, n]; out q [.., m, k or m] or NULL, r [.., k or m, n]; k = min(m, n) */
  SITU_LINALG_SVD,   /**< in a [.., m, n]; out u [.., m, k or m] and v^T [.., k or n, n], or both NULL, and between them
                         the singular values [.., k], descending */
  SITU_LINALG_EIGH,  /**< in a [.., n, n], its lower triangle; out eigenvalues [.., n], ascending, and eigenvectors v^T
                         [.., n, n] or NULL; integer[0] not 0: the upper triangle */
  SITU_LINALG_LSTSQ, /**< in a [.., m, n], b [.., m, k]; out the shortest x^T [.., k, n] with the least |a x - b|, rank
                          i64 [..]; scalar[0]: singular values below it times the largest count as 0 */
  SITU_LINALG_EXP,   /**< in a [.., n, n]; out its exponential */
  SITU_LINALG_LDL,   /**< in a [.., n, n], its lower triangle; out (P^-1 a P^-T = L D L^T)^T [.., n, n], L and D in one
                          matrix, pivots i32 [.., n] as LAPACK's sytrf gives them, and what it answers, i32 [..];
                          integer[0] not 0: a singular matrix is an error */
  SITU_LINALG_LDL_SOLVE, /**< in LD^T, pivots i32 or i64 (each contiguous), b [.., n, k]; out x^T [.., k, n], a x = b */
  SITU_LINALG_PASSES
} situ_linalg_pass;

typedef enum situ_softmax_pass {
  SITU_SOFTMAX,
  SITU_LOG_SOFTMAX, /**< x -> y */
  SITU_SOFTMAX_GRAD,
  SITU_LOG_SOFTMAX_GRAD /**< y, g -> dx */
} situ_softmax_pass;

/** Rows are the last dimension (contiguous, 2-D [rows, width]); scalar[0] = eps; statistics are f32 (f64 for f64),
    [rows]. */
typedef enum situ_norm_pass {
  SITU_LAYER_NORM,      /**< in x, weight [width] or NULL, bias or NULL; out y, mean, rstd */
  SITU_LAYER_NORM_GRAD, /**< in g, x, mean, rstd, weight or NULL; out dx, dweight, dbias (each may be NULL) */
  SITU_RMS_NORM,        /**< in x, weight or NULL; out y, rstd */
  SITU_RMS_NORM_GRAD    /**< in g, x, rstd, weight or NULL; out dx, dweight (each may be NULL) */
} situ_norm_pass;

/** x is [N, C, S]; scalar[0] = eps, scalar[1] = momentum; integer[0] = 1 when training. */
typedef enum situ_batch_norm_pass {
  /** in x, weight, bias, running mean, running var (each but x may be NULL); out y, mean [C], rstd [C], and the running
      statistics again when they are updated (else NULL). */
  SITU_BATCH_NORM,
  /** in g, x, mean, rstd, weight or NULL; out dx, dweight, dbias (each may be NULL). */
  SITU_BATCH_NORM_GRAD
} situ_batch_norm_pass;

/** x is [N, C, S], its statistics are those of integer[0] groups of channels of each sample: mean and rstd
    [N groups], of the compute type; scalar[0] = eps. */
typedef enum situ_group_norm_pass {
  SITU_GROUP_NORM,     /**< in x, weight [C] or NULL, bias or NULL; out y, mean, rstd */
  SITU_GROUP_NORM_GRAD /**< in g, x, mean, rstd, weight or NULL; out dx, dweight, dbias (each may be NULL) */
} situ_group_norm_pass;

/** x is [N, C, S] (or its log-probabilities), target i64 [N, S], weight [C] or NULL; integer[0] = ignore_index,
    integer[1] = a situ_reduction, integer[2] = 1: x are logits (log_softmax is fused); scalar[0] = label smoothing. */
typedef enum situ_nll_pass {
  /** in x, target, weight; out loss (0-dim or [N, S]), total weight (0-dim), logsumexp [N, S] (logits only, else
      NULL). */
  SITU_NLL,
  /** in g, x, target, weight, total weight, logsumexp; out dx. */
  SITU_NLL_GRAD
} situ_nll_pass;

/** Matrices [N, H] or several H wide, contiguous, of one floating dtype. A result may be exactly the operand that it
    replaces: c, dc. */
typedef enum situ_cell_pass {
  /** in gates [N, 4 H] (i, f, g, o), hidden [N, 4 H], which is added to them, c; out i, f, o after sigmoid and g after
      tanh, c', h'. */
  SITU_CELL_LSTM,
  /** in gates after, c, c', dh', dc'; out gradients of the gates [N, 4 H], dc. */
  SITU_CELL_LSTM_GRAD,
  /** in gates [N, 3 H] (r, z, n), hidden [N, 3 H] (r', z', n'), h; out R, Z, N, n' [N, 4 H], h'. */
  SITU_CELL_GRU,
  /** in R, Z, N, n' [N, 4 H], h, and two parts of dh'; out gradients of gates and hidden [N, 3 H], and of h where it is
      multiplied by Z. */
  SITU_CELL_GRU_GRAD,
  SITU_CELLS
} situ_cell_pass;

typedef enum situ_optimizer_rule {
  SITU_RULE_SGD,
  SITU_RULE_ADAM,
  SITU_RULE_ADAMW,
  SITU_RULE_RMSPROP,
  SITU_RULE_ADAGRAD,
  SITU_RULE_ADADELTA,
  SITU_RULE_ADAMAX,
  SITU_RULE_NADAM,
  SITU_RULE_RADAM,
  SITU_RULE_RPROP,
  SITU_RULE_ASGD,
  SITU_RULE_LION,
  SITU_RULES
} situ_optimizer_rule;

/** One parameter of a fused optimiser step; all contiguous, of one shape and dtype; unused state is NULL. */
typedef struct situ_optimizer_item {
  const situ_view_desc *param, *grad;
  const situ_view_desc
      *state[3]; /**< SGD: momentum; Adam: mean, square, largest square; RMSprop: square, momentum, mean; Adagrad: sum
                    of squares; Adadelta: square, square of steps; Adamax: mean, largest; NAdam, RAdam: mean, square;
                    Rprop: last gradient, step size; ASGD: average; Lion: mean */
  int64_t step;  /**< steps taken, this one included */
  double mu_product; /**< NAdam: product of its momentum factors, this step's included */
  int64_t index;     /**< in the list of situ_optimizer_step; kernels need it not */
} situ_optimizer_item;

/** One storage of a PACK. */
typedef struct situ_pack_item {
  situ_storage *storage; /**< packed, or written, as a whole */
  int64_t numel;
  size_t at;            /**< its byte offset in out[0]'s storage */
  situ_dtype dtype, as; /**< source and target dtype */
  int64_t count;        /**< index into out[1], if there is one, to which lost values are added, as for COPY */
} situ_pack_item;

/** The hyperparameters of a fused step, for every rule (torch.optim's names). */
typedef struct situ_optimizer_params {
  double lr, weight_decay, momentum, dampening, beta1, beta2, alpha, eps;
  double grad_scale; /**< gradients are multiplied by this first, for clipping */
  bool nesterov, amsgrad, centered, maximize;
  bool decoupled_weight_decay; /**< NAdam, RAdam; AdamW and Lion always decay so */
  double rho, lr_decay, momentum_decay, etaminus, etaplus, step_size_min, step_size_max, lambd, t0;
} situ_optimizer_params;

/** A bit for each state that a rule reads with these parameters; 0 for NULL. */
static inline unsigned situ_optimizer_states(situ_optimizer_rule rule, const situ_optimizer_params *params) {
  if (!params) return 0;
  switch (rule) {
  case SITU_RULE_SGD: return params->momentum != 0;
  case SITU_RULE_RMSPROP: return 1u | (params->momentum != 0 ? 2u : 0) | (params->centered ? 4u : 0);
  case SITU_RULE_ADAGRAD:
  case SITU_RULE_ASGD:
  case SITU_RULE_LION: return 1;
  default: return 3u | (params->amsgrad ? 4u : 0);
  }
}
/** Size of the result of PREPACK: at most six bytes an element, of panels of 32 by 32, and 64 for the backend's use; 0
    for a negative size or one above 2^29. */
static inline int64_t situ_prepack_bytes(int64_t k, int64_t n) {
  const int64_t most = INT64_C(1) << 29;
  return k < 0 || n < 0 || k > most || n > most ? 0 : 64 + 6 * ((k + 31) / 32 * 32) * ((n + 31) / 32 * 32);
}
/** The same for the weight of a convolution: with an even number of columns in each kernel, unless the channels are a
    multiple of 32. */
static inline int64_t situ_conv_prepack_bytes(int64_t outputs, int64_t channels, const int64_t kernel[2]) {
  const int64_t most = INT64_C(1) << 15;
  if (!kernel || channels < 0 || channels > most || kernel[0] < 0 || kernel[0] > most || kernel[1] < 0 ||
      kernel[1] > most)
    return 0;
  const int64_t columns = channels % 32 ? (kernel[1] + 1) / 2 * 2 : kernel[1];
  return situ_prepack_bytes((channels + 15) / 16 * 16 * kernel[0] * columns, outputs);
}
/** NAdam's momentum factor of a step, in torch's formula: Dozat's with 0.96. 0 for NULL. */
static inline double situ_optimizer_nadam_mu(const situ_optimizer_params *params, int64_t step) {
  return params ? params->beta1 * (1 - 0.5 * pow(0.96, (double)step * params->momentum_decay)) : 0;
}

/** Geometry of convolution and pooling: [0] is height, [1] is width. */
typedef struct situ_window {
  int64_t kernel[2], stride[2], padding[2], dilation[2];
  int64_t groups;
  bool exclude_pad;
  int64_t divisor; /**< 0: the window's size */
} situ_window;

#define SITU_WORK_MAX 8

/** One kernel launch. Operands are borrowed for the call: a backend that queues work copies the descriptors and storage
    structs that it needs. Fields that a verb does not use are zero. */
typedef struct situ_work {
  situ_verb verb;
  int op;
  situ_dtype compute; /**< the dtype that operands are converted to first */
  int ins, outs;
  const situ_view_desc *in[SITU_WORK_MAX]; /**< NULL: operand not given */
  const situ_view_desc *out[SITU_WORK_MAX];
  double scalar[4];
  int64_t integer[4];
  uint64_t seed, offset;           /**< RANDOM */
  const situ_window *window;       /**< CONV, POOL */
  const situ_optimizer_item *list; /**< OPTIMIZER */
  int64_t list_count;
  const situ_optimizer_params *params;
  const situ_pack_item *pack; /**< PACK */
  int64_t pack_count;
} situ_work;

/** A backend: fill it with designated initialisers. Slots are required unless marked optional. `index` is less than the
    result of count. Threads may call slots concurrently, also for one device: the backend does its own locking. */
typedef struct situ_backend {
  uint32_t abi; /**< SITU_BACKEND_ABI */
  size_t size;  /**< sizeof(situ_backend) it was compiled with */
  situ_device_kind kind;
  const char *name; /**< "cpu", "sim", ...: the prefix of device names */

  /** Returns the number of devices, and in *reason (static text) why there are that many. Cannot fail. */
  int (*count)(const char **reason);
  situ_status (*info)(int index, situ_device_properties *out); /**< fills *out */
  /** Optional. Returns why the device is lost (static text), or NULL if it is not. */
  const char *(*lost)(int index);

  /* Memory. Asynchronous backends order it with their queue. */
  situ_status (*alloc)(int index, size_t bytes,
                       void **data); /**< SITU_E_NOMEM: the library empties its cache, retries */
  void (*free)(int index, void *data, size_t bytes);
  /** Optional. Frees to the device the memory that the backend itself caches. */
  void (*trim)(int index);
  situ_status (*copy_in)(int index, void *data, size_t at, const void *host,
                         size_t bytes); /**< host to device; host may be reused at return */
  situ_status (*copy_out)(int index, const void *data, size_t at, void *host,
                          size_t bytes); /**< device to host; complete at return */
  /** Optional. copy_in that does not wait for the queue either; without it copy_in is used. */
  situ_status (*send)(int index, void *data, size_t at, const void *host, size_t bytes);
  /** Optional, all three or none: copy_out that does not wait. fetch queues the copy. fetched says whether it is
      complete, and reports nothing. fetch_end takes the ticket: with `wait` it returns when the copy is complete, and
      reports as copy_out does; else the copy was complete, or the device is lost, and its values are not used. */
  situ_status (*fetch)(int index, const void *data, size_t at, void *host, size_t bytes, void **ticket);
  bool (*fetched)(int index, const void *ticket);
  situ_status (*fetch_end)(int index, void *ticket, bool wait);
  /** Optional, both or none: host memory that the device copies from and to directly. *handle is for unpin, which
      cannot fail. Not for adopted devices. */
  situ_status (*pin)(int index, size_t bytes, void **host, void **handle);
  void (*unpin)(int index, void *host, void *handle);
  /** Optional. Copies between two devices of this backend; without it, copies are staged through the host. */
  situ_status (*copy_peer)(int to, void *dst, size_t dst_at, int from, const void *src, size_t src_at, size_t bytes);
  /** Optional. copy_peer that waits for neither queue, where copy_peer may; without it copy_peer is used. */
  situ_status (*send_peer)(int to, void *dst, size_t dst_at, int from, const void *src, size_t src_at, size_t bytes);

  /* Devices and memory of the program (situ/interop.h): all four or none. Each records what is wrong. */
  /** Makes device `index` of the program's context and queue, which it retains. index: one that was given back, or the
      result of count, which is one more from now on. */
  situ_status (*adopt)(int index, const situ_foreign *foreign);
  /** Gives the device back; the library has freed all memory there. Returns a failure of its work that was not reported
      yet. */
  situ_status (*abandon)(int index);
  /** Makes the program's memory usable for work of the device, as the `data` of a storage, until give_back: `bytes` > 0
      from its beginning. Sets *read_only if the memory itself says so. */
  situ_status (*borrow)(int index, void *handle, size_t bytes, void **data, bool *read_only);
  void (*give_back)(int index, void *data); /**< queued work may still use it */

  /** Optional: makes device `index`, as adopt does, of a further queue in the context of device `from`. */
  situ_status (*open_queue)(int from, int index);

  /** Optional, all four or none: events (situ/interop.h). None waits. */
  situ_status (*wait_event)(int index, void *event); /**< work that is queued from now on runs after it */
  situ_status (*record_event)(int index, void **event);
  situ_status (*query_event)(int index, void *event, bool *done);
  situ_status (*release_event)(int index, void *event);
  /** Optional: copies a whole image of the driver's to memory of the device, or back, without a wait. shape: height,
      width, channels. Records what is wrong with the image. */
  situ_status (*copy_image)(int index, void *image, const int64_t shape[3], situ_dtype dtype, void *data, size_t at,
                            bool to_image);
  /** Optional, both or none: an address of the host for bytes of the device's memory, until unmap, behind all queued
      work; without them they are copied. With `write` the bytes are written back by unmap. */
  situ_status (*map)(int index, void *data, size_t at, size_t bytes, bool write, void **host);
  situ_status (*unmap)(int index, void *data, void *host);
  /** Optional: for DLPack. Sets *number to the driver's number of the device. Work that is queued in `queue` (another
      one of the driver's) from now on runs after what is queued on the device; NULL: no queue is ordered. Does not
      wait. */
  situ_status (*share)(int index, void *queue, int *number);

  /* Order. */
  situ_status (*synchronize)(int index); /**< waits; returns the first failure since the last wait */

  /* Kernels, each optional: a call without one is SITU_E_UNSUPPORTED. May queue and return at once. */
  situ_status (*kernel[SITU_VERBS])(int index, const situ_work *work);
  /** Optional. Whether the kernel of an optional verb supports this work: SITU_OK, SITU_E_UNSUPPORTED, or an error.
      Without it, all work is supported. Outputs may have no storage yet. */
  situ_status (*offers)(int index, const situ_work *work);

  /* Graphs: all four or none; without them a graph's launches are repeated one by one. Between begin and end, kernels
     of the calling thread are captured instead of run, and no other thread uses the device. graph_end with keep makes
     *graph, all or nothing; without, discards the capture. Memory used by the graph outlives it. */
  situ_status (*graph_begin)(int index);
  situ_status (*graph_end)(int index, bool keep, void **graph);
  situ_status (*graph_launch)(int index, void *graph);
  void (*graph_free)(int index, void *graph);

  bool host_memory; /**< data is a host address, which situ_data_ptr may return */
  bool addressable; /**< data + n is the address of byte n: small storages may share one allocation */
  bool no_memory;   /**< shapes only: storages have no data and kernels are not called */
} situ_backend;

SITU_END
#endif
