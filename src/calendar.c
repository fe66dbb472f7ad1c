/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "calendar.h"

/* With years that begin in March, so that the leap day is the last (Howard Hinnant's
 * civil_from_days). */
struct calendar_day calendar_day(uint64_t days)
{
	uint64_t since = days + 719468; /* since 0000-03-01 */
	uint64_t era = since / 146097, of_era = since % 146097;
	uint64_t year_of_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
	uint64_t of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
	uint64_t shifted = (5 * of_year + 2) / 153; /* months since March */
	unsigned month = (unsigned)(shifted < 10 ? shifted + 3 : shifted - 9);

	return (struct calendar_day){.year = (unsigned)(era * 400 + year_of_era + (month <= 2)),
				     .month = month,
				     .day = (unsigned)(of_year - (153 * shifted + 2) / 5 + 1)};
}
