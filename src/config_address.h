/* SPDX-License-Identifier: MIT */
/* Addresses as the configuration has them, by their syntax alone: nothing is looked up. */
#ifndef CONFIG_ADDRESS_H
#define CONFIG_ADDRESS_H

#include <stdbool.h>

/*
 * An address to listen on ("127.0.0.1:80", "[::1]:80", "unix:/run/x.sock", "fd:NAME") in canonical
 * form, so that equal addresses are equal texts.  The caller frees it; NULL: the text is none.
 */
char *config_address_new(const char *text);

/* Whether the text is an IPv4 or IPv6 address, or a network of them: "10.0.0.0/8". */
bool config_address_is_network(const char *text);

#endif
