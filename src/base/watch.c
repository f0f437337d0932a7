/* SPDX-License-Identifier: MIT */
#include "base/watch.h"

const situ__watch *situ__watching;
