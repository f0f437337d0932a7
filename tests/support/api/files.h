/* Files that calls with valid arguments read or write, in the current directory.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TESTS_SUPPORT_API_FILES_H
#define SITU_TESTS_SUPPORT_API_FILES_H

/* A gray PNG file of 3 x 2 pixels. */
enum { API_PNG = 69 };
extern const unsigned char api_png[API_PNG];

/* The file that a function is given. */
const char *api_file_of(const char *function);
/* Writes the file of that name, if it is of a kind that the library does not write, or may lack the library for. */
void api_write_file(const char *file);
/* A directory with one class of one image. */
const char *api_image_root(void);

#endif
