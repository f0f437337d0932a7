/* SPDX-License-Identifier: MIT */
#ifndef SITU_TEST_LAST_WORDS_H
#define SITU_TEST_LAST_WORDS_H

#include <stdbool.h>

/* From now on a thread other than this one that ends the program without success says where it was. */
void last_words_begin(void);

#endif
