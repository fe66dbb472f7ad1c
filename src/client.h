/* SPDX-License-Identifier: MIT */
/* A client of the admin listener, for the command line: one GET, one answer. */
#ifndef CLIENT_H
#define CLIENT_H

#include <stddef.h>

#include "err.h"

struct client_answer {
	int status;
	char *body; /* with a NUL behind its len octets; to be freed */
	size_t len;
};

/*
 * Asks the listener at an address of the configuration's form.  0, or -1 with a message.
 * Waits for some seconds at most.
 */
int client_get(const char *address, const char *target, struct client_answer *answer,
	       struct err *err);

#endif
