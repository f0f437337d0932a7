/* situ: tensors and neural networks in place, on the device where the data lives.
   SPDX-License-Identifier: MIT */
#ifndef SITU_H
#define SITU_H

#include "amp.h"
#include "autograd.h"
#include "blocks.h"
#include "comm.h"
#include "data.h"
#include "device.h"
#include "dist.h"
#include "dlpack.h"
#include "error.h"
#include "export.h"
#include "func.h"
#include "gguf.h"
#include "graph.h"
#include "interop.h"
#include "io.h"
#include "ledger.h"
#include "live.h"
#include "media.h"
#include "nccl.h"
#include "nn.h"
#include "ops.h"
#include "optim.h"
#include "parallel.h"
#include "place.h"
#include "policy.h"
#include "profile.h"
#include "random.h"
#include "scope.h"
#include "tensor.h"
#include "tree.h"

#endif
