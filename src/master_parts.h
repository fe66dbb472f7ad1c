/* SPDX-License-Identifier: MIT */
/*
 * What the files of the master share, and nobody else includes: master.c (the loop, the signals,
 * keeping it running), master_stop.c, master_reload.c (a new generation), master_stats.c,
 * master_notify.c and master_upgrade.c.
 */
#ifndef MASTER_PARTS_H
#define MASTER_PARTS_H

#include <ev.h>
#include <stdbool.h>

#include "generation.h"
#include "master.h"
#include "master_status.h"
#include "pidfile.h"
#include "row.h"
#include "upgrade.h"
#include "watchdog.h"

/* Where a new generation is on its way. */
enum master_stage { STAGE_LOADED, STAGE_PROVING, STAGE_PROVEN, STAGE_CANARY, STAGE_STARTING };

enum { MASTER_SIGNALS = 9, MASTER_WORKERS_MAX = SCOREBOARD_ADMIN - 2 };

/* What the service manager was told last. */
struct master_notify {
	struct ev_timer timer;
	uint64_t told_us;  /* CLOCK_MONOTONIC */
	uint64_t alive_us; /* the last sign of life */
	bool silent;       /* and the log says that there is none any more */
	uint64_t requests; /* until then */
	struct histogram_sum latency;
};

struct master {
	struct master_options options;
	struct ev_loop *loop;
	struct ev_signal signals[MASTER_SIGNALS];
	struct ev_prepare look;
	struct ev_timer retry;       /* of the reload after an upgrade, when nobody serves */
	struct ev_timer stats_timer; /* stats.interval */
	int stats_error; /* errno of the last time it could not be written; 0: it could */
	int scoreboard_fd;
	int left_scoreboard_fd; /* of old processes, where it has another layout; -1: none */
	struct listener_pool *pool;
	struct pidfile pidfile;

	struct generation *all;    /* also the retired ones that still have processes */
	struct generation *active; /* NULL: none serves yet */
	struct generation *next;   /* NULL: none is on its way */
	enum master_stage stage;   /* of next */
	struct master_canary *canary; /* of next; NULL: none serves */
	bool reload_wanted;
	bool upgrade_wanted;
	bool upgrade_due; /* the program is proven: out of the loop, then exec */
	struct upgrade_check check;
	bool stopping;              /* also while stop_delay runs: no more reloads and upgrades */
	struct ev_timer stop_delay; /* timeouts.drain_delay, in halves: until then all serve on */
	bool farewell;              /* in its second half: clients are told to go elsewhere */
	bool leaving;     /* stopping, and the connections go on in the next instance */
	bool log_is_file; /* not stderr */
	enum master_exit exit_code;
	struct master_status status;
	struct watchdog watchdog;
	struct master_notify notify;
	struct rows rows;
};

/*
 * Calls it for each row of the generation (NULL: of all) that is in use: those of workers, or of
 * admin processes.
 */
void master_each_row(struct master *master, const struct generation *generation,
		     void (*act)(struct row *));
void master_each_admin(struct master *master, const struct generation *generation,
		       void (*act)(struct row *));

/* Starts a worker for each number that has none, in place of those that are dying too. */
void master_fill(struct master *master, struct generation *generation);

/* Workers of the generation in that state. */
unsigned master_count_rows(const struct master *master, const struct generation *generation,
			   enum slot_state state);

/* Has the admin process of a generation started unless it is there. */
void master_start_admin(struct master *master, struct generation *generation);

/*
 * master_stop.c: ends all that runs by row_stop(), row_drain() or row_kill(); the loop ends when
 * all are gone.  The others are what signals do.
 */
void master_stop_init(struct master *master);
void master_stop(struct master *master, void (*end)(struct row *));
void master_on_term(struct master *master);
void master_on_quit(struct master *master);
void master_on_int(struct master *master);
void master_answer_leftovers(struct master *master);

/* master_reload.c: takes a reload that is wanted or on its way as far as it goes now. */
void master_reload_advance(struct master *master);

/* Counts one that is done, or one of either kind that failed, with its reason. */
void master_note_reload(struct master *master, const char *error);

/*
 * master_canary.c: whether the new generation's first worker is to serve by itself for a time; how
 * it does, with a reason where that is worse than the old workers; and the end of it.
 */
enum master_canary_state { MASTER_CANARY_SERVES, MASTER_CANARY_GOOD, MASTER_CANARY_WORSE };
enum { MASTER_CANARY_WHY_MAX = 1024 };

bool master_canary_is_wanted(const struct master *master);
enum master_canary_state master_canary_look(struct master *master, char why[MASTER_CANARY_WHY_MAX]);
void master_canary_end(struct master *master);

/* CLOCK_MONOTONIC. */
uint64_t master_now_ns(void);

/*
 * master_upgrade.c: begins one that is wanted, when nothing else is on its way; sees the end of its
 * proof; and has this process become the program, outside of the loop (false: nothing is due).
 */
bool master_upgrade_is_busy(const struct master *master);
void master_upgrade_advance(struct master *master);
void master_upgrade_reap(struct master *master);
bool master_upgrade_execute(struct master *master);

/* Afterwards, in the new program: opens what was left, then goes on with it.  -1: no memory. */
int master_upgrade_open(struct master *master, const struct upgrade_state *left);
int master_upgrade_adopt(struct master *master, const struct upgrade_state *left);

/* master_stats.c: writes stats.file; and does so by the interval of a configuration. */
void master_stats_init(struct master *master);
void master_write_stats(struct master *master);
void master_apply_stats(struct master *master, const struct config *config);

/* master_notify.c: tells the service manager.  The first one starts what goes on by itself. */
void master_notify_start(struct master *master);
void master_notify_ready(const struct master *master);
void master_notify_reloading(void);
void master_notify_stopping(const struct master *master);

/*
 * master_store.c: the exchange of the instance before this one, or a new one (-1 with errno); has
 * the manager store it, and the listeners of a generation that serves; waits until the manager has
 * all.
 */
int master_store_open(struct master *master);
void master_store_begin(struct master *master);
void master_store_listeners(struct master *master, const struct generation *new);
void master_store_end(const struct master *master);

/* Each route and listener of a new generation is counted where it was before, if it was there. */
void master_claim_places(struct master *master, const struct generation *new);

#endif
