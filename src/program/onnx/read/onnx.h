/* Reads ONNX models: what its files share.
   SPDX-License-Identifier: MIT */
#ifndef SITU_PROGRAM_ONNX_H
#define SITU_PROGRAM_ONNX_H

#include "io/format/protobuf.h"
#include "io/format/values.h"
#include "program/graph/bind.h"
#include "program/graph/build.h"
#include "program/onnx/values/format.h"

/* Where a value is when the program runs. */
typedef enum situ__onnx_place {
  SITU__ONNX_DEVICE = 0, /* on the module's device */
  SITU__ONNX_HOST,       /* on the host: sizes, and what is computed from them */
  SITU__ONNX_CONSTANT    /* known now: an initialiser that is not a parameter, or computed from such */
} situ__onnx_place;

typedef struct situ__onnx_value {
  const char *name;
  situ__protobuf source; /* of an initialiser: its TensorProto */
  bool initialiser;
  situ__onnx_place place;
  bool ready;                      /* an earlier node computes it, or it is given */
  bool weight;                     /* it reaches a layer as its parameter, directly or through views */
  bool product;                    /* it is the result of a layer */
  bool listed;                     /* program->constant has it */
  int32_t on_device;               /* the value that is its copy on the module's device; -1: none */
  int32_t input;                   /* of an input: its number in the program; -1: none */
  int32_t guard;                   /* of the node that computes it */
  const situ__onnx_format *format; /* NULL: it has a dtype of situ */
} situ__onnx_value;

/* A file with external data. */
typedef struct situ__onnx_file {
  const char *location;
  int fd;
  int64_t bytes;
  situ__mapping *mapping; /* NULL: values are read */
} situ__onnx_file;

/* What the file says of a value: an entry of value_info, or an output. */
typedef struct situ__onnx_declared {
  int32_t value;
  situ_dtype dtype;             /* SITU_DTYPE_DEFAULT: not said */
  int dims;                     /* -1: not said */
  int64_t size[SITU_MAX_DIMS];  /* -1: free */
  int64_t first[SITU_MAX_DIMS]; /* of the first run (declared.c); -1: not known */
} situ__onnx_declared;

/* The names of a graph's values. A branch of an If has a scope of its own. */
typedef struct situ__onnx_scope {
  situ__names names;
  const struct situ__onnx_scope *outer; /* NULL: of the model's graph */
} situ__onnx_scope;

typedef struct situ__onnx {
  const char *path;
  situ_load_options options;
  int fd;
  int64_t bytes;
  situ__mapping *mapping;
  situ__program *program;
  int64_t opset;
  situ__onnx_scope scope;  /* of the graph that is being read */
  const char *within;      /* where that graph is in the file: "graph" */
  bool told;               /* the thread's error says where it happened */
  situ__onnx_value *about; /* of each value of the program */
  situ__value *known;      /* the tensors of constants, on the host, once they were needed */
  int32_t values;          /* elements of both */
  int64_t capacity;        /* of both */
  situ__names symbols;     /* of program->symbol */
  int64_t symbol_capacity;
  int32_t *part_of; /* of each part of the program: the constant that it holds */
  int64_t part_capacity;
  situ__onnx_file *file;
  int32_t files;
  situ__onnx_declared *declared;
  int32_t declareds;
  int64_t declared_capacity;
  situ__lacks lacks;
  int32_t guard;  /* of the nodes of the branch that is being read; 0: none */
  int64_t budget; /* bytes that may be computed from constants when the file is loaded */
} situ__onnx;

/* Both return false after recording an error with the file's path. */
bool situ__onnx_bad(const situ__onnx *f, situ_status status, const char *fmt, ...) SITU_PRINTF(3, 4) SITU_COLD;
bool situ__onnx_no_memory(void) SITU_COLD;
/* A text of the file, which must not contain NUL; NULL after recording an error. */
const char *situ__onnx_text(situ__onnx *f, const situ__protobuf *bytes);
/* The dtype of ONNX's number, of a format the wide one; SITU_DTYPE_DEFAULT: situ lacks it. */
situ_dtype situ__onnx_dtype(uint64_t number);
/* "FLOAT8E4M3FN"; "number 99" of one that ONNX 1.23 lacks, too. Returns out. */
const char *situ__onnx_dtype_name(uint64_t number, char out[32]);

/* ---- tensors (tensor.c) ---- */

typedef struct situ__onnx_tensor {
  const char *name;
  situ_shape shape;
  uint64_t number; /* ONNX's dtype */
  situ_dtype dtype;
  const situ__onnx_format *format;
  situ__protobuf message, raw;
  bool has_raw, external;
  const char *location;   /* of external data */
  int64_t offset, length; /* -1: all that its shape needs */
} situ__onnx_tensor;
bool situ__onnx_read_tensor(situ__onnx *f, situ__protobuf message, situ__onnx_tensor *out);
/* The tensor's values, owned by the innermost scope; NULL after recording an error. */
situ_tensor *situ__onnx_load_tensor(situ__onnx *f, const situ__onnx_tensor *t, situ_device device);

/* The same as the file has it, of a format as its codes. */
situ_tensor *situ__onnx_load_codes(situ__onnx *f, const situ__onnx_tensor *t, situ_device device);

/* ---- the graph (graph.c, node.c) ---- */

typedef struct situ__onnx_node {
  const char *name, *op, *domain, *module;
  const char *place;    /* in the file: "graph.node[12]" */
  const int32_t *input; /* values; -1: absent */
  const int32_t *output;
  int32_t inputs, outputs;
  situ__protobuf message;
} situ__onnx_node;

/* An attribute of a node (attributes.c). */
typedef struct situ__onnx_attribute {
  const char *name;
  situ__arg arg;
  situ__protobuf tensor, graph; /* of those kinds */
} situ__onnx_attribute;
/* All attributes of a node; *count goes on from what it is, up to `most`. */
bool situ__onnx_read_attributes(situ__onnx *f, const situ__onnx_node *node, situ__onnx_attribute *out, int most,
                                int *count);
/* NULL: there is none of this name. */
const situ__onnx_attribute *situ__onnx_find_attribute(const situ__onnx_attribute *list, int count, const char *name);

/* What goes into a graph that stands in an attribute, and comes out of it. */
typedef struct situ__onnx_inner {
  const char *place, *name; /* of its node, in the file, and of the attribute */
  int32_t *input;           /* values of its inputs */
  int *rank;                /* gets their declared numbers of dimensions, -1: none */
  int32_t inputs;
  int32_t
      *result; /* gets the values of its outputs: `given` of them, at most `results`; NULL: the graph takes memory */
  int32_t results, given;
} situ__onnx_inner;
/* Adds the graph's nodes to the program. inner NULL: it is the model's graph. */
bool situ__onnx_read_graph(situ__onnx *f, situ__protobuf graph, int depth, situ__onnx_inner *inner);
/* Adds a node to the program, or computes its results if they are constants. */
bool situ__onnx_add_node(situ__onnx *f, const situ__onnx_node *node, int depth);
bool situ__onnx_add_value(situ__onnx *f, const char *name, int32_t *out);
/* Bytes of a node's results, by a run on meta; -1: they are not known before. value has the node's arguments, and is
   left as it was. */
int64_t situ__onnx_size_results(situ__onnx *f, const situ__program_node *n, situ__value *value);
/* Whether an operator draws numbers. */
bool situ__onnx_draws(const char *op);
/* Sets *out to the value of v's copy on the module's device, or on the host. */
bool situ__onnx_on_device(situ__onnx *f, int32_t v, int32_t *out);
bool situ__onnx_on_host(situ__onnx *f, int32_t v, int32_t *out);
/* The tensor of a constant, on the host; NULL after recording an error. */
situ_tensor *situ__onnx_known(situ__onnx *f, int32_t v);
/* Makes the value v (-1: none) a constant with a tensor on the host. Returns false after recording an error. */
bool situ__onnx_set_constant(situ__onnx *f, int32_t v, situ_tensor *t);
situ__onnx_place situ__onnx_place_of(const situ__onnx *f, int32_t v);
static inline situ__arg situ__onnx_value_arg(int32_t v) {
  return v < 0 ? (situ__arg){ 0 } : (situ__arg){ .kind = SITU__ARG_VALUE, .of = SITU__VALUE_TENSOR, .integer = v };
}
/* A node of the program that stands for a part of `node` under the current guard, with one result and space for its
   arguments. NULL after recording an error. */
situ__program_node *situ__onnx_add_part(situ__onnx *f, const situ__onnx_node *node, const situ__op_row *row, int args,
                                        situ__arg **arg);
/* Adds a Loop or a Scan and the nodes of its body (loops.c). */
bool situ__onnx_add_loop(situ__onnx *f, const situ__onnx_node *node, const situ__onnx_attribute *list, int count,
                         int depth);
/* Adds an If and the nodes of its branches (loops.c). */
bool situ__onnx_add_if(situ__onnx *f, const situ__onnx_node *node, const situ__onnx_attribute *list, int count,
                       int depth);

/* x as whole numbers from 0 to 255, whose dtype is x's: x is (result - zero) scale, rounded (ops_quantized.c). */
situ_tensor *situ__onnx_quantize(situ_tensor *x, situ_tensor **scale, situ_tensor **zero);

/* Windows of convolutions and pooling (ops_layers.c). */
typedef struct situ__onnx_windows {
  int dims; /* spatial */
  situ_shape kernel, stride, dilation;
  int64_t before[3], after[3]; /* padding */
  bool even;                   /* the same on both sides */
} situ__onnx_windows;
/* Arguments from k on: auto_pad, dilations, kernel_shape, pads, strides. SAME: as many results as input / stride. */
bool situ__onnx_read_windows(situ__op_call *c, int k, situ_tensor *x, situ_shape kernel, situ__onnx_windows *w);
#define SITU__ONNX_WINDOWS \
  "s? auto_pad(NOTSET|SAME_UPPER|SAME_LOWER|VALID), I? dilations, I? kernel_shape, I? pads, I? strides"
/* The sizes after the first two. */
situ_shape situ__onnx_spatial_of(const situ_tensor *weight);

/* ---- formats (formats.c) ---- */

/* What situ__onnx_value.format is of a sequence. */
extern const situ__onnx_format situ__onnx_sequence;

/* Whether an attribute of the operator may name a format. */
bool situ__onnx_makes_formats(const situ__op_row *row);
/* What the operator makes of inputs that have a format, or of made->format, which an attribute names: sets that of its
   results. Returns false with the reason in why, or after recording an error. */
bool situ__onnx_follow_formats(situ__onnx *f, const situ__onnx_node *node, situ__program_node *made, situ__text *why);
/* Adds a node that rounds the input to its format. */
bool situ__onnx_round_input(situ__onnx *f, situ__program_input *in);
/* Whether the value has the format that the file declares, by ONNX's number of its dtype. */
bool situ__onnx_check_format(situ__onnx *f, int32_t v, uint64_t number);

/* Notes what the file says of a value. */
bool situ__onnx_declare(situ__onnx *f, int32_t value, const situ__program_input *about);
/* Compares it with what is computed (declared.c). Returns false after recording an error that names the node. */
bool situ__onnx_check_declared(situ__onnx *f);

/* Replaces nodes that stand for one call together (patterns.c). */
bool situ__onnx_match_patterns(situ__onnx *f);

/* Fills m with the parameters and buffers (parts.c). */
bool situ__onnx_name_parts(situ__onnx *f);
bool situ__onnx_build(situ__onnx *f, situ_nn_module *m);
/* Keeps the model for writing, or not, where a tensor cannot be loaded. Returns false when memory runs out. */
bool situ__onnx_keep(situ__onnx *f);

#endif
