/* The header of a .npy file: from bytes to a checked entry, with no file in sight.
   SPDX-License-Identifier: MIT */
#ifndef SITU_IO_NPY_HEADER_H
#define SITU_IO_NPY_HEADER_H

#include "base/problem.h"
#include "situ/io.h"

/* Magic, version and the longest length field. */
#define SITU__NPY_START 12
/* NumPy itself refuses longer ones. */
#define SITU__NPY_HEADER_MAX 65536

/* From the first bytes of a file (`length` of them, SITU__NPY_START at least unless the file is
   shorter): where the header's text begins and how long it is. */
bool situ__npy_start(const unsigned char *first, size_t length, size_t *begin, size_t *header, situ__problem *problem);
/* Reads the text of the header, e.g. {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }:
   fills type, dtype, shape and bytes. */
bool situ__npy_parse(const char *text, size_t length, situ_file_entry *out, bool *fortran, situ__problem *problem);
/* NumPy's word for a dtype; NULL if it has none. */
const char *situ__npy_type(situ_dtype dtype);

#endif
