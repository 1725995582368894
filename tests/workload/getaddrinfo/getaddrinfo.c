/* getaddrinfo NAME...: looks each name up once through the C library, for tests
 * of uprobes. Reports "pid N" first and "lookups N", "failed N" at the end, into
 * $WORKLOAD_REPORT or standard output. Names should be in /etc/hosts or be
 * numeric: nothing else is certain to need no network. */
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
