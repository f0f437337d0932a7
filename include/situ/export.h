/* torch.export and ONNX: programs that PyTorch and others wrote, as modules.
   Threads: as situ/io.h for loading, and as situ/nn.h for the module.
   SPDX-License-Identifier: MIT */
#ifndef SITU_EXPORT_H
#define SITU_EXPORT_H

#include "io.h"

SITU_BEGIN

/** Loads a program that torch.export.save wrote (.pt2, schema 8) as a module: its calls run as ops of this library, on
    the module's device, and its children, parameters and buffers have the names of PyTorch's state dict. Inputs are a
    dict by name, or a list in the order of the file; each call checks their ranks, sizes and kinds of dtype.

    Calls that the program has and this library lacks are SITU_E_UNSUPPORTED, with a list of them. A program that was
    exported in training mode follows the module's mode (dropout, batch norm); one that was exported in eval mode stays
    in it. Hooks run on the module itself, not on its children, whose calls are part of the program. Pickles in the
    archive are not read. With options->map, weights on the cpu are the file's own memory. NULL on error; a build
    without SITU_PROGRAMS is SITU_E_UNSUPPORTED.

    An ONNX model (opset 13 to 28; the first bytes of the file tell) becomes the same kind of module. Floating
    initialisers that reach a layer are its parameters, the others buffers; dotted names are paths. Several outputs are
    a dict by their names. Sizes, and what is computed from sizes and constants only, stay on the host; what depends on
    constants only is computed now. External data is read from files in the model's own directory or below it, through
    no symbolic link. Operators that this library lacks are SITU_E_UNSUPPORTED, with a list of their nodes, as is any
    ONNX model in a build without SITU_ONNX. */
SITU_API situ_nn_module *situ_export_load(const char *path, const situ_load_options *options);

SITU_END
#endif
