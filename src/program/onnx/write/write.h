/* Writes programs as ONNX models: what its files share.
   SPDX-License-Identifier: MIT */
#ifndef SITU_PROGRAM_ONNX_WRITE_H
#define SITU_PROGRAM_ONNX_WRITE_H

#include "base/text.h"
#include "io/format/protobuf_write.h"
#include "io/format/still.h"
#include "program/graph/bind.h"
#include "program/graph/build.h"
#include "program/graph/infer.h"
#include "base/names.h"

/* Memory that several values of the program are views of. */
typedef struct situ__onnx_memory {
  uint64_t storage;
  int32_t root;    /* the first value, which is all of it, in row-major order */
  int32_t version; /* number of calls that wrote to it in place */
} situ__onnx_memory;

/* A tensor of the module that the model has. */
typedef struct situ__onnx_weight {
  situ_tensor *tensor;
  const char *name;
  uint64_t bytes, place; /* place: in the file of external data */
} situ__onnx_weight;

typedef struct situ__onnx_writer {
  const char *op;
  const situ__program *program;
  situ_nn_module *module;
  int opset;
  situ__inferred *about; /* of each value, then of the number of an iteration and of a condition */
  const char **name;     /* of each value's newest tensor in the model */
  int32_t *version;      /* of each value's memory when `name` was computed */
  const char **weight;   /* the initialiser of each part */
  const char **input;    /* the name of each input */
  bool *written;         /* whether a call writes to each part */
  bool *used;            /* whether a node reads it */
  const bool *needed;    /* whether a result needs each node */
  int32_t *memory;       /* of each value: its place in the list */
  int32_t *maker;        /* of each value: the node that gives it; -1: none */
  const char **place;    /* of each value, once they were needed: the places of its elements in its memory (memory.c) */
  situ__onnx_memory *memories;
  int32_t memory_count;
  situ__names names;
  situ__arena arena;
  situ__protobuf_writer head;             /* complete fields of the model but its graph */
  situ__protobuf_writer nodes, constants; /* complete fields of the graph */
  situ__onnx_weight *weights;             /* capacity: the program's parts */
  int32_t weight_count;
  uint64_t weight_bytes; /* of external data */
  situ__lacks lacks;
  bool failed;              /* no memory */
  bool replaced;            /* the file of the model */
  uint64_t errors;          /* that this thread had recorded at the beginning */
  const situ__still *still; /* the program's tensors, which must not change meanwhile */
  /* The call that is being written. */
  const situ__program_node *node;
  situ__op_call call;          /* for situ__arg_int and its kin; tensors are not there */
  situ__value *integers;       /* values of ints that do not vary */
  const char **result;         /* of its second and later results */
  const situ__inferred *gives; /* of its first result */
} situ__onnx_writer;

/* How calls of an ATen overload are written: one of the three. */
typedef struct situ__onnx_form {
  const char *target;
  const char *same; /* an operator of the same operands, in the result's dtype */
  const char *(*write)(situ__onnx_writer *w);
  const char *formula; /* of operators of the operands in the result's dtype (formula.c) */
  uint32_t varies;     /* bit k: argument k may be, or have, a size that depends on the inputs' */
  bool logical;        /* its result is bool, whatever its operands are */
  bool computes;       /* it computes its elements: of 8 and 16 bits in i32 or f32, for which runtimes have kernels */
} situ__onnx_form;
typedef struct situ__onnx_forms {
  const situ__onnx_form *form;
  int count;
} situ__onnx_forms;
extern const situ__onnx_forms situ__onnx_form_elementwise, situ__onnx_form_shape, situ__onnx_form_layers,
    situ__onnx_form_norm, situ__onnx_form_reduce, situ__onnx_form_index, situ__onnx_form_recurrent,
    situ__onnx_form_special;

/* ---- nodes and constants (node.c): the name of the result; NULL after an error ---- */

/* A node with one result. in ends with NULL; "": absent. attributes: "axis:i alpha:f mode:s perm:I", each with what
   follows it: int64_t, double, const char *, const situ_shape *; S: a list of one text, with an int, how often. */
const char *situ__onnx_put(situ__onnx_writer *w, const char *type, const char *const *in, const char *attributes, ...);
/* The same with several results, whose names go to out. */
bool situ__onnx_put_all(situ__onnx_writer *w, const char *type, const char *const *in, const char **out, int outs,
                        const char *attributes, ...);
#define SITU__ONNX_IN(...) \
  (const char *const[]) { __VA_ARGS__, NULL }
const char *situ__onnx_put1(situ__onnx_writer *w, const char *type, const char *x);
const char *situ__onnx_put2(situ__onnx_writer *w, const char *type, const char *a, const char *b);
const char *situ__onnx_cast(situ__onnx_writer *w, const char *x, situ_dtype from, situ_dtype to);
const char *situ__onnx_expand(situ__onnx_writer *w, const char *x, const char *sizes, situ_dtype dtype);
/* A 1-D tensor of i64; a 0-dim one of a dtype; a tensor of f32 or i64 values. */
const char *situ__onnx_ints(situ__onnx_writer *w, const situ_shape *values);
const char *situ__onnx_int(situ__onnx_writer *w, int64_t value);
const char *situ__onnx_scalar(situ__onnx_writer *w, double value, situ_dtype dtype);
const char *situ__onnx_constant(situ__onnx_writer *w, situ_dtype dtype, const situ_shape *shape, const void *values);
/* The numbers that a dtype of whole numbers or bools holds. Returns false for i64 and floating ones. */
bool situ__onnx_range_of(situ_dtype dtype, double *least, double *most);
/* A name that no tensor has. */
const char *situ__onnx_new_name(situ__onnx_writer *w, const char *stem);
/* Notes why the call cannot be written, and returns NULL. */
const char *situ__onnx_lacks(situ__onnx_writer *w, const char *why);
int situ__onnx_number_of(situ_dtype dtype);

/* Nodes of a formula, whose operands and numbers are of a dtype (formula.c). */
const char *situ__onnx_formula(situ__onnx_writer *w, const char *text, situ_dtype dtype);

/* ---- arguments of the call (args.c) ---- */

/* The tensor of argument k as it is; NULL for None, and after an error. */
const char *situ__onnx_arg(situ__onnx_writer *w, int k);
/* Argument k, a tensor, a number or a size, in a dtype. */
const char *situ__onnx_arg_as(situ__onnx_writer *w, int k, situ_dtype dtype);
/* What the program has at argument k; of a None or a number: zeros. */
const situ__inferred *situ__onnx_about(const situ__onnx_writer *w, int k);
/* The tensor number i of the list at k; NULL for None. */
const char *situ__onnx_item(situ__onnx_writer *w, int k, int i);
const situ__inferred *situ__onnx_item_about(const situ__onnx_writer *w, int k, int i);
int situ__onnx_items(const situ__onnx_writer *w, int k);
/* Whether all sizes are known; if not, notes that. */
bool situ__onnx_is_fixed(situ__onnx_writer *w, const situ__inferred *about);
/* Dimension `dim` of a tensor, not negative. */
int situ__onnx_dim(int64_t dim, int rank);
/* The list of sizes at k, or the int, as a 1-D tensor, whether they vary or not; `otherwise` in the place of -1. */
const char *situ__onnx_sizes(situ__onnx_writer *w, int k);
const char *situ__onnx_sizes_or(situ__onnx_writer *w, int k, int64_t otherwise);
/* x with the sizes of `to`. */
const char *situ__onnx_reshape(situ__onnx_writer *w, const char *x, const situ__inferred *from,
                               const situ__inferred *to);
const char *situ__onnx_reshape_to(situ__onnx_writer *w, const char *x, situ_shape shape);

/* ---- memory (memory.c) ---- */

bool situ__onnx_find_memory(situ__onnx_writer *w);
/* The newest values of v, which calls in place may have changed. */
const char *situ__onnx_current(situ__onnx_writer *w, int32_t v);
/* Elements of `flat`, a memory as one list, at the places of a view; NULL after an error. */
const char *situ__onnx_gather_places(situ__onnx_writer *w, const char *flat, const situ__inferred *view);
/* After v was overwritten with the tensor `name`. Returns false after an error. */
bool situ__onnx_overwrite(situ__onnx_writer *w, int32_t v, const char *name);

/* ---- nodes of the program (graph.c) ---- */

/* Writes the call that gives v, a view of `base`, of the tensor `of` of a dtype instead; NULL after an error. */
const char *situ__onnx_write_view(situ__onnx_writer *w, int32_t v, int32_t base, const char *of, situ_dtype dtype);
/* Writes the needed ones of the nodes from `first` to `end`. */
void situ__onnx_write_range(situ__onnx_writer *w, int32_t first, int32_t end);
/* Writes the branches that node `at` begins as If, or the loop as Loop or Scan. Returns the node after them
   (branches.c). */
int32_t situ__onnx_write_if(situ__onnx_writer *w, int32_t at);
int32_t situ__onnx_write_loop(situ__onnx_writer *w, int32_t at);
void situ__onnx_keep_result(situ__onnx_writer *w, int32_t v, const char *name);
/* Writes all nodes. Returns false after an error, or with w->lacks. */
bool situ__onnx_write_nodes(situ__onnx_writer *w);

/* The field of a value's name, dtype and sizes (write.c). */
void situ__onnx_put_value(situ__onnx_writer *w, situ__protobuf_writer *graph, uint32_t field, const char *name,
                          int32_t v);

/* ---- weights (write.c), and models that were read from ONNX (again.c) ---- */

void situ__onnx_add_weight(situ__onnx_writer *w, situ_tensor *t, const char *name);
/* The field of a weight up to its values, or with the location of external data. */
void situ__onnx_put_weight(situ__protobuf_writer *out, const situ__onnx_weight *k, const char *location);
/* Fills w->head, w->weights and the graph with those of the model that the program was read from. Returns false after
   recording an error. */
bool situ__onnx_put_again(situ__onnx_writer *w, situ__protobuf_writer *graph);

#endif
