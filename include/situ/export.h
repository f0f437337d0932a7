/* torch.export and ONNX: programs that PyTorch and others wrote, as modules; and modules, as programs.
   Threads: as situ/io.h for loading, and as situ/nn.h for the module.
   SPDX-License-Identifier: MIT */
#ifndef SITU_EXPORT_H
#define SITU_EXPORT_H

#include "io.h"

SITU_BEGIN

/** Loads a program that torch.export.save wrote (.pt2, schema 8) as a module: its calls run as ops of this library, on
    the module's device, and its children, parameters and buffers have the names of PyTorch's state dict. Inputs are a
    dict by name, or a list in the order of the file; each call checks their ranks, sizes and kinds of dtype.

    The file declares the dtype and sizes of each value of the program. The program is run once without values, at the
    sizes that it was exported with (and at others, where the file allows any): a value that would be computed with
    another dtype or other sizes is SITU_E_FORMAT, with its name. With the environment variable SITU_CHECK_PROGRAMS each
    call compares them, too: for tests, and not for a module that is cast. torch's default dtype where the program was
    exported is what the file declares of calls that depend on it.

    Calls that the program has and this library lacks are SITU_E_UNSUPPORTED, with a list of them. A program that was
    exported in training mode follows the module's mode (dropout, batch norm); one that was exported in eval mode stays
    in it. Hooks run on the module itself, not on its children, whose calls are part of the program. Pickles in the
    archive are not read. With options->map, weights on the cpu are the file's own memory. NULL on error.

    An ONNX model (opset 6 to 28; the first bytes of the file tell) becomes the same kind of module. Floating
    initialisers that reach a layer are its parameters, the others buffers; dotted names are paths. Several outputs are
    a dict by their names. Sizes, and what is computed from sizes and constants only, stay on the host; what depends on
    constants only is computed now. External data is read from files in the model's own directory or below it, through
    no symbolic link. An If on a value runs one branch, a Loop or Scan its body again and again, up to
    options->max_iterations; a dry run, which has no values, takes both branches, and ends at a loop. Operators that
    this library lacks are SITU_E_UNSUPPORTED, with a list of their nodes. What the file declares of a node's result
    (value_info, outputs) is compared with what is computed: another dtype, rank or fixed size is SITU_E_FORMAT. */
SITU_API situ_nn_module *situ_export_load(const char *path, const situ_load_options *options);

/** torch.export.export: makes a program of a module by one call of it without values: nothing is computed, moved or
    drawn. The program is a module of the same children, parameters and buffers (the same tensors), which runs the calls
    that forward made, and can be written to a file (situ_export_save). It has the sizes of `inputs`, and the mode that
    the module is in, training or eval. Inputs are named by their keys, by their tensors' names, or "input_0". The
    module and its tensors stay as they are, with their names and requires_grad; hooks of ddp and ZeRO are not called.

    SITU_E_UNSUPPORTED, with a list, for calls that torch.export has no form for; for a forward that reads values
    (situ_item), that writes an input in place, or that uses values of its own that are not constants: never written,
    drawn at random, or copied from host memory. SITU_E_STATE for a lazy module before its first input. The caller frees
    the result; NULL on error. */
SITU_API SITU_CHECKED situ_nn_module *situ_export(situ_nn_module *m, const situ_tree *inputs);

/** A dimension of an input that may have other sizes (torch.export.Dim). */
typedef struct situ_export_dim {
  const char *input;   /**< its path in the tree of inputs, "ids" or "0"; NULL: the first */
  int dim;             /**< below 0: from the end */
  const char *name;    /**< dimensions of one name have one size; NULL: it has its own */
  int64_t least, most; /**< 0: 1, and unbounded; two sizes from 2 on or more */
  int64_t multiple;    /**< sizes are multiples of it: 32 for a net that halves an image five times; 0: 1 */
} situ_export_dim;

/** situ_export with dynamic_shapes: the program takes inputs whose dimensions `dims` have any size of their range.
    Sizes are plain numbers in C, so the module is called 13 times, at sizes around those of `inputs`, from 2 on,
    and the programs are compared: a number that differs becomes an expression of the sizes (sums, products and floor
    quotients, which must fit all runs), and a tensor that forward makes becomes the call that makes it.

    SITU_E_UNSUPPORTED, with a list, for what no expression gives, as for a forward that makes other calls at other
    sizes. A choice that forward makes at none of the sizes that are tried is not seen: bound the range where it has
    one. The other errors are those of situ_export, with the sizes at which forward failed. */
SITU_API SITU_CHECKED situ_nn_module *situ_export_dynamic(situ_nn_module *m, const situ_tree *inputs,
                                                          const situ_export_dim *dims, int64_t count);

/** torch.export.save: writes a program that situ_export made to a .pt2 archive, as of PyTorch 2.15, which
    torch.export.load reads. The file is replaced as a whole. SITU_E_STATE for any other module; SITU_E_DTYPE for a
    program that was cast since (situ_nn_to_dtype): export the cast module instead. */
SITU_API SITU_CHECKED situ_status situ_export_save(situ_nn_module *program, const char *path);

typedef struct situ_onnx_export_options {
  int opset; /**< 18 to 23; 0: 18, or that of the ONNX model that the program was read from, which stays */
  /** Weights in a file of their own, PATH.data; always so from 2 GiB on. Where that is there it is PATH.data.1, and
      so on up to 7, and the other is removed when the model is replaced: a model is never beside others' weights. */
  bool external_data;
} situ_onnx_export_options;
/** torch.onnx.export: writes a program, which situ_export made or situ_export_load read from a .pt2 archive, to an ONNX
    model. Weights have their names in the state dict; sizes that depend on the inputs' have the names of the program's
    symbols. Calls in place become calls that are not; what they write to an input, the caller does not see. The program
    is written in the mode that it is in: call situ_nn_eval for inference. Files are replaced as a whole. options may be
    NULL. Where ONNX does not say what comes of NaN or infinities (in products, pooling, norms, reductions), or of
    numbers that a dtype does not hold, the model computes what its runtime does. A program that was read from an ONNX
    model is written as that model, with the values that its parameters and buffers have now.

    A buffer that the program writes is an input of the model, whose default is its value, and one more result,
    "PATH.next".

    SITU_E_UNSUPPORTED, with a list, for calls that ONNX has no operators for; for a program that was read from an ONNX
    model and has another dtype or shape than there. SITU_E_STATE for a module that is not a program. */
SITU_API SITU_CHECKED situ_status situ_onnx_export(situ_nn_module *program, const char *path,
                                                   const situ_onnx_export_options *options);

/* ---- what a program takes and does ---- */

/** A size of an input. */
typedef struct situ_export_size {
  int64_t size;        /**< -1: free */
  const char *symbol;  /**< name of a free size; sizes of one name must be equal. "": it may be any */
  int64_t least, most; /**< of a free size; INT64_MAX: unbounded */
  int64_t multiple;    /**< it is a multiple of this, 1 for most */
} situ_export_size;

/** An input. */
typedef struct situ_export_input {
  const char *name; /**< lives as long as the module, as do the symbols */
  situ_dtype dtype; /**< of one that situ lacks (ONNX): the wider one in which the program has its values */
  int ndim;         /**< -1: any */
  situ_export_size size[SITU_MAX_DIMS];
} situ_export_input;

/** Describes the index-th input of a program that situ_export_load read or situ_export made. Returns false (no error)
    out of range; SITU_E_STATE for a module that is not a program. To see a file without reading its weights, load it
    with options->map and on meta. */
SITU_API bool situ_export_input_at(const situ_nn_module *program, int64_t index, situ_export_input *out);
/** The path of the index-th result in the tree that situ_nn_call gives ("past.0"), written as snprintf does. One result
    alone has the name that the file gives it, or "". Returns the length of the whole text; -1 (no error) out of range;
    SITU_E_STATE as above. */
SITU_API int64_t situ_export_result_at(const situ_nn_module *program, int64_t index, char *buffer, size_t size);
/** The operator of the index-th call, in the order in which they run: "linear.default", "Gemm". NULL (no error) out of
    range; SITU_E_STATE as above. The text lives as long as the module. */
SITU_API const char *situ_export_target_at(const situ_nn_module *program, int64_t index);

SITU_END
#endif
