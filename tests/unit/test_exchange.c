/* SPDX-License-Identifier: MIT */
/* What is given is what is taken; what is damaged is told, and no descriptor stays behind. */
#include "autoconf.h"

#include <CUnit/CUnit.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "exchange.h"

extern CU_TestInfo exchange_tests[];

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

enum { HEADER = 16, RECORD = sizeof(struct exchange_record) };

static struct exchange exchange;
static struct exchange_batch given, taken;
static char octets[300000];

static unsigned count_fds(void)
{
	DIR *folder = opendir("/proc/self/fd");
	unsigned count = 0;

	while (readdir(folder))
		count++;
	closedir(folder);
	return count;
}

static void begin(void)
{
	CU_ASSERT_EQUAL_FATAL(exchange_open(&exchange), 0);
	exchange_clear(&given);
	for (size_t i = 0; i < sizeof octets; i++)
		octets[i] = (char)(i * 7 + (i >> 8));
}

static int some_socket(void)
{
	return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

/* Adds a connection with its socket, and says whether it went. */
static bool add(struct exchange_record record)
{
	size_t len = (size_t)record.input_len + record.output_len;
	struct iovec pieces[] = {{octets, len / 3}, {octets + len / 3, len - len / 3}};
	int fd = some_socket();
	bool added;

	record.family = record.family ? record.family : AF_INET;
	added = exchange_add(&given, fd, &record, pieces, 2);
	if (!added)
		close(fd);
	return added;
}

static void send_given(void)
{
	CU_ASSERT_EQUAL(exchange_send(exchange.give, &given), 0);
	exchange_drop(&given, true);
}

static bool has_payload(const struct exchange_item *item)
{
	static char copy[sizeof octets];
	size_t len = (size_t)item->record.input_len + item->record.output_len;
	const char *payload = item->payload;

	if (item->memfd >= 0) {
		if (pread(item->memfd, copy, sizeof copy, 0) != (ssize_t)len)
			return false;
		payload = copy;
	}
	return memcmp(payload, octets, len) == 0;
}

/* Takes all that a message holds and closes it.  The last result of exchange_next(). */
static int take_all(unsigned *count)
{
	struct exchange_item item;
	size_t at = 0;
	unsigned next_fd = 0;
	int result;

	*count = 0;
	while ((result = exchange_next(&taken, &at, &next_fd, &item)) > 0) {
		++*count;
		close(item.fd);
		if (item.memfd >= 0)
			close(item.memfd);
	}
	for (; next_fd < taken.fd_count; next_fd++)
		close(taken.fds[next_fd]);
	return result;
}

static void test_round_trip(void)
{
	static const struct exchange_record records[] = {
		{.state = EXCHANGE_IDLE, .served = 7, .moves = 2, .family = AF_UNIX},
		{.state = EXCHANGE_READING, .input_len = 1, .received_ns = 12345, .continued = 1},
		{.state = EXCHANGE_READING, .input_len = 500, .head_len = 100, .chunk_left = 77,
		 .chunk_overhead = 9, .chunk_state = 4, .chunk_digits = 3},
		{.state = EXCHANGE_SENDING, .output_len = 8192, .closing = 1, .linger = 1},
		{.state = EXCHANGE_SENDING, .input_len = 100, .output_len = 8093, .listener = 99},
		{.state = EXCHANGE_SENDING, .input_len = 9000, .output_len = 280000},
		{.state = EXCHANGE_READING, .input_len = 8193, .replayed = 1, .family = AF_INET6,
		 .port = 4711, .address = {1, 2, 3, 16}},
	};
	struct exchange_item item;
	unsigned before = count_fds(), next_fd = 0;
	size_t at = 0;

	begin();
	for (size_t i = 0; i < COUNT(records); i++)
		CU_ASSERT(add(records[i]));
	send_given();
	CU_ASSERT_EQUAL(exchange_receive(exchange.take, &taken), 1);
	for (size_t i = 0; i < COUNT(records); i++) {
		struct exchange_record want = records[i];

		CU_ASSERT_EQUAL_FATAL(exchange_next(&taken, &at, &next_fd, &item), 1);
		want.family = want.family ? want.family : AF_INET;
		want.in_memfd = (size_t)want.input_len + want.output_len > EXCHANGE_INLINE_MAX;
		CU_ASSERT_EQUAL(memcmp(&item.record, &want, sizeof want), 0);
		CU_ASSERT_EQUAL(item.memfd >= 0, want.in_memfd);
		CU_ASSERT(has_payload(&item));
		close(item.fd);
		if (item.memfd >= 0)
			close(item.memfd);
	}
	CU_ASSERT_EQUAL(exchange_next(&taken, &at, &next_fd, &item), 0);
	exchange_close(&exchange);
	CU_ASSERT_EQUAL(count_fds(), before);
}

static unsigned fill(struct exchange_record record)
{
	unsigned count = 0;

	begin();
	while (add(record))
		count++;
	CU_ASSERT_EQUAL(given.count, count);
	send_given();
	CU_ASSERT_EQUAL(exchange_receive(exchange.take, &taken), 1);
	CU_ASSERT_EQUAL(take_all(&count), 0);
	exchange_close(&exchange);
	return count;
}

static void test_limits_of_a_batch(void)
{
	unsigned before = count_fds();

	CU_ASSERT_EQUAL(fill((struct exchange_record){0}), EXCHANGE_BATCH);
	CU_ASSERT_EQUAL(fill((struct exchange_record){.state = EXCHANGE_SENDING, .output_len = 9000}),
			EXCHANGE_BATCH);
	CU_ASSERT_EQUAL(fill((struct exchange_record){.state = EXCHANGE_SENDING, .output_len = 8192}),
			(EXCHANGE_MESSAGE_MAX - HEADER) / (8192 + RECORD));
	CU_ASSERT_EQUAL(count_fds(), before);
}

static void test_full_exchange(void)
{
	unsigned before = count_fds(), messages = 0, received = 0, count;
	int result;

	begin();
	CU_ASSERT(add((struct exchange_record){.state = EXCHANGE_SENDING, .output_len = 60000}));
	CU_ASSERT(add((struct exchange_record){0}));
	/* Large, for few descriptors under way: all processes of a user share a limit of these. */
	for (int i = 0; i < 6; i++)
		CU_ASSERT(add((struct exchange_record){.state = EXCHANGE_SENDING,
						       .output_len = EXCHANGE_INLINE_MAX}));
	while ((result = exchange_send(exchange.give, &given)) == 0 && messages < 100000)
		messages++;
	CU_ASSERT_EQUAL(result, -1);
	CU_ASSERT_EQUAL(errno, EAGAIN);
	CU_ASSERT(messages < 1000);
	exchange_drop(&given, true);
	while (exchange_receive(exchange.take, &taken) > 0) {
		CU_ASSERT_EQUAL(take_all(&count), 0);
		CU_ASSERT_EQUAL(count, 8);
		received++;
	}
	CU_ASSERT_EQUAL(errno, EAGAIN);
	CU_ASSERT_EQUAL(received, messages);
	exchange_close(&exchange);
	CU_ASSERT_EQUAL(count_fds(), before);
}

static void test_end(void)
{
	begin();
	close(exchange.give);
	CU_ASSERT_EQUAL(exchange_receive(exchange.take, &taken), 0);
	close(exchange.take);
}

/* A message with three connections, and one octet or more of it changed. */
static int damaged(size_t at, const void *value, size_t len, unsigned *count)
{
	struct exchange_record records[] = {
		{.state = EXCHANGE_READING, .input_len = 20, .head_len = 10},
		{.state = EXCHANGE_SENDING, .output_len = 10000},
		{.state = EXCHANGE_IDLE},
	};
	unsigned before;
	int result;

	begin();
	before = count_fds();
	for (size_t i = 0; i < COUNT(records); i++)
		add(records[i]);
	send_given();
	CU_ASSERT_EQUAL_FATAL(exchange_receive(exchange.take, &taken), 1);
	memcpy(taken.data + at, value, len);
	result = take_all(count);
	CU_ASSERT_EQUAL(count_fds(), before);
	exchange_close(&exchange);
	return result;
}

#define FIRST(field) HEADER + offsetof(struct exchange_record, field)
#define SECOND(field) HEADER + RECORD + 20 + offsetof(struct exchange_record, field)
#define THIRD(field) HEADER + 2 * RECORD + 20 + offsetof(struct exchange_record, field)

static const struct {
	size_t at;
	uint64_t value;
	size_t len;
	unsigned good; /* connections that are understood before it */
} damages[] = {
	{0, 0x12345678, 4, 0},                  /* magic */
	{4, EXCHANGE_VERSION + 1, 2, 0},
	{6, RECORD - 8, 2, 0},
	{8, 5, 4, 0},                           /* connections: more than descriptors, */
	{8, 1, 4, 0},                           /* fewer than they could be for */
	{8, 0, 4, 0},
	{8, UINT32_MAX, 4, 0},
	{12, 3, 4, 0},                          /* descriptors */
	{12, 5, 4, 3},                          /* one has not come */
	{12, 7, 4, 0},
	{12, UINT32_MAX, 4, 0},
	{FIRST(input_len), UINT32_MAX, 4, 0},
	{FIRST(input_len), 0, 4, 0},
	{FIRST(input_len), 9, 4, 0},            /* shorter than the head */
	{FIRST(output_len), 1, 4, 0},           /* of one that is being read */
	{FIRST(output_len), UINT32_MAX, 4, 0},
	{FIRST(head_len), 21, 4, 0},
	{FIRST(state), 3, 1, 0},
	{FIRST(state), 255, 1, 0},
	{FIRST(state), EXCHANGE_IDLE, 1, 0},
	{FIRST(in_memfd), 2, 1, 0},
	{FIRST(family), 77, 2, 0},
	{FIRST(continued), 2, 1, 0},
	{FIRST(closing), 2, 1, 0},
	{FIRST(linger), 2, 1, 0},
	{FIRST(replayed), 2, 1, 0},
	{SECOND(output_len), 0, 4, 1},
	{SECOND(in_memfd), 0, 1, 1},            /* then its payload is not in the message */
	{THIRD(in_memfd), 1, 1, 2},             /* then there is a descriptor too few */
	{THIRD(state), EXCHANGE_SENDING, 1, 2},
};

static void test_damage(void)
{
	for (size_t i = 0; i < COUNT(damages); i++) {
		unsigned count;
		int result = damaged(damages[i].at, &damages[i].value, damages[i].len, &count);

		if (result != -1 || count != damages[i].good)
			printf("\ndamage %zu: result %d, %u good\n", i, result, count);
		CU_ASSERT_EQUAL(result, -1);
		CU_ASSERT_EQUAL(count, damages[i].good);
	}
}

static void test_cut_short(void)
{
	size_t whole;

	begin();
	add((struct exchange_record){.state = EXCHANGE_READING, .input_len = 20});
	add((struct exchange_record){.state = EXCHANGE_IDLE});
	whole = given.len;
	exchange_drop(&given, true);
	exchange_close(&exchange);
	for (size_t len = 0; len < whole; len++) {
		unsigned before, count;

		begin();
		before = count_fds();
		add((struct exchange_record){.state = EXCHANGE_READING, .input_len = 20});
		add((struct exchange_record){.state = EXCHANGE_IDLE});
		send_given();
		CU_ASSERT_EQUAL_FATAL(exchange_receive(exchange.take, &taken), 1);
		taken.len = len;
		CU_ASSERT_EQUAL(take_all(&count), -1);
		CU_ASSERT_EQUAL(count_fds(), before);
		exchange_close(&exchange);
	}
}

/* Any octets at all: nothing outside of the message is read, each descriptor is closed once. */
static void test_random_damage(void)
{
	srand(1);
	for (int i = 0; i < 5000; i++) {
		char noise[64];
		size_t len = 1 + (size_t)rand() % (i % 2 ? 4 : sizeof noise);
		size_t at = (size_t)rand() % (HEADER + 3 * RECORD + 20 - len);
		unsigned count;

		for (size_t j = 0; j < len; j++)
			noise[j] = (char)rand();
		damaged(at, noise, len, &count);
		CU_ASSERT(count <= 3);
	}
}

static void test_listener_ids(void)
{
	CU_ASSERT_EQUAL(exchange_listener_id("127.0.0.1:80"), exchange_listener_id("127.0.0.1:80"));
	CU_ASSERT_NOT_EQUAL(exchange_listener_id("127.0.0.1:80"),
			    exchange_listener_id("127.0.0.1:81"));
	CU_ASSERT_NOT_EQUAL(exchange_listener_id("unix:/a"), exchange_listener_id("unix:/b"));
	/* It must be the same in every version: a constant. */
	CU_ASSERT_EQUAL(exchange_listener_id("a"), 0xaf63dc4c8601ec8cu);
}

CU_TestInfo exchange_tests[] = {
	{"round trip", test_round_trip},
	{"limits of a batch", test_limits_of_a_batch},
	{"full exchange", test_full_exchange},
	{"end", test_end},
	{"damage", test_damage},
	{"cut short", test_cut_short},
	{"random damage", test_random_damage},
	{"listener ids", test_listener_ids},
	CU_TEST_INFO_NULL,
};
