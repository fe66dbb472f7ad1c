/* SPDX-License-Identifier: MIT */
/* The Date field (RFC 9110, 5.6.7), in English and UTC whatever the locale and time zone. */
#ifndef HTTP_DATE_H
#define HTTP_DATE_H

#include <time.h>

enum { HTTP_DATE_LEN = 29 };

/* "Sun, 06 Nov 1994 08:49:37 GMT", terminated; from 1970 to 9999.  Async-signal-safe. */
void http_date_format(char out[HTTP_DATE_LEN + 1], time_t seconds);

#endif
