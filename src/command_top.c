/* SPDX-License-Identifier: MIT */
/* whitecap top: the statistics in the terminal, each second anew, until q is pressed. */
#include "autoconf.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "command.h"
#include "master.h"
#include "stats_table.h"

/* Another screen, no cursor, no wrapping; and all of it back. */
#define ENTER "\033[?1049h\033[?25l\033[?7l"
#define LEAVE "\033[?7h\033[?25h\033[?1049l"
#define HOME "\033[H"
#define CLEAR_LINE "\033[K"
#define CLEAR_REST "\033[J"

enum { PERIOD_MS = 1000, ROWS_DEFAULT = 24 };

static volatile sig_atomic_t is_over;

static void on_end(int number)
{
	(void)number;
	is_over = 1;
}

static void on_resize(int number)
{
	(void)number; /* wakes the wait up */
}

static unsigned rows(void)
{
	struct winsize size;

	return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 ? size.ws_row
									      : ROWS_DEFAULT;
}

static void watch_signals(void)
{
	static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
	struct sigaction action = {.sa_handler = on_end};

	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
		sigaction(ends[i], &action, NULL);
	/* In the background it shows what it can, and ends when it would read a key. */
	signal(SIGTTOU, SIG_IGN);
	signal(SIGTTIN, SIG_IGN);
	action.sa_handler = on_resize;
	sigaction(SIGWINCH, &action, NULL);
}

/* Each line ends by clearing what was behind it, so that nothing flickers. */
static void paint(const char *text)
{
	fputs(HOME, stdout);
	for (; *text; text++) {
		if (*text == '\n')
			fputs(CLEAR_LINE "\r", stdout);
		putchar(*text);
	}
	fputs(CLEAR_LINE CLEAR_REST, stdout);
	fflush(stdout);
}

/* False: the server does not answer, and *err says why. */
static bool show(const struct config *config, struct err *err)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	json_t *stats;
	bool answers;

	if (!out)
		return false;
	err_init(err);
	stats = command_read_stats(config, err);
	answers = stats != NULL;
	if (stats)
		stats_table_print(out, stats, rows());
	else
		fprintf(out, "the server does not answer; trying again\n\n%s", err->text);
	json_decref(stats);
	if (fclose(out) == 0)
		paint(text);
	free(text);
	return answers;
}

/* Until a key, a signal, or the next second.  Whether it is over. */
static bool wait_for_end(void)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	char key = 0;

	if (poll(&input, 1, PERIOD_MS) <= 0)
		return is_over;
	return read(STDIN_FILENO, &key, 1) != 1 || key == 'q' || key == 'Q' || key == 3 || is_over;
}

int command_top(const struct command_options *options)
{
	struct termios before, raw;
	struct err err;
	bool has_answered = false;

	if (!isatty(STDOUT_FILENO) || tcgetattr(STDIN_FILENO, &before) < 0) {
		fputs("whitecap: top needs a terminal; stats does not\n", stderr);
		return MASTER_FAILED;
	}
	watch_signals();
	raw = before;
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	tcsetattr(STDIN_FILENO, TCSAFLUSH, &raw);
	err_init(&err);
	fputs(ENTER, stdout);
	do
		has_answered |= show(options->config, &err);
	while (!wait_for_end());
	fputs(LEAVE, stdout);
	fflush(stdout);
	tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
	if (has_answered)
		return MASTER_OK;
	fprintf(stderr, "whitecap: the server did not answer: %s\n", err.text);
	return MASTER_FAILED;
}
