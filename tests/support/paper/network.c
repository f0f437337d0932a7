/* The network on paper. See paper.h. A rank that has asked for everything in vain sleeps. When all do, the earliest thing
   that is on its way to one of them comes: that rank's clock goes on to it. (A discrete-event simulation: nothing that is
   sent from now on can come before it.)
   SPDX-License-Identifier: MIT */
#include "support/paper/paper.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "situ/sys/comm_device.h"

/* Questions without an answer before a rank goes to sleep: a pass over all its calls asks fewer. */
enum { PATIENCE = 24, TAGS = 4, WAYS = 2 };

typedef struct message {
  struct message *next;
  double ready;
  size_t bytes;
  char data[];
} message;

/* What has come from one rank with one tag, and is not asked for yet. */
typedef struct mailbox {
  message *first, *last;
} mailbox;

/* A collective that not all ranks have ended. */
typedef struct meeting {
  struct meeting *next;
  int64_t number;
  int way, come, left;
  bool met;
  double ready;
  situ_comm_transfer *part; /* of each rank */
} meeting;

typedef struct transfer {
  struct transfer *next; /* the later receive of the same messages */
  situ_comm_transfer what;
  meeting *meeting; /* NULL: a message */
  bool waits;       /* a receive */
} transfer;

struct paper_rank {
  paper_world *world;
  int rank;
  pthread_cond_t awake;
  bool asleep;
  mailbox (*box)[TAGS];     /* from each rank */
  transfer *(*asked)[TAGS]; /* receives of each, the oldest first */
  int64_t number[WAYS];     /* of its collectives */
  int vain;                 /* questions since the last answer */
  double earliest;          /* of the answers to those; INFINITY: not known */
  paper_count count;
};

struct paper_world {
  int size, running; /* ranks that are not asleep */
  paper_costs costs;
  pthread_mutex_t lock; /* of all that ranks share */
  meeting *meetings;
  paper_rank *rank;
};

_Thread_local paper_rank *paper_me;

/* ---- clocks ---- */

void paper_compute(double bytes, double flops) {
  paper_rank *r = paper_me;
  if (!r) return;
  const paper_costs *c = &r->world->costs;
  const double time = fmax(bytes / c->memory, flops / c->flops);
  r->count.time += c->launch;
  r->count.device = fmax(r->count.device, r->count.time) + time;
  r->count.computing += time;
  r->count.kernels++;
  r->vain = 0;
  r->earliest = INFINITY;
}

void paper_wait(void) {
  if (paper_me) paper_me->count.time = fmax(paper_me->count.time, paper_me->count.device);
}

paper_count paper_now(void) { return paper_me->count; }

/* By the usual algorithm of each: pairs, rings, a binomial tree. bytes: of a block, or of the whole. */
static double time_of(const paper_world *w, situ_comm_op op, double bytes) {
  const double hop = w->costs.latency, each = bytes / w->costs.bandwidth, others = w->size - 1,
               rounds = ceil(log2(w->size));
  switch (op) {
  case SITU_COMM_ALL_TO_ALL:
  case SITU_COMM_ALL_GATHER:
  case SITU_COMM_REDUCE_SCATTER: return others * (hop + each);
  case SITU_COMM_ALL_REDUCE: return 2 * others * (hop + each / w->size);
  case SITU_COMM_BROADCAST: return rounds * hop + each;
  default: return rounds * hop;
  }
}

/* ---- sleep ---- */

/* All ranks sleep: wakes those to whom the next thing comes, and what can come before anything that it may cause. Where
   nothing is on its way, all of them, whose deadlines are those of the library. */
static void go_on(paper_world *w) {
  double first = INFINITY;
  for (int k = 0; k < w->size; k++)
    if (w->rank[k].asleep) first = fmin(first, w->rank[k].earliest);
  for (int k = 0; k < w->size; k++) {
    paper_rank *r = &w->rank[k];
    if (!r->asleep || r->earliest > first + w->costs.latency) continue;
    if (isfinite(first)) r->count.time = fmax(r->count.time, r->earliest);
    r->asleep = false;
    w->running++;
    pthread_cond_signal(&r->awake);
  }
}

/* The lock is held. */
static void leave(paper_world *w) {
  if (--w->running == 0) go_on(w);
}

static void sleep_now(paper_rank *r) {
  r->asleep = true;
  leave(r->world);
  while (r->asleep) pthread_cond_wait(&r->awake, &r->world->lock);
  r->vain = 0;
  r->earliest = INFINITY;
}

/* ready: when it will have come, or INFINITY. The lock is held. */
static void asked_in_vain(paper_rank *r, double ready) {
  r->earliest = fmin(r->earliest, ready);
  if (++r->vain == PATIENCE) sleep_now(r);
}

/* Something is on its way to a rank. The lock is held. */
static void tell(paper_rank *r, double ready) {
  if (r->asleep) r->earliest = fmin(r->earliest, ready);
}

/* ---- messages ---- */

static size_t bytes_of(const situ_comm_transfer *t) { return (size_t)t->count * paper_size(t->dtype); }

static bool send_message(paper_rank *from, const situ_comm_transfer *t) {
  paper_rank *to = &from->world->rank[t->peer];
  const size_t bytes = bytes_of(t), kept = bytes <= PAPER_REAL ? bytes : 0;
  message *m = malloc(sizeof *m + kept);
  if (!m) return false;
  from->count.time += from->world->costs.launch;
  from->count.headers++;
  from->count.header_bytes += (int64_t)bytes;
  *m = (message){ .bytes = kept,
                  .ready =
                      from->count.time + from->world->costs.latency + (double)bytes / from->world->costs.bandwidth };
  if (kept) memcpy(m->data, t->send, kept);
  pthread_mutex_lock(&from->world->lock);
  mailbox *box = &to->box[from->rank][t->tag];
  if (box->last) box->last->next = m;
  else box->first = m;
  box->last = m;
  tell(to, m->ready);
  pthread_mutex_unlock(&from->world->lock);
  return true;
}

static void ask(paper_rank *r, transfer *t) {
  transfer **at = &r->asked[t->what.peer][t->what.tag];
  while (*at) at = &(*at)->next;
  *at = t;
  t->waits = true;
}

static void forget(paper_rank *r, const transfer *t) {
  transfer **at = &r->asked[t->what.peer][t->what.tag];
  while (*at && *at != t) at = &(*at)->next;
  if (*at) *at = t->next;
}

/* The lock is held, as in end_meeting. */
static bool receive_message(paper_rank *r, const transfer *t) {
  if (r->asked[t->what.peer][t->what.tag] != t) return false;
  mailbox *box = &r->box[t->what.peer][t->what.tag];
  message *m = box->first;
  if (!m || m->ready > r->count.time) return asked_in_vain(r, m ? m->ready : INFINITY), false;
  if (!(box->first = m->next)) box->last = NULL;
  if (m->bytes) memcpy(t->what.receive, m->data, m->bytes);
  free(m);
  return true;
}

/* ---- collectives ---- */

static bool is_real(const situ_comm_transfer *t) {
  return paper_is_real(t->send) && paper_is_real(t->receive) && bytes_of(t) <= PAPER_REAL;
}

static void reduce(void *into, const void *from, const situ_comm_transfer *t) {
  for (int64_t i = 0; i < t->count; i++) switch (t->dtype) {
#define REDUCE(type)                                                        \
  {                                                                         \
    type *a = into;                                                         \
    const type b = ((const type *)from)[i];                                 \
    if (t->reduction == SITU_COMM_SUM) a[i] = (type)(a[i] + b);             \
    else if (t->reduction == SITU_COMM_MIN ? b < a[i] : b > a[i]) a[i] = b; \
    break;                                                                  \
  }
    case SITU_U8: REDUCE(uint8_t)
    case SITU_I32: REDUCE(int32_t)
    case SITU_I64: REDUCE(int64_t)
    case SITU_F32: REDUCE(float)
    case SITU_F64: REDUCE(double)
    default: break;
    }
}

/* What one rank gets. */
static void move_to(const meeting *m, int size, int to) {
  const situ_comm_transfer *t = &m->part[to];
  const size_t bytes = bytes_of(t);
  char *into = t->receive;
  for (int from = 0; from < size && bytes; from++) {
    const char *send = m->part[from].send;
    if (t->op == SITU_COMM_ALL_GATHER) memcpy(into + (size_t)from * bytes, send, bytes);
    if (t->op == SITU_COMM_ALL_TO_ALL) memcpy(into + (size_t)from * bytes, send + (size_t)to * bytes, bytes);
    if (t->op == SITU_COMM_BROADCAST && t->peer == from) memcpy(into, send, bytes);
    if (t->op != SITU_COMM_ALL_REDUCE && t->op != SITU_COMM_REDUCE_SCATTER) continue;
    if (t->op == SITU_COMM_REDUCE_SCATTER) send += (size_t)to * bytes;
    if (from == 0) memcpy(into, send, bytes);
    else reduce(into, send, t);
  }
}

static void move_values(const meeting *m, int size) {
  const situ_comm_transfer *t = &m->part[0];
  for (int to = 0; to < size; to++) {
    if (!is_real(&m->part[to])) continue;
    if (t->op == SITU_COMM_ALL_REDUCE && to) memcpy(m->part[to].receive, t->receive, bytes_of(t));
    else move_to(m, size, to);
  }
}

/* The library keeps a call's memory until the call has ended, which all ranks have begun by then. */
static meeting *join_meeting(paper_rank *r, int way, const situ_comm_transfer *t, double begins) {
  paper_world *w = r->world;
  const int64_t number = r->number[way]++;
  const bool blocks = t->op == SITU_COMM_ALL_TO_ALL || t->op == SITU_COMM_REDUCE_SCATTER;
  r->count.calls++;
  r->count.call_bytes += t->send || way ? (int64_t)bytes_of(t) * (blocks ? w->size : 1) : 0;
  pthread_mutex_lock(&w->lock);
  meeting *m = w->meetings;
  while (m && (m->number != number || m->way != way)) m = m->next;
  if (!m && (m = calloc(1, sizeof *m)) && (m->part = calloc((size_t)w->size, sizeof *m->part))) {
    m->number = number, m->way = way;
    m->next = w->meetings;
    w->meetings = m;
  }
  m->part[r->rank] = *t;
  m->ready = fmax(m->ready, begins);
  if (++m->come == w->size) {
    m->ready += time_of(w, t->op, (double)bytes_of(t));
    move_values(m, w->size);
    m->met = true;
    for (int k = 0; k < w->size; k++) tell(&w->rank[k], m->ready);
  }
  pthread_mutex_unlock(&w->lock);
  return m;
}

static bool end_meeting(paper_rank *r, meeting *m) {
  paper_world *w = r->world;
  if (m->met && m->way) r->count.network = fmax(r->count.network, m->ready);
  if (!m->met || m->ready > r->count.time) return asked_in_vain(r, m->met ? m->ready : INFINITY), false;
  if (++m->left < w->size) return true;
  meeting **at = &w->meetings;
  while (*at != m) at = &(*at)->next;
  *at = m->next;
  free(m->part);
  free(m);
  return true;
}

/* ---- the engines ---- */

static situ_status begin_on(paper_rank *r, int way, const situ_comm_transfer *what, void **request) {
  transfer *t = calloc(1, sizeof *t);
  if (!t) return SITU_E_NOMEM;
  t->what = *what;
  *request = t;
  if (what->op == SITU_COMM_RECEIVE) return ask(r, t), SITU_OK;
  if (what->op == SITU_COMM_SEND) return send_message(r, what) ? SITU_OK : SITU_E_NOMEM;
  const double begins = way ? fmax(fmax(r->count.time, r->count.device), r->count.network) : r->count.time;
  if (way) r->count.transferring += time_of(r->world, what->op, (double)bytes_of(what));
  t->meeting = join_meeting(r, way, what, begins);
  return SITU_OK;
}

static situ_status begin_host(void *state, const situ_comm_transfer *what, void **request, situ_comm_report *report) {
  *report = (situ_comm_report){ .rank = -1 };
  return begin_on(state, 0, what, request);
}
static situ_status begin_device(void *state, const situ_comm_transfer *what, void **request, situ_comm_report *report) {
  *report = (situ_comm_report){ .rank = -1 };
  return begin_on(state, 1, what, request);
}

static situ_status test(void *state, void *request, bool *done, situ_comm_report *report) {
  paper_rank *r = state;
  transfer *t = request;
  (void)report;
  pthread_mutex_lock(&r->world->lock);
  *done = t->meeting ? end_meeting(r, t->meeting) : t->waits ? receive_message(r, t) : true;
  if (*done) r->vain = 0, r->earliest = INFINITY;
  pthread_mutex_unlock(&r->world->lock);
  if (!*done) return SITU_OK;
  if (t->waits) forget(r, t);
  free(t);
  return SITU_OK;
}

static bool abandon(void *state, void *request) {
  transfer *t = request;
  if (t->waits) forget(state, t);
  free(t);
  return true;
}

/* Of the host's engine: the rank is gone. */
static void release(void *state, bool failed) {
  paper_rank *r = state;
  (void)failed;
  pthread_mutex_lock(&r->world->lock);
  leave(r->world);
  pthread_mutex_unlock(&r->world->lock);
}
static void keep(void *state, bool failed) { (void)state, (void)failed; }

const situ_comm_engine paper_network = { "paper", begin_host, test, abandon, release, 0 };

static bool carries(situ_comm_op op, situ_dtype dtype) {
  (void)dtype;
  return op != SITU_COMM_SEND && op != SITU_COMM_RECEIVE;
}

static situ_status identify(int index, unsigned char id[SITU_COMM_ID]) {
  (void)index;
  if (id) memset(id, 0, SITU_COMM_ID);
  return SITU_OK;
}

static situ_status join(int index, const unsigned char id[SITU_COMM_ID], int rank, int size, void **state) {
  (void)index, (void)id, (void)rank, (void)size;
  *state = paper_me;
  return SITU_OK;
}

const situ_comm_device_engine situ_module_comm_engine = {
  .size = sizeof situ_module_comm_engine,
  .engine = { "nccl", begin_device, test, abandon, keep, 0 },
  .carries = carries,
  .identify = identify,
  .join = join,
};

/* ---- the world ---- */

void *paper_enter(paper_world *w, int rank) { return paper_me = &w->rank[rank]; }

paper_world *paper_world_new(int size, const paper_costs *costs) {
  paper_world *w = calloc(1, sizeof *w);
  w->size = w->running = size;
  w->costs = *costs;
  pthread_mutex_init(&w->lock, NULL);
  w->rank = calloc((size_t)size, sizeof *w->rank);
  for (int r = 0; r < size; r++) {
    w->rank[r] = (paper_rank){ .world = w, .rank = r, .earliest = INFINITY };
    w->rank[r].box = calloc((size_t)size, sizeof *w->rank[r].box);
    w->rank[r].asked = calloc((size_t)size, sizeof *w->rank[r].asked);
    pthread_cond_init(&w->rank[r].awake, NULL);
  }
  return w;
}

void paper_world_free(paper_world *w) {
  for (int r = 0; r < w->size; r++) {
    for (int from = 0; from < w->size; from++)
      for (int tag = 0; tag < TAGS; tag++)
        for (message *m = w->rank[r].box[from][tag].first, *next; m; m = next) next = m->next, free(m);
    free(w->rank[r].box);
    free(w->rank[r].asked);
    pthread_cond_destroy(&w->rank[r].awake);
  }
  free(w->rank);
  pthread_mutex_destroy(&w->lock);
  free(w);
}
