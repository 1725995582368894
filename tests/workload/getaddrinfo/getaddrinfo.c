/* getaddrinfo NAME...: looks up each name once with the C library, for tests of
 * uprobes. Reports "pid N" first and "lookups N", "failed N" at the end, to
 * $WORKLOAD_REPORT or standard output. Names should be numeric or in /etc/hosts:
 * only these are certain not to need a network. */
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	const char *path = getenv("WORKLOAD_REPORT");
	FILE *out = path ? fopen(path, "a") : stdout;
	int failed = 0;

	if (!out) {
		perror(path);
		return 1;
	}
	fprintf(out, "pid %d\n", (int)getpid());
	fflush(out);
	for (int i = 1; i < argc; i++) {
		struct addrinfo *found = NULL;

		if (getaddrinfo(argv[i], NULL, NULL, &found) != 0)
			failed++;
		else
			freeaddrinfo(found);
	}
	fprintf(out, "lookups %d\nfailed %d\n", argc - 1, failed);
	return fclose(out) != 0;
}
