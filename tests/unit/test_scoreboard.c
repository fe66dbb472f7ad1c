/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "scoreboard.h"

#include <CUnit/CUnit.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

/* What a child counts is seen here, and stays after its death. */
static void test_shared(void)
{
	int fd = -1, status;
	struct scoreboard *board = scoreboard_open(&fd);
	pid_t pid;

	CU_ASSERT_PTR_NOT_NULL_FATAL(board);
	CU_ASSERT_EQUAL(fcntl(fd, F_GETFD), FD_CLOEXEC);
	CU_ASSERT_EQUAL((uintptr_t)&board->slot[1] % 64, 0);
	scoreboard_add(&board->slot[0].counter[COUNTER_requests], 5);
	CU_ASSERT_EQUAL(scoreboard_end(board), 1);
	scoreboard_extend(board, SCOREBOARD_ADMIN - 1);
	scoreboard_extend(board, 7);
	CU_ASSERT_EQUAL(scoreboard_end(board), SCOREBOARD_ADMIN);
	scoreboard_extend(board, SCOREBOARD_ADMIN);
	CU_ASSERT_EQUAL(scoreboard_end(board), SCOREBOARD_ADMIN);
	pid = fork();
	if (pid == 0) {
		scoreboard_add(&board->slot[SCOREBOARD_ADMIN - 1].counter[COUNTER_requests], 2);
		scoreboard_add(&board->slot[SCOREBOARD_ADMIN - 1].counter[COUNTER_accept], 1);
		atomic_store(&board->slot[SCOREBOARD_ADMIN - 1].active, 3);
		_exit(0);
	}
	CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
	CU_ASSERT_EQUAL(scoreboard_total(board, COUNTER_requests), 7);
	CU_ASSERT_EQUAL(scoreboard_total(board, COUNTER_accept), 1);
	CU_ASSERT_EQUAL(scoreboard_total(board, COUNTER_close), 0);
	CU_ASSERT_EQUAL(scoreboard_active(board), 3);
	scoreboard_close(board, fd);
	CU_ASSERT_EQUAL(fcntl(fd, F_GETFD), -1);
}

/* A worker gone wild can't take the memory away from under the others. */
static void test_size_is_sealed(void)
{
	int fd = -1;
	struct scoreboard *board = scoreboard_open(&fd);

	CU_ASSERT_PTR_NOT_NULL_FATAL(board);
	CU_ASSERT_EQUAL(ftruncate(fd, 0), -1);
	CU_ASSERT_EQUAL(errno, EPERM);
	scoreboard_close(board, fd);
}

static void test_nothing(void)
{
	scoreboard_close(NULL, -1);
	CU_PASS("closing nothing");
}

/* Another program goes on with the same memory, if it is laid out alike. */
static void test_adopt(void)
{
	int fd = -1;
	struct scoreboard *board = scoreboard_open(&fd), *again;

	CU_ASSERT_PTR_NOT_NULL_FATAL(board);
	scoreboard_extend(board, 1);
	scoreboard_add(&board->slot[1].counter[COUNTER_requests], 7);
	again = scoreboard_adopt(fd);
	CU_ASSERT_PTR_NOT_NULL_FATAL(again);
	CU_ASSERT_EQUAL(scoreboard_total(again, COUNTER_requests), 7);
	scoreboard_stop(fd);
	CU_ASSERT_EQUAL(board->stopping, 1);
	scoreboard_close(again, -1);
	board->version++;
	errno = 0;
	CU_ASSERT_PTR_NULL(scoreboard_adopt(fd));
	CU_ASSERT_EQUAL(errno, EPROTO);
	scoreboard_close(board, fd);
	fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	errno = 0;
	CU_ASSERT_PTR_NULL(scoreboard_adopt(fd));
	CU_ASSERT_EQUAL(errno, EPROTO);
	close(fd);
}

CU_TestInfo scoreboard_tests[] = {
	{"shared between processes", test_shared},
	{"size is sealed", test_size_is_sealed},
	{"closing nothing", test_nothing},
	{"another program goes on with it", test_adopt},
	CU_TEST_INFO_NULL,
};
