/* Finds the format of a program by the file's first bytes.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "base/file.h"
#include "program/graph/build.h"

situ_nn_module *situ_export_load(const char *path, const situ_load_options *options) {
  static const char op[] = "export_load";
  unsigned char first[4] = { 0 };
  int64_t bytes;
  if (!situ__given(op, "path", path)) return NULL;
  if (options && options->max_iterations < 0)
    return situ__fail(SITU_E_ARG, op, "max_iterations is %lld: 1 or more are a limit, 0 is 1,000,000",
                      (long long)options->max_iterations),
           NULL;
  const int fd = situ__file_open(op, path, &bytes);
  if (fd < 0) return NULL;
  const bool read = bytes < 4 || situ__file_read(op, path, fd, first, 4, 0) == SITU_OK;
  situ__file_close(fd);
  if (!read) return NULL;
  if (bytes == 0) return situ__fail(SITU_E_FORMAT, op, "%s: is empty", path), NULL;
  /* A zip begins with PK, and the message of an ONNX model with one of its fields, of which none is P. */
  return first[0] == 'P' ? situ__pt2_load(path, options) : situ__onnx_load(path, options);
}
