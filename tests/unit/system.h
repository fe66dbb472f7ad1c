/* SPDX-License-Identifier: MIT */
/* What the unit tests of floor 2, which make system calls, share. */
#ifndef SYSTEM_H
#define SYSTEM_H

/* A new folder of this process, made at the first call and removed at the end with all in it. */
const char *system_folder(void);

/* A path in that folder; four of them live at a time. */
const char *system_path(const char *name);

/* Writes a small file anew. */
void system_write(const char *path, const char *text);

/* Reads a small file; its text lives until the next call. */
const char *system_read(const char *path);

#endif
