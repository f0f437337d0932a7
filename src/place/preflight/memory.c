/* The memory of a preflight's run: what each device has at any time, what is most, and whether it is there.
   SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "place/preflight/check.h"
#include "situ/sys/shape.h"
#include "situ/sys/tensor.h"

/* ---- what is alive when a device is full ---- */

enum { LARGEST = 5 };

/* "2.weight (1.0 MiB)", "made in 2 (128.0 KiB)", "gradient (1.0 MiB)" */
static void add_storage(situ__text *text, const situ__trail *trail) {
  char bytes[SITU__BYTES_TEXT];
  const situ_tensor *t = trail->storage->handles;
  const bool own = !trail->named && t && *situ_name(t), made = !trail->named && !own && trail->from && *trail->from;
  situ__text_add(text, "%s%s (%s)", made ? "made in " : "",
                 own                    ? situ_name(t)
                 : trail->named || made ? trail->from
                                        : situ_role_name(t ? situ_role_of(t) : SITU_ROLE_TENSOR),
                 situ__bytes_text(trail->storage->bytes, bytes));
}

/* Keeps the largest storages that are alive on a device, and the module that runs. */
static void keep_largest(const situ__preflight *p, situ_device device, situ__text *text) {
  const situ__trail *top[LARGEST + 1];
  int found = 0;
  for (const situ__trail *trail = p->trails; trail; trail = trail->next) {
    if (!situ_device_equal(trail->storage->device, device)) continue;
    int k = found < LARGEST ? found++ : LARGEST;
    for (; k && top[k - 1]->storage->bytes < trail->storage->bytes; k--) top[k] = top[k - 1];
    top[k] = trail;
  }
  char module[SITU__PREFLIGHT_PATH];
  const bool inside = *situ__preflight_running(p, module);
  situ__text_add(text, "it is full %s%s; largest then: ", inside ? "in " : "behind forward", inside ? module : "");
  for (int k = 0; k < found; k++) {
    if (k) situ__text_add(text, ", ");
    add_storage(text, top[k]);
  }
}

/* ---- counting ---- */

void situ__preflight_take(situ__preflight *p, situ_place_load *load, uint64_t bytes) {
  struct situ__held *held = &p->held[load - p->report.loads];
  held->now += bytes;
  if (held->now <= load->peak) return;
  load->peak = held->now;
  if (held->limit && held->now > held->limit && !held->full.length) keep_largest(p, load->device, &held->full);
}

void situ__preflight_give(situ__preflight *p, situ_device device, uint64_t bytes) {
  situ_place_load *load = bytes ? situ__preflight_load(p, device) : NULL;
  if (load) p->held[load - p->report.loads].now -= bytes;
}

/* Counts a storage that exists outside the run as present, once. Returns its device's load, then and only then. */
static situ_place_load *add_present(situ__preflight *p, const situ_storage *storage, size_t block) {
  if (!block || situ__map_get(&p->present, storage)) return NULL;
  situ_place_load *load = situ__preflight_load(p, storage->device);
  if (!load || !situ__map_put(&p->present, storage, load)) p->failed = true;
  if (load) p->held[load - p->report.loads].present += block;
  return load;
}

/* The storage whose memory it is, and the bytes of its block; 0: of the run itself, or without memory. */
static size_t whole_block(const situ_storage **storage) {
  while ((*storage)->flags & SITU_STORAGE_SLICE) *storage = (*storage)->payload;
  const bool none = (*storage)->flags & SITU_STORAGE_VOID || (*storage)->device.kind == SITU_META;
  return none ? 0 : situ_storage_block(*storage);
}

void situ__preflight_present(situ__preflight *p, const situ_tensor *t) {
  if (!t) return;
  const situ_storage *storage = situ_desc(t)->storage;
  const size_t block = whole_block(&storage);
  (void)add_present(p, storage, block);
}

void situ__preflight_stand(situ__preflight *p, const situ_storage *copy, const situ_storage *original) {
  const size_t block = whole_block(&original);
  void **note = copy ? situ_dry_note(copy) : NULL;
  situ__trail *trail = note ? *note : NULL;
  if (!block || (copy && (!trail || trail->stands || !situ_device_equal(copy->device, original->device)))) return;
  if (trail) {
    trail->stands = true;
    situ__preflight_give(p, copy->device, situ_storage_block(copy));
  }
  situ_place_load *load = add_present(p, original, block);
  if (load) situ__preflight_take(p, load, block);
}

/* ---- limits ---- */

/* Memory of a device, 0: unknown, and what others have of it. */
static uint64_t memory_of(const situ__preflight *p, int64_t i, uint64_t *others) {
  const situ_device device = p->report.loads[i].device;
  situ_device_properties has = { 0 };
  for (int64_t k = 0; k < p->trial->limit_count; k++)
    if (situ_device_equal(p->trial->limits[k].device, device)) return p->trial->limits[k].bytes;
  if (device.kind == SITU_META || situ_device_info(device, &has) != SITU_OK) return 0;
  const uint64_t out = has.memory_reserved - has.memory_cached, present = p->held[i].present;
  *others = out > present ? out - present : 0;
  return has.memory_total;
}

void situ__preflight_forget_peaks(situ__preflight *p) {
  for (int64_t i = 0; i < p->report.load_count; i++) {
    uint64_t others = 0, total = memory_of(p, i, &others);
    struct situ__held *held = &p->held[i];
    p->report.loads[i].peak = held->now;
    held->limit = total > others ? total - others : 0;
    situ__text_free(&held->full);
  }
}

static void judge(situ__preflight *p, int64_t i) {
  const situ_place_load *load = &p->report.loads[i];
  const situ__text *full = &p->held[i].full;
  char name[SITU_DEVICE_NAME_MAX], amount[2][SITU__BYTES_TEXT], other[SITU__BYTES_TEXT];
  uint64_t others = 0, total = memory_of(p, i, &others);
  if (!total || load->peak + others <= total) return;
  situ__text text = { 0 };
  situ__bytes_texts(total, load->peak, amount);
  situ__text_add(&text, "%s has %s of memory, and the peak of this run is %s", situ_device_name(load->device, name),
                 amount[0], amount[1]);
  if (others) situ__text_add(&text, "; other tensors have %s there", situ__bytes_text(others, other));
  if (full->length) situ__text_add(&text, "\n%s", full->data);
  if (text.failed || full->failed) p->failed = true;
  else
    situ__preflight_add(
        p, &(situ_place_finding){ .problem = SITU_PLACE_MEMORY, .status = SITU_E_NOMEM, .text = text.data });
  situ__text_free(&text);
}

/* Two APIs may offer one chip, whose memory then has the peaks of both. */
static void judge_chip(situ__preflight *p, const situ_place_load *a, const situ_place_load *b) {
  char name[2][SITU_DEVICE_NAME_MAX], text[256], sum[SITU__BYTES_TEXT];
  if (a->device.kind <= SITU_META || b->device.kind <= SITU_META || !situ_device_same_chip(a->device, b->device))
    return;
  (void)snprintf(text, sizeof text, "%s and %s are one chip: its memory has the peaks of both, together at most %s",
                 situ_device_name(a->device, name[0]), situ_device_name(b->device, name[1]),
                 situ__bytes_text(a->peak + b->peak, sum));
  situ__preflight_add(p, &(situ_place_finding){ .problem = SITU_PLACE_OTHER, .note = true, .text = text });
}

/* Where a module only came from has no row. */
static void forget_idle(situ_place_report *r) {
  int64_t count = 0;
  for (int64_t i = 0; i < r->load_count; i++) {
    const situ_place_load *l = &r->loads[i];
    if (l->launches || l->peak || l->parameters || l->buffers) r->loads[count++] = *l;
  }
  r->load_count = count;
}

void situ__preflight_fits(situ__preflight *p) {
  for (int64_t i = 0; i < p->report.load_count; i++)
    for (int64_t k = 0; k < i; k++) judge_chip(p, &p->report.loads[k], &p->report.loads[i]);
  for (int64_t i = 0; i < p->report.load_count; i++) {
    judge(p, i);
    situ__text_free(&p->held[i].full);
  }
  if (p->trial->options->map) forget_idle(&p->report);
}
