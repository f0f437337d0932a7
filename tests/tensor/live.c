/* Telling a live tensor from every other word.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 opencl:1 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/peek.h"
#include "support/test.h"

static void live_tensors_are_told(void **state) {
  (void)state;
  assert_true(situ__can_peek());
  situ_options here = { .device = test_device() };
  situ_tensor *t = situ_ones(SITU_SHAPE(3, 4), &here), *view = situ_transpose(t, 0, 1);
  assert_true(situ_is_tensor(t));
  assert_true(situ_is_tensor(view));
  assert_true(situ_is_tensor(situ_ones(SITU_SHAPE(0), &here)));
}

static void dead_ones_are_not(void **state) {
  (void)state;
  assert_true(situ__can_peek());
  situ_tensor *kept = situ_ones(SITU_SHAPE(3), NULL), *dead[3];
  situ_scope s;
  situ_scope_begin(&s);
  dead[0] = situ_ones(SITU_SHAPE(3), NULL);
  dead[1] = situ_detach(kept);
  dead[2] = situ_detach(dead[0]);
  for (int i = 0; i < 3; i++) assert_true(situ_is_tensor(dead[i]));
  assert_int_equal(situ_scope_end(&s), SITU_OK);
  for (int i = 0; i < 3; i++) assert_false(situ_is_tensor(dead[i]));
  assert_true(situ_is_tensor(kept));
}

/* Nothing here may crash, and nothing may be taken for a tensor. */
static void other_words_are_not(void **state) {
  (void)state;
  situ_tensor *t = situ_ones(SITU_SHAPE(3), NULL);
  char *wall = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  char *heap = malloc(512), *freed = malloc(512);
  volatile uintptr_t gone = (uintptr_t)freed;
  assert_true(wall != MAP_FAILED && heap && freed);
  free(freed);
  memset(heap, 0x75, 512);
  assert_false(situ_is_tensor(NULL));
  assert_false(situ_is_tensor((void *)1));
  assert_false(situ_is_tensor((void *)8));
  assert_false(situ_is_tensor((void *)UINTPTR_MAX));
  assert_false(situ_is_tensor((void *)(UINTPTR_MAX - 7)));
  assert_false(situ_is_tensor((void *)0x3fb999999999999a)); /* 0.1 */
  assert_false(situ_is_tensor(wall));
  assert_false(situ_is_tensor(wall + 4088));
  assert_false(situ_is_tensor(heap));
  assert_false(situ_is_tensor((void *)gone));
  assert_false(situ_is_tensor((char *)t + 8));
  assert_false(situ_is_tensor(&t));
  /* The same bytes elsewhere are no tensor: its storage does not know them. */
  memcpy(heap, t, 200);
  assert_false(situ_is_tensor(heap));
  free(heap);
  munmap(wall, 4096);
}

static void its_origin_is_told(void **state) {
  (void)state;
  char text[256];
  situ_tensor *t = situ_ones(SITU_SHAPE(3), NULL);
  assert_ptr_equal(situ_created_at(t, text, sizeof text), text);
  assert_true(*text);
  assert_string_equal(situ_created_at(NULL, text, sizeof text), "");
}

/* Containers refuse process_vm_readv. The filter stays with the process, so this is the last test. */
static void where_the_call_is_refused(void **state) {
#if defined(__x86_64__)
  struct sock_filter code[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const struct sock_fprog filter = { sizeof code / sizeof *code, code };
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) skip();
  struct iovec none = { 0 };
  assert_true(process_vm_readv(getpid(), &none, 1, &none, 1, 0) < 0 && errno == EPERM);
  live_tensors_are_told(state);
  dead_ones_are_not(state);
  other_words_are_not(state);
#else
  (void)state;
  skip();
#endif
}

int main(void) {
  const struct CMUnitTest tests[] = {
    TEST(live_tensors_are_told), TEST(dead_ones_are_not),         TEST(other_words_are_not),
    TEST(its_origin_is_told),    TEST(where_the_call_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
