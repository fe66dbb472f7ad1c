/* SPDX-License-Identifier: MIT */
/* From a request to the response in the engine's output: runs the handler, checks what it did. */
#ifndef RESPOND_H
#define RESPOND_H

#include <stdbool.h>

struct conn;
struct engine;
struct request;

/*
 * A whole request: finds its route and runs the handler.  True: its response is in the output, and
 * the request has ended; false: it is pending, and respond() is to be called once it is answered.
 */
bool respond_handle(struct conn *conn, struct request *request);

/* Puts the request's answer, or 500 in its stead, into the output, and ends the request. */
void respond(struct conn *conn, struct request *request);

/* Puts an error response into the output.  The request at hand is ended. */
void respond_error(struct conn *conn, struct request *request, int status);

#endif
