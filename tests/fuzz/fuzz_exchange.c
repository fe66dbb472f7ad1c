/* SPDX-License-Identifier: MIT */
/* A message of the exchange as a hostile worker could send it.  The first octet says how many descriptors came along. */
#include "autoconf.h"

#include "fuzz.h"

#include <assert.h>
#include <string.h>

#include "exchange.h"

/* Every descriptor once, every payload inside of the message. */
static void walk(const struct exchange_batch *batch)
{
	struct exchange_item item;
	size_t at = 0;
	unsigned next_fd = 0, before = 0;

	while (exchange_next(batch, &at, &next_fd, &item) > 0) {
		size_t len = (size_t)item.record.input_len + item.record.output_len;

		assert(next_fd > before && next_fd <= batch->fd_count && at <= batch->len);
		assert(item.fd == (int)before);
		assert(item.memfd == -1 || item.memfd == (int)before + 1);
		if (item.payload)
			assert(item.payload >= batch->data && item.payload + len <= batch->data + batch->len);
		before = next_fd;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static struct exchange_batch batch;

	if (len < 1 || len - 1 > sizeof batch.data)
		return 0;
	batch.count = 0;
	batch.fd_count = data[0] < FDPASS_MAX ? data[0] : FDPASS_MAX;
	batch.len = len - 1;
	for (unsigned i = 0; i < batch.fd_count; i++)
		batch.fds[i] = (int)i;
	memcpy(batch.data, data + 1, len - 1);
	exchange_is_newer(&batch);
	walk(&batch);
	return 0;
}
