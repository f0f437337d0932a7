/* The simulated communicator's engine: one rank's transfers in the world that it shares.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "sim.h"

static situ_status lost_rank(situ_comm_report *report, int rank, const char *how) {
  report->rank = rank;
  (void)snprintf(report->text, sizeof report->text, "rank %d %s", rank, how);
  return SITU_E_COMM;
}

static const char *fate_of(const situ_comm_sim *w, int rank) {
  return w->rank[rank].state == SITU__SIM_DEAD   ? "has died"
         : w->rank[rank].state == SITU__SIM_LEFT ? "has freed its communicator"
                                                 : NULL;
}

/* ---- beginning ---- */

/* Returns false if this transfer is lost. */
static bool apply_schedule(situ_comm_sim *w, int rank) {
  const bool now = ++w->rank[rank].begun == w->rank[rank].fault_at;
  if (now && w->rank[rank].fault == SITU_COMM_SIM_DIE) w->rank[rank].state = SITU__SIM_DEAD;
  if (now && w->rank[rank].fault == SITU_COMM_SIM_STOP) w->rank[rank].state = SITU__SIM_STOPPED;
  return w->rank[rank].state == SITU__SIM_HERE && !(now && w->rank[rank].fault == SITU_COMM_SIM_LOSE);
}

static double arrival(const situ_comm_sim *w, int rank) {
  return w->options.max_delay > 0 ? situ__seconds() + situ__comm_sim_delay(w, rank, w->rank[rank].begun) : 0;
}

static bool post_message(situ_comm_sim *w, int rank, const situ_comm_transfer *t, bool lost) {
  const size_t bytes = (size_t)t->count * situ_dtype_size(t->dtype);
  situ__sim_message *m = situ__alloc(sizeof *m + bytes), **last = &w->rank[t->peer].inbox;
  if (!m) return false;
  w->rank[rank].messages++;
  *m = (situ__sim_message){ .from = rank, .tag = t->tag, .lost = lost, .bytes = bytes };
  m->ready = arrival(w, rank);
  if (bytes) memcpy(m->data, t->send, bytes);
  while (*last) last = &(*last)->next;
  *last = m;
  return true;
}

static int64_t bytes_sent(const situ_comm_sim *w, const situ_comm_transfer *t) {
  const int blocks = t->op == SITU_COMM_ALL_TO_ALL ? t->members : t->op == SITU_COMM_REDUCE_SCATTER ? w->size : 1;
  return t->send ? t->count * blocks * (int64_t)situ_dtype_size(t->dtype) : 0;
}

/* The root of a broadcast may leave before the others come, as in MPI. */
static bool copy_values(situ__sim_meeting *m, int rank, const situ_comm_transfer *t) {
  const size_t bytes = (size_t)t->count * situ_dtype_size(t->dtype);
  if (t->op != SITU_COMM_BROADCAST || t->peer != rank) return true;
  if (!(m->values = situ__alloc(bytes + 1))) return false;
  if (bytes) memcpy(m->values, t->send, bytes);
  return true;
}

static situ__sim_meeting *join_meeting(situ_comm_sim *w, int rank, const situ_comm_transfer *t, bool lost) {
  const int64_t number = w->rank[rank].collectives;
  situ__sim_meeting *m = w->meetings;
  while (m && m->number != number) m = m->next;
  if (!m) {
    if (!(m = situ__calloc(1, sizeof *m + (size_t)w->size * sizeof *m->part))) return NULL;
    m->number = number;
    m->next = w->meetings;
    w->meetings = m;
  }
  if (!copy_values(m, rank, t)) return NULL;
  w->rank[rank].collectives++;
  w->rank[rank].bytes += bytes_sent(w, t);
  const double ready = arrival(w, rank);
  if (ready > m->ready) m->ready = ready;
  m->part[rank] = (struct situ__sim_part){ true, *t };
  m->come++;
  m->broken |= lost;
  return m;
}

static void add_receive(situ_comm_sim *w, int rank, situ__sim_transfer *t) {
  situ__sim_transfer **last = &w->rank[rank].receives;
  while (*last) last = &(*last)->next;
  *last = t;
}

static void forget_receive(situ_comm_sim *w, int rank, const situ__sim_transfer *t) {
  situ__sim_transfer **at = &w->rank[rank].receives;
  while (*at && *at != t) at = &(*at)->next;
  if (*at) *at = t->next;
}

static situ_status begin_locked(situ__sim_end *end, situ__sim_transfer *t, situ_comm_report *report) {
  situ_comm_sim *w = end->world;
  t->lost = !apply_schedule(w, end->rank);
  if (w->rank[end->rank].state == SITU__SIM_DEAD) return lost_rank(report, end->rank, "has died");
  report->rank = -1;
  (void)snprintf(report->text, sizeof report->text, "out of memory");
  if (t->what.op == SITU_COMM_RECEIVE) return add_receive(w, end->rank, t), SITU_OK;
  if (t->what.op == SITU_COMM_SEND) return post_message(w, end->rank, &t->what, t->lost) ? SITU_OK : SITU_E_NOMEM;
  t->meeting = join_meeting(w, end->rank, &t->what, t->lost);
  return t->meeting ? SITU_OK : SITU_E_NOMEM;
}

static situ_status begin(void *state, const situ_comm_transfer *what, void **request, situ_comm_report *report) {
  situ__sim_end *end = state;
  situ__sim_transfer *t = situ__calloc(1, sizeof *t);
  situ_status status = SITU_E_NOMEM;
  if (t) {
    t->what = *what;
    situ__mutex_lock(&end->world->lock);
    status = begin_locked(end, t, report);
    situ__mutex_unlock(&end->world->lock);
  } else {
    report->rank = -1;
    (void)snprintf(report->text, sizeof report->text, "out of memory");
  }
  if (status != SITU_OK) situ__free(t);
  else *request = t;
  return status;
}

/* ---- progress ---- */

/* An earlier receive of the same messages comes first, however late it is looked at. */
static bool is_next(const situ_comm_sim *w, int rank, const situ__sim_transfer *t) {
  for (const situ__sim_transfer *r = w->rank[rank].receives; r && r != t; r = r->next)
    if (r->what.peer == t->what.peer && r->what.tag == t->what.tag && !r->lost) return false;
  return true;
}

/* Messages between two ranks with one tag arrive in order: only the first can. */
static situ_status receive_message(situ__sim_end *end, const situ__sim_transfer *t, bool *done,
                                   situ_comm_report *report) {
  situ_comm_sim *w = end->world;
  situ__sim_message **at = &w->rank[end->rank].inbox, *m;
  while ((m = *at) && (m->from != t->what.peer || m->tag != t->what.tag || m->lost)) at = &m->next;
  const char *fate = fate_of(w, t->what.peer);
  if (!m) return fate ? lost_rank(report, t->what.peer, fate) : SITU_OK;
  if (!is_next(w, end->rank, t)) return SITU_OK;
  if (m->ready > 0 && m->ready > situ__seconds()) return SITU_OK;
  if (m->bytes) memcpy(t->what.receive, m->data, m->bytes);
  *at = m->next;
  situ__free(m);
  *done = true;
  return SITU_OK;
}

static void leave_meeting(situ_comm_sim *w, situ__sim_meeting *m) {
  if (++m->left < w->size) return;
  situ__sim_meeting **at = &w->meetings;
  while (*at != m) at = &(*at)->next;
  *at = m->next;
  situ__comm_sim_free_meeting(m);
}

/* Before its end: the memory of this rank may be freed, so the values never move, but those that were copied. */
static void quit_meeting(situ_comm_sim *w, situ__sim_meeting *m) {
  m->broken |= !m->values;
  leave_meeting(w, m);
}

/* Whether a rank must have come before another one can end the meeting. */
static bool is_needed(const situ_comm_transfer *t, int rank) { return t->op != SITU_COMM_BROADCAST || t->peer == rank; }

static void move_values(const situ_comm_sim *w, const situ__sim_meeting *m, const situ_comm_transfer *t) {
  const size_t bytes = (size_t)t->count * situ_dtype_size(t->dtype);
  if (t->op != SITU_COMM_BROADCAST && !m->done) situ__comm_sim_move(m, w->size);
  if (t->op == SITU_COMM_BROADCAST && bytes) memcpy(t->receive, m->values, bytes);
}

static situ_status end_meeting(situ__sim_end *end, situ__sim_transfer *t, bool *done, situ_comm_report *report) {
  situ_comm_sim *w = end->world;
  situ__sim_meeting *m = t->meeting;
  bool waits = t->lost || (m->broken && !m->done);
  for (int i = 0; !m->done && m->come < w->size && i < w->size; i++) {
    if (m->part[i].here || !is_needed(&t->what, i)) continue;
    waits = true;
    if (!fate_of(w, i)) continue;
    quit_meeting(w, m);
    return lost_rank(report, i, fate_of(w, i));
  }
  if (waits) return SITU_OK;
  if (m->ready > 0 && m->ready > situ__seconds()) return SITU_OK;
  move_values(w, m, &t->what);
  m->done = *done = true;
  leave_meeting(w, m);
  return SITU_OK;
}

static situ_status test_locked(situ__sim_end *end, situ__sim_transfer *t, bool *done, situ_comm_report *report) {
  const situ_comm_sim *w = end->world;
  if (w->rank[end->rank].state == SITU__SIM_DEAD) {
    if (t->meeting) quit_meeting(end->world, t->meeting);
    return lost_rank(report, end->rank, "has died");
  }
  if (w->rank[end->rank].state == SITU__SIM_STOPPED) return SITU_OK;
  if (t->what.op == SITU_COMM_RECEIVE) return t->lost ? SITU_OK : receive_message(end, t, done, report);
  if (t->meeting) return end_meeting(end, t, done, report);
  *done = true; /* a message is copied when it is sent */
  return SITU_OK;
}

static situ_status test(void *state, void *request, bool *done, situ_comm_report *report) {
  situ__sim_end *end = state;
  *done = false;
  situ__mutex_lock(&end->world->lock);
  const situ_status status = test_locked(end, request, done, report);
  if (*done || status != SITU_OK) forget_receive(end->world, end->rank, request);
  situ__mutex_unlock(&end->world->lock);
  if (*done || status != SITU_OK) situ__free(request);
  return status;
}

static bool abandon(void *state, void *request) {
  situ__sim_end *end = state;
  situ__sim_transfer *t = request;
  situ__mutex_lock(&end->world->lock);
  if (t->meeting) quit_meeting(end->world, t->meeting);
  forget_receive(end->world, end->rank, t);
  situ__mutex_unlock(&end->world->lock);
  situ__free(t);
  return true;
}

static void release(void *state, bool failed) {
  situ__sim_end *end = state;
  (void)failed;
  situ__mutex_lock(&end->world->lock);
  if (end->world->rank[end->rank].state != SITU__SIM_DEAD) end->world->rank[end->rank].state = SITU__SIM_LEFT;
  situ__mutex_unlock(&end->world->lock);
  situ__comm_sim_release(end->world);
  situ__free(end);
}

const situ_comm_engine situ__comm_sim_engine = { "sim", begin, test, abandon, release, 0 };
