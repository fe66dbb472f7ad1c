/* SPDX-License-Identifier: MIT */
/* What the parts of a row (row.c, row_facts.c, row_end.c, rows.c) have of each other. */
#ifndef ROW_PARTS_H
#define ROW_PARTS_H

#include "row.h"

enum { ROW_CULPRIT_MAX = 256 }; /* octets of a handler's name in a message */

/* A fact, as an event: the row takes its step and acts on it. */
void row_feed(struct row *row, enum slot_event event, const char *reason);

void row_watch_init(struct row *row);
void row_set_timer(struct row *row, uint64_t ms);
uint64_t row_alive_ms(const struct row *row);

/* Its slot, and what is shown there. */
struct scoreboard_slot *row_slot(const struct row *row);
void row_clear_slot(struct row *row);
void row_publish(struct row *row);
void rows_publish_history(struct rows *rows, unsigned number);

/* Its process has ended, which was not asked for: for the length of the pause before the next. */
void row_note_end(struct row *row, bool clean);

/* Which handler a proving child was at, and in what, as it noted itself. */
void row_name_culprit(const struct row *row, char *text, size_t size);
const char *row_proving_step(const struct row *row);

void row_read_last_words(struct row *row);
void row_on_exit(struct row *row, int status);

#endif
