/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "upgrade.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "environment.h"
#include "exchange.h"
#include "spawn.h"

#define STATE_VARIABLE "WHITECAP_UPGRADE_STATE"
#define QUESTION_VARIABLE "WHITECAP_UPGRADE_QUESTION"
#define ANSWER "whitecap understands: "

enum { QUESTION_MAX = 64, STATE_MAX = 64 * 1024 * 1024, CANNOT_EXECUTE = 127 };

static struct {
	char *path;
	char **argv; /* copies: a title of a child overwrites the originals */
	int argc;
	char *question; /* that it was started with; NULL: none */
	int state;      /* fd of the state that was left to it; -1: none */
} program = {.state = -1};

/* How this program was started. */

static bool is_running(const char *path)
{
	struct stat st, own;

	return stat(path, &st) == 0 && stat("/proc/self/exe", &own) == 0 &&
	       st.st_dev == own.st_dev && st.st_ino == own.st_ino;
}

static char *join(const char *folder, size_t len, const char *name)
{
	char *path = NULL;

	if (asprintf(&path, "%.*s/%s", (int)len, folder, name) < 0)
		return NULL;
	if (is_running(path))
		return path;
	free(path);
	return NULL;
}

static char *find_in_path(const char *name)
{
	const char *at = getenv("PATH");
	char *found = NULL;

	while (at && !found) {
		size_t len = strcspn(at, ":");

		if (at[0] == '/')
			found = join(at, len, name);
		at = at[len] ? at + len + 1 : NULL;
	}
	return found;
}

/*
 * A link stays one, so that it can lead to another file at the next upgrade.  The kernel's own word
 * is for programs that were started under another name.
 */
static char *find_program(const char *name)
{
	char exe[PATH_MAX], *folder, *found = NULL;
	ssize_t len;

	if (name[0] == '/' && is_running(name))
		return strdup(name);
	if (name[0] != '/' && strchr(name, '/') && (folder = getcwd(NULL, 0))) {
		found = join(folder, strlen(folder), strncmp(name, "./", 2) == 0 ? name + 2 : name);
		free(folder);
	} else if (!strchr(name, '/')) {
		found = find_in_path(name);
	}
	if (found)
		return found;
	len = readlink("/proc/self/exe", exe, sizeof exe - 1);
	exe[len > 0 ? len : 0] = '\0';
	return len > 0 ? strdup(exe) : NULL;
}

/* Out of the environment, so that no child finds them. */
static void take_variables(void)
{
	char *state = environment_take(STATE_VARIABLE), *end;
	long fd;

	program.question = environment_take(QUESTION_VARIABLE);
	if (state && (fd = strtol(state, &end, 10)) > STDERR_FILENO && fd < INT_MAX && !*end)
		program.state = (int)fd;
	free(state);
}

int upgrade_init(int argc, char **argv)
{
	take_variables();
	program.path = find_program(argv[0]);
	program.argc = argc;
	program.argv = calloc((size_t)argc + 2, sizeof *program.argv);
	for (int i = 0; program.argv && i < argc; i++)
		if (!(program.argv[i] = strdup(argv[i])))
			return -1;
	return program.path && program.argv ? 0 : -1;
}

const char *upgrade_program(void)
{
	return program.path;
}

/* The question and its answer. */

static void ask(char question[QUESTION_MAX])
{
	snprintf(question, QUESTION_MAX, "state %d, connections %d", UPGRADE_STATE_VERSION,
		 EXCHANGE_VERSION);
}

static bool is_understood(const char *question)
{
	unsigned state, connections;
	char end;

	return sscanf(question, "state %u, connections %u%c", &state, &connections, &end) == 2 &&
	       state >= 1 && state <= UPGRADE_STATE_VERSION && connections <= EXCHANGE_VERSION;
}

int upgrade_answer(struct err *err)
{
	char own[QUESTION_MAX];

	if (!program.question)
		return 0;
	if (!is_understood(program.question)) {
		ask(own);
		err_add(err, "%s does not go on from a server with %s, but with %s at most",
			PACKAGE_STRING, program.question, own);
		return -1;
	}
	printf(ANSWER "%s\n", program.question);
	return 0;
}

/* The child. */

void upgrade_check_init(struct upgrade_check *check, struct ev_loop *loop)
{
	*check = (struct upgrade_check){.loop = loop, .output = -1};
}

static void on_late(struct ev_loop *loop, struct ev_timer *timer, int events)
{
	struct upgrade_check *check = timer->data;

	(void)loop, (void)events;
	check->late = true;
	upgrade_check_kill(check);
}

struct launch {
	void (*forget)(void *data);
	void *data;
	int output;
	pid_t master;
	char question[QUESTION_MAX];
};

static void forget(void *data)
{
	struct launch *launch = data;

	launch->forget(launch->data);
}

/* What is blocked stays so in a program that is executed. */
static void unblock_signals(void)
{
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* It has a group of its own, with which all that it started can be ended. */
static int run(void *data)
{
	const struct launch *launch = data;
	char **argv = program.argv;

	argv[program.argc] = "-t";
	setpgid(0, 0);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == launch->master &&
	    dup2(launch->output, STDOUT_FILENO) >= 0 && dup2(launch->output, STDERR_FILENO) >= 0 &&
	    setenv(QUESTION_VARIABLE, launch->question, 1) == 0) {
		unblock_signals();
		execv(program.path, argv);
	}
	dprintf(STDERR_FILENO, "%s\n", strerror(errno));
	_exit(CANNOT_EXECUTE);
}

int upgrade_check_start(struct upgrade_check *check, uint64_t timeout_ms,
			void (*forget_parent)(void *data), void *data, struct err *err)
{
	struct launch launch = {.forget = forget_parent, .data = data, .master = getpid()};
	struct spawn spawn = {.forget = forget, .run = run, .data = &launch, .title = "upgrade",
			      .keep = &launch.output, .keep_count = 1};
	int pipe_fds[2];

	if (stat(program.path, &check->file) < 0 || pipe2(pipe_fds, O_CLOEXEC | O_NONBLOCK) < 0) {
		err_add(err, "%s: %s", program.path, strerror(errno));
		return -1;
	}
	fcntl(pipe_fds[1], F_SETFL, 0);
	launch.output = pipe_fds[1];
	ask(launch.question);
	check->pid = spawn_child(&spawn);
	close(pipe_fds[1]);
	if (check->pid < 0) {
		err_add(err, "fork: %s", strerror(errno));
		close(pipe_fds[0]);
		check->pid = 0;
		return -1;
	}
	setpgid(check->pid, check->pid);
	check->output = pipe_fds[0];
	check->late = false;
	check->timeout_ms = timeout_ms;
	ev_now_update(check->loop);
	ev_timer_init(&check->timer, on_late, (double)timeout_ms / 1000, 0.);
	check->timer.data = check;
	ev_timer_start(check->loop, &check->timer);
	return 0;
}

void upgrade_check_kill(struct upgrade_check *check)
{
	if (check->pid > 0)
		kill(-check->pid, SIGKILL);
}

static bool has_answered(const char *output)
{
	char answer[sizeof ANSWER + QUESTION_MAX] = ANSWER;
	const char *at;

	ask(answer + strlen(answer));
	at = strstr(output, answer);
	return at && (at == output || at[-1] == '\n') && at[strlen(answer)] == '\n';
}

/* What it said, but for its answer; a signal or a code where it said nothing. */
static void judge(const struct upgrade_check *check, int status, char *output, struct err *err)
{
	const char *path = program.path, *name = NULL;

	output[strlen(output) - (*output && output[strlen(output) - 1] == '\n')] = '\0';
	if (check->late) {
		err_add(err, "%s -t was not done within %g s", path,
			(double)check->timeout_ms / 1000);
	} else if (WIFSIGNALED(status)) {
		name = sigabbrev_np(WTERMSIG(status));
		err_add(err, "%s -t: killed by SIG%s", path, name ? name : "?");
	} else if (WEXITSTATUS(status) == CANNOT_EXECUTE || WEXITSTATUS(status) == 126) {
		err_add(err, "%s: %s", path, *output ? output : "cannot be executed");
	} else if (WEXITSTATUS(status) != 0) {
		err_add(err, "%s -t: exit code %d%s%s", path, WEXITSTATUS(status),
			*output ? "\n" : "", output);
	}
}

int upgrade_check_reap(struct upgrade_check *check, struct err *err)
{
	char output[UPGRADE_OUTPUT_MAX];
	siginfo_t info = {0};
	ssize_t len;
	bool answered;
	int status;

	if (check->pid == 0 ||
	    waitid(P_PID, (id_t)check->pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0 ||
	    info.si_pid != check->pid)
		return 0;
	/* As long as it is not waited for, the number of its group is nobody else's. */
	upgrade_check_kill(check);
	waitpid(check->pid, &status, 0);
	ev_timer_stop(check->loop, &check->timer);
	len = read(check->output, output, sizeof output - 1);
	output[len > 0 ? len : 0] = '\0';
	close(check->output);
	check->output = -1;
	check->pid = 0;
	answered = has_answered(output);
	judge(check, status, output, err);
	if (err->count == 0 && !answered)
		err_add(err, "%s is no whitecap that can go on from this one", program.path);
	return 1;
}

bool upgrade_check_is_current(const struct upgrade_check *check)
{
	const struct stat *old = &check->file;
	struct stat st;

	return stat(program.path, &st) == 0 && st.st_dev == old->st_dev &&
	       st.st_ino == old->st_ino && st.st_size == old->st_size &&
	       st.st_mtim.tv_sec == old->st_mtim.tv_sec &&
	       st.st_mtim.tv_nsec == old->st_mtim.tv_nsec;
}

/* The exec. */

static void keep_open(int fd)
{
	fcntl(fd, F_SETFD, 0);
}

static void close_on_exec(int fd)
{
	fcntl(fd, F_SETFD, FD_CLOEXEC);
}

int upgrade_store(const char *text)
{
	int fd = memfd_create("whitecap-state", MFD_CLOEXEC);
	size_t len = strlen(text);

	while (fd >= 0 && len > 0) {
		ssize_t n = write(fd, text, len);

		if (n < 0 && errno != EINTR) {
			close(fd);
			return -1;
		}
		if (n > 0) {
			text += n;
			len -= (size_t)n;
		}
	}
	return fd;
}

int upgrade_execute(const struct upgrade_state *state)
{
	char *text = upgrade_state_write(state), number[16];
	int fd = text ? upgrade_store(text) : -1, error;

	if (!text)
		errno = ENOMEM;
	free(text);
	if (fd < 0)
		return -1;
	snprintf(number, sizeof number, "%d", fd);
	upgrade_state_each_fd(state, keep_open);
	keep_open(fd);
	program.argv[program.argc] = NULL;
	if (setenv(STATE_VARIABLE, number, 1) == 0)
		execv(program.path, program.argv);
	error = errno;
	unsetenv(STATE_VARIABLE);
	upgrade_state_each_fd(state, close_on_exec);
	close(fd);
	errno = error;
	return -1;
}

static char *load(int fd, size_t *len)
{
	struct stat st;
	char *text = NULL;
	size_t done = 0;
	ssize_t n;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size <= 0 ||
	    st.st_size > STATE_MAX || !(text = malloc((size_t)st.st_size)))
		return NULL;
	*len = (size_t)st.st_size;
	while (done < *len && (n = pread(fd, text + done, *len - done, (off_t)done)) > 0)
		done += (size_t)n;
	if (done == *len)
		return text;
	free(text);
	return NULL;
}

static struct upgrade_state *take_from(int fd, struct err *err)
{
	struct upgrade_state *state;
	size_t len;
	char *text = load(fd, &len);

	if (!text) {
		err_add(err, "the state of the server cannot be read");
		return NULL;
	}
	state = upgrade_state_read(text, len, err);
	free(text);
	close(fd);
	/* Left over in the environment of another process: not ours. */
	if (state && state->pid != getpid()) {
		upgrade_state_free(state);
		return NULL;
	}
	if (state) {
		upgrade_state_each_fd(state, close_on_exec);
		free(program.path);
		program.path = strdup(state->program);
	}
	return state;
}

struct upgrade_state *upgrade_take(struct err *err)
{
	return program.state < 0 ? NULL : take_from(program.state, err);
}
