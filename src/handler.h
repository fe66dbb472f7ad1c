/* SPDX-License-Identifier: MIT */
/*
 * Handlers as shared objects.  The master takes a private copy of each file and never loads one;
 * children load the copy, so that what was proven is what runs.
 */
#ifndef HANDLER_H
#define HANDLER_H

#include "err.h"
#include "whitecap.h"

/* A private copy of a handler file: a sealed memfd. */
struct handler_image {
	char *name; /* as configured: a name or a path */
	char *path; /* of the file that was read */
	int fd;     /* -1: none */
};

/*
 * Master: reads the file of `name` (a path when it holds a '/', else `dir`/`name`.so) into *image.
 * 0, or -1 with a message in *err that begins with `where` ("routes[0].handler").
 */
int handler_image_open(struct handler_image *image, const char *dir, const char *name,
		       const char *where, struct err *err);
void handler_image_close(struct handler_image *image);

/*
 * Child: loads the copy and checks the descriptor.  NULL with a message in *err, beginning with
 * `where`. The object is never unloaded.
 */
const struct wc_handler *handler_load(const struct handler_image *image, const char *where,
				      struct err *err);

#endif
