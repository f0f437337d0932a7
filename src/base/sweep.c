/* Removes temporary files that killed programs left behind.
   SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/replace.h"

/* Returns the process that wrote ".NAME.tmp.PID.UNIQUE"; 0 for other names. */
static long writer_of(const char *file, const char *prefix) {
  size_t length = strlen(prefix);
  if (strncmp(file, prefix, length) != 0) return 0;
  long pid = 0;
  const char *at = file + length;
  for (; *at >= '0' && *at <= '9' && pid < 1000000000; at++) pid = 10 * pid + (*at - '0');
  return *at == '.' && strspn(at + 1, "0123456789abcdef") == 8 && at[9] == '\0' ? pid : 0;
}

/* When this process swept first, which is before it made its first new file. */
static time_t first_sweep(void) {
  static _Atomic time_t first;
  time_t none = 0;
  atomic_compare_exchange_strong(&first, &none, time(NULL));
  return first;
}

/* Returns true if its writer has ended: there is no such process, or it is this one, which has the number of one that
   was killed (pid 1 of a container). The age of the file protects writers on other machines. */
static bool is_abandoned(int dir, const char *file, long pid) {
  struct stat about;
  const bool own = pid == (long)getpid();
  if (!own && (kill((pid_t)pid, 0) == 0 || errno != ESRCH)) return false;
  return situ__sys.fstatat(dir, file, &about, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(about.st_mode) &&
         time(NULL) - about.st_mtime >= 3600 && (!own || about.st_mtime < first_sweep());
}

/* Ignores errors: the next save tries again. */
void situ__replace_sweep(int dir, const char *name) {
  char prefix[256];
  snprintf(prefix, sizeof prefix, ".%.*s.tmp.", SITU__KEPT_NAME, name);
  (void)first_sweep();
  int fd = situ__sys.openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  DIR *list = fd >= 0 ? fdopendir(fd) : NULL;
  if (!list) {
    if (fd >= 0) situ__sys.close(fd);
    return;
  }
  for (struct dirent *entry; (entry = readdir(list));) {
    long pid = writer_of(entry->d_name, prefix);
    if (pid > 0 && is_abandoned(dir, entry->d_name, pid)) situ__sys.unlinkat(dir, entry->d_name, 0);
  }
  closedir(list);
}
