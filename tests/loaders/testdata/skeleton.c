/* Runs an object with the skeleton that bpftool generates, with an option of the script set to 4, and
 * prints what it counted during a workload. */
#include "reads.skel.h"
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int events;

static int event(void *unused, void *data, size_t size)
{
	events++;
	return 0;
}

int main(int argc, char **argv)
{
	struct reads *s = reads__open();
	struct ring_buffer *ring;
	int cpus = libbpf_num_possible_cpus(), status;
	unsigned long long *value = calloc(cpus, 80 * 8), sum;
	pid_t pid;

	if (!s)
		return 1;
	s->rodata_params->opt_below_mine = 4;
	if (reads__load(s) || reads__attach(s))
		return 2;
	ring = ring_buffer__new(bpf_map__fd(s->maps.events_mine), event, NULL, NULL);
	if (!ring)
		return 3;
	pid = fork();
	if (!pid) {
		execv(argv[1], argv + 1);
		_exit(127);
	}
	/* A wake-up may find that an earlier poll has read its record. */
	while (!waitpid(pid, &status, WNOHANG))
		ring_buffer__poll(ring, 200);
	ring_buffer__poll(ring, 200);
	printf("status %d, %d events\n", status, events);
	for (unsigned long long key = 0; key < 12; key++) {
		if (bpf_map_lookup_elem(bpf_map__fd(s->maps.bytes), &key, value))
			continue;
		sum = 0;
		for (int i = 0; i < cpus; i++)
			sum += value[i];
		printf("bytes[%llu] = %llu\n", key, sum);
	}
	printf("lost %llu\n", (unsigned long long)s->bss->lost_mine[0]);
	reads__destroy(s);
	return 0;
}
