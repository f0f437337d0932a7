/* The header of a .npy file: parses bytes into a checked entry, without access to the file.
   SPDX-License-Identifier: MIT */
#ifndef SITU_IO_NPY_HEADER_H
#define SITU_IO_NPY_HEADER_H

#include "base/problem.h"
#include "situ/io.h"

/* Bytes of magic, version and the longest length field. */
#define SITU__NPY_START 12
/* NumPy rejects longer headers. */
#define SITU__NPY_HEADER_MAX 65536

/* Finds the text of the header in the first `length` bytes of a file (at least SITU__NPY_START, unless the file is
   shorter): sets where it begins and how long it is. */
bool situ__npy_start(const unsigned char *first, size_t length, size_t *begin, size_t *header, situ__problem *problem);
/* Parses the text of the header, e.g. {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }, and sets type,
   dtype, shape and bytes. */
bool situ__npy_parse(const char *text, size_t length, situ_file_entry *out, bool *fortran, situ__problem *problem);
/* Returns NumPy's name of a dtype; NULL if it has none. */
const char *situ__npy_type(situ_dtype dtype);

#endif
