/* The only file that calls oneDNN, version 2 or 3: that of the headers, opened when a convolution first asks for it.
   SPDX-License-Identifier: MIT */
#include "dnnl.h"
#include "situ_config.h"

#ifndef SITU_HAVE_ONEDNN

bool situ__dnnl_is_there(void) { return false; }
situ__dnnl *situ__dnnl_conv(const situ__conv *c, int64_t images) { return (void)c, (void)images, NULL; }
void situ__dnnl_close(situ__dnnl *d) { (void)d; }
size_t situ__dnnl_bytes(const situ__dnnl *d, int operand) { return (void)d, (void)operand, 0; }
bool situ__dnnl_arrange(const situ__dnnl *d, int operand, void *from, void *to) {
  return (void)d, (void)operand, (void)from, (void)to, false;
}
bool situ__dnnl_run(const situ__dnnl *d, void *const operand[SITU__DNNL_OPERANDS], void *scratch) {
  return (void)d, (void)operand, (void)scratch, false;
}
size_t situ__dnnl_scratch(const situ__dnnl *d) { return (void)d, 0; }
const char *situ__dnnl_name(const situ__dnnl *d) { return (void)d, ""; }

#else

#include "base/alloc.h"
#include "base/library.h"
#include "base/mutex.h"

#include <dlfcn.h>
#include <dnnl.h>
#include <stdio.h>
#include <string.h>

/* ---- the library ---- */

/* Functions of both versions, of 3, and of 2. */
#define COMMON(_)                       \
  _(version)                            \
  _(engine_create)                      \
  _(memory_create)                      \
  _(memory_desc_equal)                  \
  _(memory_desc_get_size)               \
  _(memory_destroy)                     \
  _(primitive_attr_create)              \
  _(primitive_attr_destroy)             \
  _(primitive_attr_set_scratchpad_mode) \
  _(primitive_create)                   \
  _(primitive_desc_destroy)             \
  _(primitive_desc_query)               \
  _(primitive_desc_query_md)            \
  _(primitive_destroy)                  \
  _(primitive_execute)                  \
  _(reorder_primitive_desc_create)      \
  _(stream_create)                      \
  _(stream_destroy)                     \
  _(stream_wait)
#if DNNL_VERSION_MAJOR >= 3
#define FUNCTIONS(_)                                    \
  _(convolution_backward_data_primitive_desc_create)    \
  _(convolution_backward_weights_primitive_desc_create) \
  _(convolution_forward_primitive_desc_create)          \
  _(memory_desc_create_with_strides)                    \
  _(memory_desc_create_with_tag)                        \
  _(memory_desc_destroy)
#define SONAME "libdnnl.so.3"
#else
#define FUNCTIONS(_)                                \
  _(dilated_convolution_backward_data_desc_init)    \
  _(dilated_convolution_backward_weights_desc_init) \
  _(dilated_convolution_forward_desc_init)          \
  _(memory_desc_init_by_strides)                    \
  _(memory_desc_init_by_tag)                        \
  _(primitive_desc_create)
#define SONAME "libdnnl.so.2"
#endif

#define MEMBER(function) __typeof__(dnnl_##function) *function;
static struct { COMMON(MEMBER) FUNCTIONS(MEMBER) } dnnl;
#define SYMBOL(function) { "dnnl_" #function, &dnnl.function },
static const situ__symbol symbols[] = { COMMON(SYMBOL) FUNCTIONS(SYMBOL) };

/* Of the OpenMP that oneDNN runs on, or NULL. */
static int (*get_threads)(void);
static void (*set_threads)(int);

static dnnl_engine_t engine;

static bool start(void *handle, char *why, size_t size) {
  const int major = dnnl.version()->major;
  if (major != DNNL_VERSION_MAJOR)
    return (void)snprintf(why, size, "it is version %d, and situ was built for %d", major, DNNL_VERSION_MAJOR), false;
  *(void **)&get_threads = dlsym(handle, "omp_get_max_threads");
  *(void **)&set_threads = get_threads ? dlsym(handle, "omp_set_num_threads") : NULL;
  if (dnnl.engine_create(&engine, dnnl_cpu, 0) == dnnl_success) return true;
  return (void)snprintf(why, size, "it knows no engine for this processor"), false;
}

static situ__library library = { .name = "oneDNN",
                                 .variable = "SITU_ONEDNN",
                                 .package = "libdnnl2 or libdnnl3",
                                 .file = { SONAME },
                                 .symbol = symbols,
                                 .symbols = sizeof symbols / sizeof *symbols,
                                 .accept = start };
bool situ__dnnl_is_there(void) { return situ__library_open(&library); }

/* ---- differences between versions: descriptors are values in 2 and handles in 3 ---- */

#if DNNL_VERSION_MAJOR >= 3
typedef const_dnnl_memory_desc_t layout; /* borrowed */
static layout borrow(const dnnl_memory_desc_t *d) { return *d; }
static bool make_layout(dnnl_memory_desc_t *d, int n, const dnnl_dims_t dims, dnnl_data_type_t type,
                        const dnnl_dims_t strides) {
  return (strides ? dnnl.memory_desc_create_with_strides(d, n, dims, type, strides)
                  : dnnl.memory_desc_create_with_tag(d, n, dims, type, dnnl_format_tag_any)) == dnnl_success;
}
static void drop_layout(dnnl_memory_desc_t *d) {
  if (*d) dnnl.memory_desc_destroy(*d);
}
#else
typedef const dnnl_memory_desc_t *layout;
static layout borrow(const dnnl_memory_desc_t *d) { return d; }
static bool make_layout(dnnl_memory_desc_t *d, int n, const dnnl_dims_t dims, dnnl_data_type_t type,
                        const dnnl_dims_t strides) {
  return (strides ? dnnl.memory_desc_init_by_strides(d, n, dims, type, strides)
                  : dnnl.memory_desc_init_by_tag(d, n, dims, type, dnnl_format_tag_any)) == dnnl_success;
}
static void drop_layout(dnnl_memory_desc_t *d) { (void)d; }
#endif

/* ---- threads ---- */

/* On OpenMP, oneDNN would start a team in each of our threads, and its splits would change sums. The caller's setting
   is restored. */
static int alone(void) {
  const int before = get_threads ? get_threads() : 0;
  if (set_threads) set_threads(1);
  return before;
}
static void as_before(int threads) {
  if (set_threads) set_threads(threads);
}

/* ---- primitives ---- */

typedef struct side {
  int number;               /* DNNL_ARG_...; 0: absent */
  dnnl_memory_desc_t plain; /* our layout */
  bool made;
  layout wanted;            /* borrowed from the primitive's descriptor */
  dnnl_primitive_t reorder; /* from one to the other; NULL: they are equal */
} side;

/* Identifies a primitive in the cache. */
typedef struct key {
  int64_t number[24];
} key;

struct situ__dnnl {
  key of;
  side operand[SITU__DNNL_OPERANDS];
  dnnl_primitive_desc_t descriptor;
  dnnl_primitive_t primitive; /* NULL: oneDNN has no fast implementation, which is cached, too */
  layout scratch;
  const char *name;
  int users;
  uint64_t used; /* time of last use, to evict the oldest */
};

/* Describes an operand of plain layout; the primitive may want another one. */
static bool add_operand(situ__dnnl *d, int which, int number, int n, const dnnl_dims_t dims, const dnnl_dims_t strides,
                        dnnl_data_type_t type) {
  d->operand[which].number = number;
  return d->operand[which].made = make_layout(&d->operand[which].plain, n, dims, type, strides);
}

static size_t bytes_of(layout l) { return dnnl.memory_desc_get_size(l); }

static dnnl_primitive_attr_t own_scratch(void) {
  dnnl_primitive_attr_t attr = NULL;
  if (dnnl.primitive_attr_create(&attr) != dnnl_success) return NULL;
  if (dnnl.primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user) == dnnl_success) return attr;
  dnnl.primitive_attr_destroy(attr);
  return NULL;
}

static bool make_reorder(side *o, bool result, dnnl_primitive_attr_t attr) {
  const layout plain = borrow(&o->plain);
  if (dnnl.memory_desc_equal(plain, o->wanted)) return true;
  dnnl_primitive_desc_t pd = NULL;
  if (dnnl.reorder_primitive_desc_create(&pd, result ? o->wanted : plain, engine, result ? plain : o->wanted, engine,
                                         attr) != dnnl_success)
    return false;
  const bool made = bytes_of(dnnl.primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0)) == 0 &&
                    dnnl.primitive_create(&o->reorder, pd) == dnnl_success;
  dnnl.primitive_desc_destroy(pd);
  return made;
}

/* Creates the primitive from its descriptor. Refuses reference implementations, which are hundreds of times slower than
   ours. */
static void finish(situ__dnnl *d, dnnl_primitive_attr_t attr) {
  const char *name = NULL;
  bool good = dnnl.primitive_desc_query(d->descriptor, dnnl_query_impl_info_str, 0, (void *)&name) == dnnl_success &&
              !strstr(name, "ref");
  d->name = name;
  for (int i = 0; i < SITU__DNNL_OPERANDS && good; i++) {
    side *o = &d->operand[i];
    if (!o->number) continue;
    o->wanted = dnnl.primitive_desc_query_md(d->descriptor, dnnl_query_exec_arg_md, o->number);
    good = o->wanted && make_reorder(o, i == SITU__DNNL_RESULT, attr);
  }
  d->scratch = dnnl.primitive_desc_query_md(d->descriptor, dnnl_query_scratchpad_md, 0);
  if (good && dnnl.primitive_create(&d->primitive, d->descriptor) != dnnl_success) d->primitive = NULL;
}

static void destroy(situ__dnnl *d) {
  for (int i = 0; i < SITU__DNNL_OPERANDS; i++) {
    if (d->operand[i].made) drop_layout(&d->operand[i].plain);
    if (d->operand[i].reorder) dnnl.primitive_destroy(d->operand[i].reorder);
  }
  if (d->primitive) dnnl.primitive_destroy(d->primitive);
  if (d->descriptor) dnnl.primitive_desc_destroy(d->descriptor);
  situ__free(d);
}

/* ---- the cache ---- */

enum { CACHED = 256 };
static situ__dnnl *cache[CACHED];
static uint64_t moment;
static situ__mutex lock = SITU__MUTEX_INIT;

/* Finds the entry for the key, or adds one that `make` fills in. */
static situ__dnnl *find(const key *of, bool (*make)(situ__dnnl *d, dnnl_primitive_attr_t attr, const void *payload),
                        const void *payload) {
  if (!situ__dnnl_is_there()) return NULL;
  situ__mutex_lock(&lock);
  situ__dnnl *d = NULL;
  int slot = -1; /* a free one, or else the least recently used */
  for (int i = 0; i < CACHED && !d; i++) {
    if (cache[i] && !memcmp(&cache[i]->of, of, sizeof *of)) d = cache[i];
    else if (slot < 0 ? !cache[i] || cache[i]->users == 0
                      : cache[slot] && (!cache[i] || (cache[i]->users == 0 && cache[i]->used < cache[slot]->used)))
      slot = i;
  }
  if (!d && slot >= 0 && (d = situ__alloc_uncounted(sizeof *d))) {
    memset(d, 0, sizeof *d);
    if (cache[slot]) destroy(cache[slot]);
    cache[slot] = d;
    d->of = *of;
    const int before = alone();
    dnnl_primitive_attr_t attr = own_scratch();
    if (attr && make(d, attr, payload)) finish(d, attr);
    if (attr) dnnl.primitive_attr_destroy(attr);
    as_before(before);
  }
  if (d && !d->primitive) d = NULL;
  if (d) d->users++, d->used = ++moment;
  situ__mutex_unlock(&lock);
  return d;
}

void situ__dnnl_close(situ__dnnl *d) {
  if (!d) return;
  situ__mutex_lock(&lock);
  d->users--;
  situ__mutex_unlock(&lock);
}

/* ---- convolution ---- */

typedef struct batch {
  const situ__conv *c;
  int64_t images;
} batch;

static void rows(const dnnl_dims_t dims, int n, dnnl_dims_t strides) {
  int64_t step = 1;
  for (int i = n - 1; i >= 0; step *= dims[i--]) strides[i] = step;
}

static void channels_last(const dnnl_dims_t dims, dnnl_dims_t strides) {
  strides[1] = 1, strides[3] = dims[1], strides[2] = dims[3] * dims[1], strides[0] = dims[2] * dims[3] * dims[1];
}

/* Layouts of the computation are free (`any`) in the gradients, too: with the forward pass's layouts oneDNN chooses its
   reference implementation. Images that are channels_last stay so: oneDNN computes with them as they are. */
static bool make_conv(situ__dnnl *d, dnnl_primitive_attr_t attr, const void *payload) {
  const batch *b = payload;
  const situ__conv *c = b->c;
  const situ_window *w = c->window;
  const bool grouped = c->groups > 1;
  const int wn = grouped ? 5 : 4;
  const dnnl_dims_t xd = { b->images, c->groups * c->channels, c->height, c->width },
                    yd = { b->images, c->groups * c->outputs, c->out_height, c->out_width };
  const dnnl_dims_t flat = { c->outputs, c->channels, w->kernel[0], w->kernel[1] };
  const dnnl_dims_t deep = { c->groups, c->outputs, c->channels, w->kernel[0], w->kernel[1] };
  const dnnl_dims_t strides = { w->stride[0], w->stride[1] }, dilates = { w->dilation[0] - 1, w->dilation[1] - 1 };
  const dnnl_dims_t before = { w->padding[0], w->padding[1] };
  /* The plane's end that the last window does not reach is negative padding. */
  const dnnl_dims_t after = {
    (c->out_height - 1) * w->stride[0] + w->dilation[0] * (w->kernel[0] - 1) + 1 - c->height - w->padding[0],
    (c->out_width - 1) * w->stride[1] + w->dilation[1] * (w->kernel[1] - 1) + 1 - c->width - w->padding[1]
  };
  const int64_t *wd = grouped ? deep : flat;
  const dnnl_data_type_t type = dnnl_f32;
  dnnl_dims_t xs, ws, ys;
  rows(xd, 4, xs), rows(wd, wn, ws), rows(yd, 4, ys);
  if (c->channels_last) channels_last(xd, xs), channels_last(yd, ys);
  const int source[] = { DNNL_ARG_SRC, DNNL_ARG_DIFF_SRC, DNNL_ARG_SRC },
            weights[] = { DNNL_ARG_WEIGHTS, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_WEIGHTS };
  const int target[] = { DNNL_ARG_DST, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_DST };
  const int at[][3] = { { 0, 1, SITU__DNNL_RESULT },
                        { SITU__DNNL_RESULT, 1, 0 },
                        { 0, SITU__DNNL_RESULT, 1 } }; /* of x, w, y */
  if (!add_operand(d, at[c->pass][0], source[c->pass], 4, xd, xs, type) ||
      !add_operand(d, at[c->pass][1], weights[c->pass], wn, wd, ws, type) ||
      !add_operand(d, at[c->pass][2], target[c->pass], 4, yd, ys, type))
    return false;

  dnnl_memory_desc_t x, y, k;
  bool x_made = make_layout(&x, 4, xd, type, c->channels_last ? xs : NULL),
       y_made = make_layout(&y, 4, yd, type, c->channels_last ? ys : NULL),
       k_made = make_layout(&k, wn, wd, type, NULL);
  dnnl_primitive_desc_t forward = NULL;
  dnnl_status_t status = x_made && y_made && k_made ? dnnl_success : dnnl_out_of_memory;
#if DNNL_VERSION_MAJOR >= 3
  const dnnl_alg_kind_t direct = dnnl_convolution_direct;
  if (status == dnnl_success)
    status = dnnl.convolution_forward_primitive_desc_create(&forward, engine, dnnl_forward_training, direct, x, k, NULL,
                                                            y, strides, dilates, before, after, attr);
  if (status == dnnl_success && c->pass == SITU_CONV_GRAD_DATA)
    status = dnnl.convolution_backward_data_primitive_desc_create(&d->descriptor, engine, direct, x, k, y, strides,
                                                                  dilates, before, after, forward, attr);
  if (status == dnnl_success && c->pass == SITU_CONV_GRAD_WEIGHT)
    status = dnnl.convolution_backward_weights_primitive_desc_create(&d->descriptor, engine, direct, x, k, NULL, y,
                                                                     strides, dilates, before, after, forward, attr);
#else
  dnnl_convolution_desc_t plan;
  if (status == dnnl_success)
    status = dnnl.dilated_convolution_forward_desc_init(&plan, dnnl_forward_training, dnnl_convolution_direct, &x, &k,
                                                        NULL, &y, strides, dilates, before, after);
  if (status == dnnl_success) status = dnnl.primitive_desc_create(&forward, &plan, attr, engine, NULL);
  if (status == dnnl_success && c->pass != SITU_CONV_FORWARD) {
    status = c->pass == SITU_CONV_GRAD_DATA
                 ? dnnl.dilated_convolution_backward_data_desc_init(&plan, dnnl_convolution_direct, &x, &k, &y, strides,
                                                                    dilates, before, after)
                 : dnnl.dilated_convolution_backward_weights_desc_init(&plan, dnnl_convolution_direct, &x, &k, NULL, &y,
                                                                       strides, dilates, before, after);
    if (status == dnnl_success) status = dnnl.primitive_desc_create(&d->descriptor, &plan, attr, engine, forward);
  }
#endif
  if (c->pass == SITU_CONV_FORWARD) d->descriptor = forward;
  else if (forward) dnnl.primitive_desc_destroy(forward);
  if (x_made) drop_layout(&x);
  if (y_made) drop_layout(&y);
  if (k_made) drop_layout(&k);
  return status == dnnl_success;
}

situ__dnnl *situ__dnnl_conv(const situ__conv *c, int64_t images) {
  const situ_window *w = c->window;
  const key of = { { 1,
                     c->pass,
                     c->dtype,
                     images,
                     c->groups,
                     c->channels,
                     c->outputs,
                     c->height,
                     c->width,
                     c->out_height,
                     c->out_width,
                     w->kernel[0],
                     w->kernel[1],
                     w->stride[0],
                     w->stride[1],
                     w->padding[0],
                     w->padding[1],
                     w->dilation[0],
                     w->dilation[1],
                     c->channels_last } };
  return find(&of, make_conv, &(batch){ c, images });
}

/* ---- running ---- */

size_t situ__dnnl_bytes(const situ__dnnl *d, int operand) {
  return d->operand[operand].reorder ? bytes_of(d->operand[operand].wanted) : 0;
}
size_t situ__dnnl_scratch(const situ__dnnl *d) { return bytes_of(d->scratch); }
const char *situ__dnnl_name(const situ__dnnl *d) { return d->name; }

typedef struct argument {
  int number;
  layout lies;
  void *data;
} argument;

/* Memory objects are created for each call: that costs less than a lookup in a table that threads share. */
static bool execute(const_dnnl_primitive_t primitive, const argument *list, int count) {
  dnnl_exec_arg_t arg[SITU__DNNL_OPERANDS + 1];
  dnnl_stream_t stream = NULL;
  int made = 0;
  bool good = dnnl.stream_create(&stream, engine, dnnl_stream_default_flags) == dnnl_success;
  for (; good && made < count; made += good) {
    arg[made].arg = list[made].number;
    good = dnnl.memory_create(&arg[made].memory, list[made].lies, engine, list[made].data) == dnnl_success;
  }
  const int before = alone();
  good = good && dnnl.primitive_execute(primitive, stream, count, arg) == dnnl_success &&
         dnnl.stream_wait(stream) == dnnl_success;
  as_before(before);
  while (made > 0) dnnl.memory_destroy(arg[--made].memory);
  if (stream) dnnl.stream_destroy(stream);
  return good;
}

bool situ__dnnl_arrange(const situ__dnnl *d, int operand, void *from, void *to) {
  const side *o = &d->operand[operand];
  const bool result = operand == SITU__DNNL_RESULT;
  const layout plain = borrow(&o->plain);
  return execute(o->reorder,
                 (argument[]){ { DNNL_ARG_FROM, result ? o->wanted : plain, from },
                               { DNNL_ARG_TO, result ? plain : o->wanted, to } },
                 2);
}

bool situ__dnnl_run(const situ__dnnl *d, void *const operand[SITU__DNNL_OPERANDS], void *scratch) {
  argument list[SITU__DNNL_OPERANDS + 1];
  int count = 0;
  for (int i = 0; i < SITU__DNNL_OPERANDS; i++)
    if (d->operand[i].number) list[count++] = (argument){ d->operand[i].number, d->operand[i].wanted, operand[i] };
  if (bytes_of(d->scratch) > 0) list[count++] = (argument){ DNNL_ARG_SCRATCHPAD, d->scratch, scratch };
  return execute(d->primitive, list, count);
}

#endif
