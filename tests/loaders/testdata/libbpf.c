/* Loads an object with libbpf only (1.1 and later), as a program does that knows nothing about btc: it
 * attaches programs by their section names, runs a workload (the other arguments), and prints the
 * contents of maps and ring buffers in the same way as command agent. A program that libbpf cannot
 * attach is named on standard error. TYPES in the environment is a file with the kernel's types. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int quiet(enum libbpf_print_level level, const char *format, va_list args)
{
	return level == LIBBPF_WARN ? vfprintf(stderr, format, args) : 0;
}

static void hex(const char *bytes, size_t n)
{
	putchar(' ');
	for (size_t i = 0; i < n; i++)
		printf("%02x", (unsigned char)bytes[i]);
}

static int event(void *name, void *data, size_t size)
{
	printf("event %s", (char *)name);
	hex(data, size);
	putchar('\n');
	return 0;
}

static int per_cpu(enum bpf_map_type t)
{
	return t == BPF_MAP_TYPE_PERCPU_HASH || t == BPF_MAP_TYPE_PERCPU_ARRAY || t == BPF_MAP_TYPE_LRU_PERCPU_HASH;
}

static void dump(const struct bpf_map *m)
{
	int fd = bpf_map__fd(m), cpus = per_cpu(bpf_map__type(m)) ? libbpf_num_possible_cpus() : 1;
	size_t key_size = bpf_map__key_size(m), size = bpf_map__value_size(m), stride = cpus > 1 ? (size + 7) / 8 * 8 : size;
	char *key = calloc(1, key_size), *value = calloc(libbpf_num_possible_cpus(), (size + 7) / 8 * 8), *last = NULL;

	while (!bpf_map_get_next_key(fd, last, key)) {
		last = key;
		if (bpf_map_lookup_elem(fd, key, value))
			continue;
		printf("map %s", bpf_map__name(m));
		hex(key, key_size);
		for (int i = 0; i < cpus; i++)
			hex(value + i * stride, size);
		putchar('\n');
	}
	free(key);
	free(value);
}

static long long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

int main(int argc, char **argv)
{
	LIBBPF_OPTS(bpf_object_open_opts, opts, .btf_custom_path = getenv("TYPES"));
	struct bpf_object *o;
	struct bpf_program *p;
	struct bpf_map *m;
	struct ring_buffer *ring = NULL;
	int status;
	pid_t pid;

	libbpf_set_print(quiet);
	o = bpf_object__open_file(argv[1], &opts);
	if (!o || bpf_object__load(o)) {
		fprintf(stderr, "not loaded: %s\n", strerror(errno));
		return 1;
	}
	bpf_object__for_each_program(p, o)
		if (!bpf_program__attach(p) && errno)
			fprintf(stderr, "not attached: %s: %s\n", bpf_program__section_name(p), strerror(errno));
	bpf_object__for_each_map(m, o) {
		if (bpf_map__type(m) != BPF_MAP_TYPE_RINGBUF)
			continue;
		if (ring)
			ring_buffer__add(ring, bpf_map__fd(m), event, (void *)bpf_map__name(m));
		else
			ring = ring_buffer__new(bpf_map__fd(m), event, (void *)bpf_map__name(m), NULL);
	}
	pid = fork();
	if (!pid) {
		dup2(2, 1);
		execv(argv[2], argv + 2);
		_exit(127);
	}
	/* Reads only records that wake the reader: no ring_buffer__consume(). */
	for (long long end = now() + 4000; ring && now() < end;)
		if (ring_buffer__poll(ring, 200) > 0)
			end = now() + 1500;
	waitpid(pid, &status, 0);
	bpf_object__for_each_map(m, o)
		if (bpf_map__type(m) != BPF_MAP_TYPE_RINGBUF)
			dump(m);
	return status != 0;
}
