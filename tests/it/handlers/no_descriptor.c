/* SPDX-License-Identifier: MIT */
/* A shared object that is no handler. */
int no_descriptor(void);

int no_descriptor(void)
{
	return 0;
}
