/* SPDX-License-Identifier: MIT */
/* Keeps the workers even: see balance.h.  Looks only while there is something to do; one per
 * worker. */
#ifndef BALANCER_H
#define BALANCER_H

#include <stdbool.h>

struct balance_load;
struct balancer;
struct engine;

/* NULL: no memory. */
struct balancer *balancer_new(struct engine *engine);
void balancer_free(struct balancer *balancer);

/* After each turn of the loop: has it look soon, if something went on. */
void balancer_wake(struct balancer *balancer);

/* Seconds for which the exchange is to be left to others: 0 when this worker may take. */
double balancer_hold_off(struct balancer *balancer);

/* Then what it took: connections, and their requests a second as far as they are known. */
void balancer_took(struct balancer *balancer, const struct balance_load *taken);

#endif
