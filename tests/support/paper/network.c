/* The network on paper. See paper.h. One rank runs at a time. One that asks for something in vain gives way to all whose
   clocks are earlier, and asks again; one that has asked for everything in vain sleeps, and its clock goes on to the
   earliest thing that is on its way to it. (A conservative discrete-event simulation: a rank learns that something has
   not come by its time only when no rank can send it any more, so a run depends on the clocks alone.)
   SPDX-License-Identifier: MIT */
#include "support/paper/paper.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "situ/sys/comm_device.h"

/* Questions that a pass over all calls asks, but for those of the calls themselves. */
enum { OTHER_QUESTIONS = 16, TAGS = 2, WAYS = 2 };

typedef struct message {
  struct message *next;
  double ready;
  int from, tag;
  size_t bytes;
  char data[];
} message;

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

typedef struct port port;

/* The ranks of one communicator. */
typedef struct group {
  struct group *next;
  int id, size, joined;
  port **port; /* of each rank */
  meeting *meetings;
} group;

/* A communicator on one rank: the state of both its engines. */
struct port {
  port *next; /* of the same rank, made before */
  group *group;
  paper_rank *owner;
  int rank;
  message *first, **last;   /* that have come and are not asked for yet, in their order */
  transfer *(*asked)[TAGS]; /* receives of each rank, the oldest first */
  int64_t number[WAYS];     /* of its collectives */
};

struct paper_rank {
  paper_world *world;
  port *ports; /* the newest first */
  pthread_cond_t awake;
  int open;     /* transfers under way, but for headers that may come */
  int vain;     /* questions since the last answer */
  double *due;  /* of what it is known to wait for, while another rank runs; INFINITY: not known; NAN: it has left */
  double alone; /* no other rank can cause anything before */
  paper_count count;
};

struct paper_world {
  int size;
  paper_costs costs;
  pthread_mutex_t lock; /* of the turn */
  paper_rank *turn;     /* NULL: no rank has come yet */
  int come;
  bool stuck; /* all wait, and nothing is on its way */
  group *groups;
  paper_rank *rank;
  double *due; /* of each rank */
};

_Thread_local paper_rank *paper_me;

/* ---- clocks ---- */

static void has_gone_on(paper_rank *r) {
  r->vain = 0;
  *r->due = INFINITY;
}

void paper_compute(double bytes, double flops) {
  paper_rank *r = paper_me;
  if (!r) return;
  const paper_costs *c = &r->world->costs;
  const double time = fmax(bytes / c->memory, flops / c->flops);
  r->count.time += c->launch;
  r->count.device = fmax(r->count.device, r->count.time) + time;
  r->count.computing += time;
  r->count.kernels++;
  has_gone_on(r);
}

void paper_wait(void) {
  if (paper_me) paper_me->count.time = fmax(paper_me->count.time, paper_me->count.device);
}

paper_count paper_now(void) { return paper_me->count; }

static size_t bytes_of(const situ_comm_transfer *t) { return (size_t)t->count * paper_size(t->dtype); }

/* Of an all_to_all: how many of the others are in this rank's node. */
static int count_near(const port *p, const situ_comm_transfer *t) {
  const int node = p->owner->world->costs.node;
  int near = 0;
  for (int k = 0; node && k < t->members; k++) near += (t->first + k * t->apart) / node == p->rank / node;
  return near ? near - 1 : 0;
}

/* What a rank sends to other nodes. Rings of all ranks, one for each of a node: each leaves the node by another one's
   link. */
static double edge_bytes(const port *p, const situ_comm_transfer *t) {
  const int node = p->owner->world->costs.node ? p->owner->world->costs.node : 1;
  const double others = p->group->size - 1, bytes = (double)bytes_of(t);
  switch (t->op) {
  case SITU_COMM_ALL_TO_ALL: return (t->members - 1 - count_near(p, t)) * bytes;
  case SITU_COMM_ALL_GATHER:
  case SITU_COMM_REDUCE_SCATTER: return others * bytes / node;
  case SITU_COMM_ALL_REDUCE: return 2 * others * bytes / p->group->size / node;
  default: return bytes;
  }
}

/* By the usual algorithm of each: pairs, rings, a binomial tree. A rank uses its links to its own node and to others at
   one time. */
static double time_of(const port *p, const situ_comm_transfer *t) {
  const paper_costs *c = &p->owner->world->costs;
  const double hop = c->latency, far = edge_bytes(p, t) / c->bandwidth, others = p->group->size - 1,
               rounds = ceil(log2(p->group->size)), bytes = (double)bytes_of(t), near = c->node ? count_near(p, t) : 0;
  const double inside = c->node ? others * bytes / c->near_bandwidth : 0;
  switch (t->op) {
  case SITU_COMM_ALL_TO_ALL:
    return fmax(near ? near * (c->near_latency + bytes / c->near_bandwidth) : 0, (t->members - 1 - near) * hop + far);
  case SITU_COMM_ALL_GATHER:
  case SITU_COMM_REDUCE_SCATTER: return others * hop + fmax(inside, far);
  case SITU_COMM_ALL_REDUCE: return 2 * others * hop + fmax(2 * inside / p->group->size, far);
  case SITU_COMM_BROADCAST: return rounds * hop + far;
  default: return rounds * hop;
  }
}

/* ---- turns ---- */

/* The one that goes on first; NULL: all are gone. */
static paper_rank *find_next(const paper_world *w) {
  int next = 0;
  for (int k = 1; k < w->size; k++)
    if (w->due[k] < w->due[next] || isnan(w->due[next])) next = k;
  return isnan(w->due[next]) ? NULL : &w->rank[next];
}

static void give_turn(paper_world *w, paper_rank *next) {
  if (!next) return;
  w->stuck = w->stuck || isinf(*next->due);
  w->turn = next;
  pthread_cond_signal(&next->awake);
}

static void wait_for_turn(paper_rank *r) {
  while (r->world->turn != r) pthread_cond_wait(&r->awake, &r->world->lock);
}

/* r goes on at *r->due. */
static void pass_turn(paper_rank *r) {
  paper_rank *next = find_next(r->world);
  if (next == r) r->world->stuck = r->world->stuck || isinf(*r->due);
  else {
    pthread_mutex_lock(&r->world->lock);
    give_turn(r->world, next);
    wait_for_turn(r);
    pthread_mutex_unlock(&r->world->lock);
  }
  if (isfinite(*r->due)) r->count.time = fmax(r->count.time, *r->due);
  has_gone_on(r);
}

/* What is on its way to r, whether it has asked for it or not. */
static double earliest_message(const paper_rank *r) {
  double first = INFINITY;
  for (const port *p = r->ports; p; p = p->next)
    for (const message *m = p->first; m; m = m->next)
      if (m->ready > r->count.time) first = fmin(first, m->ready);
  return first;
}

/* Whether ranks that are earlier than r have run meanwhile: then it asks for everything again. */
static bool give_way(paper_rank *r) {
  const double now = r->count.time, due = *r->due;
  if (r->alone >= now) return false;
  r->alone = now;
  *r->due = INFINITY;
  if (*find_next(r->world)->due + r->world->costs.latency < now) {
    *r->due = now;
    return pass_turn(r), true;
  }
  *r->due = due;
  return false;
}

/* ready: when it will have come, or INFINITY. Whether r asks again. */
static bool asks_again(paper_rank *r, double ready) {
  if (give_way(r)) return true;
  *r->due = fmin(*r->due, ready);
  if (++r->vain < 2 * (OTHER_QUESTIONS + r->open)) return false;
  *r->due = fmin(*r->due, earliest_message(r));
  pass_turn(r);
  return false;
}

/* Something is on its way to a rank that waits. */
static void tell(const paper_rank *r, double ready) {
  if (!isnan(*r->due)) *r->due = fmin(*r->due, fmax(ready, r->count.time));
}

/* In place of libc's: between its questions the library gives up the processor, then naps. A rank that waits has passed
   its turn on, and each nap of one would hold up all others. */
int sched_yield(void) { return 0; }
int nanosleep(const struct timespec *time, struct timespec *left) {
  (void)time, (void)left;
  return 0;
}

/* ---- messages ---- */

static void count_message(paper_count *c, const situ_comm_transfer *t) {
  const bool header = t->tag == 1;
  *(header ? &c->headers : &c->values) += 1;
  *(header ? &c->header_bytes : &c->value_bytes) += (int64_t)bytes_of(t);
}

static bool send_message(const port *from, const situ_comm_transfer *t) {
  port *to = from->group->port[t->peer];
  const paper_costs *c = &from->owner->world->costs;
  const size_t bytes = bytes_of(t), kept = bytes <= PAPER_REAL ? bytes : 0;
  message *m = malloc(sizeof *m + kept);
  if (!m) return false;
  from->owner->count.time += c->launch;
  count_message(&from->owner->count, t);
  *m = (message){ .bytes = kept,
                  .from = from->rank,
                  .tag = t->tag,
                  .ready = from->owner->count.time + c->latency + (double)bytes / c->bandwidth };
  if (kept) memcpy(m->data, t->send, kept);
  *to->last = m;
  to->last = &m->next;
  tell(to->owner, m->ready);
  return true;
}

static transfer **asked_of(const port *p, const transfer *t) { return &p->asked[t->what.peer][t->what.tag - 1]; }

static void ask(const port *p, transfer *t) {
  transfer **at = asked_of(p, t);
  while (*at) at = &(*at)->next;
  *at = t;
  t->waits = true;
}

static void forget(const port *p, const transfer *t) {
  transfer **at = asked_of(p, t);
  while (*at && *at != t) at = &(*at)->next;
  if (*at) *at = t->next;
}

/* Sets when it will have come. */
static bool receive_message(port *p, const transfer *t, double *ready) {
  if (*asked_of(p, t) != t) return false;
  message **at = &p->first;
  while (*at && ((*at)->from != t->what.peer || (*at)->tag != t->what.tag)) at = &(*at)->next;
  message *m = *at;
  if (m) *ready = m->ready;
  if (!m || m->ready > p->owner->count.time) return false;
  *at = m->next;
  if (!*at) p->last = at;
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
    if (t->op == SITU_COMM_BROADCAST && t->peer == from) memcpy(into, send, bytes);
    if (t->op != SITU_COMM_ALL_REDUCE && t->op != SITU_COMM_REDUCE_SCATTER) continue;
    if (t->op == SITU_COMM_REDUCE_SCATTER) send += (size_t)to * bytes;
    if (from == 0) memcpy(into, send, bytes);
    else reduce(into, send, t);
  }
}

static void move_group(const meeting *m, int to) {
  const situ_comm_transfer *t = &m->part[to];
  const size_t bytes = bytes_of(t), mine = (size_t)((to - t->first) / t->apart) * bytes;
  for (int k = 0; k < t->members && bytes; k++)
    memcpy((char *)t->receive + (size_t)k * bytes, (const char *)m->part[t->first + k * t->apart].send + mine, bytes);
}

static void move_values(const meeting *m, int size) {
  const situ_comm_transfer *t = &m->part[0];
  for (int to = 0; to < size; to++) {
    if (!is_real(&m->part[to])) continue;
    if (t->op == SITU_COMM_ALL_TO_ALL) move_group(m, to);
    else if (t->op == SITU_COMM_ALL_REDUCE && to) memcpy(m->part[to].receive, t->receive, bytes_of(t));
    else move_to(m, size, to);
  }
}

/* The library keeps a call's memory until the call has ended, which all ranks have begun by then. */
static meeting *join_meeting(port *p, int way, const situ_comm_transfer *t, double begins) {
  group *g = p->group;
  paper_count *c = &p->owner->count;
  const int64_t number = p->number[way]++;
  const int blocks = t->op == SITU_COMM_ALL_TO_ALL ? t->members : t->op == SITU_COMM_REDUCE_SCATTER ? g->size : 1;
  c->calls++;
  c->call_bytes += t->send || way ? (int64_t)bytes_of(t) * blocks : 0;
  c->edge_bytes += way ? edge_bytes(p, t) : 0;
  meeting *m = g->meetings;
  while (m && (m->number != number || m->way != way)) m = m->next;
  if (!m && (m = calloc(1, sizeof *m)) && (m->part = calloc((size_t)g->size, sizeof *m->part))) {
    m->number = number, m->way = way;
    m->next = g->meetings;
    g->meetings = m;
  }
  m->part[p->rank] = *t;
  m->ready = fmax(m->ready, begins);
  if (++m->come < g->size) return m;
  m->ready += time_of(p, t);
  move_values(m, g->size);
  m->met = true;
  for (int k = 0; k < g->size; k++) tell(g->port[k]->owner, m->ready);
  return m;
}

/* Sets when it will have ended. */
static bool end_meeting(const port *p, meeting *m, double *ready) {
  paper_count *c = &p->owner->count;
  if (m->met && m->way) c->network = fmax(c->network, m->ready);
  if (m->met) *ready = m->ready;
  if (!m->met || m->ready > c->time) return false;
  if (++m->left < p->group->size) return true;
  meeting **at = &p->group->meetings;
  while (*at != m) at = &(*at)->next;
  *at = m->next;
  free(m->part);
  free(m);
  return true;
}

/* ---- the engines ---- */

static bool is_counted(const transfer *t) { return !t->waits || t->what.tag != 1; }

static situ_status begin_on(port *p, int way, const situ_comm_transfer *what, void **request) {
  transfer *t = calloc(1, sizeof *t);
  paper_count *c = &p->owner->count;
  if (!t) return SITU_E_NOMEM;
  t->what = *what;
  *request = t;
  has_gone_on(p->owner);
  if (what->op == SITU_COMM_RECEIVE) ask(p, t);
  p->owner->open += is_counted(t);
  if (what->op == SITU_COMM_RECEIVE) return SITU_OK;
  if (what->op == SITU_COMM_SEND) return send_message(p, what) ? SITU_OK : SITU_E_NOMEM;
  const double *mark = what->behind;
  const double begins = way ? fmax(fmax(c->time, mark ? *mark : c->device), c->network) : c->time;
  free(what->behind);
  if (way) c->transferring += time_of(p, what);
  t->meeting = join_meeting(p, way, what, begins);
  return SITU_OK;
}

static situ_status begin_host(void *state, const situ_comm_transfer *what, void **request, situ_comm_report *report) {
  *report = (situ_comm_report){ .rank = -1 };
  return begin_on(state, 0, what, request);
}
/* When the device will have done what it has now. */
static situ_status mark(void *state, void **made, situ_comm_report *report) {
  const paper_count *c = &((const port *)state)->owner->count;
  double *at = *made = malloc(sizeof *at);
  *report = (situ_comm_report){ .rank = -1 };
  if (at) *at = fmax(c->time, c->device);
  return at ? SITU_OK : SITU_E_NOMEM;
}

static void forget_mark(void *state, void *made) {
  (void)state;
  free(made);
}

static situ_status begin_device(void *state, const situ_comm_transfer *what, void **request, situ_comm_report *report) {
  *report = (situ_comm_report){ .rank = -1 };
  return begin_on(state, 1, what, request);
}

static void end_transfer(port *p, transfer *t) {
  p->owner->open -= is_counted(t);
  if (t->waits) forget(p, t);
  free(t);
}

static bool has_ended(port *p, const transfer *t, double *ready) {
  *ready = INFINITY;
  return t->meeting ? end_meeting(p, t->meeting, ready) : !t->waits || receive_message(p, t, ready);
}

static situ_status test(void *state, void *request, bool *done, situ_comm_report *report) {
  port *p = state;
  transfer *t = request;
  double ready;
  while (!(*done = has_ended(p, t, &ready)) && asks_again(p->owner, ready)) {}
  if (*done) has_gone_on(p->owner);
  else if (!p->owner->world->stuck) return SITU_OK;
  else (void)snprintf(report->text, sizeof report->text, "all ranks wait, and nothing is on its way");
  end_transfer(p, t);
  return *done ? SITU_OK : SITU_E_COMM;
}

static bool abandon(void *state, void *request) {
  end_transfer(state, request);
  return true;
}

static void keep(void *state, bool failed) { (void)state, (void)failed; }

const situ_comm_engine paper_network = { "paper", begin_host, test, abandon, keep, 0 };

static bool carries(situ_comm_op op, situ_dtype dtype) {
  (void)dtype;
  return op != SITU_COMM_SEND && op != SITU_COMM_RECEIVE;
}

static situ_status identify(int index, unsigned char id[SITU_COMM_ID]) {
  (void)index;
  if (id) memset(id, 0, SITU_COMM_ID);
  return SITU_OK;
}

/* A program gives a communicator the device when it has made it. */
static situ_status join(int index, const unsigned char id[SITU_COMM_ID], int rank, int size, void **state) {
  (void)index, (void)id, (void)rank, (void)size;
  *state = paper_me->ports;
  return SITU_OK;
}

const situ_comm_device_engine situ_module_comm_engine = {
  .size = sizeof situ_module_comm_engine,
  .engine = { "nccl", begin_device, test, abandon, keep, 0 },
  .mark = mark,
  .forget = forget_mark,
  .carries = carries,
  .identify = identify,
  .join = join,
};

/* ---- the world ---- */

void paper_enter(paper_world *w, int rank) {
  paper_rank *r = paper_me = &w->rank[rank];
  pthread_mutex_lock(&w->lock);
  if (++w->come == w->size) give_turn(w, &w->rank[0]);
  wait_for_turn(r);
  pthread_mutex_unlock(&w->lock);
  *r->due = INFINITY;
}

void paper_leave(void) {
  paper_rank *r = paper_me;
  *r->due = NAN;
  pthread_mutex_lock(&r->world->lock);
  give_turn(r->world, find_next(r->world));
  pthread_mutex_unlock(&r->world->lock);
  paper_me = NULL;
}

static group *group_of(paper_world *w, int id, int size) {
  group *g = w->groups;
  while (g && g->id != id) g = g->next;
  if (g) return g;
  g = malloc(sizeof *g);
  *g = (group){ .next = w->groups, .id = id, .size = size, .port = calloc((size_t)size, sizeof *g->port) };
  return w->groups = g;
}

void *paper_join(int id, int rank, int size) {
  group *g = group_of(paper_me->world, id, size);
  port *p = malloc(sizeof *p);
  *p = (port){ .next = paper_me->ports, .group = g, .owner = paper_me, .rank = rank };
  p->last = &p->first;
  p->asked = calloc((size_t)size, sizeof *p->asked);
  g->port[rank] = paper_me->ports = p;
  has_gone_on(paper_me);
  if (++g->joined < size) pass_turn(paper_me);
  for (int k = 0; g->joined == size && k < size; k++) tell(g->port[k]->owner, p->owner->count.time);
  return p;
}

paper_world *paper_world_new(int size, const paper_costs *costs) {
  paper_world *w = calloc(1, sizeof *w);
  w->size = size;
  w->costs = *costs;
  pthread_mutex_init(&w->lock, NULL);
  w->rank = calloc((size_t)size, sizeof *w->rank);
  w->due = calloc((size_t)size, sizeof *w->due);
  for (int r = 0; r < size; r++) {
    w->rank[r].world = w;
    w->rank[r].due = &w->due[r];
    pthread_cond_init(&w->rank[r].awake, NULL);
  }
  return w;
}

static void free_port(port *p) {
  for (message *m = p->first, *next; m; m = next) next = m->next, free(m);
  free(p->asked);
  free(p);
}

void paper_world_free(paper_world *w) {
  for (group *g = w->groups, *next; g; g = next) {
    next = g->next;
    for (int r = 0; r < g->size; r++)
      if (g->port[r]) free_port(g->port[r]);
    free(g->port);
    free(g);
  }
  for (int r = 0; r < w->size; r++) pthread_cond_destroy(&w->rank[r].awake);
  free(w->rank);
  free(w->due);
  pthread_mutex_destroy(&w->lock);
  free(w);
}
