/* Internal header of src/program: a program is a graph of calls that was read from a file, and runs as a module.
   SPDX-License-Identifier: MIT */
#ifndef SITU_PROGRAM_PROGRAM_H
#define SITU_PROGRAM_PROGRAM_H

#include <float.h>
#include <limits.h>

#include "situ/nn.h"

typedef struct situ__op_call situ__op_call;
typedef struct situ__declared situ__declared;

/* ---- values and arguments ---- */

typedef enum situ__value_kind {
  SITU__VALUE_TENSOR = 1,
  SITU__VALUE_INT,
  SITU__VALUE_FLOAT,
  SITU__VALUE_BOOL
} situ__value_kind;

/* What the iterations of a loop gave, in their order; or a sequence of ONNX. */
typedef struct situ__value_list {
  situ_tensor **tensor; /* owned */
  int64_t count, capacity;
} situ__value_list;

/* A value while the program runs. */
typedef struct situ__value {
  situ_tensor *tensor; /* owned; NULL: not computed yet, or freed after its last use, or an absent result */
  int64_t integer;     /* of INT and BOOL */
  double real;
  situ__value_list *collected; /* owned; NULL: nothing. Where the body of a loop runs once, `integer` is the length of
                                  the whole list plus 1, and -1 where it is not known. */
} situ__value;
/* Appends a tensor to what the value collects. Returns false after recording an error. */
bool situ__value_add(situ__value *v, situ_tensor *t);
void situ__value_free(situ__value *v);

typedef enum situ__arg_kind {
  SITU__ARG_NONE = 0,
  SITU__ARG_VALUE, /* of the value number `integer` */
  SITU__ARG_INT,
  SITU__ARG_FLOAT,
  SITU__ARG_BOOL, /* integer */
  SITU__ARG_TEXT,
  SITU__ARG_DTYPE, /* integer: a situ_dtype */
  SITU__ARG_LIST,
  SITU__ARG_OTHER /* a device, a layout or a memory format, which the program does not follow */
} situ__arg_kind;

typedef struct situ__arg {
  situ__arg_kind kind;
  situ__value_kind of; /* of a VALUE */
  int32_t count;       /* of a LIST */
  union {
    int64_t integer;
    double real;
    const char *text;
    const struct situ__arg *list;
  };
} situ__arg;

/* ---- ops ---- */

/* Whether the result of a row with `size` is a float. */
typedef enum situ__real {
  SITU__REAL_NEVER = 0,
  SITU__REAL_AS_ARGS, /* if an argument is one */
  SITU__REAL_ALWAYS,
  SITU__REAL_MAYBE /* as the value of a tensor is */
} situ__real;

/* How calls of an ATen overload or an ONNX operator are run: one of the functions. */
typedef struct situ__op_row {
  const char *target; /* "linear.default", "Gemm" */
  /* The parameters, in the order of `arg`: a type and a name, separated by commas ("t input, t? bias, n alpha=1").
       t tensor    x tensor or number    T list of tensors       i int      I list of ints, or one; L any number of them
       n number    F list of numbers     b bool    d dtype       s text     _ anything; it has no effect
       h tensor whose values the host reads, or a list of numbers           S list of texts
     A text that is one of a few has them after its name: "s? mode(nearest|linear)".
     `?`: may be None or absent. =NUMBER: absent means that. `*` before the type: ATen takes it by name only. */
  const char *parameters;
  int results; /* 0: 1; SITU__RESULTS_LIST: as many as the call has */
  situ_tensor *(*run)(situ__op_call *call);
  situ_tensor *(*unary)(situ_tensor *input);
  situ_tensor *(*binary)(situ_tensor *input, situ_tensor *other); /* if the second argument is a tensor */
  situ_tensor *(*scalar)(situ_tensor *input, double other);       /* if it is a number */
  bool (*size)(situ__op_call *call, situ__value *out);            /* gives an int or a bool, or a float: */
  situ__real real;
  bool in_place;           /* the functions are not: run on a copy of the first argument, which gets their result */
  bool out;                /* the last argument gets the result */
  bool copies;             /* the functions give views: the results are copies of them */
  const char *gradient_of; /* of the call of this row by the arguments from 1 on; argument 0 is the result's gradient */
  /* ONNX: the first parameters, which are inputs by their order; the others, and inputs that once were, are attributes
     by name. */
  int inputs;
  int since; /* ONNX: the first opset that it is for */
  /* ONNX: why situ lacks a call with these attributes; NULL: it does not. */
  const char *(*lacks)(const situ__op_call *call);
  bool folds; /* its results are kept while all that they are computed of stays as it is (derive.h) */
  /* the call keeps what it makes of so many arguments after the first (situ__op_call.prepacked); 0: nothing */
  int prepacked;
  bool shapes; /* ONNX: it belongs to the arithmetic of shapes, which stays on the host (read/graph.c) */
} situ__op_row;
enum { SITU__RESULTS_LIST = -1, SITU__RESULTS_NONE = -2 };

typedef struct situ__op_family {
  const situ__op_row *row;
  int count;
} situ__op_family;
extern const situ__op_family situ__elementwise_family, situ__special_family, situ__shape_family, situ__join_family,
    situ__layers_family, situ__image_family, situ__recurrent_family, situ__reduce_family, situ__order_family,
    situ__index_family, situ__make_family, situ__linalg_family, situ__loss_family, situ__size_family,
    situ__backward_family, situ__quantized_family;
/* The row of "linear.default"; NULL: there is none. */
const situ__op_row *situ__op_row_of(const char *target);

extern const situ__op_family situ__onnx_elementwise_family, situ__onnx_shape_family, situ__onnx_layers_family,
    situ__onnx_recurrent_family, situ__onnx_reduce_family, situ__onnx_index_family, situ__onnx_make_family,
    situ__onnx_image_family, situ__onnx_norm_family, situ__onnx_attention_family, situ__onnx_trees_family,
    situ__onnx_quantized_family, situ__onnx_sequence_family;
/* The row of "Gemm" in an opset of ONNX; NULL: there is none. */
const situ__op_row *situ__onnx_row_of(const char *target, int64_t opset);

/* ---- a program ---- */

/* Memory that is released with the program. */
typedef struct situ__arena {
  struct situ__arena_block *block;
  size_t used, size;
} situ__arena;
/* Zeroed; NULL when memory runs out. */
void *situ__arena_take(situ__arena *arena, size_t count, size_t size);
char *situ__arena_text(situ__arena *arena, const char *text, size_t length);
void situ__arena_free(situ__arena *arena);

typedef struct situ__program_node {
  const situ__op_row *row;
  const situ__arg *arg; /* one for each of the row's parameters */
  const int32_t *out;   /* numbers of the values that it gives */
  int32_t outs;
  uint32_t wanted;     /* bit i: result i is used, the last bit: any from there on; 0 before the program is whole */
  const int32_t *last; /* values that are not used after this node */
  int32_t lasts;
  bool no_grad;                           /* it was in a torch.no_grad block */
  bool counts;                            /* it counts batches in a buffer: skipped unless its module is training */
  const char *module;                     /* path of the module that it was in; "" for the outermost */
  const char *site;                       /* "model.py:12 in forward"; "": unknown */
  const char *name;                       /* in the file; NULL: it has none */
  const char *place;                      /* in the file: "graph.node[12]"; NULL: it is not of a file */
  bool lasting;                           /* its results depend on parts of the module and constants alone */
  int32_t prepacked;                      /* number of its prepacked weights in the program, from 1 on; 0: none */
  bool host;                              /* its results are on the host, whatever the module's device */
  const struct situ__onnx_format *format; /* ONNX: of its results (onnx/values); NULL: they have a dtype of situ */
  int32_t guard;   /* number of the bool value without which it is skipped, from 1 on; 0: it always runs */
  int8_t loop;     /* 1: it begins a loop, whose body follows; -1: it ends an iteration, its guard being the loop's */
  int32_t back;    /* of the latter: the node after which the next iteration begins, from 1 on; 0: none */
  situ_dtype real; /* torch's default dtype where it was exported; SITU_DTYPE_DEFAULT: f32 */
} situ__program_node;

typedef struct situ__program_input {
  const char *name;
  int32_t value;
  situ_dtype dtype;
  int dims; /* -1: any */
  struct situ__program_size {
    int64_t size;   /* -1: free */
    int32_t symbol; /* of a free size: its number; -1: any */
  } size[SITU_MAX_DIMS];
} situ__program_input;

typedef struct situ__program_symbol {
  const char *name;
  int64_t least, most; /* of sizes */
  int64_t multiple;    /* sizes are so many times the number that expressions have for the symbol; 0: 1 */
} situ__program_symbol;
static inline int64_t situ__symbol_multiple(const situ__program_symbol *s) { return s->multiple > 1 ? s->multiple : 1; }

/* A part of the module: the tensor at `path` is the value. */
typedef struct situ__program_part {
  const char *path;
  int32_t value;
} situ__program_part;

/* A value that is the same in each run: on the host, and owned by the program. */
typedef struct situ__program_constant {
  situ_tensor *tensor;
  int32_t value;
} situ__program_constant;

/* The structure of the results, as a list in prefix order. */
typedef struct situ__program_out {
  situ_tree_kind kind;
  const char *key; /* in a dict */
  int32_t count;   /* of a list or a dict */
  situ__arg leaf;
} situ__program_out;

/* What a value was when the program was traced, for writing. */
typedef struct situ__value_meta {
  situ_dtype dtype;
  situ_shape size, stride; /* those of the example */
  int32_t guard;           /* of the node that computes it */
  bool requires_grad;
  bool shares; /* the memory of an earlier value */
  /* SymPy's texts of each size, then of each stride, NULL for one that is a number; of an int: one of its value, which
     is size.dim[0]. NULL: all are numbers. */
  const char **text;
} situ__value_meta;

enum { SITU__PROGRAM_PART_FIELD = 1000 };    /* the field of a part's number, which ONNX's tensors lack */
enum { SITU__PROGRAM_MOST = INT32_MAX / 4 }; /* values, and nodes */

/* Read-only once it is loaded: clones of the module share it. */
typedef struct situ__program {
  int32_t owners;
  situ__arena arena;
  const char *path; /* of the file */
  situ__program_node *node;
  int32_t nodes;
  int64_t node_capacity;
  situ__value_kind *kind; /* of each value */
  situ__value_meta *meta; /* of each value of a traced program; NULL: of a file */
  int32_t values;
  int64_t value_capacity;
  situ__declared *declared; /* of each of the first `declareds` values (declare.h); NULL: the file declares nothing */
  int32_t declareds;
  bool checks; /* each call compares what it computes with what is declared */
  situ__program_input *input;
  int32_t inputs;
  situ__program_symbol *symbol;
  int32_t symbols;
  situ__program_part *part;
  int32_t parts;
  situ__program_constant *constant;
  int32_t constants;
  int64_t constant_capacity;
  situ__program_out *out;
  int32_t outs;
  /* Buffers and inputs that get a result after the run. */
  struct situ__program_write {
    int32_t from, to;
  } * write;
  int32_t writes;
  const int32_t *kept; /* values of lasting nodes that others use */
  int32_t kepts;
  const int32_t *source; /* parts, by number, that lasting nodes and prepacked weights depend on */
  int32_t sources, prepacked_nodes;
  int64_t max_iterations; /* of all loops in one run */
  /* Of an ONNX model: its messages, in which a tensor that is a part has the part's number instead of values; NULL: of
     another format, or the file was not kept. */
  unsigned char *model;
  int64_t model_bytes;
  int opset;            /* of an ONNX model; 0: of another format */
  int32_t folded_norms; /* batch norms that the exporter put into the weights of the layers before them */
  bool folded_told;
} situ__program;

/* The row of any overload: that of situ__op_row_of, of another name for it ("multiply.Tensor"), or made of that of
   "mul.Scalar" for "mul_.Scalar", of "view.default" for "view_copy.default". NULL: there is none. */
const situ__op_row *situ__op_row_for(situ__arena *arena, const char *target);

/* A module that runs the program, in construction (situ_nn_done ends it). Takes over the program. NULL on error. */
situ_nn_module *situ__program_module(situ__program *program, const char *name);
/* A part that holds parameters and children, prints as `name`, and has the mode and the device of `like`. */
situ_nn_module *situ__program_child(const char *name, const situ_nn_module *like);
void situ__program_free(situ__program *program);

/* ---- for the functions of the rows ---- */

struct situ__op_call {
  const situ__program_node *node;
  const situ__arg *arg;
  situ__value *value;
  situ_nn_module *root;
  situ_tensor *self;    /* stands for the first argument, unless NULL */
  situ_tensor **result; /* gets the second result as [1], and so on: capacity node->outs; [0] is what `run` returns */
  struct situ__call_memory *memory;
  bool dry;  /* only shapes are wanted: tensors are on meta */
  bool once; /* each node runs once, in the order of the list: the body of a loop, too */
  /* What the call made of its lasting arguments in an earlier run, if is_prepacked; else, if not NULL, what it makes
     may be put there (situ_set), for the next runs. Nothing else of a run may be. */
  situ_tensor **prepacked;
  bool is_prepacked;
};
enum { SITU__PREPACKED_MOST = 8 };

/* Memory of one call, for lists: what is small lies on the stack. */
typedef struct situ__call_memory {
  struct situ__call_block *more;
  size_t used;
  _Alignas(16) char few[512];
} situ__call_memory;
/* Zeroed memory that the call has until it ends; NULL after recording an error. */
void *situ__call_take(const situ__op_call *c, int64_t count, size_t size);
void situ__call_memory_free(situ__call_memory *memory);
/* Tensors that a call makes one by one where the file's length says nothing of their number. */
enum { SITU__CALL_MOST = 1 << 17 };

/* What situ_linear_lay_out makes of the weight, once, for situ_linear_by: for rows with `.prepacked = 1`. Returns false
   after recording an error. */
bool situ__call_prepack(const situ__op_call *c, situ_tensor *input, situ_tensor *weight, situ_tensor **packed);
/* situ_conv2d_by, whose weight, the call's second argument, is laid out once: for rows with `.prepacked = 1`. Of gate *
   input, if the gate is not NULL. */
situ_tensor *situ__call_conv2d(const situ__op_call *c, situ_tensor *input, situ_tensor *weight, situ_tensor *bias,
                               situ_tensor *gate, const situ_conv_options *options, bool max_pool);

/* Runs the function of the call's row. */
situ_tensor *situ__call_function(situ__op_call *c);

/* Arguments by their place in the row's parameters. */
bool situ__arg_given(const situ__op_call *c, int k); /* false: None */
bool situ__arg_is_tensor(const situ__op_call *c, int k);
situ_tensor *situ__arg_tensor(const situ__op_call *c, int k); /* NULL: None */
int64_t situ__arg_int(const situ__op_call *c, int k);         /* and of bools */
double situ__arg_number(const situ__op_call *c, int k);
bool situ__arg_is_integer(const situ__op_call *c, int k); /* an int or a bool, absent too */
bool situ__arg_is_bool(const situ__op_call *c, int k);
/* Whether the number at k is a whole one beyond 2^53, which a double may not hold: then situ__arg_number refuses it. */
bool situ__arg_is_wide(const situ__op_call *c, int k);
/* The number at k as a 0-dim tensor on the device of `like`, of the dtype to which torch converts a number beside
   `like`: whole numbers wrap, and a fraction beside whole numbers has the default dtype. */
situ_tensor *situ__arg_scalar(const situ__op_call *c, int k, situ_tensor *like);
/* The number at k for an element of a dtype: without its fraction for whole numbers, 0 or 1 for bools. */
double situ__arg_element(const situ__op_call *c, int k, situ_dtype dtype);
situ_shape situ__arg_dims(const situ__op_call *c, int k); /* None: no dimensions */
/* Both return the length of a list, 0 for None. */
int situ__arg_numbers(const situ__op_call *c, int k, double *out, int capacity);
/* The tensors of a list, in memory of the call. NULL with a count of -1 after recording an error. */
situ_tensor **situ__arg_tensors(const situ__op_call *c, int k, int *count);
/* The values of an argument `h`: of a list, or of a tensor, which is waited for. Both return their number, or -1 after
   recording an error: more than `capacity` are one. None has none. */
int situ__arg_host_ints(const situ__op_call *c, int k, int64_t *out, int capacity);
int situ__arg_host_numbers(const situ__op_call *c, int k, double *out, int capacity);
/* Any number of them, also of an argument `L`, in memory of the call. NULL and a count of -1 after an error. */
int64_t *situ__arg_host_list(const situ__op_call *c, int k, int *count);
/* The one number of such an argument. Returns false after recording an error: `lacks`, if it has none. */
bool situ__arg_host_number(const situ__op_call *c, int k, double *out, const char *lacks);

/* Whether the tensor at k has values, also in a dry run: of an ONNX call. */
bool situ__arg_has_values(const situ__op_call *c, int k);
/* Sets a dry run aside for an ONNX call on the host all of whose operands have values, or which asks for their sizes
   alone: so the arithmetic of shapes is done in a dry run, too. Returns whether situ_dry_resume must follow. */
bool situ__call_pause(const situ__op_call *c);

/* The number of a dimension: one that an int does not hold becomes the nearest that it does, which no tensor has. */
/* A rank, or the -1 of an absent tensor, can be added to a negative one. */
static inline int situ__as_dim(int64_t dim) {
  return dim > INT_MAX ? INT_MAX : dim < -INT_MAX / 2 ? -INT_MAX / 2 : (int)dim;
}
static inline int situ__arg_dim(const situ__op_call *c, int k) { return situ__as_dim(situ__arg_int(c, k)); }
/* From the front of `rank` dimensions; outside of 0 to rank - 1 where `dim` is outside of -rank to rank - 1. */
static inline int situ__dim_of(int64_t dim, int rank) { return situ__as_dim(dim) + (dim < 0 ? rank : 0); }
static inline int situ__arg_dim_of(const situ__op_call *c, int k, int rank) {
  return situ__dim_of(situ__arg_int(c, k), rank);
}
static inline bool situ__arg_flag(const situ__op_call *c, int k) { return situ__arg_int(c, k) != 0; }
static inline situ_dtype situ__arg_dtype(const situ__op_call *c, int k) {
  return situ__arg_given(c, k) ? (situ_dtype)c->arg[k].integer : SITU_DTYPE_DEFAULT;
}
static inline const char *situ__arg_text(const situ__op_call *c, int k) {
  return situ__arg_given(c, k) ? c->arg[k].text : "";
}
/* Tensor k as an operand of the number at n: for a float, an integer tensor is cast to f32, as torch promotes. */
situ_tensor *situ__arg_operand(const situ__op_call *c, int k, int n);
/* The first argument, cast to the dtype at k, if there is one. */
situ_tensor *situ__arg_cast(const situ__op_call *c, int k);
/* Where result k, from 1 on, goes; NULL: the call has not so many. */
static inline situ_tensor **situ__call_result(const situ__op_call *c, int k) {
  return k < c->node->outs ? &c->result[k] : NULL;
}
static inline bool situ__node_wants(const situ__program_node *n, int k) {
  enum { LAST = 8 * sizeof n->wanted - 1 };
  return n->wanted >> (k < (int)LAST ? k : (int)LAST) & 1;
}
/* The same, NULL also if the program does not use it. */
static inline situ_tensor **situ__call_wanted(const situ__op_call *c, int k) {
  return situ__node_wants(c->node, k) ? situ__call_result(c, k) : NULL;
}
/* Hands over tensors of a list, which must be as many as the file says; `count` below 0: after an error. `piece` may be
   c->result. */
situ_tensor *situ__call_pieces(situ__op_call *c, situ_tensor *const *piece, int64_t count);
/* Hands over parts of x along dim, of these sizes, which must be as many as the file says and all of x. */
situ_tensor *situ__call_split(situ__op_call *c, situ_tensor *x, int dim, const int64_t *size, int count);
/* torch's default dtype where the program was exported: of fractions beside whole numbers, and of what is made without
   a dtype. */
static inline situ_dtype situ__call_real(const situ__op_call *c) { return c->node->real ? c->node->real : SITU_F32; }
static inline situ_dtype situ__arg_dtype_or_real(const situ__op_call *c, int k) {
  return situ__arg_given(c, k) ? (situ_dtype)c->arg[k].integer : situ__call_real(c);
}
/* Options of tensors that the call makes: dtype, and the device of its results. */
static inline situ_options situ__call_options(const situ__op_call *c, situ_dtype dtype) {
  return (situ_options){ .dtype = dtype,
                         .device = { .kind = c->dry          ? SITU_META
                                             : c->node->host ? SITU_CPU
                                                             : SITU_DEVICE_DEFAULT } };
}
/* Whether the module that the call was in is training. */
bool situ__call_trains(const situ__op_call *c);
/* Records that the call has an argument that situ cannot follow, and returns NULL. */
void *situ__call_refuse(const situ__op_call *c, const char *what);

#endif
