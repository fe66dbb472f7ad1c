/* SPDX-License-Identifier: MIT */
/*
 * Events as USDT probes of the provider "whitecap", for bpftrace, perf and SystemTap; listed in
 * whitecap-stats(7).  One that nobody watches is a nop.  Without sys/sdt.h there are none.
 */
#ifndef PROBES_H
#define PROBES_H

#ifdef HAVE_SYS_SDT_H
#define SDT_USE_VARIADIC
#include <sys/sdt.h>
#define PROBE(name, ...) STAP_PROBEV(whitecap, name, __VA_ARGS__)
#else
#define PROBE(name, ...) ((void)0)
#endif

/* The first argument of `timeout`. */
enum probe_timeout { PROBE_KEEPALIVE, PROBE_REQUEST, PROBE_SEND };

#endif
