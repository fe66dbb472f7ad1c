/* SPDX-License-Identifier: MIT */
/* A program and, with LIBRARY defined, the library that it needs. */
int lonely(void);

#ifdef LIBRARY
int lonely(void)
{
	return 0;
}
#else
int main(void)
{
	return lonely();
}
#endif
