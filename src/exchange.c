/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "exchange.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	MAGIC = 0x77637831, /* "wcx1" */
	QUEUE_SIZE = 16 * 1024 * 1024,
	RECORD_MIN = offsetof(struct exchange_record, replayed), /* of the first version */
};

/* The same in all versions. */
struct header {
	uint32_t magic;
	uint16_t version;
	uint16_t record_size; /* of that version: a longer record has more at its end */
	uint32_t count, fd_count;
};

int exchange_open(struct exchange *exchange)
{
	int pair[2], size = QUEUE_SIZE;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) < 0)
		return -1;
	/* What is in the queue is charged to the sending end. */
	if (setsockopt(pair[0], SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size) < 0)
		setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
	exchange->give = pair[0];
	exchange->take = pair[1];
	return 0;
}

void exchange_close(struct exchange *exchange)
{
	close(exchange->give);
	close(exchange->take);
	exchange->give = exchange->take = -1;
}

uint64_t exchange_listener_id(const char *address)
{
	uint64_t hash = 14695981039346656037u; /* FNV-1a */

	for (; *address; address++)
		hash = (hash ^ (unsigned char)*address) * 1099511628211u;
	return hash;
}

void exchange_clear(struct exchange_batch *batch)
{
	batch->count = batch->fd_count = 0;
	batch->len = sizeof(struct header);
}

static size_t copy_pieces(char *to, const struct iovec *payload, int pieces)
{
	char *at = to;

	for (int i = 0; i < pieces; i++) {
		memcpy(at, payload[i].iov_base, payload[i].iov_len);
		at += payload[i].iov_len;
	}
	return (size_t)(at - to);
}

static int write_all(int fd, const char *data, size_t len)
{
	while (len > 0) {
		ssize_t written = write(fd, data, len);

		if (written < 0 && errno != EINTR)
			return -1;
		if (written > 0) {
			data += written;
			len -= (size_t)written;
		}
	}
	return 0;
}

static int memfd_of(const struct iovec *payload, int pieces)
{
	int fd = memfd_create("whitecap-payload", MFD_CLOEXEC);

	for (int i = 0; fd >= 0 && i < pieces; i++)
		if (write_all(fd, payload[i].iov_base, payload[i].iov_len) < 0) {
			close(fd);
			return -1;
		}
	return fd;
}

static bool has_room(const struct exchange_batch *batch, const struct exchange_record *record)
{
	size_t len = (size_t)record->input_len + record->output_len;

	return batch->count < EXCHANGE_BATCH && batch->fd_count + 2 <= FDPASS_MAX &&
	       batch->len + sizeof *record + (record->in_memfd ? 0 : len) <= sizeof batch->data;
}

/* A fault handler may leave this at a payload that can't be read: until then the batch is as it
 * was. */
static void append(struct exchange_batch *batch, int fd, int memfd,
		   const struct exchange_record *record, const struct iovec *payload, int pieces)
{
	size_t end = batch->len;

	memcpy(batch->data + end, record, sizeof *record);
	end += sizeof *record;
	if (!record->in_memfd)
		end += copy_pieces(batch->data + end, payload, pieces);
	batch->len = end;
	batch->fds[batch->fd_count++] = fd;
	if (record->in_memfd)
		batch->fds[batch->fd_count++] = memfd;
	batch->count++;
}

bool exchange_add(struct exchange_batch *batch, int fd, struct exchange_record *record,
		  const struct iovec *payload, int pieces)
{
	int memfd = -1;

	record->in_memfd = (size_t)record->input_len + record->output_len > EXCHANGE_INLINE_MAX;
	if (!has_room(batch, record))
		return false;
	if (record->in_memfd && (memfd = memfd_of(payload, pieces)) < 0)
		return false;
	append(batch, fd, memfd, record, payload, pieces);
	return true;
}

bool exchange_forward(struct exchange_batch *batch, const struct exchange_item *item)
{
	const struct exchange_record *record = &item->record;
	const struct iovec payload = {(char *)(uintptr_t)item->payload,
				      (size_t)record->input_len + record->output_len};

	if (!has_room(batch, record))
		return false;
	append(batch, item->fd, item->memfd, record, &payload, 1);
	return true;
}

int exchange_send(int give, const struct exchange_batch *batch)
{
	struct header header = {MAGIC, EXCHANGE_VERSION, sizeof(struct exchange_record),
				batch->count, batch->fd_count};
	const struct iovec iov[] = {
		{&header, sizeof header},
		{(char *)(uintptr_t)batch->data + sizeof header, batch->len - sizeof header},
	};

	return fdpass_send(give, iov, 2, batch->fds, batch->fd_count) < 0 ? -1 : 0;
}

void exchange_finish(struct exchange_batch *batch)
{
	struct header header = {MAGIC, EXCHANGE_VERSION, sizeof(struct exchange_record),
				batch->count, batch->fd_count};

	memcpy(batch->data, &header, sizeof header);
}

void exchange_drop(struct exchange_batch *batch, bool sockets)
{
	size_t at = 0;
	unsigned next_fd = 0;
	struct exchange_item item;

	exchange_finish(batch);
	while (exchange_next(batch, &at, &next_fd, &item) > 0) {
		if (item.memfd >= 0)
			close(item.memfd);
		if (sockets)
			close(item.fd);
	}
}

int exchange_receive(int take, struct exchange_batch *batch)
{
	const struct iovec iov = {batch->data, sizeof batch->data};
	struct fdpass_extra extra;
	ssize_t got = fdpass_receive(take, &iov, 1, batch->fds, FDPASS_MAX, &extra);

	exchange_clear(batch);
	batch->fd_count = (unsigned)extra.fd_count;
	if (got <= 0)
		return (int)got;
	batch->len = (size_t)got;
	return 1;
}

unsigned exchange_peek(int take, uint64_t *rate)
{
	struct {
		struct header header;
		struct exchange_record record;
	} start = {.record = {.rate = 0}};
	ssize_t got = recv(take, &start, sizeof start, MSG_PEEK | MSG_DONTWAIT);

	*rate = start.record.rate;
	return got < (ssize_t)sizeof start.header ? 0 : start.header.fd_count;
}

static bool is_family(uint16_t family)
{
	return family == AF_INET || family == AF_INET6 || family == AF_UNIX;
}

static bool has_sound_flags(const struct exchange_record *record)
{
	return record->continued <= 1 && record->closing <= 1 && record->linger <= 1 &&
	       record->in_memfd <= 1 && record->replayed <= 1;
}

/* Its numbers must be possible. */
bool exchange_is_sound(const struct exchange_record *record)
{
	size_t len = (size_t)record->input_len + record->output_len;

	return record->state <= EXCHANGE_SENDING && is_family(record->family) &&
	       has_sound_flags(record) && record->head_len <= record->input_len &&
	       (record->state != EXCHANGE_IDLE || len == 0) &&
	       (record->state != EXCHANGE_READING ||
		(record->input_len > 0 && record->output_len == 0)) &&
	       (record->state != EXCHANGE_SENDING || record->output_len > 0);
}

/* And the octets of its payload be there. */
static bool fits(const struct exchange_record *record, size_t room)
{
	return record->in_memfd || (size_t)record->input_len + record->output_len <= room;
}

bool exchange_is_newer(const struct exchange_batch *batch)
{
	struct header header;

	if (batch->len < sizeof header)
		return false;
	memcpy(&header, batch->data, sizeof header);
	return header.magic == MAGIC && header.version > EXCHANGE_VERSION;
}

int exchange_put_back(int give, struct exchange_batch *batch)
{
	const struct iovec iov = {batch->data, batch->len};

	if (fdpass_send(give, &iov, 1, batch->fds, batch->fd_count) < 0)
		return -1;
	for (unsigned i = 0; i < batch->fd_count; i++)
		close(batch->fds[i]);
	return 0;
}

static bool is_known(const struct header *header)
{
	return header->magic == MAGIC && header->version <= EXCHANGE_VERSION &&
	       header->record_size >= RECORD_MIN &&
	       header->record_size <= sizeof(struct exchange_record) &&
	       header->fd_count >= header->count && header->fd_count <= 2ull * header->count &&
	       header->fd_count <= FDPASS_MAX;
}

static bool read_header(const struct exchange_batch *batch, struct header *header)
{
	if (batch->len < sizeof *header)
		return false;
	memcpy(header, batch->data, sizeof *header);
	return is_known(header);
}

unsigned exchange_count(const struct exchange_batch *batch)
{
	struct header header;

	return read_header(batch, &header) ? header.count : 0;
}

int exchange_next(const struct exchange_batch *batch, size_t *at, unsigned *next_fd,
		  struct exchange_item *item)
{
	struct header header;
	struct exchange_record *record = &item->record;

	if (!read_header(batch, &header) || header.fd_count < batch->fd_count)
		return -1;
	if (*at == 0)
		*at = sizeof header;
	/* Descriptors that the kernel had no room for are the last ones: those before them are
	 * good. */
	if (*next_fd == batch->fd_count)
		return *next_fd == header.fd_count && *at == batch->len ? 0 : -1;
	if (batch->len - *at < header.record_size)
		return -1;
	memset(record, 0, sizeof *record);
	memcpy(record, batch->data + *at, header.record_size);
	*at += header.record_size;
	if (!exchange_is_sound(record) || !fits(record, batch->len - *at) ||
	    *next_fd + record->in_memfd >= batch->fd_count)
		return -1;
	item->fd = batch->fds[(*next_fd)++];
	item->memfd = record->in_memfd ? batch->fds[(*next_fd)++] : -1;
	item->payload = record->in_memfd ? NULL : batch->data + *at;
	if (!record->in_memfd)
		*at += (size_t)record->input_len + record->output_len;
	return 1;
}

static bool send_all(const struct exchange_item *item)
{
	size_t len = item->record.output_len;
	off_t at = item->record.input_len;
	ssize_t sent = item->payload ? send(item->fd, item->payload + at, len,
					    MSG_DONTWAIT | MSG_NOSIGNAL)
				     : sendfile(item->fd, item->memfd, &at, len);

	return sent == (ssize_t)len;
}

unsigned exchange_send_output(const struct exchange_batch *batch)
{
	struct exchange_item item;
	unsigned next_fd = 0, sent = 0;
	size_t at = 0;

	while (exchange_next(batch, &at, &next_fd, &item) > 0)
		if (item.record.output_len > 0 && send_all(&item))
			sent++;
	return sent;
}
