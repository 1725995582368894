/* thread: starts one thread with the C library and waits for it to exit, for tests
 * of uprobes. Reports "pid N" to $WORKLOAD_REPORT or standard output. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void *the_worker(void *p)
{
	return p;
}

int main(void)
{
	const char *path = getenv("WORKLOAD_REPORT");
	FILE *out = path ? fopen(path, "a") : stdout;
	pthread_t t;

	if (!out) {
		perror(path);
		return 1;
	}
	fprintf(out, "pid %d\n", (int)getpid());
	if (pthread_create(&t, NULL, the_worker, NULL) != 0)
		return 1;
	pthread_join(t, NULL);
	usleep(500000); /* bpftrace resolves function names only in running processes */
	return fclose(out) != 0;
}
