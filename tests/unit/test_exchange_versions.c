/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "exchange.h"

#include <CUnit/CUnit.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* What every version has before its records. */
struct head {
	uint32_t magic;
	uint16_t version, record_size;
	uint32_t count, fd_count;
};

extern CU_TestInfo exchange_versions_tests[];

static struct exchange_batch out, in;
static struct exchange exchange;

static struct exchange_record reading(uint32_t input_len)
{
	return (struct exchange_record){
		.listener = 7, .served = 3, .input_len = input_len, .family = AF_INET, .port = 8080, .moves = 2,
		.state = EXCHANGE_READING, .continued = 1, .replayed = 1,
	};
}

static int any_fd(void)
{
	return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void add(uint32_t input_len)
{
	struct exchange_record record = reading(input_len);
	char *payload = calloc(1, input_len + 1);
	int fd = any_fd();

	memset(payload, 'x', input_len);
	CU_ASSERT_TRUE(exchange_add(&out, fd, &record, &(struct iovec){payload, input_len}, 1));
	free(payload);
}

static void begin(void)
{
	CU_ASSERT_EQUAL_FATAL(exchange_open(&exchange), 0);
	exchange_clear(&out);
}

static void send_and_receive(void)
{
	CU_ASSERT_EQUAL(exchange_send(exchange.give, &out), 0);
	exchange_drop(&out, true);
	CU_ASSERT_EQUAL_FATAL(exchange_receive(exchange.take, &in), 1);
}

/* Walks the batch that was received; the number of its connections, or -1. */
static int walk(struct exchange_item *last)
{
	size_t at = 0;
	unsigned next_fd = 0;
	struct exchange_item item;
	int result, count = 0;

	while ((result = exchange_next(&in, &at, &next_fd, &item)) > 0) {
		close(item.fd);
		if (item.memfd >= 0)
			close(item.memfd);
		*last = item;
		count++;
	}
	for (; next_fd < in.fd_count; next_fd++)
		close(in.fds[next_fd]);
	return result < 0 ? -1 : count;
}

static void test_there_and_back(void)
{
	struct exchange_item item;

	begin();
	add(10);
	add(EXCHANGE_INLINE_MAX + 1);
	add(20);
	send_and_receive();
	CU_ASSERT_FALSE(exchange_is_newer(&in));
	CU_ASSERT_EQUAL(walk(&item), 3);
	CU_ASSERT_EQUAL(item.record.input_len, 20);
	CU_ASSERT_EQUAL(item.record.replayed, 1);
	CU_ASSERT_EQUAL(memcmp(item.payload, "xxxxxxxxxxxxxxxxxxxx", 20), 0);
	exchange_close(&exchange);
}

/* Two connections as given by a program of version 0, whose record ended before `replayed`. */
static void make_older(uint16_t version, size_t record_size)
{
	struct head head = {0x77637831, version, (uint16_t)record_size, 2, 2};
	struct exchange_record record = reading(5);

	memcpy(in.data, &head, sizeof head);
	in.len = sizeof head;
	in.count = in.fd_count = 2;
	for (int i = 0; i < 2; i++) {
		record.served = (uint32_t)i;
		memcpy(in.data + in.len, &record, record_size);
		memcpy(in.data + in.len + record_size, "GET /", 5);
		in.len += record_size + 5;
		in.fds[i] = any_fd();
	}
}

static void test_older_record(void)
{
	struct exchange_item item;

	make_older(0, offsetof(struct exchange_record, replayed));
	CU_ASSERT_FALSE(exchange_is_newer(&in));
	CU_ASSERT_EQUAL(walk(&item), 2);
	CU_ASSERT_EQUAL(item.record.served, 1);
	CU_ASSERT_EQUAL(item.record.continued, 1);
	CU_ASSERT_EQUAL(item.record.replayed, 0);
	CU_ASSERT_EQUAL(memcmp(item.payload, "GET /", 5), 0);
	make_older(0, 16);
	CU_ASSERT_EQUAL(walk(&item), -1);
}

static void test_newer_record_goes_back(void)
{
	struct exchange_item item;
	struct exchange_batch copy;

	begin();
	make_older(EXCHANGE_VERSION + 1, sizeof(struct exchange_record));
	CU_ASSERT_TRUE(exchange_is_newer(&in));
	copy = in;
	CU_ASSERT_EQUAL(exchange_put_back(exchange.give, &in), 0);
	CU_ASSERT_EQUAL(fcntl(copy.fds[0], F_GETFD), -1);
	memset(&in, 0, sizeof in);
	CU_ASSERT_EQUAL_FATAL(exchange_receive(exchange.take, &in), 1);
	CU_ASSERT_EQUAL(in.len, copy.len);
	CU_ASSERT_EQUAL(in.fd_count, 2);
	CU_ASSERT_EQUAL(memcmp(in.data, copy.data, in.len), 0);
	CU_ASSERT_EQUAL(walk(&item), -1);
	exchange_close(&exchange);
}

/* Cut at every octet: never more than what is there is believed. */
static void test_cut(void)
{
	size_t whole;

	begin();
	add(10);
	add(20);
	send_and_receive();
	whole = in.len;
	for (size_t len = 0; len < whole; len++) {
		struct exchange_item item;
		size_t at = 0;
		unsigned next_fd = 0;
		int result;

		in.len = len;
		while ((result = exchange_next(&in, &at, &next_fd, &item)) > 0)
			CU_ASSERT_TRUE(at <= len);
		CU_ASSERT_EQUAL(result, -1);
	}
	in.len = whole;
	walk(&(struct exchange_item){0});
	exchange_close(&exchange);
}

CU_TestInfo exchange_versions_tests[] = {
	{"what is added comes out", test_there_and_back},
	{"a shorter record of an older version", test_older_record},
	{"a newer version is put back as it came", test_newer_record_goes_back},
	{"a message cut anywhere", test_cut},
	CU_TEST_INFO_NULL,
};
