/* Loads CSV files.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/file.h"
#include "data/csv_text.h"
#include "situ/data.h"
#include "situ/ops.h"

/* Maximum size of a file: more data belongs in a database. */
#define CSV_MAX ((int64_t)1 << 36)

static const char op[] = "csv_load";

static situ_tensor *read_values(const situ__csv *csv, situ_dtype dtype, situ_device device, situ__problem *problem) {
  bool narrow = dtype == SITU_F16 || dtype == SITU_BF16; /* read as f32, then cast by an op */
  situ_options options = { .dtype = narrow ? SITU_F32 : dtype, .device = { .kind = SITU_CPU } };
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  situ_tensor *t = situ_empty(SITU_SHAPE(csv->rows, csv->columns), &options);
  void *values = situ_data_ptr(t);
  problem->status = SITU_OK;
  if (t && !situ__csv_read(csv, dtype, values, problem)) t = NULL;
  if (t && narrow) t = situ_to_dtype(t, dtype);
  if (t && device.kind != SITU_DEVICE_DEFAULT) t = situ_to(t, device);
  return situ_scope_return(&scope, t);
}

situ_tensor *situ_csv_load(const char *path, const situ_csv_options *options) {
  static const situ_csv_options defaults;
  if (!options) options = &defaults;
  situ_dtype dtype = options->dtype ? options->dtype : SITU_F32;
  situ__csv csv = { .delimiter = options->delimiter ? options->delimiter : ',', .skip_lines = options->skip_lines };
  if (options->skip_lines < 0) return situ__fail(SITU_E_ARG, op, "skip_lines is %d", options->skip_lines), NULL;
  if (situ_dtype_size(dtype) == 0) return situ__fail(SITU_E_DTYPE, op, "%d is not a dtype", (int)dtype), NULL;
  if (strchr("+-.0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ\r\n", csv.delimiter))
    return situ__fail(SITU_E_ARG, op, "a number may contain the delimiter (character %d)", csv.delimiter), NULL;
  char *text = situ__file_load(op, path, CSV_MAX, &csv.length);
  if (!text) return NULL;
  situ__problem problem = { 0 };
  csv.text = text;
  situ_tensor *t = situ__csv_measure(&csv, &problem) ? read_values(&csv, dtype, options->device, &problem) : NULL;
  if (!t && problem.status != SITU_OK) situ__fail(problem.status, op, "%s: %s", path, problem.text);
  situ__free(text);
  return t;
}
