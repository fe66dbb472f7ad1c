/* SPDX-License-Identifier: MIT */
/*
 * Mistakes of the operator: a list of messages, one a line, that is handed up and printed by main
 * or logged by the master.  Messages past the room are counted, not kept.
 */
#ifndef ERR_H
#define ERR_H

#include <stddef.h>

struct err {
	unsigned count;    /* messages added, also those that found no room */
	size_t len;        /* of text */
	char text[8192];   /* the messages, each ended by a newline but the last; always terminated */
};

void err_init(struct err *);
void err_add(struct err *, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
