/* Functions that calls with valid arguments are given.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TESTS_SUPPORT_API_CALLBACKS_H
#define SITU_TESTS_SUPPORT_API_CALLBACKS_H

#include "situ/situ.h"
#include "situ/sys/comm.h"
#include "situ/sys/grad_scaler.h"
#include "situ/sys/graph.h"
#include "situ/sys/op.h"

/* One of a type, as the headers write it; NULL: there is none. */
void *api_callback(const char *type);
extern const situ_function api_twice;
bool api_no_call(situ_export_trace *trace, const char *target, const char *codes, va_list args);
extern const situ_dataset_type api_numbers;
extern const situ_saved_tensors_hooks api_kept_values;
extern const situ_comm_engine api_idle_engine;
extern const situ_grad_scaler_source api_no_gradients;
extern const situ_graph_values api_constant_values;
extern situ_dlpack_versioned api_managed; /* of no dimensions, without a deleter */

#endif
