/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "output.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "http_response.h"

enum { IOV_AT_ONCE = 1024 };

int output_init(struct output *output)
{
	*output = (struct output){.buffer = malloc(OUTPUT_BUFFER),
				  .iov = malloc(OUTPUT_IOV * sizeof *output->iov)};
	if (output->buffer && output->iov)
		return 0;
	output_fini(output);
	return -1;
}

void output_fini(struct output *output)
{
	free(output->buffer);
	free(output->iov);
	*output = (struct output){0};
}

bool output_has_room(const struct output *output)
{
	return output->used + OUTPUT_FIELDS_MAX + HTTP_HEAD_ROOM + OUTPUT_COPY_MAX <= OUTPUT_BUFFER &&
	       output->count + OUTPUT_PIECES_MAX + 2 <= OUTPUT_IOV;
}

char *output_tail(struct output *output)
{
	return output->buffer + output->used;
}

void output_wrote(struct output *output, size_t len)
{
	char *at = output->buffer + output->used;
	struct iovec *last = output->iov + output->count - 1;

	if (output->count > 0 && (char *)last->iov_base + last->iov_len == at)
		last->iov_len += len;
	else
		output->iov[output->count++] = (struct iovec){at, len};
	output->used += len;
	output->len += len;
}

void output_copy(struct output *output, const void *data, size_t len)
{
	memcpy(output_tail(output), data, len);
	output_wrote(output, len);
}

void output_body(struct output *output, const struct iovec *iov, int count, size_t len)
{
	for (int i = 0; i < count; i++) {
		if (iov[i].iov_len == 0)
			continue;
		if (len <= OUTPUT_COPY_MAX) {
			output_copy(output, iov[i].iov_base, iov[i].iov_len);
		} else {
			output->iov[output->count++] = iov[i];
			output->len += iov[i].iov_len;
			output->refers = true;
		}
	}
}

void output_clear(struct output *output)
{
	output->used = output->len = 0;
	output->count = 0;
	output->refers = false;
}

static void advance(struct iovec **iov, int *count, size_t sent)
{
	while (*count > 0 && sent >= (*iov)->iov_len) {
		sent -= (*iov)->iov_len;
		(*iov)++, (*count)--;
	}
	if (sent > 0) {
		(*iov)->iov_base = (char *)(*iov)->iov_base + sent;
		(*iov)->iov_len -= sent;
	}
}

static ssize_t send_once(int fd, struct iovec *iov, int count)
{
	struct msghdr message = {.msg_iov = iov,
				 .msg_iovlen = (size_t)(count < IOV_AT_ONCE ? count : IOV_AT_ONCE)};

	if (count == 1)
		return send(fd, iov->iov_base, iov->iov_len, MSG_NOSIGNAL);
	return sendmsg(fd, &message, MSG_NOSIGNAL);
}

ssize_t output_send(int fd, struct iovec **iov, int *count)
{
	ssize_t sent, total = 0;
	size_t wanted;

	while (*count > 0) {
		wanted = 0;
		for (int i = 0; i < *count && i < IOV_AT_ONCE; i++)
			wanted += (*iov)[i].iov_len;
		sent = send_once(fd, *iov, *count);
		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0)
			return errno == EAGAIN || errno == EWOULDBLOCK ? total : -1;
		advance(iov, count, (size_t)sent);
		total += sent;
		if ((size_t)sent < wanted)
			break;
	}
	return total;
}
